//! Puts the parts of `portcullis serve` together. Whatever is wrong shows here, before anybody can connect.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use tokio::time::Instant;

use super::config::files::KeyOf;
use super::config::upstream::circle;
use super::config::{Config, MediaCacheDir, MediaConfig, SigningKeySource, files};
use super::embedded::EmbeddedHomeserver;
use super::listener::ListenerLimits;
use super::long_answers::LongAnswers;
use super::pooled::{PooledHomeserver, QUEUED_PER_THREAD};
use super::proxy_watch::ProxyWatch;
use super::request_pool::RequestPool;
use super::router::Router;
use super::runtime::HomeserverRuntime;
use super::signature_watch::{self, SignatureWatch};
use super::throw_away_files::ThrowAwayFiles;
use super::upstream::{OwnKey, Upstream, UpstreamParts};
use crate::admission::{RouteClass, TrustedProxies};
use crate::gate::GateRegistry;
use crate::limits::SIGNATURE_LOOK_INTERVAL;
use crate::outbound::{
    AddressPolicy, Discovery, Ed25519Signer, FederationClient, HickoryResolver, HttpsTransport, RequestSigner, Resolve,
    TlsRoots, TlsRootsError, Transport,
};
use crate::portcullis::{BuildError, MediaStoreConfig, Portcullis, PortcullisBuilder};

/// A homeserver that is ready to be served.
#[derive(Debug)]
pub struct Assembled {
    /// The homeserver.
    pub runtime: Arc<HomeserverRuntime>,
    /// Its request threads. Whoever holds the last of these waits for them when dropping it.
    pub pool: Arc<RequestPool>,
    /// The bounds of the listener for clients.
    pub limits: ListenerLimits,
    /// The places of answers that may take long, under those limits.
    pub long_answers: LongAnswers,
}

/// Why the server cannot be put together. One line, with the key of the configuration to look at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// What a key of the configuration names cannot be used.
    #[error("{key}: {problem}")]
    Key {
        /// The key, with its tables.
        key: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The system has no certificate authorities, or TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(TlsRootsError),
    /// The routes cannot be built.
    #[error("{0}")]
    Routes(BuildError),
}

impl StartError {
    pub(super) fn of(key: &'static str, problem: &impl ToString) -> Self {
        Self::Key { key, problem: problem.to_string() }
    }

    /// The whole line for an operator: a key with its place in the file that `config` was read from.
    #[must_use]
    pub fn located(&self, config: &Config) -> String {
        match self {
            Self::Key { key, problem } => config.problem(key, problem).to_string(),
            Self::Tls(_) | Self::Routes(_) => self.to_string(),
        }
    }
}

/// Puts the whole homeserver together and starts its threads.
///
/// *Errors:* the first [`StartError`]; [`start_errors`] has all. *Panics:* never. *Blocking:* reads the key, the
/// certificates and resolv.conf.
pub fn assemble(config: &Config) -> Result<Assembled, StartError> {
    assemble_trusting(config, system_roots(config)?)
}

/// As [`assemble`], with other servers checked against `roots` alone: not a word of the system's authorities is read, nor
/// `federation.extra_ca_file`.
///
/// *Errors*, *Panics*, *Blocking:* as [`assemble`].
pub fn assemble_trusting(config: &Config, roots: TlsRoots) -> Result<Assembled, StartError> {
    let signer = Arc::new(signer(config)?);
    let router = Router::new(config.server_name.clone(), Arc::<Ed25519Signer>::clone(&signer));
    let files = ThrowAwayFiles::of(&config.media)?;
    let gates = GateRegistry::default();
    let upstream = upstream(config, &signer, &roots, &gates)?;
    let portcullis = portcullis(config, files.as_ref(), signer, roots, gates)?;
    let runtime = HomeserverRuntime::new(EmbeddedHomeserver::new(config), portcullis, router)
        .in_front_of(upstream.map(Arc::new))
        .keeping(files);
    let threads = config.request_threads;
    let pool = RequestPool::start(threads, threads.saturating_mul(QUEUED_PER_THREAD))
        .map_err(|error| StartError::of("request_threads", &format!("the threads cannot be started: {error}")))?;
    let limits = ListenerLimits {
        trusted_proxies: TrustedProxies::new(config.trusted_proxies.iter().copied()),
        ipv6_client_prefix: config.ipv6_client_prefix,
        ..ListenerLimits::default()
    };
    let long_answers = LongAnswers::within(&limits, runtime.client_outbound_proxy_policy().global_cap());
    Ok(Assembled { runtime: Arc::new(runtime), pool: Arc::new(pool), limits, long_answers })
}

impl Assembled {
    /// With other limits of the listener, and the places of answers that may take long as follows from them.
    #[must_use]
    pub fn within(self, limits: ListenerLimits) -> Self {
        let lookups = self.runtime.client_outbound_proxy_policy().global_cap();
        Self { long_answers: LongAnswers::within(&limits, lookups), limits, ..self }
    }

    /// What the listener hands requests to.
    #[must_use]
    pub fn handler(&self) -> Arc<ProxyWatch<PooledHomeserver>> {
        let pooled =
            PooledHomeserver::new(Arc::clone(&self.runtime), Arc::clone(&self.pool), self.long_answers.clone());
        let ListenerLimits { trusted_proxies, ipv6_client_prefix, .. } = self.limits.clone();
        Arc::new(ProxyWatch::over(Arc::new(pooled), trusted_proxies, ipv6_client_prefix))
    }

    /// Sees in the background whether other servers can accept our signature, and warns where they cannot: the homeserver behind,
    /// if there is one, is asked once which key it publishes, and the servers asked lately are looked at from time to time. To be
    /// spawned beside the listener; it never ends by itself.
    ///
    /// *Cancel safety:* dropping the future ends it. *Panics:* never, inside a tokio runtime. *Blocking:* no.
    pub fn look_after_signature(&self) -> impl Future<Output = ()> + Send + use<> {
        let runtime = Arc::clone(&self.runtime);
        async move {
            let compare = async {
                if let Some(upstream) = runtime.upstream() {
                    upstream.compare_signing_key().await;
                }
            };
            let watch = async {
                let mut watch = SignatureWatch::default();
                loop {
                    tokio::time::sleep(SIGNATURE_LOOK_INTERVAL).await;
                    if let Some(servers) = watch.look(&runtime.outbound().status().destinations, Instant::now()) {
                        signature_watch::tell(servers);
                    }
                }
            };
            tokio::join!(compare, watch);
        }
    }
}

/// The homeserver behind, if there is one. It is not asked for anything: that it is down stops no start.
fn upstream(
    config: &Config,
    signer: &Ed25519Signer,
    roots: &TlsRoots,
    gates: &GateRegistry,
) -> Result<Option<Upstream>, StartError> {
    let Some(origin) = &config.upstream else { return Ok(None) };
    let parts = UpstreamParts {
        origin,
        own_key: OwnKey {
            server_name: config.server_name.clone(),
            key_id: signer.key_id().to_owned(),
            verify_key: signer.verify_key(),
        },
        roots: roots.clone(),
        gates,
        trusted_proxies: TrustedProxies::new(config.trusted_proxies.iter().copied()),
        ipv6_prefix: config.ipv6_client_prefix,
    };
    Upstream::new(parts).map(Some).map_err(|error| StartError::of(UPSTREAM_KEY, &error))
}

/// Sees that the homeserver behind is none of the sockets that were bound, each with its key: requests would go round in a
/// circle. The ports are the real ones.
///
/// *Errors:* [`StartError`]. *Panics:* never. *Blocking:* looks up the name of the homeserver behind, if it has one.
pub fn no_circle(config: &Config, bound: &[(&str, SocketAddr)]) -> Result<(), StartError> {
    let Some(origin) = &config.upstream else { return Ok(()) };
    match bound.iter().find(|(_, address)| origin.leads_to(*address)) {
        Some((key, _)) => Err(StartError::of(UPSTREAM_KEY, &circle(key))),
        None => Ok(()),
    }
}

const UPSTREAM_KEY: &str = "homeserver.upstream";

fn portcullis(
    config: &Config,
    files: Option<&ThrowAwayFiles>,
    signer: Arc<dyn RequestSigner>,
    roots: TlsRoots,
    gates: GateRegistry,
) -> Result<Portcullis, StartError> {
    let client = FederationClient::new(signer, outbound(config, roots)?)
        .map_err(|error| StartError::of("signing_key", &error))?;
    let mut builder = Portcullis::builder(client, config.request_threads)
        .gates(gates)
        .client_rate(RouteClass::Directory, config.federation.lookup_rate)
        .client_rate(RouteClass::Media, config.media.fetch_rate)
        .require_token_for_remote(config.federation.require_token_for_remote)
        .trusted_proxies(TrustedProxies::new(config.trusted_proxies.iter().copied()))
        .ipv6_prefix(config.ipv6_client_prefix);
    if let Some(limit) = config.federation.remote_timeout {
        builder = builder.remote_timeout(limit);
    }
    media(&config.media, files, builder).build().map_err(|error| match error {
        BuildError::MediaStore(error) => StartError::of("media.cache_dir", &error),
        other => StartError::Routes(other),
    })
}

/// Remote media as `[media]` has it. Nothing is made on disk while the switch is off.
fn media(media: &MediaConfig, files: Option<&ThrowAwayFiles>, builder: PortcullisBuilder) -> PortcullisBuilder {
    let builder = builder
        .remote_fetch(media.policy())
        .legacy_media(media.legacy_endpoints)
        .blocked_media_servers(media.blocked_servers.iter().cloned())
        .media_limits(media.limits);
    let dir = match &media.cache_dir {
        MediaCacheDir::At(path) => Some(path.as_path()),
        MediaCacheDir::ThrowAway => files.map(ThrowAwayFiles::path),
    };
    let Some(dir) = dir else { return builder };
    let mut store = MediaStoreConfig::in_dir(dir);
    store.bytes = media.cache_size_bytes;
    store.time_to_live = media.cache_ttl;
    store.max_file = media.max_file_bytes;
    builder.media_store(store)
}

/// Server discovery as `serve` does it, for `portcullis resolve`.
///
/// *Errors:* [`StartError`]. *Panics:* never. *Blocking:* reads the certificates and resolv.conf.
pub fn discovery(config: &Config) -> Result<Discovery, StartError> {
    outbound(config, system_roots(config)?)
}

fn outbound(config: &Config, roots: TlsRoots) -> Result<Discovery, StartError> {
    let federation = &config.federation;
    let resolver: Arc<dyn Resolve> = Arc::new(resolver(config)?);
    let transport: Arc<dyn Transport> = Arc::new(HttpsTransport::new(roots).map_err(StartError::Tls)?);
    let policy = AddressPolicy::default()
        .deny(federation.deny_networks.iter().copied())
        .map_err(|error| StartError::of("federation.deny_networks", &error))?
        .allow(federation.allow_networks.iter().copied())
        .map_err(|error| StartError::of("federation.allow_networks", &error))?;
    Ok(Discovery::new(config.server_name.clone(), resolver, transport, policy, user_agent()))
}

fn resolver(config: &Config) -> Result<HickoryResolver, StartError> {
    let servers = &config.federation.nameservers;
    let made =
        if servers.is_empty() { HickoryResolver::from_system() } else { HickoryResolver::with_name_servers(servers) };
    made.map_err(|error| StartError::of("federation.nameservers", &error))
}

/// The signing key the configuration names.
///
/// *Errors:* [`StartError`]. *Panics:* only where a throw-away key is wanted and the system has no random numbers.
/// *Blocking:* reads one small file.
pub fn signer(config: &Config) -> Result<Ed25519Signer, StartError> {
    match &config.signing_key {
        SigningKeySource::ThrowAway => Ok(Ed25519Signer::generate(config.server_name.clone())),
        SigningKeySource::File(path) => {
            files::signer(path, config.server_name.clone(), KeyOf::whose(config.upstream.is_some()))
                .map_err(|problem| StartError::Key { key: "signing_key", problem })
        }
    }
}

fn system_roots(config: &Config) -> Result<TlsRoots, StartError> {
    let roots = TlsRoots::system().map_err(StartError::Tls)?;
    match &config.federation.extra_ca_file {
        Some(path) => files::with_extra_ca(roots, path)
            .map_err(|problem| StartError::Key { key: "federation.extra_ca_file", problem }),
        None => Ok(roots),
    }
}

/// Everything outside the file itself that would stop `serve`: the key, the certificates, the name servers.
///
/// *Blocking:* as [`assemble`]; nothing is started.
#[must_use]
pub fn start_errors(config: &Config) -> Vec<StartError> {
    [signer(config).err(), resolver(config).err(), system_roots(config).err()].into_iter().flatten().collect()
}

fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION")))
}
