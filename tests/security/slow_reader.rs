//! A client that does not read its answer.
//!
//! *Attack:* ask for something large and read nothing, or a byte now and then: whoever writes the answer waits. *Control:* no
//! request thread writes to a socket (`src/homeserver/pooled.rs`), and an answer has a time in which to be gone
//! (`TimedWrites` in `src/homeserver/listener/timed_writes.rs`). *Unplug:* let `TimedWrites::wait` say
//! `Poll::Pending` whatever the time: the client's one place never comes back.

use std::time::Duration;

use portcullis::homeserver::listener::ListenerLimits;
use portcullis::local_view::ListedRoom;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::rig::{Homeserver, LONG, OWN_NAME, config, no_name_server, until};

const LIST: &str = "/_matrix/client/v3/publicRooms";

/// With a room list of 16 MiB, more than the sockets on the way hold.
fn homeserver() -> Homeserver {
    let mut config = config(2, Duration::from_secs(1), None, no_name_server());
    let topic = "x".repeat(1 << 20);
    let room =
        |n| ListedRoom { room_id: format!("!{n}:{OWN_NAME}"), topic: Some(topic.clone()), ..ListedRoom::default() };
    config.rooms = (0..16).map(room).collect();
    let limits = |limits| ListenerLimits {
        max_connections_per_client: 1,
        answer_time: Duration::from_millis(500),
        // Only the time of the answer is to end it.
        write_stall: 10 * LONG,
        ..limits
    };
    Homeserver::start_within(&config, limits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_holds_no_thread_and_is_dropped() {
    let homeserver = homeserver();
    let mut readers = Vec::new();
    for n in 1..=4 {
        let mut stream = homeserver.connect([127, 2, 0, n]).await;
        stream.write_all(format!("GET {LIST} HTTP/1.1\r\nHost: {OWN_NAME}\r\n\r\n").as_bytes()).await.unwrap();
        // The answer has begun, so the thread that made it has nothing more to do with it.
        stream.readable().await.unwrap();
        readers.push(stream);
    }
    until("every thread is idle", || homeserver.pool.idle_threads() == 2).await;
    assert_eq!(homeserver.get([127, 2, 0, 100], "/_matrix/client/versions").await.status, 200);
    // Each has one connection at most: it can have another only once the server has dropped the first.
    for n in 1..=4 {
        let again = async {
            while !is_answered(&homeserver, [127, 2, 0, n]).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, again).await.expect("the slow reader was not dropped");
    }
    drop(readers);
}

async fn is_answered(homeserver: &Homeserver, from: [u8; 4]) -> bool {
    let mut stream: TcpStream = homeserver.connect(from).await;
    let request = format!("GET /_matrix/client/versions HTTP/1.1\r\nHost: {OWN_NAME}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut heard = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut heard).await;
    heard.starts_with(b"HTTP/1.1 200")
}
