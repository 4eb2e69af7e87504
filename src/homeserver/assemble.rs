//! Puts the parts of `portcullis serve` together. Whatever is wrong shows here, before anybody can connect.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use http::HeaderValue;

use super::config::{Config, SigningKeySource};
use super::embedded::EmbeddedHomeserver;
use super::listener::ListenerLimits;
use super::pooled::{PooledHomeserver, QUEUED_PER_THREAD};
use super::request_pool::RequestPool;
use super::router::Router;
use super::runtime::HomeserverRuntime;
use crate::admission::TrustedProxies;
use crate::outbound::{
    AddressPolicy, Discovery, Ed25519Signer, FederationClient, HickoryResolver, HostBitsSet, HttpsTransport,
    InvalidSigningKey, NoNameServers, RequestSigner, Resolve, TlsRoots, TlsRootsError, Transport,
};
use crate::portcullis::{BuildError, Portcullis};

/// A homeserver that is ready to be served.
#[derive(Debug)]
pub struct Assembled {
    /// The homeserver.
    pub runtime: Arc<HomeserverRuntime>,
    /// Its request threads. Whoever holds the last of these waits for them when dropping it.
    pub pool: Arc<RequestPool>,
    /// The bounds of the listener for clients.
    pub limits: ListenerLimits,
}

/// Why the server cannot be put together. One line, with the key of the configuration to look at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The key file cannot be read.
    #[error("signing_key: {} cannot be read: {error} (portcullis keygen makes one)", path.display())]
    SigningKeyUnreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The key file holds no key.
    #[error("signing_key: {} is not usable: {error}", path.display())]
    SigningKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: InvalidSigningKey,
    },
    /// There is nobody to ask for names.
    #[error("federation.nameservers: {0}")]
    NameServers(#[from] NoNameServers),
    /// The system has no certificate authorities, or TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(TlsRootsError),
    /// The extra certificates cannot be used.
    #[error("federation.extra_ca_file: {}: {}", path.display(), reason(.error))]
    ExtraCaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: TlsRootsError,
    },
    /// A network rule is not exact.
    #[error("federation.deny_networks, allow_networks: {0}")]
    Networks(#[from] HostBitsSet),
    /// The routes cannot be built.
    #[error("{0}")]
    Routes(#[from] BuildError),
    /// The system gives no threads.
    #[error("request_threads: the threads cannot be started: {0}")]
    Threads(io::Error),
}

/// Puts the whole homeserver together and starts its threads.
///
/// *Errors:* the first [`StartError`]. *Panics:* never. *Blocking:* reads the key, the certificates and resolv.conf.
pub fn assemble(config: &Config) -> Result<Assembled, StartError> {
    let signer = Arc::new(signer(config)?);
    let router = Router::new(config.server_name.clone(), Arc::<Ed25519Signer>::clone(&signer));
    let portcullis = portcullis(config, signer)?;
    let runtime = HomeserverRuntime::new(EmbeddedHomeserver::new(config), portcullis, router);
    let threads = config.request_threads;
    let pool = RequestPool::start(threads, threads.saturating_mul(QUEUED_PER_THREAD)).map_err(StartError::Threads)?;
    let limits = ListenerLimits {
        trusted_proxies: TrustedProxies::new(config.trusted_proxies.iter().copied()),
        ipv6_client_prefix: config.ipv6_client_prefix,
        ..ListenerLimits::default()
    };
    Ok(Assembled { runtime: Arc::new(runtime), pool: Arc::new(pool), limits })
}

impl Assembled {
    /// What the listener hands requests to.
    #[must_use]
    pub fn handler(&self) -> Arc<PooledHomeserver> {
        Arc::new(PooledHomeserver::new(Arc::clone(&self.runtime), Arc::clone(&self.pool)))
    }
}

fn portcullis(config: &Config, signer: Arc<dyn RequestSigner>) -> Result<Portcullis, StartError> {
    let (discovery, transport) = outbound(config)?;
    let client = FederationClient::new(signer, discovery, transport).with_user_agent(user_agent());
    let mut builder = Portcullis::builder(config.server_name.clone(), config.request_threads)
        .federation_client(client)
        .require_token_for_remote(config.federation.require_token_for_remote)
        .trusted_proxies(TrustedProxies::new(config.trusted_proxies.iter().copied()))
        .ipv6_prefix(config.ipv6_client_prefix);
    if let Some(limit) = config.federation.remote_timeout {
        builder = builder.remote_timeout(limit);
    }
    Ok(builder.build()?)
}

/// Server discovery as `serve` does it, for `portcullis resolve`.
///
/// *Errors:* [`StartError`]. *Panics:* never. *Blocking:* reads the certificates and resolv.conf.
pub fn discovery(config: &Config) -> Result<Discovery, StartError> {
    outbound(config).map(|(discovery, _)| discovery)
}

fn outbound(config: &Config) -> Result<(Discovery, Arc<dyn Transport>), StartError> {
    let federation = &config.federation;
    let resolver: Arc<dyn Resolve> = Arc::new(if federation.nameservers.is_empty() {
        HickoryResolver::from_system()?
    } else {
        HickoryResolver::with_name_servers(&federation.nameservers)?
    });
    let transport: Arc<dyn Transport> = Arc::new(HttpsTransport::new(roots(config)?).map_err(StartError::Tls)?);
    let policy = AddressPolicy::default()
        .deny(federation.deny_networks.iter().copied())?
        .allow(federation.allow_networks.iter().copied())?;
    let discovery = Discovery::new(config.server_name.clone(), resolver, Arc::clone(&transport), policy, user_agent());
    Ok((discovery, transport))
}

/// The signing key the configuration names.
///
/// *Errors:* [`StartError`]. *Panics:* only where a throw-away key is wanted and the system has no random numbers.
/// *Blocking:* reads one small file.
pub fn signer(config: &Config) -> Result<Ed25519Signer, StartError> {
    match &config.signing_key {
        SigningKeySource::ThrowAway => Ok(Ed25519Signer::generate(config.server_name.clone())),
        SigningKeySource::File(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| StartError::SigningKeyUnreadable { path: path.clone(), error })?;
            Ed25519Signer::from_key_file(config.server_name.clone(), &text)
                .map_err(|error| StartError::SigningKey { path: path.clone(), error })
        }
    }
}

fn roots(config: &Config) -> Result<TlsRoots, StartError> {
    let roots = TlsRoots::system().map_err(StartError::Tls)?;
    match &config.federation.extra_ca_file {
        Some(path) => with_extra_file(roots, path),
        None => Ok(roots),
    }
}

fn with_extra_file(roots: TlsRoots, path: &Path) -> Result<TlsRoots, StartError> {
    roots.with_extra_file(path).map_err(|error| StartError::ExtraCaFile { path: path.to_owned(), error })
}

/// Everything outside the file itself that would stop `serve`, for `portcullis check-config`: the key, the certificates,
/// the name servers.
///
/// *Blocking:* as [`assemble`]; nothing is started.
#[must_use]
pub fn start_errors(config: &Config) -> Vec<StartError> {
    [signer(config).err(), outbound(config).err()].into_iter().flatten().collect()
}

fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION")))
}

/// The file's path stands in front already.
fn reason(error: &TlsRootsError) -> String {
    match error {
        TlsRootsError::Unreadable { source, .. } => format!("cannot be read: {source}"),
        other => other.to_string(),
    }
}
