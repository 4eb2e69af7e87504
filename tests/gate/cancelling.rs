//! Whoever stops waiting leaves no trace, and a turn just given goes to the next; nobody is woken without need.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use portcullis::gate::{BreakerState, Cancelled};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, ended, poll_once, poll_with, secs};

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_leaves_the_line_and_the_others_keep_their_places() {
    let rig = Rig::starting_at(1);
    let active = rig.admitted().await;
    let mut first = Box::pin(rig.gate.acquire());
    let mut second = Box::pin(rig.gate.acquire());
    let mut third = Box::pin(rig.gate.acquire());
    for waiter in [&mut first, &mut second, &mut third] {
        assert!(poll_once(waiter.as_mut()).is_none());
    }
    drop(second);
    assert_eq!(rig.look().waiting, 2);
    active.finish(FAST);
    assert!(poll_once(third.as_mut()).is_none());
    let permit = poll_once(first.as_mut()).unwrap();
    drop(permit);
    assert!(poll_once(third.as_mut()).is_some());
    assert_eq!((rig.slots(), rig.look().waiting), ((1, 0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_turn_just_given_to_one_who_is_gone_goes_to_the_next() {
    let rig = Rig::starting_at(1);
    let active = rig.admitted().await;
    let mut first = Box::pin(rig.gate.acquire());
    let mut second = Box::pin(rig.gate.acquire());
    assert!(poll_once(first.as_mut()).is_none() && poll_once(second.as_mut()).is_none());
    active.finish(FAST);
    assert_eq!(rig.slots(), (1, 1, 0), "it is the first one's, who has not been told yet");
    drop(first);
    assert!(poll_once(second.as_mut()).is_some());
    assert_eq!((rig.slots(), rig.look().waiting), ((1, 0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_probe_just_given_to_one_who_is_gone_goes_to_the_next() {
    let rig = Rig::open().await;
    let mut first = Box::pin(rig.gate.acquire());
    let mut second = Box::pin(rig.gate.acquire());
    assert!(poll_once(first.as_mut()).is_none() && poll_once(second.as_mut()).is_none());
    rig.at(60).await;
    assert_eq!(rig.breaker(), (BreakerState::Probing, 0));
    drop(first);
    let permit = poll_once(second.as_mut()).unwrap();
    assert_eq!((permit.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
    drop(permit);
    assert_eq!(rig.breaker(), (BreakerState::Open, 0));
    assert!(rig.admitted().await.is_probe(), "its period is over already");
}

#[tokio::test(start_paused = true)]
async fn a_poll_just_let_through_as_the_probe_passes_it_on_when_it_is_gone() {
    let rig = Rig::open().await;
    let mut poll = Box::pin(rig.gate.poll_turn());
    assert!(poll_once(poll.as_mut()).is_none());
    rig.at(60).await;
    assert_eq!(rig.breaker(), (BreakerState::Probing, 0));
    drop(poll);
    assert_eq!((rig.breaker(), rig.slots()), ((BreakerState::Open, 0), (0, 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_brief_wait_that_is_dropped_leaves_no_trace_either() {
    let rig = Rig::starting_at(1);
    let active = rig.admitted().await;
    let mut brief = Box::pin(rig.gate.acquire_within(secs(10)));
    assert!(poll_once(brief.as_mut()).is_none());
    drop(brief);
    assert_eq!(rig.look().waiting, 0);
    drop(active);
    assert_eq!(rig.slots(), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_never_stood_in_line() {
    let rig = Rig::new();
    drop(rig.gate.acquire());
    assert_eq!((rig.slots(), rig.gate.status().counts.gave_up), ((2, 0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_wait_and_nothing_else() {
    let rig = Rig::starting_at(1);
    let permit = rig.gate.acquire_unless(ready(())).await.expect("what is free is given, whatever the wish");
    assert_eq!(rig.gate.acquire_unless(ready(())).await.unwrap_err(), Cancelled);
    assert_eq!(rig.gate.acquire_unless(tokio::time::sleep(secs(5))).await.unwrap_err(), Cancelled);
    assert_eq!((rig.now_ms(), rig.look().waiting, rig.slots()), (5_000, 0, (1, 1, 0)));
    drop(permit);
    assert!(rig.gate.acquire_unless(pending()).await.is_ok());

    let rig = Rig::open().await;
    assert_eq!(rig.gate.poll_turn_unless(ready(())).await.unwrap_err(), Cancelled);
    assert_eq!((rig.look().waiting, rig.breaker()), (0, (BreakerState::Open, 0)));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wakes {
    fn so_far(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_at_the_end_of_the_hold_and_not_before() {
    let rig = Rig::starting_at(2);
    let (one, other) = (rig.admitted().await, rig.admitted().await);
    one.finish(TIMED_OUT);
    rig.at(10).await;
    other.finish(TIMED_OUT);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut waiter = pin!(rig.gate.acquire());
    assert!(poll_with(waiter.as_mut(), &waker).is_none());
    rig.at_ms(909_999).await;
    assert_eq!(wakes.so_far(), 0, "the first hold's end lets nobody in: two are held at a limit of one");
    rig.at_ms(910_000).await;
    assert_eq!(wakes.so_far(), 1);
    assert!(poll_with(waiter.as_mut(), &waker).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_learns_of_an_opening_that_puts_its_turn_off() {
    let rig = Rig::starting_at(1);
    let active = rig.admitted().await;
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut waiter = pin!(rig.gate.acquire());
    assert!(poll_with(waiter.as_mut(), &waker).is_none());
    rig.at(7).await;
    assert_eq!(wakes.so_far(), 0);
    active.finish(FAILED);
    assert_eq!(wakes.so_far(), 1, "to set its timer");
    assert!(poll_with(waiter.as_mut(), &waker).is_none());
    rig.at_ms(66_999).await;
    assert_eq!(wakes.so_far(), 1);
    rig.at_ms(67_000).await;
    assert_eq!(wakes.so_far(), 2);
    assert!(poll_with(waiter.as_mut(), &waker).unwrap().is_probe());
}

/// A future that is kept and not polled has its place in line, but it is nobody else's clock.
#[tokio::test(start_paused = true)]
async fn no_waiter_depends_on_another_ones_being_polled() {
    let rig = Rig::starting_at(4);
    let out = [rig.admitted().await, rig.admitted().await, rig.admitted().await, rig.admitted().await];
    let mut forgotten = pin!(rig.gate.acquire());
    assert!(poll_once(forgotten.as_mut()).is_none());
    let waiter = rig.waiter("w").await;
    for call in out {
        call.finish(TIMED_OUT);
    }
    // All four holds end together and the limit is two: the first in line and the second go at once.
    rig.at_ms(899_999).await;
    assert!(!waiter.is_finished());
    rig.at_ms(900_000).await;
    assert_eq!((rig.who_when(), rig.slots()), (vec![("w", 900_000)], (2, 2, 0)));
    drop(ended(waiter).await);
    assert!(poll_once(forgotten.as_mut()).is_some());
}
