//! A client that asks and hangs up, again and again.
//!
//! *Attack:* start a lookup and close the connection, so that the work goes on uncounted, or its slot is never given back.
//! *Control:* the slot is part of the call (`Admitted` in `src/admission/admit.rs`, owned by `FederationCall`), and the call
//! runs on the worker, not in the connection's task (`src/homeserver/pooled.rs`, `src/federation_worker.rs`).
//! *Unplug:* free the slot in `Admission::admit` and hand out one of another budget: the slot is not seen while the
//! call runs. Return at once from `Slot::drop`: it is never given back. Each fails its test.

use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use crate::rig::{Does, Homeserver, Names, OWN_NAME, Outside, PUBLIC, list_of, portcullis_of_eight, until};

/// Asks from `from` and is gone once the call is on its way.
async fn ask_and_hang_up(homeserver: &Homeserver, outside: &Outside, from: [u8; 4], page: usize) {
    let before = outside.dialled().len();
    let mut stream = homeserver.connect(from).await;
    let request = format!("GET {} HTTP/1.1\r\nHost: {OWN_NAME}\r\n\r\n", list_of(PUBLIC, page));
    stream.write_all(request.as_bytes()).await.unwrap();
    until("the call is on its way", || outside.dialled().len() > before).await;
    // Not even a proper goodbye.
    stream.set_zero_linger().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_held_until_the_call_has_ended_and_not_until_the_client_has_gone() {
    let permits = Arc::new(Semaphore::new(0));
    let outside = Outside::that(Does::Waits(Arc::clone(&permits)));
    let homeserver = Homeserver::around(portcullis_of_eight(&Names::none(), &outside), 8);
    ask_and_hang_up(&homeserver, &outside, [127, 2, 0, 1], 1).await;
    for page in 2..=20 {
        // The same client is still refused: its call goes on.
        assert_eq!(homeserver.get([127, 2, 0, 1], &list_of(PUBLIC, page)).await.status, 429);
        assert_eq!(homeserver.in_flight(), 1);
    }
    permits.add_permits(1);
    homeserver.comes_to_rest(8).await;
    assert_eq!(outside.dialled().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_that_hang_up_leave_nothing_behind() {
    let permits = Arc::new(Semaphore::new(0));
    let outside = Outside::that(Does::Waits(Arc::clone(&permits)));
    let homeserver = Homeserver::around(portcullis_of_eight(&Names::none(), &outside), 8);
    for round in 0..25 {
        for n in 1..=4 {
            ask_and_hang_up(&homeserver, &outside, [127, 2, 0, n], 4 * round + usize::from(n)).await;
        }
        assert_eq!(homeserver.in_flight(), 4);
        permits.add_permits(4);
        homeserver.comes_to_rest(8).await;
    }
    assert_eq!(outside.dialled().len(), 100);
}
