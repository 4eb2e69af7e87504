//! What the examples share: other servers on loopback, over real TLS, with a certificate authority that they alone have.
//!
//! A server's name is its address, such as `127.0.0.1:41234`, so finding it takes no DNS. It is as good as any other
//! server: what asks it signs its requests, checks its certificate and judges its address.

use std::error::Error;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The longest request line or header line that is read, and the most of them.
const MAX_LINE_BYTES: u64 = 8 * 1024;
const MAX_LINES: usize = 64;
/// Nobody keeps a server's thread longer than this by saying nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// A room list that no client of this crate reads to its end.
const HUGE_BYTES: usize = 16 * 1024 * 1024;

/// A certificate authority, and the certificate it gave to 127.0.0.1 and `them.example`.
pub(crate) struct Authority {
    pem: String,
    tls: Arc<ServerConfig>,
}

/// How a server treats whoever asks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Answers what it is asked.
    Answers,
    /// Takes the connection and the request, and never answers.
    Silent,
    /// Answers with a room list that is larger than any.
    Huge,
    /// Answers that what is asked for is at another place, inside.
    SendsAway,
}

/// Another server. Dropping it ends it.
pub(crate) struct OtherServer {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "portcullis examples");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let mut server = CertificateParams::default();
        server.subject_alt_names =
            vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into()), SanType::DnsName("them.example".try_into()?)];
        let server = server.signed_by(&key, &authority)?;

        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))?;
        Ok(Self { pem: authority.pem(), tls: Arc::new(tls) })
    }

    /// The certificate to be trusted, as PEM.
    pub(crate) fn pem(&self) -> &[u8] {
        self.pem.as_bytes()
    }
}

impl OtherServer {
    /// A server on a free port of 127.0.0.1.
    pub(crate) fn start(authority: &Authority, manners: Manners) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (tls, has_ended) = (Arc::clone(&authority.tls), Arc::clone(&ended));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if has_ended.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(connection) = connection else { continue };
                let tls = Arc::clone(&tls);
                // Who hangs up ends this thread and nothing else.
                std::thread::spawn(move || serve(connection, tls, manners, address));
            }
        });
        Ok(Self { address, ended })
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its server name.
    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for OtherServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // So that it looks.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(
    connection: TcpStream,
    tls: Arc<ServerConfig>,
    manners: Manners,
    us: SocketAddr,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(tls)?, connection));
    let target = read_request(&mut stream)?;
    let (content_type, body) = match manners {
        Manners::Silent => {
            // Until the other side has had enough.
            io::copy(&mut stream, &mut io::sink())?;
            return Ok(());
        }
        Manners::Huge => ("application/json".to_owned(), vec![b' '; HUGE_BYTES]),
        Manners::Answers | Manners::SendsAway => answer(&target, us),
    };
    let status = match manners {
        Manners::SendsAway => "302 Found\r\nLocation: http://127.0.0.2/",
        _ => "200 OK",
    };
    let mut stream = stream.into_inner();
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n")?;
    stream.write_all(&body)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(())
}

/// Reads a request without a body, and returns its target.
fn read_request(stream: &mut impl io::BufRead) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut lines = Vec::new();
    while lines.len() < MAX_LINES {
        let mut line = String::new();
        stream.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line);
    }
    let request_line = lines.first().ok_or("no request")?;
    Ok(request_line.split(' ').nth(1).ok_or("no target")?.to_owned())
}

/// What the federation routes answer, in short.
fn answer(target: &str, us: SocketAddr) -> (String, Vec<u8>) {
    let json = |content: serde_json::Value| ("application/json".to_owned(), content.to_string().into_bytes());
    let path = target.split('?').next().unwrap_or_default();
    match path {
        "/_matrix/federation/v1/publicRooms" => json(serde_json::json!({
            "chunk": [{
                "room_id": format!("!garden:{us}"), "name": "The garden", "num_joined_members": 3,
                "world_readable": true, "guest_can_join": false,
            }],
            "total_room_count_estimate": 1,
        })),
        "/_matrix/federation/v1/query/directory" => {
            json(serde_json::json!({ "room_id": format!("!garden:{us}"), "servers": [us.to_string()] }))
        }
        path if path.starts_with("/_matrix/federation/v1/media/") => {
            let envelope = "--part\r\nContent-Type: application/json\r\n\r\n{}\r\n\
                            --part\r\nContent-Type: text/plain\r\n\r\nA file of the garden.\r\n--part--\r\n";
            ("multipart/mixed; boundary=part".to_owned(), envelope.into())
        }
        _ => json(serde_json::json!({})),
    }
}
