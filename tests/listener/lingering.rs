//! Clients that are answered before they have said all: the answer reaches them, and lingering costs nobody a place.

use super::*;

/// More than the system buffers, so that a client that writes first and reads then needs its bytes to be read.
const MEGABYTES: usize = 12 << 20;

fn megabytes(head: &str) -> String {
    format!("{head}\r\n\r\n{}", "a".repeat(MEGABYTES))
}

/// Sends all of `request` before it reads anything; what it hears, and whether the end of it was one.
async fn says_all_first(rig: &Rig, request: &str) -> (String, bool) {
    let mut stream = connect(rig, "127.0.0.1").await;
    timeout(LONG, stream.write_all(request.as_bytes())).await.expect("nobody reads").unwrap();
    let mut heard = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut heard)).await.expect("the server should have closed");
    (String::from_utf8_lossy(&heard).into_owned(), end.is_ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_in_the_middle_of_megabytes_hears_why_it_is_refused() {
    let rig = rig(2, ListenerLimits { linger_time: NEVER, ..patient() });
    let announced = format!("POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: {MEGABYTES}");
    let chunk = format!("POST / HTTP/1.1\r\nHost: us.example\r\nTransfer-Encoding: chunked\r\n\r\n{MEGABYTES:x}");
    let no_host = format!("POST / HTTP/1.1\r\nContent-Length: {MEGABYTES}");
    let endless_line = "GET / HTTP/1.1\r\nHost: us.example\r\nX: ".to_owned() + &"a".repeat(40 * 1024);
    for (head, status) in [(announced, "413"), (chunk, "413"), (no_host, "400"), (endless_line, "431")] {
        let (heard, ended) = says_all_first(&rig, &megabytes(&head)).await;
        let start = head.lines().next().unwrap();
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")) && ended, "{start} {ended}: {heard}");
    }
    assert_eq!(rig.finished(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_body_is_too_slow_hears_it_while_it_drips() {
    let rig = rig(2, ListenerLimits { body_time: Duration::from_millis(200), linger_time: NEVER, ..patient() });
    let (mut reads, mut writes) = connect(&rig, "127.0.0.1").await.into_split();
    writes.write_all(b"POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: 60000\r\n\r\n").await.unwrap();
    let drip = tokio::spawn(async move {
        for _ in 0..300 {
            writes.write_all(b"a").await.unwrap();
            sleep(Duration::from_millis(2)).await;
        }
    });
    let mut heard = String::new();
    timeout(LONG, reads.read_to_string(&mut heard)).await.expect("no answer").unwrap();
    assert!(heard.starts_with("HTTP/1.1 408"), "{heard}");
    drip.await.unwrap();
}

/// It was refused, and neither says anything more nor closes.
async fn refused_and_there(rig: &Rig, from: &str) -> TcpStream {
    let mut stream = connect(rig, from).await;
    stream.write_all(b"POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: 65537\r\n\r\na").await.unwrap();
    assert!(one_answer(&mut stream).await.starts_with("HTTP/1.1 413"));
    // The end of the answers comes before the connection lingers.
    assert_eq!(timeout(LONG, stream.read(&mut [0; 1])).await.expect("no end").unwrap(), 0);
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_lingers_has_its_clients_place_until_its_time_is_over() {
    let limits = ListenerLimits { max_connections_per_client: 1, linger_time: NEVER, ..patient() };
    let rig_that_waits = rig(1, limits.clone());
    let _lingers = refused_and_there(&rig_that_waits, "127.0.0.1").await;
    assert_eq!(exchange(&rig_that_waits, "127.0.0.1", LAST_GET).await, "", "its place is taken");
    assert!(is_answered(&rig_that_waits, "127.0.0.2").await, "and the one request thread is not");
    let rig = rig(1, ListenerLimits { linger_time: Duration::from_millis(200), ..limits });
    let _lingers = refused_and_there(&rig, "127.0.0.1").await;
    answered_soon(&rig, "127.0.0.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_linger_are_the_first_to_go_when_all_places_are_taken() {
    let rig = rig(2, ListenerLimits { max_connections: 4, linger_time: NEVER, ..patient() });
    let mut waits = connect_and_ask(&rig, "127.0.0.1").await;
    let mut lingering = Vec::new();
    for client in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
        lingering.push(refused_and_there(&rig, client).await);
    }
    let mut newcomers = Vec::new();
    for client in ["127.0.0.5", "127.0.0.6", "127.0.0.7"] {
        newcomers.push(connect_and_ask(&rig, client).await);
    }
    waits.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut waits).await.starts_with("HTTP/1.1 200"), "it had waited longest");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_may_go_on_sending_is_bounded() {
    let rig = rig(2, ListenerLimits { linger_time: NEVER, linger_bytes: 100_000, ..patient() });
    let mut stream = connect(&rig, "127.0.0.1").await;
    stream.write_all(b"POST / HTTP/1.1\r\nHost: us.example\r\nContent-Length: 99999999999\r\n\r\n").await.unwrap();
    let sends = async { while stream.write_all(&[b'a'; 10_000]).await.is_ok() {} };
    timeout(LONG, sends).await.expect("it is heard for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_answered_in_full_is_closed_on_at_once() {
    let limits = ListenerLimits { max_connections_per_client: 1, linger_time: NEVER, ..patient() };
    let rig = rig(1, limits);
    let mut stays = connect(&rig, "127.0.0.1").await;
    stays.write_all(LAST_GET.as_bytes()).await.unwrap();
    assert!(until_closed(&mut stays).await.starts_with("HTTP/1.1 200"));
    answered_soon(&rig, "127.0.0.1").await;
}
