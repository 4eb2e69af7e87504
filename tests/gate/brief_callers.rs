//! Callers that wait ten seconds at most: in turn while closed, and not at all while the breaker is not closed.

use std::pin::pin;
use std::time::Duration;

use portcullis::gate::{BreakerState, Permit};
use tokio::task::JoinHandle;

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, ended, poll_once, secs, settle};

/// A caller that waits ten seconds from now on.
async fn brief(rig: &Rig, caller: &'static str) -> JoinHandle<Option<Permit>> {
    let waiting = tokio::spawn({
        let rig = rig.clone();
        async move {
            let since = rig.now_ms();
            let permit = rig.gate.acquire_within(secs(10)).await?;
            rig.admitted_now(caller, since, permit.is_probe());
            Some(permit)
        }
    });
    settle().await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn s11_it_is_admitted_in_turn_or_gives_up_after_ten_seconds_and_leaves_no_trace() {
    let rig = Rig::new();
    let (a, b) = (rig.admitted().await, rig.admitted().await);
    let w = rig.waiter("W").await;
    rig.at(1).await;
    let j = brief(&rig, "J").await;
    assert_eq!(rig.gate.status().waiting_by_kind.brief, 1);
    rig.at(4).await;
    a.finish(FAST);
    let _w = ended(w).await;
    rig.at(8).await;
    b.finish(FAST);
    let _j = ended(j).await.unwrap();
    assert_eq!(rig.who_when(), [("W", 4_000), ("J", 8_000)]);

    rig.at(9).await;
    let j2 = brief(&rig, "J2").await;
    rig.at_ms(18_999).await;
    assert!(!j2.is_finished());
    rig.at_ms(19_000).await;
    assert!(ended(j2).await.is_none());
    assert_eq!((rig.slots(), rig.look().waiting), ((2, 2, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn g12_it_gives_up_when_the_breaker_opens_while_it_queues() {
    let rig = Rig::starting_at(1);
    let a = rig.admitted().await;
    let w = rig.waiter("W").await;
    let j3 = brief(&rig, "J3").await;
    rig.at(3).await;
    a.finish(FAILED);
    rig.at(3).await;
    assert!(ended(j3).await.is_none());
    assert_eq!((rig.now_ms(), rig.look().waiting), (3_000, 1));
    assert!(!w.is_finished(), "whoever waits as long as it takes waits on");
}

#[tokio::test(start_paused = true)]
async fn s11_while_open_and_not_due_it_is_refused_at_once() {
    let rig = Rig::open().await;
    assert!(rig.gate.acquire_within(secs(10)).await.is_none());
    rig.at_ms(59_999).await;
    assert!(rig.gate.acquire_within(secs(10)).await.is_none());
    assert_eq!(rig.now_ms(), 59_999);
}

#[tokio::test(start_paused = true)]
async fn s11_while_open_and_due_with_nobody_in_line_it_is_the_probe() {
    let rig = Rig::open().await;
    rig.at(60).await;
    let permit = rig.gate.acquire_within(secs(10)).await.unwrap();
    assert_eq!((permit.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
    assert!(rig.gate.acquire_within(secs(10)).await.is_none(), "and no second one");
}

#[tokio::test(start_paused = true)]
async fn s11_while_open_and_due_with_a_waiter_in_line_the_waiter_is_the_probe() {
    let rig = Rig::open().await;
    // The waiter is in line and its timer has not run when the other one comes, at the very end of the period.
    let mut waiter = pin!(rig.gate.acquire());
    assert!(poll_once(waiter.as_mut()).is_none());
    tokio::time::advance(secs(60)).await;
    assert!(poll_once(pin!(rig.gate.acquire_within(secs(10)))).unwrap().is_none());
    assert!(poll_once(waiter).unwrap().is_probe());
}

#[tokio::test(start_paused = true)]
async fn a_gate_shut_by_its_holds_is_waited_at_for_ten_seconds() {
    let rig = Rig::new();
    let (a, b) = (rig.admitted().await, rig.admitted().await);
    a.finish(TIMED_OUT);
    b.finish(TIMED_OUT);
    assert!(rig.gate.acquire_within(secs(10)).await.is_none());
    assert_eq!(rig.now_ms(), 10_000);
    rig.at_ms(895_000).await;
    assert!(rig.gate.acquire_within(secs(10)).await.is_some());
    assert_eq!(rig.now_ms(), 900_000, "and one that comes near the end of the holds gets in");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_nothing_takes_what_is_free_and_nothing_else() {
    let rig = Rig::starting_at(1);
    let permit = rig.gate.acquire_within(secs(0)).await.unwrap();
    assert!(rig.gate.acquire_within(secs(0)).await.is_none());
    drop(permit);
    assert!(rig.gate.acquire_within(Duration::MAX).await.is_some());
}
