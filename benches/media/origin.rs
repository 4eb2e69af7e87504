//! The origin: a server with files of one size, that sends 10 MiB a second on each connection and never more: no burst at
//! the beginning, each piece when its time has come.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;

/// Bytes a second on one connection.
const RATE: f64 = 10.0 * 1024.0 * 1024.0;
const CHUNK: usize = 64 * 1024;
/// What comes before the file in its envelope.
pub(crate) const BEFORE: &[u8] =
    b"\r\n--part\r\nContent-Type: application/json\r\n\r\n{}\r\n--part\r\nContent-Type: video/mp4\r\n\r\n";

pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    /// The authority its certificate is of, for `serve` and for the direct client.
    pub(crate) ca_pem: String,
    pub(crate) ca: CertificateDer<'static>,
}

impl Origin {
    /// Each of its files has `bytes` bytes. Runs until the process ends.
    pub(crate) async fn start(bytes: usize) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "portcullis benchmark");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::default();
        leaf.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
        let leaf = leaf.signed_by(&key, &authority).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
                .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that has had enough ends its connection and nothing else.
                    let _ended = serve(connection, acceptor, bytes).await;
                });
            }
        });
        Self { address, ca_pem: authority.pem(), ca: authority.der().clone() }
    }

    /// The path of a file as a client of the homeserver asks for it.
    pub(crate) fn download_path(&self, media_id: &str) -> String {
        format!("/_matrix/client/v1/media/download/{}/{media_id}", self.address)
    }
}

async fn serve(connection: TcpStream, acceptor: TlsAcceptor, bytes: usize) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut connection = acceptor.accept(connection).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await?);
    }
    let after: &[u8] = b"\r\n--part--\r\n";
    let length = BEFORE.len() + bytes + after.len();
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; boundary=part\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(answer.as_bytes()).await?;
    connection.write_all(BEFORE).await?;
    let chunk = vec![b'x'; CHUNK];
    let began = Instant::now();
    let mut sent = 0;
    while sent < bytes {
        let now = CHUNK.min(bytes - sent);
        sent += now;
        #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "far below where it would lose any")]
        let due = Duration::from_secs_f64(sent as f64 / RATE);
        sleep_until(began + due).await;
        connection.write_all(chunk.get(..now).unwrap_or_default()).await?;
        connection.flush().await?;
    }
    connection.write_all(after).await?;
    connection.shutdown().await
}
