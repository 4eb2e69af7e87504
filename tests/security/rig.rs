//! What the findings share: an outside world that keeps count, the library in it, and a homeserver on real sockets.

pub(crate) mod media;
mod name_server;

use std::collections::HashMap;
use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use portcullis::homeserver::assemble::{Assembled, assemble};
use portcullis::homeserver::config::Config;
use portcullis::homeserver::embedded::EmbeddedHomeserver;
use portcullis::homeserver::listener::{Handler, Listener, ListenerLimits};
use portcullis::homeserver::long_answers::LongAnswers;
use portcullis::homeserver::pooled::PooledHomeserver;
use portcullis::homeserver::request_pool::RequestPool;
use portcullis::homeserver::router::Router;
use portcullis::homeserver::runtime::HomeserverRuntime;
use portcullis::local_view::{AliasAnswer, InvalidPageToken, LocalView, RoomListPage, TokenAnswer};
use portcullis::outbound::{
    AddressPolicy, Attempt, BoxFuture, Discovery, DnsError, Ed25519Signer, FederationClient, HttpsTransport,
    RemoteBody, Resolve, SrvRecord, SrvService, TlsRoots, Transport, TransportError, TransportPhase,
};
use portcullis::{
    DnsName, OutboundDeadline, Portcullis, PortcullisBuilder, RemoteTimeout, ResponseBody, RoomAlias, RoomListQuery,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub(crate) use self::name_server::NameServer;
use crate::support::{PrivateCa, json_answer};

/// Only a test that fails waits this long.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// Who we are.
pub(crate) const OWN_NAME: &str = "us.example";
/// The smallest room list, as a remote sends it.
pub(crate) const NO_ROOMS: &str = r#"{"chunk":[]}"#;
/// A public address: allowed unless a rule says otherwise.
pub(crate) const PUBLIC: &str = "44.128.10.1";

/// A DNS without a network, which keeps count.
#[derive(Default)]
pub(crate) struct Names {
    /// Successive answers for a name; the last one stays.
    addresses: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    /// The answer for every name that is not in the table; `None`: no such name.
    otherwise: Option<IpAddr>,
    asked: AtomicUsize,
}

impl Names {
    /// Knows no name.
    pub(crate) fn none() -> Arc<Self> {
        Arc::default()
    }

    /// Answers each question for a name with the next of its answers.
    pub(crate) fn of(table: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let answers = |answers: &[&[&str]]| {
            answers.iter().map(|set| set.iter().map(|text| text.parse().unwrap()).collect()).collect()
        };
        let addresses = table.iter().map(|(name, sets)| ((*name).to_owned(), answers(sets))).collect();
        Arc::new(Self { addresses: Mutex::new(addresses), ..Self::default() })
    }

    /// Every name leads to one address.
    pub(crate) fn all_at(address: IpAddr) -> Arc<Self> {
        Arc::new(Self { otherwise: Some(address), ..Self::default() })
    }

    /// Questions so far, of either kind.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn answer(&self, name: &DnsName) -> Result<Vec<IpAddr>, DnsError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut addresses = self.addresses.lock();
        match addresses.get_mut(name.as_str()) {
            Some(sets) if sets.len() > 1 => Ok(sets.remove(0)),
            Some(sets) => Ok(sets[0].clone()),
            None => self.otherwise.map(|address| vec![address]).ok_or(DnsError::NoRecords),
        }
    }
}

impl Resolve for Names {
    fn addresses<'a>(&'a self, name: &'a DnsName, _: OutboundDeadline) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        Box::pin(async move { self.answer(name) })
    }

    fn service<'a>(
        &'a self,
        _: SrvService,
        _: &'a DnsName,
        _: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(DnsError::NoRecords) })
    }
}

/// What the outside does with a request that reaches it.
#[derive(Clone)]
pub(crate) enum Does {
    /// Answers 200 with this body.
    Answers(&'static str),
    /// Answers 405 to POST, and 200 with this body to anything else.
    KnowsNoPost(&'static str),
    /// Answers with a redirect to this.
    Redirects(&'static str),
    /// Nobody is there.
    Refuses,
    /// Never says anything.
    NothingEver,
    /// Answers [`NO_ROOMS`] once the test adds a permit.
    Waits(Arc<Semaphore>),
    /// The code that makes the call is broken.
    Panics,
    /// The code that makes the call does not yield until the test adds a permit.
    NeverYields(Arc<Semaphore>),
}

/// A transport without a network: keeps what it was given, and does as it was told.
pub(crate) struct Outside {
    does: Box<dyn Fn(&Attempt) -> Does + Send + Sync>,
    dialled: Mutex<Vec<Dialled>>,
}

/// One attempt, as it reached the transport.
#[derive(Clone, Debug)]
pub(crate) struct Dialled {
    pub(crate) address: SocketAddr,
    pub(crate) headers: HeaderMap,
}

impl Outside {
    pub(crate) fn that(does: Does) -> Arc<Self> {
        Self::by(move |_| does.clone())
    }

    pub(crate) fn by(does: impl Fn(&Attempt) -> Does + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { does: Box::new(does), dialled: Mutex::default() })
    }

    pub(crate) fn dialled(&self) -> Vec<Dialled> {
        self.dialled.lock().clone()
    }

    /// Where it connected to, in order.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.dialled.lock().iter().map(|dialled| dialled.address).collect()
    }
}

impl Transport for Outside {
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<Response<RemoteBody>, TransportError>> {
        let address = attempt.address.socket_addr();
        self.dialled.lock().push(Dialled { address, headers: attempt.request.headers().clone() });
        let does = (self.does)(&attempt);
        let posted = attempt.request.method() == Method::POST;
        let silent = TransportError { phase: TransportPhase::Send, timed_out: true };
        Box::pin(async move {
            match does {
                Does::KnowsNoPost(_) if posted => Ok(response(405, None, "")),
                Does::Answers(body) | Does::KnowsNoPost(body) => Ok(response(200, None, body)),
                Does::Redirects(location) => Ok(response(302, Some(location), "")),
                Does::Refuses => Err(TransportError { phase: TransportPhase::Connect, timed_out: false }),
                Does::NothingEver => deadline.cut(pending()).await.unwrap_or(Err(silent)),
                Does::Waits(permits) => {
                    permits.acquire().await.unwrap().forget();
                    Ok(response(200, None, NO_ROOMS))
                }
                Does::Panics => panic!("on purpose"),
                Does::NeverYields(permits) => {
                    // Blocks the thread, as no future should.
                    while permits.try_acquire().is_err() {
                        std::thread::park_timeout(Duration::from_millis(1));
                    }
                    Err(silent)
                }
            }
        })
    }
}

fn response(status: u16, location: Option<&str>, body: &'static str) -> Response<RemoteBody> {
    let body = RemoteBody::new(Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}));
    let mut response = Response::builder().status(status);
    if let Some(location) = location {
        response = response.header("location", location);
    }
    response.body(body).unwrap()
}

/// The library for a pool of `threads`, in a world of the test's own.
pub(crate) fn portcullis(
    threads: usize,
    resolver: Arc<dyn Resolve>,
    transport: Arc<dyn Transport>,
    policy: AddressPolicy,
) -> PortcullisBuilder {
    let own_name = || OWN_NAME.parse().unwrap();
    let user_agent = HeaderValue::from_static("portcullis-test");
    let discovery = Discovery::new(own_name(), resolver, transport, policy, user_agent);
    let signer = Arc::new(Ed25519Signer::generate(own_name()));
    Portcullis::builder(FederationClient::new(signer, discovery).unwrap(), threads)
}

/// The library for a pool of eight under the default address policy.
pub(crate) fn portcullis_of_eight(names: &Arc<Names>, outside: &Arc<Outside>) -> Portcullis {
    portcullis(8, names.clone(), outside.clone(), AddressPolicy::default()).build().unwrap()
}

/// The real transport, trusting `ca` alone.
pub(crate) fn https(ca: &PrivateCa) -> Arc<HttpsTransport> {
    Arc::new(HttpsTransport::new(TlsRoots::only(ca.pem().as_bytes()).unwrap()).unwrap())
}

/// The default policy with these networks carved out.
pub(crate) fn allowing(networks: &[&str]) -> AddressPolicy {
    AddressPolicy::default().allow(networks.iter().map(|network| network.parse().unwrap())).unwrap()
}

/// A homeserver with one user, one alias and no rooms.
pub(crate) struct Home;

impl LocalView for Home {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        (token == "secret-token").then(|| "@user:us.example".to_owned()).into()
    }

    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
        let ours = alias.as_str().starts_with("#here:");
        ours.then(|| AliasAnswer { room_id: "!here".to_owned(), servers: vec![OWN_NAME.to_owned()] })
    }

    fn public_rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        Ok(RoomListPage::default())
    }
}

/// The path of `server`'s room list. A page of its own per `page`, so that no two questions share an answer.
pub(crate) fn list_of(server: &str, page: usize) -> String {
    format!("/_matrix/client/v3/publicRooms?server={server}&limit={page}")
}

pub(crate) fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

/// The `n`th client.
pub(crate) fn client(n: u8) -> IpAddr {
    [198, 51, 100, n].into()
}

/// Asks the library as client `n`: status, and the text of the body.
pub(crate) async fn ask(portcullis: &Portcullis, n: u8, path: &str) -> (u16, String) {
    read(portcullis.handle(&Home, client(n), &get(path)).await.unwrap()).await
}

pub(crate) async fn read(response: Response<ResponseBody>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// No slot is held, and nothing is remembered of whoever held one.
pub(crate) fn assert_at_rest(portcullis: &Portcullis) {
    let budget = portcullis.admission().budget();
    assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0), "a slot leaked");
}

/// Waits for what has to happen.
///
/// # Panics
/// If it does not.
pub(crate) async fn until(what: &str, happened: impl Fn() -> bool) {
    let waiting = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LONG, waiting).await.is_ok(), "never happened: {what}");
}

/// The reference homeserver on a loopback port; ended with the test.
pub(crate) struct Homeserver {
    pub(crate) address: SocketAddr,
    pub(crate) runtime: Arc<HomeserverRuntime>,
    pub(crate) pool: Arc<RequestPool>,
    serving: JoinHandle<std::io::Result<()>>,
}

/// A configuration for a homeserver of `threads` that may call loopback peers with certificates of `ca`, whose lookups
/// take `deadline` at most, and whose name server is `name_server`.
pub(crate) fn config(threads: usize, deadline: Duration, ca: Option<&CaFile>, name_server: SocketAddr) -> Config {
    let mut config = Config::without_file();
    config.server_name = OWN_NAME.parse().unwrap();
    config.request_threads = threads;
    config.federation.remote_timeout = Some(RemoteTimeout::new(deadline).unwrap());
    config.federation.extra_ca_file = ca.map(|ca| ca.0.path().to_owned());
    config.federation.nameservers = vec![name_server];
    config.federation.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    config
}

/// A certificate authority's certificate on disk, removed with the test.
pub(crate) struct CaFile(tempfile::NamedTempFile);

impl CaFile {
    pub(crate) fn of(ca: &PrivateCa) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), ca.pem()).unwrap();
        Self(file)
    }
}

/// Where no name server is: nothing of the test asks a name.
pub(crate) fn no_name_server() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

impl Homeserver {
    /// Put together as `portcullis serve` does it.
    pub(crate) fn start(config: &Config) -> Self {
        Self::start_within(config, |limits| limits)
    }

    /// The same, with other limits of the listener.
    pub(crate) fn start_within(config: &Config, limits: impl FnOnce(ListenerLimits) -> ListenerLimits) -> Self {
        let assembled = assemble(config).unwrap();
        let limits = limits(assembled.limits.clone());
        let assembled = assembled.within(limits);
        let handler = assembled.handler();
        let Assembled { runtime, pool, limits, .. } = assembled;
        Self::serve(runtime, pool, handler, limits)
    }

    /// With a library of the test's own on a pool of `threads`.
    pub(crate) fn around(portcullis: Portcullis, threads: usize) -> Self {
        let state = EmbeddedHomeserver::new(&Config::without_file());
        let signer = Arc::new(Ed25519Signer::generate(OWN_NAME.parse().unwrap()));
        let router = Router::new(OWN_NAME.parse().unwrap(), signer);
        let runtime = Arc::new(HomeserverRuntime::new(state, portcullis, router));
        let pool = Arc::new(RequestPool::start(threads, 64).unwrap());
        let limits = ListenerLimits::default();
        let long_answers = LongAnswers::within(&limits, runtime.client_outbound_proxy_policy().global_cap());
        let handler = Arc::new(PooledHomeserver::new(Arc::clone(&runtime), Arc::clone(&pool), long_answers));
        Self::serve(runtime, pool, handler, limits)
    }

    fn serve(
        runtime: Arc<HomeserverRuntime>,
        pool: Arc<RequestPool>,
        handler: Arc<dyn Handler>,
        limits: ListenerLimits,
    ) -> Self {
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr();
        let serving = tokio::spawn(listener.serve(handler, limits, pending()));
        Self { address, runtime, pool, serving }
    }

    /// A connection from a loopback address of the client's own.
    pub(crate) async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// One request from `from`.
    pub(crate) async fn get(&self, from: [u8; 4], path: &str) -> Answer {
        self.get_with(from, path, "").await
    }

    /// One request with more header lines, each with its line end.
    pub(crate) async fn get_with(&self, from: [u8; 4], path: &str, lines: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {OWN_NAME}\r\nConnection: close\r\n{lines}\r\n");
        let mut stream = self.connect(from).await;
        // A server that refuses early may close before it has heard everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut heard = Vec::new();
        // A reset after the answer is an end like any other.
        let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut heard)).await.expect("no answer came");
        Answer::of(&String::from_utf8(heard).unwrap())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.runtime.client_outbound_budget().in_flight()
    }

    /// Every slot and every thread comes back.
    pub(crate) async fn comes_to_rest(&self, threads: usize) {
        until("the slots are free", || self.in_flight() == 0).await;
        until("the threads are idle", || self.pool.idle_threads() == threads).await;
        assert_eq!(self.runtime.client_outbound_budget().tracked_keys(), 0);
        assert_eq!(self.runtime.outbound().status().federation_worker.overruns, 0);
    }
}

impl Drop for Homeserver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An answer as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Header lines but the date, in order.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter(|line| !line.starts_with("date:")).map(str::to_owned).collect();
        Self { status, headers, body: body.to_owned() }
    }
}

/// An answer of a remote with a room list.
pub(crate) fn room_list() -> Vec<u8> {
    json_answer(200, NO_ROOMS)
}

/// Runs one test of this binary, which is ignored otherwise, in a process of its own with these variables.
///
/// # Panics
/// If it fails, or does not run; with what it said.
pub(crate) async fn in_a_process_of_its_own(test: &str, variables: &[(&str, &str)]) -> String {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--ignored", "--exact", "--nocapture", test]);
    child.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    child.env_remove("NO_PROXY").env_remove("no_proxy").envs(variables.iter().copied());
    let output = child.output().await.unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    said
}
