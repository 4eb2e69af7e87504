//! First come, first served; and a probe that teaches nothing goes to the next in line.

use portcullis::Outcome;
use portcullis::gate::BreakerState;

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT};

#[tokio::test(start_paused = true)]
async fn s7_a_probe_that_is_dropped_or_teaches_nothing_is_passed_on_at_once() {
    let rig = Rig::open().await;
    let w1 = rig.waiter("W1").await;
    let download = rig.waiter("D").await;
    let w3 = rig.waiter("W3").await;
    let w4 = rig.waiter("W4").await;
    rig.at(60).await;
    let w1 = w1.await.unwrap();
    rig.at(65).await;
    drop(w1);
    let download = download.await.unwrap();
    assert_eq!((download.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
    rig.at_ms(65_010).await;
    download.finish(Outcome::unknown_success());
    let w3 = w3.await.unwrap();
    assert_eq!((w3.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
    rig.at(66).await;
    w3.finish(FAILED);
    let look = rig.look();
    assert_eq!((look.state, look.reopened, look.period_ends), (BreakerState::Open, 1, Some(186_000)));
    rig.at(187).await;
    w4.await.unwrap().finish(FAST);
    assert_eq!((rig.breaker(), rig.limit()), ((BreakerState::Closed, 0), 1));
    assert_eq!(rig.who_when(), [("W1", 60_000), ("D", 65_000), ("W3", 65_010), ("W4", 186_000)]);
}

#[tokio::test(start_paused = true)]
async fn s7_while_closed_a_downloads_success_never_counts_and_its_timeout_cuts_and_holds() {
    let rig = Rig::new();
    rig.succeed(9).await;
    for _ in 0..50 {
        rig.admitted().await.finish(Outcome::unknown_success());
    }
    assert_eq!(rig.limit(), 2);
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 3);
    rig.admitted().await.finish(TIMED_OUT);
    assert_eq!(rig.slots(), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_are_served_in_order() {
    let rig = Rig::starting_at(1);
    let first = rig.admitted().await;
    let mut waiters = Vec::new();
    for _ in 0..100 {
        waiters.push(rig.waiter("w").await);
    }
    first.finish(Outcome::Refused);
    for (index, waiter) in waiters.into_iter().enumerate() {
        let permit = waiter.await.unwrap();
        assert_eq!(rig.gate.status().waiting, 99 - index);
        permit.finish(Outcome::Refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_dropped_without_a_word_frees_its_slot_and_teaches_nothing() {
    let rig = Rig::new();
    rig.succeed(9).await;
    let (one, other) = (rig.admitted().await, rig.admitted().await);
    let waiter = rig.waiter("w").await;
    drop(one);
    assert_eq!(waiter.await.unwrap().elapsed(), crate::rig::secs(0));
    drop(other);
    assert_eq!(rig.slots(), (2, 0, 0));
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 3, "and forgets nothing");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_gives_its_slot_back() {
    let rig = Rig::starting_at(1);
    let gate = rig.gate.clone();
    let task = tokio::spawn(async move {
        let _permit = gate.acquire().await;
        panic!("inside a call");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(rig.slots(), (1, 0, 0));
}
