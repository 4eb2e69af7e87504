//! A call that computes and never yields.
//!
//! *Attack:* find an answer that takes for ever to work through; a deadline looks at the clock only between two polls.
//! *Control:* the request's thread waits on a channel, until the deadline plus a margin at most (`FederationWorker::wait` in
//! `src/federation_worker.rs`); the slot stays with the call, so the cap still counts it. *Unplug:* wait with `recv` instead
//! of `recv_timeout`: the thread never comes back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::rig::{Does, Home, LONG, Names, Outside, PUBLIC, assert_at_rest, client, get, list_of, portcullis, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_back_by_the_deadline_and_the_margin_and_the_slot_stays_counted() {
    let permits = Arc::new(Semaphore::new(0));
    let outside = Outside::that(Does::NeverYields(Arc::clone(&permits)));
    let portcullis = portcullis(8, Names::none(), outside, Default::default());
    let portcullis = Arc::new(
        portcullis.remote_timeout(portcullis::RemoteTimeout::new(Duration::from_millis(100)).unwrap()).build().unwrap(),
    );
    let (waiting, request) = (Arc::clone(&portcullis), get(&list_of(PUBLIC, 1)));
    let thread = tokio::task::spawn_blocking(move || waiting.handle_blocking(&Home, client(1), &request).unwrap());
    let answered = tokio::time::timeout(LONG, thread).await;
    // The call is let go before anything is asserted, so that a failure does not leave a thread behind.
    let held = portcullis.admission().budget().in_flight();
    permits.add_permits(1);
    let answer = answered.expect("the thread never came back").unwrap();
    assert_eq!((answer.status().as_u16(), held), (504, 1));
    assert_eq!(portcullis.status().federation_worker.overruns, 1);
    until("the call has ended", || portcullis.admission().budget().in_flight() == 0).await;
    assert_at_rest(&portcullis);
}
