//! The listener over real loopback sockets: what a slow, greedy or broken client costs the others. Outcomes, not times.
#![cfg(feature = "server")]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper outside a test function is test code all the same"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use portcullis::homeserver::listener::{Handler, Listener, ListenerLimits};
use portcullis::homeserver::request_pool::RequestPool;
use portcullis::outbound::BoxFuture;
use portcullis::{ResponseBody, TrustedProxies};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

#[cfg(test)]
mod full;
#[cfg(test)]
mod lingering;
#[cfg(test)]
mod streamed;

/// Only a test that fails waits this long.
const LONG: Duration = Duration::from_secs(20);

/// Long enough to be "never" in a test, short enough to end one that fails.
const NEVER: Duration = Duration::from_secs(60);

/// Larger than what the system buffers of an answer that is not read.
const LARGE: usize = 16 << 20;

/// Runs every request on a pool: `/` is answered at once, `/held` when the test says so, `/large` with [`LARGE`] bytes,
/// `/small` with as many as are not counted.
struct Pooled {
    pool: Arc<RequestPool>,
    held: Arc<Semaphore>,
    started: Arc<AtomicUsize>,
    finished: Arc<AtomicUsize>,
}

impl Handler for Pooled {
    fn handle(&self, _peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let (say, hear) = oneshot::channel();
        let (held, started, finished) = (Arc::clone(&self.held), Arc::clone(&self.started), Arc::clone(&self.finished));
        let runtime = tokio::runtime::Handle::current();
        self.pool
            .try_run(move || {
                started.fetch_add(1, Ordering::SeqCst);
                let body = match request.uri().path() {
                    "/held" => {
                        runtime.block_on(held.acquire()).unwrap().forget();
                        Bytes::from_static(b"held")
                    }
                    "/large" => Bytes::from(vec![b'x'; LARGE]),
                    "/small" => Bytes::from(vec![b'x'; 14 * 1024]),
                    _ => Bytes::from(format!("{} bytes", request.body().len())),
                };
                finished.fetch_add(1, Ordering::SeqCst);
                let _ = say.send(Response::new(ResponseBody::from(body)));
            })
            .unwrap();
        Box::pin(async { hear.await.unwrap() })
    }
}

struct Rig {
    address: SocketAddr,
    held: Arc<Semaphore>,
    started: Arc<AtomicUsize>,
    finished: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
    /// Its end waits for its threads: it must come after the listener's.
    _pool: Arc<RequestPool>,
}

fn rig(threads: usize, limits: ListenerLimits) -> Rig {
    let held = Arc::new(Semaphore::new(0));
    let (started, finished) = (Arc::default(), Arc::default());
    let pool = Arc::new(RequestPool::start(threads, 64).unwrap());
    let handler = Arc::new(Pooled {
        pool: Arc::clone(&pool),
        held: Arc::clone(&held),
        started: Arc::clone(&started),
        finished: Arc::clone(&finished),
    });
    let mut rig = rig_around(handler, pool, limits);
    (rig.held, rig.started, rig.finished) = (held, started, finished);
    rig
}

fn rig_around(handler: Arc<dyn Handler>, pool: Arc<RequestPool>, limits: ListenerLimits) -> Rig {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listener.serve(handler, limits, async {
        let _ = stopped.await;
    }));
    let (held, started, finished) = (Arc::new(Semaphore::new(0)), Arc::default(), Arc::default());
    Rig { address, held, started, finished, stop: Some(stop), serving, _pool: pool }
}

impl Drop for Rig {
    /// Lets every held request go, so that a test that fails ends too.
    fn drop(&mut self) {
        self.held.add_permits(64);
    }
}

impl Rig {
    fn finished(&self) -> usize {
        self.finished.load(Ordering::SeqCst)
    }

    async fn until_started(&self, requests: usize) {
        self.until(&self.started, requests).await;
    }

    async fn until_finished(&self, requests: usize) {
        self.until(&self.finished, requests).await;
    }

    async fn until(&self, counter: &AtomicUsize, requests: usize) {
        let enough = async {
            while counter.load(Ordering::SeqCst) < requests {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LONG, enough).await.expect("the request never got there");
    }
}

/// Limits under which nothing ends by itself.
fn patient() -> ListenerLimits {
    ListenerLimits { head_time: NEVER, body_time: NEVER, answer_time: NEVER, ..ListenerLimits::default() }
}

async fn connect(rig: &Rig, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    socket.connect(rig.address).await.unwrap()
}

/// Says all of `request` and hears everything until the server closes.
async fn exchange(rig: &Rig, from: &str, request: &str) -> String {
    let mut stream = connect(rig, from).await;
    // A server that refuses early may close before it has heard everything.
    let _ = stream.write_all(request.as_bytes()).await;
    until_closed(&mut stream).await
}

async fn until_closed(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    // A reset after the answer is an end like any other.
    let _ = timeout(LONG, stream.read_to_end(&mut heard)).await.expect("the server should have closed");
    String::from_utf8_lossy(&heard).into_owned()
}

/// One answer on a connection that stays open.
async fn one_answer(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let read = timeout(LONG, stream.read_buf(&mut heard)).await.expect("an answer should have come").unwrap();
        assert_ne!(read, 0, "closed after {text:?}");
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: us.example\r\n\r\n";
const GET_HELD: &str = "GET /held HTTP/1.1\r\nHost: us.example\r\n\r\n";
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: us.example\r\n\r\n";
const LAST_GET: &str = "GET / HTTP/1.1\r\nHost: us.example\r\nConnection: close\r\n\r\n";

/// A kept-alive connection that has been answered once.
async fn connect_and_ask(rig: &Rig, from: &str) -> TcpStream {
    let mut stream = connect(rig, from).await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    stream
}

async fn is_answered(rig: &Rig, from: &str) -> bool {
    exchange(rig, from, LAST_GET).await.starts_with("HTTP/1.1 200")
}

/// Asks again until it is answered: a connection that ended is noticed by the server a moment later.
async fn answered_soon(rig: &Rig, from: &str) {
    let ask = async {
        while !is_answered(rig, from).await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, ask).await.expect("never answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn t01_a_third_connection_of_one_client_is_closed_and_closing_one_frees_its_place() {
    let rig = rig(2, ListenerLimits { max_connections_per_client: 2, ..patient() });
    let first = connect_and_ask(&rig, "127.0.0.1").await;
    let _second = connect_and_ask(&rig, "127.0.0.1").await;
    assert_eq!(exchange(&rig, "127.0.0.1", LAST_GET).await, "");
    assert!(is_answered(&rig, "127.0.0.2").await);
    drop(first);
    answered_soon(&rig, "127.0.0.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t02_a_client_that_idles_trickles_and_keeps_alive_costs_the_others_no_thread() {
    let rig = rig(4, ListenerLimits { body_time: Duration::from_millis(700), ..patient() });
    let mut slow = Vec::new();
    let mut trickles = Vec::new();
    for _ in 0..8 {
        slow.push(connect(&rig, "127.0.0.1").await); // idles
        slow.push(connect_and_ask(&rig, "127.0.0.1").await); // kept alive
        let mut in_the_head = connect(&rig, "127.0.0.1").await;
        in_the_head.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        slow.push(in_the_head);
        let mut trickle = connect(&rig, "127.0.0.1").await;
        trickle.write_all(b"POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: 100\r\n\r\nabc").await.unwrap();
        trickles.push(trickle);
    }
    assert!(is_answered(&rig, "127.0.0.2").await);
    for mut trickle in trickles {
        assert!(until_closed(&mut trickle).await.starts_with("HTTP/1.1 408"));
    }
    assert_eq!(rig.finished(), 9, "a thread saw a request that was not whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_a_listed_proxy_is_exempt_from_the_cap_per_client() {
    let trusted_proxies = TrustedProxies::new(["127.0.0.3/32".parse().unwrap()]);
    let rig = rig(2, ListenerLimits { max_connections_per_client: 1, trusted_proxies, ..patient() });
    let _client = connect_and_ask(&rig, "127.0.0.1").await;
    let _proxy = connect_and_ask(&rig, "127.0.0.3").await;
    assert_eq!(exchange(&rig, "127.0.0.1", LAST_GET).await, "");
    assert!(is_answered(&rig, "127.0.0.3").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn t05_the_last_request_of_a_connection_is_told_so_and_it_is_closed() {
    let rig = rig(2, ListenerLimits { max_requests_per_connection: 3, ..patient() });
    let mut stream = connect(&rig, "127.0.0.1").await;
    for _ in 0..2 {
        stream.write_all(GET.as_bytes()).await.unwrap();
        assert!(!one_answer(&mut stream).await.to_lowercase().contains("connection: close"));
    }
    stream.write_all(GET.as_bytes()).await.unwrap();
    let last = until_closed(&mut stream).await;
    assert!(last.starts_with("HTTP/1.1 200") && last.to_lowercase().contains("connection: close"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_before_a_thread_sees_it() {
    let rig = rig(2, patient());
    let long_head = format!("GET / HTTP/1.1\r\nHost: us.example\r\nX-Long: {}\r\n\r\n", "a".repeat(40 * 1024));
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: us.example\r\n\r\n", "a".repeat(40 * 1024));
    let many_lines = format!("GET / HTTP/1.1\r\nHost: us.example\r\n{}\r\n", "X-A: a\r\n".repeat(100));
    for (what, request) in [("head", long_head), ("path", long_path), ("lines", many_lines)] {
        let heard = exchange(&rig, "127.0.0.1", &request).await;
        assert!(heard.starts_with("HTTP/1.1 431"), "{what}: {heard}");
    }
    let announced = "POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: 65537\r\n\r\n".to_owned();
    let chunk = format!("10001\r\n{}\r\n0\r\n\r\n", "a".repeat(0x10001));
    let chunked = format!("POST / HTTP/1.1\r\nHost: us.example\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    for request in [announced, chunked] {
        let heard = exchange(&rig, "127.0.0.1", &request).await;
        assert!(heard.starts_with("HTTP/1.1 413"), "{heard}");
        assert!(heard.contains("M_TOO_LARGE") && heard.contains("access-control-allow-origin: *"), "{heard}");
    }
    assert_eq!(rig.finished(), 0);
    let head = "POST / HTTP/1.1\r\nHost: us.example\r\nConnection: close\r\nContent-Length: 65536\r\n\r\n";
    let largest = format!("{head}{}", "a".repeat(65536));
    assert!(exchange(&rig, "127.0.0.1", &largest).await.ends_with("65536 bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_exactly_one_host_is_refused() {
    let rig = rig(2, patient());
    for host in ["", "Host: a\r\nHost: b\r\n", "Host:\r\n"] {
        let heard = exchange(&rig, "127.0.0.1", &format!("GET / HTTP/1.1\r\n{host}\r\n")).await;
        assert!(heard.starts_with("HTTP/1.1 400"), "{host:?}: {heard}");
    }
    assert_eq!(rig.finished(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_a_dripping_and_an_idle_connection_end_by_the_clock_of_the_head() {
    let rig = rig(2, ListenerLimits { head_time: Duration::from_millis(300), ..patient() });
    let mut silent = connect(&rig, "127.0.0.1").await;
    let mut idle = connect(&rig, "127.0.0.1").await;
    idle.write_all(GET.as_bytes()).await.unwrap();
    let (mut reads, mut writes) = connect(&rig, "127.0.0.1").await.into_split();
    let drip = tokio::spawn(async move {
        while writes.write_all(b"G").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    let mut heard = Vec::new();
    let _ = timeout(LONG, reads.read_to_end(&mut heard)).await.expect("the drip should have been closed");
    drip.await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    assert!(until_closed(&mut idle).await.ends_with("0 bytes"));
    assert_eq!(rig.finished(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_head_has_no_body() {
    let rig = rig(2, patient());
    let asked = "HEAD / HTTP/1.1\r\nHost: us.example\r\nConnection: close\r\n\r\n";
    let answer = exchange(&rig, "127.0.0.1", asked).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_holds_no_thread_and_is_closed() {
    let answer_time = Duration::from_millis(700);
    let rig = rig(1, ListenerLimits { max_connections_per_client: 1, answer_time, ..patient() });
    let mut never_reads = connect(&rig, "127.0.0.1").await;
    never_reads.write_all(GET_LARGE.as_bytes()).await.unwrap();
    rig.until_finished(1).await;
    assert!(is_answered(&rig, "127.0.0.2").await);
    // Its one place comes back although it never closed.
    answered_soon(&rig, "127.0.0.1").await;
    drop(never_reads);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_does_not_end_the_work() {
    let rig = rig(1, patient());
    let mut stream = connect(&rig, "127.0.0.1").await;
    stream.write_all(GET_HELD.as_bytes()).await.unwrap();
    rig.until_started(1).await;
    drop(stream);
    rig.held.add_permits(1);
    rig.until_finished(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_half_still_hears_the_answer() {
    let rig = rig(1, patient());
    let mut stream = connect(&rig, "127.0.0.1").await;
    stream.write_all(GET_HELD.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    rig.until_started(1).await;
    sleep(Duration::from_millis(50)).await;
    rig.held.add_permits(1);
    assert!(until_closed(&mut stream).await.ends_with("held"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_answers_what_is_in_flight_and_takes_nothing_new() {
    let mut rig = rig(2, ListenerLimits { drain_time: NEVER, ..patient() });
    let mut idle = connect_and_ask(&rig, "127.0.0.1").await;
    let fresh = connect(&rig, "127.0.0.1").await;
    let mut in_flight = connect(&rig, "127.0.0.1").await;
    in_flight.write_all(GET_HELD.as_bytes()).await.unwrap();
    rig.until_started(2).await; // the fresh one, connected earlier, has been accepted by now
    rig.stop.take().unwrap().send(()).unwrap();
    assert_eq!(until_closed(&mut idle).await, "");
    assert!(TcpStream::connect(rig.address).await.is_err());
    rig.held.add_permits(1);
    assert!(until_closed(&mut in_flight).await.ends_with("held"));
    timeout(LONG, &mut rig.serving).await.expect("a silent connection kept the listener up").unwrap().unwrap();
    drop(fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_does_not_wait_for_ever() {
    let mut rig = rig(1, ListenerLimits { drain_time: Duration::from_millis(100), ..patient() });
    let mut stuck = connect(&rig, "127.0.0.1").await;
    stuck.write_all(GET_HELD.as_bytes()).await.unwrap();
    rig.until_started(1).await;
    rig.stop.take().unwrap().send(()).unwrap();
    timeout(LONG, &mut rig.serving).await.expect("never stopped").unwrap().unwrap();
    assert_eq!(until_closed(&mut stuck).await, "");
}
