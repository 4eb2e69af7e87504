//! A waker that is dropped may take a task with it, and the task a permit of the same gate: the lock must be free then.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;
use portcullis::gate::Permit;

use crate::rig::{FAST, Rig, poll_once, poll_with};

/// Stands for a task of some runtime that is dropped with its last waker.
struct TaskWithAPermit {
    _permit: Mutex<Option<Permit>>,
}

impl Wake for TaskWithAPermit {
    fn wake(self: Arc<Self>) {}
}

async fn waker_with_a_permit(rig: &Rig) -> Waker {
    Waker::from(Arc::new(TaskWithAPermit { _permit: Mutex::new(Some(rig.admitted().await)) }))
}

#[tokio::test(start_paused = true)]
async fn polling_with_another_waker_drops_the_first_one_outside_the_lock() {
    let rig = Rig::starting_at(2);
    let waker = waker_with_a_permit(&rig).await;
    let active = rig.admitted().await;
    let mut waiter = pin!(rig.gate.acquire());
    assert!(poll_with(waiter.as_mut(), &waker).is_none());
    drop(waker);
    let given_at_once = poll_once(waiter.as_mut());
    // The first waker went with this poll, and its permit made room.
    assert!(given_at_once.is_some() || poll_once(waiter.as_mut()).is_some());
    active.finish(FAST);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_drops_its_waker_outside_the_lock() {
    let rig = Rig::starting_at(2);
    let waker = waker_with_a_permit(&rig).await;
    let _active = rig.admitted().await;
    let mut waiter = Box::pin(rig.gate.acquire());
    assert!(poll_with(waiter.as_mut(), &waker).is_none());
    drop(waker);
    drop(waiter);
    assert_eq!((rig.slots(), rig.look().waiting), ((2, 1, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_reader_drops_its_wakers_outside_the_lock() {
    let rig = Rig::starting_at(2);
    let mut events = rig.gate.events();
    while events.try_next().is_some() {}
    let (first, second) = (waker_with_a_permit(&rig).await, waker_with_a_permit(&rig).await);
    while events.try_next().is_some() {}
    for waker in [first, second] {
        assert!(poll_with(pin!(events.next()), &waker).is_none());
    }
    drop(events);
    assert_eq!(rig.slots(), (2, 0, 0));
}
