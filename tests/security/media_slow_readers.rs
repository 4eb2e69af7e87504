//! A client that takes a file a byte at a time.
//!
//! *Attack:* ask for a large file and read a byte a second: if the fetch goes at the reader's pace, it holds a slot and a
//! connection to the origin, and whoever else wants the file waits too. *Control:* the fetch writes the store and everybody
//! reads behind it (`src/proxy/media_store/reader.rs`), and a streamed answer has a least rate
//! (`src/homeserver/listener/answer_clock.rs`). *Unplug:* let the writer wait until its readers have caught up: the origin is
//! never done. Let the clock of a streamed answer never expire: the reader is never dropped.

use std::num::NonZeroU32;
use std::time::Duration;

use portcullis::homeserver::config::AccessToken;
use portcullis::homeserver::listener::ListenerLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::loopback::media::download;
use crate::rig::{CaFile, Homeserver, LONG, OWN_NAME, config, no_name_server, until};
use crate::support::{Behaviour, PrivateCa, SentFile, TlsPeer};

/// More than the sockets on the way hold.
const SIZE: usize = 12 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_a_byte_a_second_holds_up_neither_the_fetch_nor_another_reader_and_is_dropped() {
    let ca = PrivateCa::new();
    let answer = SentFile { headers: &["Content-Type: text/plain"], bytes: &vec![b'x'; SIZE] }.answer();
    let origin = TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::answers(move |_| answer.clone())).await;
    let file = CaFile::of(&ca);
    let mut config = config(2, LONG, Some(&file), no_name_server());
    config.media.remote_fetch_enabled = Some(true);
    config.tokens = vec![AccessToken { token: "hush".into(), user_id: "@alice:us.example".into() }];
    let homeserver = Homeserver::start_within(&config, |limits| ListenerLimits {
        read_grace: Duration::from_secs(3),
        least_read_rate: NonZeroU32::new(4 * 1024 * 1024).unwrap(),
        send_buffer_bytes: 64 * 1024,
        // Only the rate is to end it.
        answer_time: 10 * LONG,
        write_stall: 10 * LONG,
        ..limits
    });
    let path = download(&origin.address().to_string(), "a");
    let mut stream = homeserver.connect([127, 2, 0, 1]).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {OWN_NAME}\r\nAuthorization: Bearer hush\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let slow = tokio::spawn(async move {
        let mut taken = 0;
        while stream.read_u8().await.is_ok() {
            taken += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
            // A reset takes nothing of what has arrived already: at this pace that lasts for ever.
            if stream.take_error().unwrap().is_some() {
                break;
            }
        }
        taken
    });
    let status = || homeserver.runtime.outbound().status();
    until("the origin is asked", || origin.requests().len() == 1).await;
    until("the fetch is over", || status().media.running + status().budgets.media.in_flight == 0).await;
    origin.all_closed().await;
    assert!(!slow.is_finished(), "the reader was dropped before the fetch was over");
    let answer = homeserver.get_with([127, 2, 0, 2], &path, "Authorization: Bearer hush\r\n").await;
    assert_eq!((answer.status, answer.body.len()), (200, SIZE));
    assert_eq!(origin.requests().len(), 1);
    // The kernel's buffers hold what was sent before; it ends with them, long before the file.
    homeserver.comes_to_rest(2).await;
    until("the reader has been dropped", || slow.is_finished()).await;
    let taken: usize = slow.await.unwrap();
    assert!(taken > 0 && taken < 100, "{taken} bytes");
}
