//! The ways out of a call, one by one: each gives the slot back.
//!
//! *Attack:* find the one early return, error or race that forgets a slot, and use it as often as there are slots.
//! *Control:* nothing but `Slot`'s own `Drop` gives it back, and only a `Slot` holds it (`src/admission/budget.rs`).
//! *Unplug:* return at once from `Slot::drop`: every test here fails.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use portcullis::{Begun, Portcullis, ResponseBody};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::rig::{
    Does, Home, NO_ROOMS, Names, Outside, PUBLIC, ask, assert_at_rest, client, get, list_of, portcullis_of_eight,
};

const DEADLINE: Duration = Duration::from_secs(10);

fn that(does: Does) -> Portcullis {
    portcullis_of_eight(&Names::none(), &Outside::that(does))
}

/// The first half of a lookup of client `n`.
fn begun(portcullis: &Portcullis, n: u8) -> Begun {
    portcullis.begin(&Home, client(n), &get(&list_of(PUBLIC, n.into()))).unwrap()
}

/// A lookup on its way.
async fn spawned(portcullis: &Portcullis, n: u8) -> JoinHandle<Option<Response<ResponseBody>>> {
    let lookup = tokio::spawn(portcullis.handle(&Home, client(n), &get(&list_of(PUBLIC, n.into()))));
    tokio::task::yield_now().await;
    lookup
}

fn in_flight(portcullis: &Portcullis) -> usize {
    portcullis.admission().budget().in_flight()
}

#[tokio::test]
async fn success_gives_the_slot_back() {
    let portcullis = that(Does::Answers(NO_ROOMS));
    assert_eq!(ask(&portcullis, 1, &list_of(PUBLIC, 1)).await.0, 200);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn an_error_gives_the_slot_back() {
    for does in [Does::Refuses, Does::Answers("no json"), Does::Redirects("https://10.0.0.1/")] {
        let portcullis = that(does);
        assert_eq!(ask(&portcullis, 1, &list_of(PUBLIC, 1)).await.0, 502);
        assert_at_rest(&portcullis);
    }
}

#[tokio::test]
async fn a_refused_address_gives_the_slot_back() {
    let portcullis = that(Does::Answers(NO_ROOMS));
    assert_eq!(ask(&portcullis, 1, &list_of("10.0.0.1", 1)).await.0, 502);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn a_panic_gives_the_slot_back() {
    let portcullis = that(Does::Panics);
    assert!(spawned(&portcullis, 1).await.await.unwrap_err().is_panic());
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn expiry_gives_the_slot_back_at_the_deadline() {
    let portcullis = that(Does::NothingEver);
    let start = Instant::now();
    assert_eq!(ask(&portcullis, 1, &list_of(PUBLIC, 1)).await.0, 504);
    assert_eq!(start.elapsed(), DEADLINE);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn a_lookup_that_was_begun_and_dropped_gives_the_slot_back() {
    let portcullis = that(Does::NothingEver);
    let lookup = begun(&portcullis, 1);
    assert_eq!(in_flight(&portcullis), 1);
    drop(lookup);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn a_caller_gone_before_its_call_gives_the_slot_back() {
    let portcullis = that(Does::NothingEver);
    let Begun::Call(lookup) = begun(&portcullis, 1) else { panic!("not admitted") };
    let never_polled = portcullis.finish(lookup);
    assert_eq!(in_flight(&portcullis), 1);
    drop(never_polled);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn a_caller_gone_during_its_call_gives_the_slot_back() {
    let portcullis = that(Does::NothingEver);
    let lookup = spawned(&portcullis, 1).await;
    assert_eq!(in_flight(&portcullis), 1);
    lookup.abort();
    assert!(lookup.await.unwrap_err().is_cancelled());
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn whoever_waits_for_an_equal_question_gives_its_own_slot_back() {
    let permits = Arc::new(Semaphore::new(0));
    let outside = Outside::that(Does::Waits(Arc::clone(&permits)));
    let portcullis = portcullis_of_eight(&Names::none(), &outside);
    let ask = |n| tokio::spawn(portcullis.handle(&Home, client(n), &get(&list_of(PUBLIC, 1))));
    let (first, second, third) = (ask(1), ask(2), ask(3));
    tokio::task::yield_now().await;
    assert_eq!(in_flight(&portcullis), 3);
    // One that waits is gone, then the one that asks: the last of them asks in its turn.
    for gone in [second, first] {
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    assert_eq!(in_flight(&portcullis), 1);
    permits.add_permits(1);
    assert_eq!(third.await.unwrap().unwrap().status(), 200);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn a_refusal_at_either_cap_takes_nothing() {
    let portcullis = that(Does::NothingEver);
    let held: Vec<_> = (1..=4).map(|n| begun(&portcullis, n)).collect();
    for n in [1, 5, 6, 7] {
        assert!(matches!(begun(&portcullis, n), Begun::Answer(refused) if refused.status() == 429));
    }
    assert_eq!((in_flight(&portcullis), portcullis.admission().budget().tracked_keys()), (4, 4));
    drop(held);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn draining_cuts_what_is_left_and_gives_its_slots_back() {
    let portcullis = that(Does::NothingEver);
    let lookups = [spawned(&portcullis, 1).await, spawned(&portcullis, 2).await];
    assert_eq!(portcullis.drain(Duration::from_secs(1)).await, 2);
    for lookup in lookups {
        assert_eq!(lookup.await.unwrap().unwrap().status(), 503);
    }
    assert_at_rest(&portcullis);
    assert!(matches!(begun(&portcullis, 3), Begun::Answer(refused) if refused.status() == 503));
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn dropping_the_library_ends_its_calls_and_gives_their_slots_back() {
    let portcullis = that(Does::NothingEver);
    let door = portcullis.admission().clone();
    let lookup = spawned(&portcullis, 1).await;
    assert_eq!(door.budget().in_flight(), 1);
    drop(portcullis);
    assert_eq!(lookup.await.unwrap().unwrap().status(), 503);
    assert_eq!((door.budget().in_flight(), door.budget().tracked_keys()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_waits_while_the_library_is_drained_is_answered() {
    let portcullis = Arc::new(that(Does::NothingEver));
    let waiting = Arc::clone(&portcullis);
    let request = get(&list_of(PUBLIC, 1));
    let thread = tokio::task::spawn_blocking(move || waiting.handle_blocking(&Home, client(1), &request).unwrap());
    crate::rig::until("the call is on its way", || in_flight(&portcullis) == 1).await;
    assert_eq!(portcullis.drain(Duration::ZERO).await, 1);
    assert_eq!(thread.await.unwrap().status(), 503);
    assert_at_rest(&portcullis);
}
