//! An answer that does not end, or is too large to be held.
//!
//! *Attack:* announce gigabytes, or send chunks for ever, as an answer or as an error; each lookup then holds what it reads
//! in memory. *Control:* `read_bounded` counts what comes and refuses what is announced larger (`src/outbound/body.rs`).
//! *Unplug:* let `collect` read eight times as much, and leave out the look at the announced length: one byte too many
//! is accepted, and ten announced gigabytes are waited for.

use std::time::Duration;

use portcullis::limits::MAX_ROOM_LIST_BYTES;

use crate::rig::{CaFile, Homeserver, NO_ROOMS, config, list_of, no_name_server};
use crate::support::{Behaviour, PrivateCa, TlsPeer, json_answer};

/// Fails by its deadline if it waits for the body.
const DEADLINE: Duration = Duration::from_secs(5);

async fn status_after(behaviour: Behaviour) -> u16 {
    let ca = PrivateCa::new();
    let peer = TlsPeer::start(ca.server_config(&["127.0.0.1"]), behaviour).await;
    let file = CaFile::of(&ca);
    let homeserver = Homeserver::start(&config(2, DEADLINE, Some(&file), no_name_server()));
    let answer = homeserver.get([127, 2, 0, 1], &list_of(&peer.address().to_string(), 1)).await;
    peer.all_closed().await;
    homeserver.comes_to_rest(2).await;
    answer.status
}

fn answers(bytes: Vec<u8>) -> Behaviour {
    Behaviour::Answers(std::sync::Arc::new(move |_| bytes.clone()))
}

fn padded_to(bytes: usize) -> Behaviour {
    answers(json_answer(200, &format!("{NO_ROOMS}{}", " ".repeat(bytes - NO_ROOMS.len()))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_answer_is_read_and_one_byte_more_is_not() {
    assert_eq!(status_after(padded_to(MAX_ROOM_LIST_BYTES)).await, 200);
    assert_eq!(status_after(padded_to(MAX_ROOM_LIST_BYTES + 1)).await, 502);
    assert_eq!(MAX_ROOM_LIST_BYTES, 4 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_announced_too_large_is_not_waited_for() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n{";
    assert_eq!(status_after(answers(head.into())).await, 502);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_without_end_are_left_where_the_limit_is() {
    assert_eq!(status_after(Behaviour::EndlessChunks).await, 502);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_with_a_huge_body_is_an_error_at_once() {
    let head = "HTTP/1.1 500 X\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n{";
    assert_eq!(status_after(answers(head.into())).await, 502);
}
