//! The remote servers of the rehearsal: healthy ones, silent ones, a dripping one, and a resolver that never answers.
//! Real sockets on loopback, real TLS with a private CA.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A certificate authority nobody else trusts, and the certificate it gave to 127.0.0.1.
pub(crate) struct PrivateCa {
    /// The authority's certificate, the only one the homeserver trusts.
    pub(crate) pem: String,
    acceptor: TlsAcceptor,
}

/// How a peer treats whoever connects.
#[derive(Clone, Copy)]
pub(crate) enum Manners {
    /// Answers room lists, aliases and files.
    Healthy,
    /// The same, but files only once [`Peer::let_files_go`] was called.
    HoldingFilesBack,
    /// Accepts, shakes hands, takes the request, and never answers: the peer that holds a thread for as long as it may.
    Silent,
    /// Sends a good head, then a byte now and then, for ever.
    Dripping,
}

/// One remote server, counting who came. Dropping it ends it.
pub(crate) struct Peer {
    address: SocketAddr,
    open: Arc<OpenConnections>,
    files_go: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct OpenConnections {
    now: AtomicUsize,
    peak: AtomicUsize,
    ever: AtomicUsize,
    files_asked_for: AtomicUsize,
}

/// Bytes of a file on the healthy peer: a thumbnail is a tenth of it.
pub(crate) const FILE_BYTES: usize = 40_000;
/// Rooms on the healthy peer's list.
const ROOMS: usize = 3;
const DRIP_EVERY: Duration = Duration::from_millis(50);

impl PrivateCa {
    pub(crate) fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "portcullis rehearsal");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let mut leaf = CertificateParams::default();
        leaf.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
        let leaf = leaf.signed_by(&key, &authority)?;

        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))?;
        Ok(Self { pem: authority.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl Peer {
    /// Starts a peer on a free port of 127.0.0.1.
    pub(crate) async fn start(ca: &PrivateCa, manners: Manners) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let open = Arc::<OpenConnections>::default();
        let counted = Arc::clone(&open);
        let acceptor = ca.acceptor.clone();
        let (files_go, may_go) = watch::channel(!matches!(manners, Manners::HoldingFilesBack));
        let accepting = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let guest = Guest::welcome(&counted);
                let (acceptor, may_go) = (acceptor.clone(), may_go.clone());
                tokio::spawn(async move {
                    // A guest who hangs up is no fault of the peer's: its errors end the connection and nothing else.
                    let _ended = serve(connection, acceptor, manners, address, &guest, may_go).await;
                    drop(guest);
                });
            }
        });
        Ok(Self { address, open, files_go, accepting })
    }

    /// The server name: a literal with a port, so that no discovery is needed.
    pub(crate) fn server_name(&self) -> String {
        self.address.to_string()
    }

    /// The most connections that were open at once.
    pub(crate) fn peak(&self) -> usize {
        self.open.peak.load(Ordering::SeqCst)
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.open.ever.load(Ordering::SeqCst)
    }

    /// How often a file or a thumbnail was asked for.
    pub(crate) fn files_asked_for(&self) -> usize {
        self.open.files_asked_for.load(Ordering::SeqCst)
    }

    /// From now on files are answered.
    pub(crate) fn let_files_go(&self) {
        self.files_go.send_replace(true);
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> usize {
        self.open.now.load(Ordering::SeqCst)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Counts one connection for as long as it lives.
struct Guest(Arc<OpenConnections>);

impl Guest {
    fn welcome(open: &Arc<OpenConnections>) -> Self {
        let now = open.now.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        open.peak.fetch_max(now, Ordering::SeqCst);
        open.ever.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(
    connection: TcpStream,
    acceptor: TlsAcceptor,
    manners: Manners,
    me: SocketAddr,
    guest: &Guest,
    mut files_go: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut connection = acceptor.accept(connection).await?;
    let head = read_request(&mut connection).await?;
    match manners {
        Manners::Silent => say_nothing(connection).await,
        Manners::Healthy | Manners::HoldingFilesBack => {
            let (content_type, body) = match file(&head) {
                Some(file) => {
                    guest.0.files_asked_for.fetch_add(1, Ordering::SeqCst);
                    files_go.wait_for(|go| *go).await.map_err(io::Error::other)?;
                    file
                }
                None => ("application/json".to_owned(), answer(&head, me).into_bytes()),
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            connection.write_all(head.as_bytes()).await?;
            connection.write_all(&body).await?;
            connection.shutdown().await
        }
        Manners::Dripping => {
            connection
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n")
                .await?;
            loop {
                connection.write_all(b" ").await?;
                connection.flush().await?;
                tokio::time::sleep(DRIP_EVERY).await;
            }
        }
    }
}

/// Reads until the other side has had enough.
async fn say_nothing<C: AsyncRead + Unpin>(mut connection: C) -> io::Result<()> {
    let mut heard = [0; 1024];
    while connection.read(&mut heard).await? > 0 {}
    Ok(())
}

/// Reads a request head and the body it announces; returns the head.
async fn read_request<C: AsyncRead + AsyncWrite + Unpin>(connection: &mut C) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > 16 * 1024 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(connection.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<u64>().ok());
    let mut body = Vec::new();
    connection.take(announced.unwrap_or(0)).read_to_end(&mut body).await?;
    Ok(head)
}

/// The multipart answer to a request for a file or a thumbnail, and its type; `None` if it is for something else. Each
/// file has bytes of its own.
fn file(head: &str) -> Option<(String, Vec<u8>)> {
    let path = head.split(' ').nth(1)?.strip_prefix("/_matrix/federation/v1/media/")?;
    let (kind, rest) = path.split_once('/')?;
    let media_id = rest.split('?').next()?;
    let bytes = if kind == "thumbnail" { FILE_BYTES / 10 } else { FILE_BYTES };
    let mut body =
        b"\r\n--part\r\nContent-Type: application/json\r\n\r\n{}\r\n--part\r\nContent-Type: image/png\r\n\r\n".to_vec();
    body.extend(media_id.bytes().cycle().take(bytes));
    body.extend_from_slice(b"\r\n--part--\r\n");
    Some(("multipart/mixed; boundary=part".to_owned(), body))
}

/// What the healthy peer says to the request with this head.
fn answer(head: &str, me: SocketAddr) -> String {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let answer = if path.starts_with("/_matrix/federation/v1/publicrooms") {
        let rooms: Vec<_> = (1..=ROOMS)
            .map(|n| {
                serde_json::json!({
                    "room_id": format!("!hall{n}:{me}"), "name": format!("Hall {n}"), "num_joined_members": 10 - n,
                    "world_readable": true, "guest_can_join": false,
                })
            })
            .collect();
        serde_json::json!({"chunk": rooms, "total_room_count_estimate": ROOMS})
    } else {
        serde_json::json!({"room_id": format!("!hall1:{me}"), "servers": [me.to_string()]})
    };
    answer.to_string()
}

/// A name server that takes every question and answers none.
pub(crate) struct DeadResolver {
    asked: Arc<AtomicUsize>,
    listening: JoinHandle<()>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl DeadResolver {
    pub(crate) async fn start() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = socket.local_addr()?;
        let asked = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&asked);
        let listening = tokio::spawn(async move {
            let mut question = [0; 512];
            while socket.recv(&mut question).await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Ok(Self { asked, listening, address })
    }

    /// How many questions came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for DeadResolver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
