//! [`PortcullisBuilder`]: every mistake of an integrator shows here, at the start, and none later.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Portcullis;
use super::blocked::BlockedServers;
use super::media::{MediaDesk, MediaMode};
use crate::admission::{
    Admission, ClientOutboundProxyPolicy, DestinationRules, Ipv6ClientPrefix, MediaAdmission, MediaLimits, RateLimit,
    RemoteFetchPolicy, RemoteTimeout, RouteClass, TrustedProxies,
};
use crate::federation_worker::FederationWorker;
use crate::limits::{FEDERATION_WORKER_THREADS, MEDIA_CACHE_BYTES, MEDIA_CACHE_TTL, MEDIA_MAX_FILE_BYTES};
use crate::outbound::call::FederationClient;
use crate::outbound::media::RemoteMediaSource;
use crate::proxy::directory::{Directory, GateRegistry, RemoteDirectory};
use crate::proxy::media::files::{RemoteFiles, RemoteFilesParts};
use crate::proxy::media_store::{MediaStore, StoreBounds, StoreOpenError};
use crate::server_name::ServerName;

/// Collects what a [`Portcullis`] needs. Caps of what holds a thread are not among it: they follow from the pool size. A
/// deadline can be shortened, never lengthened.
///
/// ```no_run
/// use std::{error::Error, sync::Arc, time::Duration};
///
/// use http::HeaderValue;
/// use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};
/// use portcullis::outbound::{Ed25519Signer, FederationClient};
/// use portcullis::{Ipv6ClientPrefix, Portcullis, RemoteTimeout, TrustedProxies};
///
/// const POOL_THREADS: usize = 16; // 8 lookups in flight
///
/// fn portcullis(key: &str) -> Result<Portcullis, Box<dyn Error>> {
///     let signer = Arc::new(Ed25519Signer::from_key_text("us.example".parse()?, key)?);
///     let client = FederationClient::from_system(signer, HeaderValue::from_static("our-server/1.0"))?;
///     Ok(Portcullis::builder(client, POOL_THREADS)
///         .trusted_proxies(TrustedProxies::new(["127.0.0.1/32".parse()?])) // the reverse proxy in front
///         .ipv6_prefix(Ipv6ClientPrefix::new(56).unwrap_or_default()) // providers here hand out a /56
///         .remote_timeout(RemoteTimeout::new(Duration::from_secs(9))?) // an answer still reaches clients that give up after ten
///         .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true }) // files of other servers too
///         .media_store(MediaStoreConfig::in_dir("/var/cache/our-server/media"))
///         .build()?)
/// }
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct PortcullisBuilder {
    own_name: ServerName,
    policy: ClientOutboundProxyPolicy,
    remote_timeout: Option<RemoteTimeout>,
    require_token_for_remote: bool,
    trusted_proxies: TrustedProxies,
    ipv6_prefix: Ipv6ClientPrefix,
    client_rates: Vec<(RouteClass, RateLimit)>,
    rules: Option<Arc<dyn DestinationRules>>,
    remote: Box<dyn RemoteDirectory>,
    media_source: Box<dyn RemoteMediaSource>,
    worker: Option<Arc<FederationWorker>>,
    gates: Option<GateRegistry>,
    media: MediaSettings,
}

/// What is said about files.
#[derive(Default)]
struct MediaSettings {
    switch: RemoteFetchPolicy,
    limits: MediaLimits,
    store: Option<StoreChoice>,
    blocked: BlockedServers,
    legacy: bool,
    inline: bool,
    /// Where fetches run; `None`: on the federation worker.
    tasks: Option<Handle>,
}

/// Which store the files go to.
enum StoreChoice {
    /// One that is opened when everything is built.
    ToOpen(MediaStoreConfig),
    /// One that is open, with nothing of earlier users in it.
    #[cfg(feature = "server")]
    Open(MediaStore),
}

/// Where files of other servers are stored, how many, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaStoreConfig {
    /// The folder. Made if it is not there; for this one process alone.
    pub dir: PathBuf,
    /// Most bytes of finished and unfinished files together. At least a file of `max_file` has to fit.
    pub bytes: u64,
    /// How long a file is kept.
    pub time_to_live: Duration,
    /// Largest file that is fetched, in bytes.
    pub max_file: u64,
}

impl MediaStoreConfig {
    /// At most 1 GiB in `dir`, each file for a day at most and no larger than 50 MiB.
    #[must_use]
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            bytes: MEDIA_CACHE_BYTES,
            time_to_live: MEDIA_CACHE_TTL,
            max_file: MEDIA_MAX_FILE_BYTES,
        }
    }
}

/// Why a [`Portcullis`] cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The system gave no threads for the federation worker.
    #[error("the federation worker does not start")]
    Worker(#[source] io::Error),
    /// Remote media is switched on and [`PortcullisBuilder::media_store`] was not called.
    #[error("remote media is switched on, and there is no place to store it")]
    NoMediaStore,
    /// The place for remote media cannot be used.
    #[error("{0}")]
    MediaStore(#[from] StoreOpenError),
}

impl PortcullisBuilder {
    pub(super) fn new(client: FederationClient, policy: ClientOutboundProxyPolicy) -> Self {
        Self::over(client.own_name().clone(), policy, Box::new(client.clone()), Box::new(client))
    }

    /// Whatever the two ways out are.
    pub(super) fn over(
        own_name: ServerName,
        policy: ClientOutboundProxyPolicy,
        remote: Box<dyn RemoteDirectory>,
        media_source: Box<dyn RemoteMediaSource>,
    ) -> Self {
        Self {
            own_name,
            policy,
            remote_timeout: None,
            require_token_for_remote: false,
            trusted_proxies: TrustedProxies::default(),
            ipv6_prefix: Ipv6ClientPrefix::default(),
            client_rates: Vec::new(),
            rules: None,
            remote,
            media_source,
            worker: None,
            gates: None,
            media: MediaSettings::default(),
        }
    }

    /// Another way out to files, for tests.
    #[cfg(test)]
    pub(crate) fn remote_media(mut self, source: Box<dyn RemoteMediaSource>) -> Self {
        self.media_source = source;
        self
    }

    /// Fetches run on a runtime of the caller's, under its clock.
    #[cfg(any(test, feature = "server"))]
    pub(crate) fn media_tasks(mut self, tasks: Handle) -> Self {
        self.media.tasks = Some(tasks);
        self
    }

    /// A worker that runs already, for whoever builds many: starting threads takes longer than all the rest.
    #[cfg(feature = "server")]
    pub(crate) fn federation_worker(mut self, worker: Arc<FederationWorker>) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Shortens the deadline of every call where it is shorter; never lengthens one.
    pub fn remote_timeout(mut self, limit: RemoteTimeout) -> Self {
        self.remote_timeout = Some(limit);
        self
    }

    /// Whether GET requests need a token too when they would leave the server. Off unless set. An account buys no
    /// exemption from the caps.
    pub fn require_token_for_remote(mut self, required: bool) -> Self {
        self.require_token_for_remote = required;
        self
    }

    /// Whose `X-Forwarded-For` is believed. Nobody's unless set.
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.trusted_proxies = proxies;
        self
    }

    /// How much of an IPv6 address makes one client. A /64 unless set.
    pub fn ipv6_prefix(mut self, prefix: Ipv6ClientPrefix) -> Self {
        self.ipv6_prefix = prefix;
        self
    }

    /// How often one client may cause a call of this class; the last word counts. Nobody is bounded unless set. What is
    /// answered here, remembered answers too, is not counted.
    pub fn client_rate(mut self, class: RouteClass, limit: RateLimit) -> Self {
        self.client_rates.push((class, limit));
        self
    }

    /// Asked before a slot is taken and before a remembered answer is given.
    pub fn destination_rules(mut self, rules: Arc<dyn DestinationRules>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// The switch of remote media. Off unless set; switched on, it needs a [`PortcullisBuilder::media_store`].
    pub fn remote_fetch(mut self, switch: RemoteFetchPolicy) -> Self {
        self.media.switch = switch;
        self
    }

    /// The caps of files that are fetched off the request pool.
    pub fn media_limits(mut self, limits: MediaLimits) -> Self {
        self.media.limits = limits;
        self
    }

    /// Where files of other servers are stored. Nothing is touched there while the switch is off.
    pub fn media_store(mut self, store: MediaStoreConfig) -> Self {
        self.media.store = Some(StoreChoice::ToOpen(store));
        self
    }

    /// The same, open already: opening one takes longer than most inputs of a fuzzer.
    #[cfg(feature = "server")]
    pub(crate) fn open_media_store(mut self, store: MediaStore) -> Self {
        self.media.store = Some(StoreChoice::Open(store));
        self
    }

    /// Servers whose files are answered 404 and never asked for; one without a port stands for its host, whatever the port.
    /// Nobody's unless set.
    pub fn blocked_media_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.media.blocked = servers.into_iter().collect();
        self
    }

    /// Whether `/_matrix/media/…` is served, which asks for no token. Off unless set: deprecated since Matrix 1.11.
    pub fn legacy_media(mut self, served: bool) -> Self {
        self.media.legacy = served;
        self
    }

    /// For a homeserver that cannot send an answer later: files that [`Portcullis::begin`] lets through are fetched on the
    /// thread that finishes them, under the main budget, one per client; they come as [`Begun::Call`](super::Begun::Call).
    /// A browser that loads many images at once is refused most of them, so the other way is better.
    pub fn inline_media(mut self) -> Self {
        self.media.inline = true;
        self
    }

    /// The load gates that hear how lookups end; clones of a registry share its gates. Nobody unless set.
    ///
    /// A lookup that came with a valid access token tells the gate of the server it went to, if there is one: load halves
    /// that gate's limit once per burst, nothing else changes it. The gate's key is the base URL that federation uses, such
    /// as `https://matrix.example.org:8448`
    /// ([`Destination::base_url`](crate::outbound::Destination::base_url)). No lookup waits at a gate or makes one; those
    /// without a token, and files, tell nothing: a stranger's nonsense can make a server answer 500.
    #[cfg(feature = "gate")]
    pub fn gates(mut self, gates: GateRegistry) -> Self {
        self.gates = Some(gates);
        self
    }

    /// Builds it, and starts the threads of the federation worker.
    ///
    /// *Errors:* [`BuildError`]. *Panics:* never. *Blocking:* reads the media store, some 20 µs for each stored file; with
    /// the switch off, no.
    pub fn build(self) -> Result<Portcullis, BuildError> {
        let worker = match self.worker {
            Some(worker) => worker,
            None => Arc::new(FederationWorker::start(FEDERATION_WORKER_THREADS).map_err(BuildError::Worker)?),
        };
        let mut admission = Admission::new(self.own_name, self.policy);
        if let Some(limit) = self.remote_timeout {
            admission = admission.with_remote_timeout(limit);
        }
        if let Some(rules) = &self.rules {
            admission = admission.with_destination_rules(Arc::clone(rules));
        }
        for (class, limit) in self.client_rates {
            admission = admission.with_client_rate(class, limit);
        }
        let (stopping, cut_short) = (Arc::new(AtomicBool::new(false)), watch::Sender::new(false));
        let tasks = self.media.tasks.clone().or_else(|| worker.handle());
        let files = match tasks.filter(|_| self.media.switch.remote_fetch_enabled) {
            None => None,
            Some(tasks) => Some(Arc::new(self.media.open(self.media_source, tasks, &cut_short)?)),
        };
        let media = Arc::new(self.media.desk(&admission, files, &stopping));
        Ok(Portcullis {
            admission,
            rules: self.rules,
            trusted_proxies: self.trusted_proxies,
            ipv6_prefix: self.ipv6_prefix,
            require_token_for_remote: self.require_token_for_remote,
            directory: Arc::new(Directory::new(self.remote, self.gates)),
            media,
            worker,
            stopping,
            started_at: Instant::now(),
            cut_short,
        })
    }
}

impl MediaSettings {
    fn open(
        &self,
        source: Box<dyn RemoteMediaSource>,
        tasks: Handle,
        cut_short: &watch::Sender<bool>,
    ) -> Result<RemoteFiles, BuildError> {
        let store = match self.store.as_ref().ok_or(BuildError::NoMediaStore)? {
            StoreChoice::ToOpen(MediaStoreConfig { dir, bytes, time_to_live, max_file }) => {
                let (dir, bytes, time_to_live, max_file) = (dir.clone(), *bytes, *time_to_live, *max_file);
                MediaStore::open(StoreBounds { dir, bytes, time_to_live, max_file })?
            }
            #[cfg(feature = "server")]
            StoreChoice::Open(store) => store.clone(),
        };
        let (limits, cut_short, max_file_bytes) = (self.limits, cut_short.subscribe(), store.max_file_bytes());
        Ok(RemoteFiles::new(RemoteFilesParts { source, store, max_file_bytes, limits, tasks, cut_short }))
    }

    fn desk(self, admission: &Admission, files: Option<Arc<RemoteFiles>>, stopping: &Arc<AtomicBool>) -> MediaDesk {
        MediaDesk {
            switch: self.switch,
            legacy: self.legacy,
            mode: if self.inline { MediaMode::Inline } else { MediaMode::OffPool },
            blocked: self.blocked,
            admission: admission.clone(),
            door: MediaAdmission::beside(admission, self.limits),
            files,
            refused_by_switch: AtomicU64::new(0),
            stopping: Arc::clone(stopping),
        }
    }
}

impl fmt::Debug for PortcullisBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PortcullisBuilder")
            .field("own_name", &self.own_name)
            .field("policy", &self.policy)
            .field("remote_timeout", &self.remote_timeout)
            .field("require_token_for_remote", &self.require_token_for_remote)
            .finish_non_exhaustive()
    }
}
