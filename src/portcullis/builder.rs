//! [`PortcullisBuilder`]: every mistake of an integrator shows here, at the start, and none later.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::watch;

use super::Portcullis;
use crate::admission::{
    Admission, ClientOutboundProxyPolicy, DestinationRules, Ipv6ClientPrefix, RemoteTimeout, TrustedProxies,
};
use crate::federation_worker::FederationWorker;
use crate::limits::FEDERATION_WORKER_THREADS;
use crate::outbound::call::FederationClient;
use crate::proxy::directory::{Directory, RemoteDirectory};
use crate::server_name::ServerName;

/// Collects what a [`Portcullis`] needs. Caps are not among it: they follow from the pool size. A deadline can be
/// shortened, never lengthened.
///
/// ```no_run
/// use std::{error::Error, sync::Arc, time::Duration};
///
/// use http::HeaderValue;
/// use portcullis::outbound::{Ed25519Signer, FederationClient};
/// use portcullis::{Ipv6ClientPrefix, Portcullis, ServerName, TrustedProxies};
///
/// fn portcullis(key: &str) -> Result<Portcullis, Box<dyn Error>> {
///     let own_name: ServerName = "us.example".parse()?;
///     let signer = Arc::new(Ed25519Signer::from_key_file(own_name.clone(), key)?);
///     let client = FederationClient::from_system(own_name.clone(), signer, HeaderValue::from_static("our-server/1.0"))?;
///     Ok(Portcullis::builder(own_name, 16) // a pool of 16 threads: 8 lookups in flight
///         .federation_client(client)
///         .trusted_proxies(TrustedProxies::new(["127.0.0.1/32".parse()?])) // the reverse proxy in front
///         .ipv6_prefix(Ipv6ClientPrefix::new(56).unwrap_or_default()) // providers here hand out a /56
///         .remote_timeout(Duration::from_secs(9)) // an answer still reaches clients that give up after ten
///         .build()?)
/// }
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct PortcullisBuilder {
    own_name: ServerName,
    pool_threads: usize,
    remote_timeout: Option<Duration>,
    require_token_for_remote: bool,
    trusted_proxies: TrustedProxies,
    ipv6_prefix: Ipv6ClientPrefix,
    rules: Option<Arc<dyn DestinationRules>>,
    remote: Option<Box<dyn RemoteDirectory>>,
    worker: Option<Arc<FederationWorker>>,
}

/// Why a [`Portcullis`] cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// [`PortcullisBuilder::federation_client`] was not called.
    #[error("no federation client is given")]
    NoFederationClient,
    /// A remote timeout of zero: "no time" is a mistake, not "no limit".
    #[error("the remote timeout is zero")]
    ZeroRemoteTimeout,
    /// The system gave no threads for the federation worker.
    #[error("the federation worker does not start")]
    Worker(#[source] io::Error),
}

impl PortcullisBuilder {
    pub(super) fn new(own_name: ServerName, pool_threads: usize) -> Self {
        Self {
            own_name,
            pool_threads,
            remote_timeout: None,
            require_token_for_remote: false,
            trusted_proxies: TrustedProxies::default(),
            ipv6_prefix: Ipv6ClientPrefix::default(),
            rules: None,
            remote: None,
            worker: None,
        }
    }

    /// The way out. Required.
    pub fn federation_client(mut self, client: FederationClient) -> Self {
        self.remote = Some(Box::new(client));
        self
    }

    /// Another way out, for tests.
    #[cfg(test)]
    pub(crate) fn remote_directory(mut self, remote: Box<dyn RemoteDirectory>) -> Self {
        self.remote = Some(remote);
        self
    }

    /// A worker that runs already, for whoever builds many: starting threads takes longer than all the rest.
    #[cfg(feature = "server")]
    pub(crate) fn federation_worker(mut self, worker: Arc<FederationWorker>) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Shortens the deadline of every call where it is shorter; never lengthens one. Zero fails the build.
    pub fn remote_timeout(mut self, limit: Duration) -> Self {
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

    /// Asked before a slot is taken and before a remembered answer is given.
    pub fn destination_rules(mut self, rules: Arc<dyn DestinationRules>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Builds it, and starts the threads of the federation worker.
    ///
    /// *Errors:* [`BuildError`]. *Panics:* never. *Blocking:* no.
    pub fn build(self) -> Result<Portcullis, BuildError> {
        let remote_timeout = match self.remote_timeout {
            None => None,
            Some(limit) => Some(RemoteTimeout::new(limit).ok_or(BuildError::ZeroRemoteTimeout)?),
        };
        let worker = match self.worker {
            Some(worker) => worker,
            None => Arc::new(FederationWorker::start(FEDERATION_WORKER_THREADS).map_err(BuildError::Worker)?),
        };
        let remote = self.remote.ok_or(BuildError::NoFederationClient)?;
        let mut admission = Admission::new(self.own_name, ClientOutboundProxyPolicy::for_pool(self.pool_threads))
            .with_remote_timeout(remote_timeout);
        if let Some(rules) = &self.rules {
            admission = admission.with_destination_rules(Arc::clone(rules));
        }
        Ok(Portcullis {
            admission,
            rules: self.rules,
            trusted_proxies: self.trusted_proxies,
            ipv6_prefix: self.ipv6_prefix,
            require_token_for_remote: self.require_token_for_remote,
            directory: Arc::new(Directory::new(remote)),
            worker,
            stopping: AtomicBool::new(false),
            cut_short: watch::Sender::new(false),
        })
    }
}

impl fmt::Debug for PortcullisBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PortcullisBuilder")
            .field("own_name", &self.own_name)
            .field("pool_threads", &self.pool_threads)
            .field("remote_timeout", &self.remote_timeout)
            .field("require_token_for_remote", &self.require_token_for_remote)
            .finish_non_exhaustive()
    }
}
