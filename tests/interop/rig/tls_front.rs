//! TLS in front of `serve`, as a reverse proxy would do it: other servers reach our key document under our server name.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A port that speaks TLS and hands everything on to a plain one. It is bound before `serve` starts, because its port is
/// part of the server name. Dropping it ends it.
pub(crate) struct TlsFront {
    address: SocketAddr,
    waiting: Option<(TcpListener, TlsAcceptor)>,
    handshakes: Arc<AtomicUsize>,
    serving: JoinSet<()>,
}

impl TlsFront {
    /// With the certificate in these files.
    pub(crate) async fn bind(certificate: &Path, key: &Path) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let chain = CertificateDer::pem_file_iter(certificate).unwrap().collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self {
            address: listener.local_addr().unwrap(),
            waiting: Some((listener, TlsAcceptor::from(Arc::new(config)))),
            handshakes: Arc::default(),
            serving: JoinSet::new(),
        }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn server_name(&self) -> String {
        self.address.to_string()
    }

    /// From now on connections lead to `plain`.
    pub(crate) fn lead_to(&mut self, plain: SocketAddr) {
        let (listener, acceptor) = self.waiting.take().unwrap();
        let handshakes = Arc::clone(&self.handshakes);
        self.serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, handshakes) = (acceptor.clone(), Arc::clone(&handshakes));
                connections.spawn(async move {
                    let Ok(mut encrypted) = acceptor.accept(stream).await else { return };
                    handshakes.fetch_add(1, Ordering::SeqCst);
                    let mut stream = TcpStream::connect(plain).await.unwrap();
                    // Either side may go away.
                    let _ended = tokio::io::copy_bidirectional(&mut encrypted, &mut stream).await;
                });
            }
        });
    }

    /// How many connections came as far as the end of their TLS handshake.
    pub(crate) fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }
}
