//! A TLS server on a loopback port of its own that answers, or misbehaves in one way; ended when it is dropped.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;
use socket2::{Domain, Socket, Type};
use tokio::io::{self, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::patience::PATIENCE;

/// Between two bytes of a drip.
const DRIP: Duration = Duration::from_millis(10);

/// From a request to the bytes of its whole answer, head included.
pub(crate) type Answer = Arc<dyn Fn(&SeenRequest) -> Vec<u8> + Send + Sync>;

/// From a request to its answer, in pieces that are sent one by one.
pub(crate) type Pieces = Arc<dyn Fn(&SeenRequest) -> Vec<Vec<u8>> + Send + Sync>;

/// What a peer does with a connection.
#[derive(Clone)]
pub(crate) enum Behaviour {
    /// Answers.
    Answers(Answer),
    /// Accepts, and never says a word, not even of TLS.
    TcpSilent,
    /// Takes the request and never answers.
    TlsSilent,
    /// Sends its response head byte by byte, for ever.
    HeaderDrip,
    /// Sends a body of endless length byte by byte.
    BodyDrip,
    /// Sends a body without length, as chunks, as fast as it is read, for ever.
    EndlessChunks,
    /// Announces more than it sends, and ends cleanly.
    Truncated,
    /// Takes the request and resets the connection.
    Reset,
    /// Sends these bytes in place of a TLS handshake.
    NoTls(&'static [u8]),
    /// Takes the request, sends these bytes and ends cleanly.
    EndsAfter(Vec<u8>),
    /// Sends what is said of the request, each piece by itself with a pause before the next.
    Pieces {
        /// From a request to the pieces of the answer.
        pieces: Pieces,
        /// Between two of them.
        pause: Duration,
    },
    /// Takes the request, sends these bytes and closes the connection without a word of TLS.
    BreaksAfter(Vec<u8>),
    /// Takes the request, sends `head`, then `part` again and again, for ever.
    Endless {
        /// Sent once.
        head: &'static [u8],
        /// Sent for ever.
        part: Vec<u8>,
        /// Between two parts.
        pause: Duration,
    },
}

impl Behaviour {
    /// Answers with what `answer` makes of the request; no bytes at all are silence.
    pub(crate) fn answers(answer: impl Fn(&SeenRequest) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::Answers(Arc::new(answer))
    }
}

/// A request as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenRequest {
    /// The request line.
    pub(crate) line: String,
    /// Names as sent, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The name TLS was asked for.
    pub(crate) sni: Option<String>,
}

impl SeenRequest {
    /// Every value of a header.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let matching = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        matching.map(|(_, value)| value.as_str()).collect()
    }

    /// The only value of a header.
    pub(crate) fn only(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0]
    }

    /// What stands between method and version in the request line.
    pub(crate) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

/// An answer with a JSON body.
pub(crate) fn json_answer(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into()
}

#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    open: AtomicUsize,
    requests: Mutex<Vec<SeenRequest>>,
}

pub(crate) struct TlsPeer {
    address: SocketAddr,
    seen: Arc<Seen>,
    accepting: JoinHandle<()>,
}

impl TlsPeer {
    /// A peer on 127.0.0.1.
    pub(crate) async fn start(tls: Arc<ServerConfig>, behaviour: Behaviour) -> Self {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), tls, behaviour).await
    }

    /// A peer on an address of the test's choice; port 0 is a free one.
    pub(crate) async fn start_on(address: SocketAddr, tls: Arc<ServerConfig>, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(tls), behaviour, Arc::clone(&seen)));
        Self { address, seen, accepting }
    }

    /// A peer that answers every request with `answer`.
    pub(crate) async fn answering(tls: Arc<ServerConfig>, answer: Vec<u8>) -> Self {
        Self::start(tls, Behaviour::Answers(Arc::new(move |_| answer.clone()))).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections taken so far.
    pub(crate) fn accepted(&self) -> usize {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are still open, as this side sees it.
    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        self.seen.requests.lock().clone()
    }

    /// The one request that came.
    pub(crate) fn only_request(&self) -> SeenRequest {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// Waits until the other side has closed every connection.
    ///
    /// # Panics
    /// If that does not happen.
    pub(crate) async fn all_closed(&self) {
        let closing = async {
            while self.open() > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, closing).await.expect("a connection was left open");
    }

    /// Waits until a request has come.
    ///
    /// # Panics
    /// If none comes.
    pub(crate) async fn asked(&self) {
        let coming = async {
            while self.seen.requests.lock().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, coming).await.expect("no request came");
    }
}

impl Drop for TlsPeer {
    fn drop(&mut self) {
        // The task owns its listener and its connections: they end with it.
        self.accepting.abort();
    }
}

/// The address on 127.0.0.1 at which nobody listens. It is taken until the process ends, so that no other server of the tests
/// is given the port and finds somebody else's call at its door.
pub(crate) fn refusing_address() -> SocketAddr {
    refusing_at(Ipv4Addr::LOCALHOST)
}

/// The same at another address of this machine.
pub(crate) fn refusing_at(ip: Ipv4Addr) -> SocketAddr {
    static TAKEN: Mutex<BTreeMap<Ipv4Addr, Socket>> = Mutex::new(BTreeMap::new());
    let mut taken = TAKEN.lock();
    let socket = taken.entry(ip).or_insert_with(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
        socket
    });
    socket.local_addr().unwrap().as_socket().unwrap()
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, behaviour: Behaviour, seen: Arc<Seen>) {
    let mut connections = JoinSet::new();
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        seen.accepted.fetch_add(1, Ordering::SeqCst);
        seen.open.fetch_add(1, Ordering::SeqCst);
        let (tls, behaviour, seen) = (tls.clone(), behaviour.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            // However it ended: what counts is that it did.
            let _ = serve(tcp, tls, behaviour, &seen).await;
            seen.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn serve(mut tcp: TcpStream, tls: TlsAcceptor, behaviour: Behaviour, seen: &Seen) -> io::Result<()> {
    if matches!(behaviour, Behaviour::TcpSilent) {
        return until_closed(&mut tcp).await;
    }
    if let Behaviour::NoTls(bytes) = behaviour {
        tcp.write_all(bytes).await?;
        return until_closed(&mut tcp).await;
    }
    let mut stream = tls.accept(tcp).await?;
    // It would rather speak HTTP/2, and here it can speak HTTP/1.1 alone: nothing is said to whoever offered both.
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        return until_closed(&mut stream).await;
    }
    let request = read_request(&mut stream).await?;
    seen.requests.lock().push(request.clone());
    match behaviour {
        Behaviour::Answers(answer) => stream.write_all(&answer(&request)).await?,
        Behaviour::TcpSilent | Behaviour::NoTls(_) | Behaviour::TlsSilent => {}
        Behaviour::HeaderDrip => return endlessly(stream, b"HTTP/1.1 200 OK\r\nX-Drip: ", b"x", DRIP).await,
        Behaviour::BodyDrip => {
            return endlessly(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", DRIP)
                .await;
        }
        Behaviour::EndlessChunks => {
            let chunk = [b"1000\r\n".as_slice(), &[b' '; 0x1000], b"\r\n"].concat();
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            return endlessly(stream, head, &chunk, Duration::ZERO).await;
        }
        Behaviour::Truncated => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}").await?;
            return stream.shutdown().await;
        }
        Behaviour::Reset => return stream.get_ref().0.set_zero_linger(),
        Behaviour::EndsAfter(bytes) => {
            stream.write_all(&bytes).await?;
            return stream.shutdown().await;
        }
        Behaviour::BreaksAfter(bytes) => {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            return stream.get_mut().0.shutdown().await;
        }
        Behaviour::Pieces { pieces, pause } => {
            for piece in pieces(&request) {
                stream.write_all(&piece).await?;
                stream.flush().await?;
                tokio::time::sleep(pause).await;
            }
        }
        Behaviour::Endless { head, part, pause } => return endlessly(stream, head, &part, pause).await,
    }
    stream.flush().await?;
    until_closed(&mut stream).await
}

async fn read_request(stream: &mut TlsStream<TcpStream>) -> io::Result<SeenRequest> {
    let sni = stream.get_ref().1.server_name().map(str::to_owned);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers = lines.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.into(), value.into()));
    let mut request = SeenRequest { line, headers: headers.collect(), body: Vec::new(), sni };
    if let [length] = request.values("content-length")[..] {
        request.body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut request.body).await?;
    }
    Ok(request)
}

/// Reads until the other side closes.
async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    io::copy(stream, &mut io::sink()).await.map(drop)
}

/// Writes `head`, then `part` again and again until the other side closes.
async fn endlessly(stream: impl AsyncRead + AsyncWrite, head: &[u8], part: &[u8], pause: Duration) -> io::Result<()> {
    let (mut reading, mut writing) = io::split(stream);
    let writes = async {
        writing.write_all(head).await?;
        loop {
            writing.write_all(part).await?;
            writing.flush().await?;
            // Even a pause of nothing would last until the timer's next tick.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    };
    tokio::select! {
        outcome = writes => outcome,
        outcome = until_closed(&mut reading) => outcome,
    }
}
