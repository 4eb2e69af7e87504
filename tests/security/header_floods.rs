//! Headers without end.
//!
//! *Attack:* a peer, or a client, sends header lines by the thousand, or one of megabytes. *Control:* for peers
//! `max_headers` and `header_bytes` in `HttpsTransport::exchange` (`src/outbound/https.rs`), and for heads before the head
//! `BoundedHead` (`src/outbound/bounded_head.rs`); for clients `max_headers` and
//! `max_header_size` in the listener (`src/homeserver/listener/connection.rs`). *Unplug:* raise each of the four: what is one
//! line or one byte too much is then accepted. Let `BoundedHead` pass everything: interim answers are read until time ends it.

use std::time::Duration;

use portcullis::limits::{MAX_REMOTE_HEADER_BYTES, MAX_REMOTE_HEADER_LINES};

use crate::rig::{Homeserver, NO_ROOMS, Names, allowing, ask, config, https, list_of, no_name_server, portcullis};
use crate::support::{Behaviour, PrivateCa, TlsPeer};

const OWN_LINE: &str = "Content-Length: 12\r\n";

async fn status_of(head_lines: &str) -> u16 {
    let ca = PrivateCa::new();
    let answer = format!("HTTP/1.1 200 OK\r\n{OWN_LINE}{head_lines}\r\n{NO_ROOMS}");
    let peer = TlsPeer::answering(ca.server_config(&["127.0.0.1"]), answer.into()).await;
    let portcullis = portcullis(8, Names::none(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
    let (status, _) = ask(&portcullis, 1, &list_of(&peer.address().to_string(), 1)).await;
    peer.all_closed().await;
    status
}

/// One line that makes the head `bytes` long.
fn one_line(bytes: usize) -> String {
    format!("X: {}\r\n", "x".repeat(bytes - OWN_LINE.len() - "X: \r\n".len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_may_send_256_lines_and_64_kib_and_no_more() {
    assert_eq!((MAX_REMOTE_HEADER_LINES, MAX_REMOTE_HEADER_BYTES), (256, 64 * 1024));
    assert_eq!(status_of(&"X: x\r\n".repeat(255)).await, 200);
    assert_eq!(status_of(&"X: x\r\n".repeat(256)).await, 502);
    assert_eq!(status_of(&one_line(64 * 1024)).await, 200);
    assert_eq!(status_of(&one_line(64 * 1024 + 1)).await, 502);
    assert_eq!(status_of(&one_line(8 << 20)).await, 502);
}

/// Interim answers have heads too, and nothing ends them but the head that counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_answers_without_end_are_left_and_a_few_are_read_past() {
    let ca = PrivateCa::new();
    let portcullis = portcullis(8, Names::none(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
    let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let answer = format!("HTTP/1.1 200 OK\r\n{OWN_LINE}\r\n{NO_ROOMS}");
    let few = TlsPeer::answering(ca.server_config(&["127.0.0.1"]), [&hint.repeat(8), answer.as_bytes()].concat()).await;
    assert_eq!(ask(&portcullis, 1, &list_of(&few.address().to_string(), 1)).await.0, 200);
    let flood = Behaviour::Endless { head: b"", part: hint.repeat(1000), pause: Duration::ZERO };
    let endless = TlsPeer::start(ca.server_config(&["127.0.0.1"]), flood).await;
    // What time ends is a 504.
    assert_eq!(ask(&portcullis, 1, &list_of(&endless.address().to_string(), 1)).await.0, 502);
    endless.all_closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_send_100_lines_and_32_kib_and_is_answered_431_past_that() {
    let homeserver = Homeserver::start(&config(2, Duration::from_secs(1), None, no_name_server()));
    let ask = async |lines: &str| homeserver.get_with([127, 2, 0, 1], "/_matrix/client/versions", lines).await.status;
    // `Host` and `Connection` are lines too.
    assert_eq!(ask(&"X: x\r\n".repeat(98)).await, 200);
    assert_eq!(ask(&"X: x\r\n".repeat(99)).await, 431);
    assert_eq!(ask(&format!("X: {}\r\n", "x".repeat(31 * 1024))).await, 200);
    assert_eq!(ask(&format!("X: {}\r\n", "x".repeat(33 * 1024))).await, 431);
    homeserver.comes_to_rest(2).await;
}
