//! A homeserver behind, which keeps what it is sent byte for byte and answers from a script; and ours in front of it.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use portcullis::homeserver::assemble::{Assembled, assemble_trusting};
use portcullis::homeserver::config::Config;
use portcullis::homeserver::listener::{Listener, ListenerLimits};
use portcullis::homeserver::long_answers::LongAnswers;
use portcullis::homeserver::request_pool::RequestPool;
use portcullis::homeserver::runtime::HomeserverRuntime;
use portcullis::homeserver::upstream::UpstreamStatus;
use portcullis::outbound::TlsRoots;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::support::patience::PATIENCE;
use crate::support::{PrivateCa, until};

pub(crate) const OWN_NAME: &str = "us.example";
pub(crate) const THREADS: usize = 4;
pub(crate) const LIST: &str = "/_matrix/client/v3/publicRooms";
pub(crate) const WHOAMI: &str = "/_matrix/client/v3/account/whoami";
/// The token of a user of the homeserver behind.
pub(crate) const GOOD: &str = "syt_a_good_one";
/// A file of some other server, which needs a token.
pub(crate) const REMOTE_FILE: &str = "/_matrix/client/v1/media/download/127.0.0.1:1/abc";

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// Method and target: `GET /path`.
    pub(crate) line: String,
    /// In order, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Arrived {
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

/// What it says to a request.
#[derive(Clone)]
pub(crate) enum Says {
    /// These bytes, head included.
    This(Vec<u8>),
    /// Nothing, ever.
    Nothing,
    /// These bytes, and closes.
    ThenCloses(Vec<u8>),
}

/// An answer with a JSON body.
pub(crate) fn json(status: u16, body: &str) -> Says {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    Says::This([head.as_bytes(), body.as_bytes()].concat())
}

type Script = Arc<dyn Fn(&Arrived) -> Says + Send + Sync>;

/// The homeserver behind; ended with the test.
pub(crate) struct Behind {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Arrived>>>,
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Behind {
    /// One that knows [`GOOD`], and answers everything else with what `script` says.
    pub(crate) async fn with(script: impl Fn(&Arrived) -> Says + Send + Sync + 'static) -> Self {
        Self::saying(move |arrived| if arrived.target() == WHOAMI { whoami(arrived) } else { script(arrived) }).await
    }

    /// One that answers everything from `script`.
    pub(crate) async fn saying(script: impl Fn(&Arrived) -> Says + Send + Sync + 'static) -> Self {
        let script: Script = Arc::new(script);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, open) = (Arc::<Mutex<Vec<Arrived>>>::default(), Arc::<AtomicUsize>::default());
        let (keeps, counts) = (Arc::clone(&seen), Arc::clone(&open));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, keeps, counts) = (Arc::clone(&script), Arc::clone(&keeps), Arc::clone(&counts));
                connections.spawn(async move {
                    counts.fetch_add(1, Ordering::SeqCst);
                    // How it ended is the front's business.
                    let _ = serve(stream, &script, &keeps).await;
                    counts.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, seen, open, task }
    }

    /// What arrived, in order.
    pub(crate) fn seen(&self) -> Vec<Arrived> {
        self.seen.lock().clone()
    }

    /// The lines of what arrived, questions about tokens left out.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().filter(|arrived| arrived.target() != WHOAMI).map(|arrived| arrived.line).collect()
    }

    pub(crate) fn questions(&self) -> usize {
        self.seen().iter().filter(|arrived| arrived.target() == WHOAMI).count()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn whoami(arrived: &Arrived) -> Says {
    if arrived.values("authorization") == [format!("Bearer {GOOD}")] {
        json(200, r#"{"user_id":"@a:us.example"}"#)
    } else {
        json(401, r#"{"errcode":"M_UNKNOWN_TOKEN","error":"no","soft_logout":true}"#)
    }
}

async fn serve(mut stream: TcpStream, script: &Script, seen: &Mutex<Vec<Arrived>>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap().strip_suffix(" HTTP/1.1").unwrap().to_owned();
        let headers: Vec<_> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut arrived = Arrived { line, headers, body: Vec::new() };
        assert_eq!(arrived.values("transfer-encoding"), [""; 0], "a body that is there has a length");
        let length: usize = arrived.values("content-length").first().map_or(0, |length| length.parse().unwrap());
        let mut rest = bytes.split_off(head + 4);
        while rest.len() < length {
            if stream.read_buf(&mut rest).await? == 0 {
                return Ok(());
            }
        }
        bytes = rest.split_off(length);
        arrived.body = rest;
        let says = script(&arrived);
        seen.lock().push(arrived);
        match says {
            Says::This(answer) => stream.write_all(&answer).await?,
            Says::ThenCloses(answer) => {
                stream.write_all(&answer).await?;
                return Ok(());
            }
            Says::Nothing => {
                // Until the front gives up.
                while stream.read_buf(&mut bytes).await? != 0 {}
                return Ok(());
            }
        }
    }
}

/// Ours, in front; ended with the test.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    pub(crate) runtime: Arc<HomeserverRuntime>,
    pub(crate) long_answers: LongAnswers,
    pool: Arc<RequestPool>,
    serving: JoinHandle<std::io::Result<()>>,
    looking: Option<JoinHandle<()>>,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In order, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A configuration in front of `upstream`, which may call loopback peers.
pub(crate) fn config(upstream: SocketAddr) -> Config {
    let mut config = Config::without_file();
    config.server_name = OWN_NAME.parse().unwrap();
    config.request_threads = THREADS;
    config.upstream = Some(format!("http://{upstream}").parse().unwrap());
    config.federation.nameservers = vec!["127.0.0.1:9".parse().unwrap()];
    config.federation.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    config
}

impl Front {
    pub(crate) fn of(behind: &Behind) -> Self {
        Self::start(&config(behind.address), &PrivateCa::new())
    }

    pub(crate) fn start(config: &Config, ca: &PrivateCa) -> Self {
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self::start_on(listener, config, ca)
    }

    /// One whose signature is looked after as `serve` does it.
    pub(crate) fn looked_after(config: &Config, ca: &PrivateCa) -> Self {
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self::serve(listener, assembled(config, ca), true)
    }

    pub(crate) fn start_on(listener: Listener, config: &Config, ca: &PrivateCa) -> Self {
        Self::serve(listener, assembled(config, ca), false)
    }

    /// With so many connections and no more.
    pub(crate) fn start_with_connections(max_connections: usize, config: &Config, ca: &PrivateCa) -> Self {
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let assembled = assembled(config, ca);
        let limits = ListenerLimits { max_connections, ..assembled.limits.clone() };
        Self::serve(listener, assembled.within(limits), false)
    }

    fn serve(listener: Listener, assembled: Assembled, looked_after: bool) -> Self {
        let looking = looked_after.then(|| tokio::spawn(assembled.look_after_signature()));
        let handler = assembled.handler();
        let Assembled { runtime, pool, limits, long_answers } = assembled;
        let address = listener.local_addr();
        let serving = tokio::spawn(listener.serve(handler, limits, pending()));
        Self { address, runtime, long_answers, pool, serving, looking }
    }

    /// Sends a request as it is written, from a loopback address of the client's own, and reads the answer whole.
    pub(crate) async fn send(&self, from: [u8; 4], request: &str) -> Answer {
        let mut stream = self.connect(from).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await.expect("no answer came");
        // A cut body ends in a reset, and what came before counts.
        drop(read);
        answer(&heard)
    }

    pub(crate) async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// A request with more header lines, each with its line end.
    pub(crate) async fn ask(&self, from: [u8; 4], line: &str, more: &str) -> Answer {
        self.send(from, &format!("{line} HTTP/1.1\r\nHost: {OWN_NAME}\r\nConnection: close\r\n{more}\r\n")).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask([127, 0, 0, 1], &format!("GET {path}"), "").await
    }

    pub(crate) async fn get_as(&self, path: &str, token: &str) -> Answer {
        self.ask([127, 0, 0, 1], &format!("GET {path}"), &format!("Authorization: Bearer {token}\r\n")).await
    }

    pub(crate) fn status(&self) -> UpstreamStatus {
        self.runtime.upstream().unwrap().status()
    }

    pub(crate) fn idle_threads(&self) -> usize {
        self.pool.idle_threads()
    }

    /// Nothing is in flight any more, and every thread is free.
    pub(crate) async fn comes_to_rest(&self) {
        until("questions out", 0, || self.status().token_questions.in_flight).await;
        until("lists and aliases on their way", 0, || self.status().passed_on.small.in_flight).await;
        until("files on their way", 0, || self.status().passed_on.files.in_flight).await;
        until("requests that wait for an equal question", 0, || self.status().token_waiters.in_flight).await;
        until("long answers", 0, || self.long_answers.status().in_flight).await;
        until("idle threads", THREADS, || self.idle_threads()).await;
    }
}

fn assembled(config: &Config, ca: &PrivateCa) -> Assembled {
    assemble_trusting(config, TlsRoots::only(ca.pem().as_bytes()).unwrap()).unwrap()
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
        if let Some(looking) = &self.looking {
            looking.abort();
        }
    }
}

fn answer(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Answer { status, headers, body: bytes[end + 4..].to_vec() }
}
