//! [`Fakes`]: TLS servers on the addresses and ports of a case, all of them one [`Site`].

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{self, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;

use super::private_ca::PrivateCa;
use super::reply::Reply;

/// The only authority that our side trusts in here.
pub(crate) static TRUSTED: LazyLock<PrivateCa> = LazyLock::new(PrivateCa::new);
static UNKNOWN: LazyLock<PrivateCa> = LazyLock::new(PrivateCa::new);
/// Made once: a signature takes longer than a handshake.
static CERTIFICATES: LazyLock<Mutex<HashMap<Certificate, Arc<ServerConfig>>>> = LazyLock::new(Mutex::default);

#[derive(PartialEq, Eq, Hash)]
struct Certificate {
    trusted: bool,
    names: Vec<String>,
}

const FEDERATION: &str = "/_matrix/federation/";
const LEGACY_MEDIA: &str = "/_matrix/media/";
pub(crate) const WELL_KNOWN: &str = "/.well-known/matrix/server";

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    /// Where it was received.
    pub(crate) at: SocketAddr,
    /// The port it came from.
    pub(crate) from: u16,
    /// The name TLS was asked for.
    pub(crate) sni: Option<String>,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names in lower case, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl SeenRequest {
    pub(crate) fn is_federation(&self) -> bool {
        self.target.starts_with(FEDERATION)
    }

    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The only value of a header.
    pub(crate) fn only(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0]
    }
}

/// What the servers are: one set of pages, whoever is asked.
#[derive(Default)]
pub(crate) struct Site {
    pages: HashMap<(String, String), Reply>,
    federation: Option<Reply>,
    legacy: Option<Reply>,
    elsewhere: Option<Reply>,
    /// Redirects to ever new places below this URL.
    endless: Option<String>,
    /// Certificates other than for the name that is asked for.
    certificates: HashMap<SocketAddr, Vec<String>>,
    /// Whose certificate is of another authority.
    untrusted: Vec<SocketAddr>,
}

impl Site {
    /// A page at an https URL.
    pub(crate) fn page(&mut self, url: &str, reply: Reply) {
        let rest = url.strip_prefix("https://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        self.pages.insert((authority.to_ascii_lowercase(), path.to_owned()), reply);
    }

    pub(crate) fn well_known(&mut self, host: &str, reply: Reply) {
        self.page(&format!("https://{host}{WELL_KNOWN}"), reply);
    }

    /// The answer to every federation request, instead of an empty room list or an alias.
    pub(crate) fn federation(&mut self, reply: Reply) {
        self.federation = Some(reply);
    }

    /// The answer to every request to the older media endpoints.
    pub(crate) fn legacy(&mut self, reply: Reply) {
        self.legacy = Some(reply);
    }

    /// What there is wherever else a request leads, but for well-known files.
    pub(crate) fn elsewhere(&mut self, reply: Reply) {
        self.elsewhere = Some(reply);
    }

    pub(crate) fn endless_redirects(&mut self, from: &str) {
        self.endless = Some(from.to_owned());
    }

    pub(crate) fn certificate(&mut self, place: SocketAddr, names: &[&str]) {
        self.certificates.insert(place, names.iter().map(|&name| name.to_owned()).collect());
    }

    pub(crate) fn untrusted(&mut self, place: SocketAddr) {
        self.untrusted.push(place);
    }

    fn tls(&self, place: SocketAddr, sni: Option<&str>) -> Arc<ServerConfig> {
        let asked_for = || vec![sni.map_or_else(|| place.ip().to_string(), str::to_owned)];
        let names = self.certificates.get(&place).cloned().unwrap_or_else(asked_for);
        let trusted = !self.untrusted.contains(&place);
        let mut certificates = CERTIFICATES.lock();
        let config = certificates.entry(Certificate { trusted, names }).or_insert_with_key(|certificate| {
            let names: Vec<_> = certificate.names.iter().map(String::as_str).collect();
            if trusted { TRUSTED.server_config(&names) } else { UNKNOWN.server_config(&names) }
        });
        Arc::clone(config)
    }

    fn reply(&self, request: &SeenRequest) -> Reply {
        let host = request.only("host").to_ascii_lowercase();
        if let Some(reply) = self.pages.get(&(host, request.target.clone())) {
            return reply.clone();
        }
        if let Some(from) = &self.endless {
            let next = request.target.rsplit_once("/hop-").map_or(0, |(_, hop)| hop.parse::<u32>().unwrap() + 1);
            return Reply::redirect(302, &format!("{from}/hop-{next}"));
        }
        if !request.is_federation() {
            let reply = match request.target.as_str() {
                WELL_KNOWN => None,
                target if target.starts_with(LEGACY_MEDIA) => self.legacy.clone(),
                _ => self.elsewhere.clone(),
            };
            return reply.unwrap_or_else(|| Reply::new(404, "not here"));
        }
        let healthy = || {
            let alias = request.target.contains("/query/directory");
            Reply::json(if alias { r#"{"room_id":"!r:a.example","servers":["a.example"]}"# } else { r#"{"chunk":[]}"# })
        };
        self.federation.clone().unwrap_or_else(healthy)
    }
}

struct Shared {
    site: Mutex<Arc<Site>>,
    requests: Mutex<Vec<SeenRequest>>,
    open: AtomicUsize,
    body_bytes: AtomicUsize,
}

/// The servers. They end with their value.
pub(crate) struct Fakes {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Fakes {
    pub(crate) async fn start(site: Site, places: &[SocketAddr]) -> Self {
        let shared = Arc::new(Shared {
            site: Mutex::new(Arc::new(site)),
            requests: Mutex::default(),
            open: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        for place in places {
            let listener = TcpListener::bind(place).await.unwrap_or_else(|error| panic!("{place}: {error}"));
            tasks.spawn(accept(listener, Arc::clone(&shared)));
        }
        Self { shared, tasks }
    }

    /// From now on the servers are this.
    pub(crate) fn become_site(&self, site: Site) {
        *self.shared.site.lock() = Arc::new(site);
    }

    /// All servers are gone, and their connections with them.
    pub(crate) fn kill(&mut self) {
        self.tasks.abort_all();
    }

    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        self.shared.requests.lock().clone()
    }

    pub(crate) fn forget_requests(&self) {
        self.shared.requests.lock().clear();
    }

    /// Connections that are open now.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How much of all bodies the network took.
    pub(crate) fn body_bytes(&self) -> usize {
        self.shared.body_bytes.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        shared.open.fetch_add(1, Ordering::SeqCst);
        connections.spawn(async move {
            let counted = Counted(shared);
            // A peer that gives up half-way is no failure of ours.
            let _ = serve(stream, peer.port(), &counted.0).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// An open connection, for as long as it lives.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(stream: TcpStream, from: u16, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let at = canonical(stream.local_addr()?);
    let site = Arc::clone(&shared.site.lock());
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let sni = hello.client_hello().server_name().map(str::to_owned);
    let tls = site.tls(at, sni.as_deref());
    let mut stream = hello.into_stream(tls).await?;
    let request = read_request(&mut stream, at, from, sni).await?;
    shared.requests.lock().push(request.clone());
    let reply = site.reply(&request);
    if !reply.silent {
        reply.write(&mut stream, &shared.body_bytes).await?;
        // A length that was announced and not sent is still awaited; anything else is over.
        if !reply.headers.iter().any(|(name, _)| name == "content-length") {
            stream.shutdown().await?;
        }
    }
    io::copy(&mut stream, &mut io::sink()).await.map(drop)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    at: SocketAddr,
    from: u16,
    sni: Option<String>,
) -> io::Result<SeenRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).map_err(io::Error::other)?;
    let mut lines = head.trim_end().split("\r\n");
    let mut line = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(SeenRequest { at, from, sni, method, target, headers, body })
}

/// A place where a SYN is not even answered: a listener whose queue is full.
pub(crate) struct BlackHole {
    _listener: socket2::Socket,
    filler: std::net::TcpStream,
}

impl BlackHole {
    pub(crate) fn dig(place: SocketAddr) -> Self {
        let domain = if matches!(place.ip(), IpAddr::V4(_)) { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let listener = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        listener.set_reuse_address(true).unwrap();
        listener.bind(&place.into()).unwrap();
        listener.listen(0).unwrap();
        let filler = std::net::TcpStream::connect(place).unwrap();
        Self { _listener: listener, filler }
    }

    /// The port of the connection that fills the queue.
    pub(crate) fn filler_port(&self) -> u16 {
        self.filler.local_addr().unwrap().port()
    }
}
