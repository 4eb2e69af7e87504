//! What is passed on, both ways.
//!
//! *Unplug:* `without_hop_by_hop` (`src/homeserver/upstream/client.rs`): `what_is_for_one_connection_…` fails. The
//! `PacedBody`, collected whole first: `a_file_comes_while_it_is_sent` waits for ever. Copy all headers in `rebuild`:
//! `the_homeserver_hears_where_the_client_is_…` fails. Leave out the bounds in `UpstreamClient`: `heads_without_end_…` fails.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::rig::{Behind, Front, GOOD, LIST, Says, config, json};
use crate::support::PrivateCa;
use crate::support::until;

const FILE: &str = "/_matrix/client/v1/media/download/us.example/abc";

fn saying(answer: &'static str) -> impl Fn(&crate::rig::Arrived) -> Says + Send + Sync + 'static {
    move |_| Says::This(answer.as_bytes().to_vec())
}

#[tokio::test]
async fn an_answer_comes_as_it_is_whatever_its_status() {
    for (status, body) in [
        (200, r#"{"chunk":[]}"#),
        (404, r#"{"errcode":"M_NOT_FOUND","error":"x"}"#),
        (401, r#"{"errcode":"M_MISSING_TOKEN","error":"x"}"#),
        (429, r#"{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":7}"#),
        (500, "<html>"),
    ] {
        let behind = Behind::with(move |_| json(status, body)).await;
        let answer = Front::of(&behind).get(LIST).await;
        assert_eq!((answer.status, answer.text()), (status, body));
        assert_eq!(answer.header("content-length").unwrap(), body.len().to_string());
        for name in ["origin", "methods", "headers"] {
            assert!(answer.header(&format!("access-control-allow-{name}")).is_some(), "{name}, {status}");
        }
    }
}

#[tokio::test]
async fn what_is_for_one_connection_stays_there_and_the_rest_comes_through() {
    let behind = Behind::with(saying(
        "HTTP/1.1 206 X\r\nConnection: X-Own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nContent-Type: \
         image/png\r\nContent-Range: bytes 0-2/9\r\nETag: \"1\"\r\nAccess-Control-Allow-Origin: \
         https://app.example\r\nContent-Length: 3\r\n\r\nabc",
    ))
    .await;
    let front = Front::of(&behind);
    let answer = front.ask([127, 0, 0, 1], &format!("GET {FILE}"), "Range: bytes=0-2\r\nIf-Range: \"1\"\r\n").await;
    assert_eq!((answer.status, answer.text()), (206, "abc"));
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-range", "bytes 0-2/9"),
        ("etag", "\"1\""),
        ("content-length", "3"),
        ("access-control-allow-origin", "https://app.example"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
    assert_eq!((answer.header("x-own"), answer.header("keep-alive")), (None, None));
    let arrived = behind.seen().pop().unwrap();
    assert_eq!((arrived.values("range"), arrived.values("if-range")), (vec!["bytes=0-2"], vec!["\"1\""]));
}

#[tokio::test]
async fn the_homeserver_hears_where_the_client_is_as_far_as_that_is_known() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let mut config = config(behind.address);
    config.trusted_proxies = vec!["127.0.0.9/32".parse().unwrap()];
    let front = Front::start(&config, &PrivateCa::new());
    let said = "X-Forwarded-For: 1.1.1.1, 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: \
                for=1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\nTE: trailers\r\nUpgrade: \
                h2c\r\nUser-Agent: client/1\r\nX-HTTP-Method-Override: DELETE\r\n";
    for (from, forwarded_for, proto) in
        [([127, 0, 0, 9], "203.0.113.7", vec!["https"]), ([127, 0, 0, 8], "127.0.0.8", vec![])]
    {
        front.ask(from, &format!("GET {LIST}"), said).await;
        let arrived = behind.seen().pop().unwrap();
        let mut names: Vec<_> = arrived.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let mut expected = vec!["accept", "accept-encoding", "host", "user-agent", "via", "x-forwarded-for"];
        expected.extend(proto.iter().map(|_| "x-forwarded-proto"));
        // The HTTP library says that it takes anything where the client did not say what it takes.
        assert_eq!(names, expected);
        assert_eq!(arrived.values("x-forwarded-for"), [forwarded_for]);
        assert_eq!(arrived.values("x-forwarded-proto"), proto);
        assert_eq!(arrived.values("accept-encoding"), ["identity"]);
        assert_eq!(arrived.values("user-agent"), ["client/1"]);
        assert_eq!(arrived.values("host"), [behind.address.to_string()]);
    }
}

#[tokio::test]
async fn a_token_goes_along_whole_and_is_not_asked_about() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    for line in [
        format!("POST {LIST}"),
        format!("GET {FILE}"),
        "PUT /_matrix/client/v3/directory/room/%23a:us.example".to_owned(),
    ] {
        front.ask([127, 0, 0, 1], &line, &format!("Authorization: Bearer {GOOD}\r\n")).await;
        let arrived = behind.seen().pop().unwrap();
        assert_eq!(arrived.values("authorization"), [format!("Bearer {GOOD}")], "{line}");
    }
    front.get(&format!("{LIST}?access_token={GOOD}&limit=1")).await;
    assert_eq!(behind.lines().pop().unwrap(), format!("GET {LIST}?limit=1"), "a token in a query ends in logs");
    assert_eq!(behind.questions(), 0);
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let behind =
        Behind::with(saying("HTTP/1.1 200 X\r\nContent-Type: image/png\r\nContent-Length: 123456\r\n\r\n")).await;
    let front = Front::of(&behind);
    let answer = front.ask([127, 0, 0, 1], &format!("HEAD {FILE}"), "").await;
    assert_eq!((answer.status, answer.header("content-length"), answer.text()), (200, Some("123456"), ""));
    front.comes_to_rest().await;
}

#[tokio::test]
async fn a_redirect_is_the_clients_to_follow() {
    let behind =
        Behind::with(saying("HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n")).await;
    let answer = Front::of(&behind).get(FILE).await;
    assert_eq!((answer.status, answer.header("location")), (307, Some("http://127.0.0.1:1/x")));
    assert_eq!(behind.lines().len(), 1);
}

#[tokio::test]
async fn an_answer_that_ends_early_does_not_end_well() {
    let cut = b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nfour".to_vec();
    let behind = Behind::with(move |_| Says::ThenCloses(cut.clone())).await;
    let front = Front::of(&behind);
    let answer = front.get(FILE).await;
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("9")));
    assert!(answer.body.len() < 9);
    front.comes_to_rest().await;
    let cut = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n".to_vec();
    let behind = Behind::with(move |_| Says::ThenCloses(cut.clone())).await;
    let answer = Front::of(&behind).get(FILE).await;
    assert!(answer.status == 200 && !answer.text().contains("\r\n0\r\n"), "{answer:?}");
}

#[tokio::test]
async fn heads_without_end_are_not_passed_on() {
    for lines in [300, 257] {
        let many = "X-A: b\r\n".repeat(lines);
        let answer = format!("HTTP/1.1 200 X\r\n{many}Content-Length: 0\r\n\r\n").into_bytes();
        let behind = Behind::with(move |_| Says::This(answer.clone())).await;
        assert_eq!(Front::of(&behind).get(LIST).await.status, 502, "{lines} lines");
    }
    let large = format!("HTTP/1.1 200 X\r\nX-A: {}\r\nContent-Length: 0\r\n\r\n", "b".repeat(70_000)).into_bytes();
    let behind = Behind::with(move |_| Says::This(large.clone())).await;
    let answer = Front::of(&behind).get(LIST).await;
    assert_eq!(answer.status, 502);
    assert!(answer.text().starts_with(r#"{"errcode":"M_UNKNOWN","error":"The homeserver does not answer"#));
}

#[tokio::test]
async fn a_file_comes_while_it_is_sent_and_is_nowhere_held_whole() {
    const PIECE: usize = 64 * 1024;
    const PIECES: usize = 64;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let go = Arc::new(Semaphore::new(0));
    let may = Arc::clone(&go);
    let behind = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await.unwrap();
        let head = format!("HTTP/1.1 200 X\r\nContent-Length: {}\r\n\r\n", PIECE * PIECES);
        stream.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..PIECES {
            may.acquire().await.unwrap().forget();
            stream.write_all(&vec![b'x'; PIECE]).await.unwrap();
        }
        // Until the front closes it.
        let _ = stream.read(&mut request).await;
    });
    let front = Front::start(&config(address), &PrivateCa::new());
    let mut client = front.connect([127, 0, 0, 1]).await;
    client.write_all(format!("GET {FILE} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let taken = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&taken);
    let reading = tokio::spawn(async move {
        let mut bytes = vec![0; PIECE];
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        loop {
            match client.read(&mut bytes).await.unwrap() {
                0 => break,
                some => *counted.lock() += some,
            }
        }
    });
    for piece in 1..=PIECES {
        go.add_permits(1);
        until("bytes of the pieces sent so far", piece * PIECE, || *taken.lock()).await;
        let in_flight = front.status().passed_on.files.in_flight;
        assert!(in_flight == 1 || piece == PIECES, "its slot is held until its last byte is here: {in_flight}");
    }
    reading.await.unwrap();
    front.comes_to_rest().await;
    drop(front);
    behind.await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_with_it() {
    let behind = Behind::with(|_| Says::Nothing).await;
    let front = Front::of(&behind);
    let mut client = front.connect([127, 0, 0, 1]).await;
    client.write_all(format!("GET {FILE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
    until("requests behind", 1, || behind.lines().len()).await;
    assert_eq!(front.status().passed_on.files.in_flight, 1);
    // A client that has only said all it wanted to say is still served, so this one is seen to be gone at the end.
    drop(client);
    drop(front);
    until("connections behind", 0, || behind.open()).await;
}

#[tokio::test]
async fn a_method_that_nothing_has_is_told_which_ones_there_are() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    let alias = |server: &str| format!("/_matrix/client/v3/directory/room/%23a:{server}");
    for (path, allowed) in [
        (alias("us.example"), "GET, HEAD, PUT, DELETE, OPTIONS"),
        (alias("them.example"), "GET, HEAD, OPTIONS"),
        (LIST.to_owned(), "GET, HEAD, POST, OPTIONS"),
        ("/_matrix/client/v1/media/download/us.example/abc".to_owned(), "GET, HEAD, OPTIONS"),
    ] {
        let answer = front.ask([127, 0, 0, 1], &format!("TRACE {path}"), "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{path}");
    }
    assert_eq!(behind.lines(), [""; 0]);
    for method in ["PUT", "DELETE"] {
        assert_eq!(front.ask([127, 0, 0, 1], &format!("{method} {}", alias("us.example")), "").await.status, 200);
    }
    assert_eq!(behind.lines().len(), 2);
}
