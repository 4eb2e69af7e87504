//! A peer that always has one more byte.
//!
//! *Attack:* answer a byte at a time, so that no time limit between two bytes is ever reached. *Control:* one deadline over
//! head and body: `OutboundDeadline::cut` in `HttpsTransport::send` (`src/outbound/https.rs`), `Line::dial`
//! (`src/outbound/line.rs`) and `read_bounded` (`src/outbound/body.rs`). *Unplug:* await the work without the clock in
//! `OutboundDeadline::cut` (`src/deadline.rs`): the thread gives up after the margin, counted as an overrun, and the
//! slot stays held. (For the handshake the cut by `connect_by` has to go as well.) The cuts lie around each other: any
//! one of them alone can go, and the next one out ends the call.

use std::time::Duration;

use crate::rig::{CaFile, Homeserver, config, list_of, no_name_server};
use crate::support::{Behaviour, PrivateCa, TlsPeer};

async fn is_cut(behaviour: Behaviour) {
    let ca = PrivateCa::new();
    let peer = TlsPeer::start(ca.server_config(&["127.0.0.1"]), behaviour).await;
    let file = CaFile::of(&ca);
    let homeserver = Homeserver::start(&config(2, Duration::from_millis(600), Some(&file), no_name_server()));
    let answer = homeserver.get([127, 2, 0, 1], &list_of(&peer.address().to_string(), 1)).await;
    assert_eq!(answer.status, 504, "{answer:?}");
    assert_eq!((peer.accepted(), homeserver.in_flight()), (1, 0));
    peer.all_closed().await;
    homeserver.comes_to_rest(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_drips_is_cut_and_its_slot_thread_and_socket_come_back() {
    is_cut(Behaviour::HeaderDrip).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_drips_is_cut_and_its_slot_thread_and_socket_come_back() {
    is_cut(Behaviour::BodyDrip).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_never_comes_is_cut_and_its_slot_thread_and_socket_come_back() {
    is_cut(Behaviour::TcpSilent).await;
}
