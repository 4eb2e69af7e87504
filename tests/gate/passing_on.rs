//! First come, first served; and a probe that teaches nothing goes to the next in line.

use portcullis::Outcome;
use portcullis::gate::BreakerState;

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, ended, poll_once, secs};

#[tokio::test(start_paused = true)]
async fn s7_a_probe_that_is_dropped_or_teaches_nothing_is_passed_on_at_once() {
    let rig = Rig::open().await;
    let w1 = rig.waiter("W1").await;
    let download = rig.waiter("D").await;
    let w3 = rig.waiter("W3").await;
    let w4 = rig.waiter("W4").await;
    rig.at(60).await;
    let w1 = ended(w1).await;
    rig.at(65).await;
    drop(w1);
    let download = ended(download).await;
    assert_eq!((download.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
    rig.at_ms(65_010).await;
    download.finish(Outcome::unknown_success());
    let w3 = ended(w3).await;
    assert_eq!((w3.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
    rig.at(66).await;
    w3.finish(FAILED);
    let look = rig.look();
    assert_eq!((look.state, look.reopened, look.period_ends), (BreakerState::Open, 1, Some(186_000)));
    rig.at(187).await;
    ended(w4).await.finish(FAST);
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
async fn the_limit_lets_in_so_many_and_no_more() {
    for limit in 1..=4 {
        let rig = Rig::starting_at(limit);
        for _ in 0..6 {
            rig.caller_for_ever("caller", |_| (1_000, Outcome::SlowSuccess));
        }
        rig.at_ms(999).await;
        assert_eq!((rig.slots(), rig.admissions().len()), ((limit, limit, 0), limit));
        rig.at_ms(1_000).await;
        assert_eq!((rig.slots(), rig.admissions().len()), ((limit, limit, 0), 2 * limit));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_are_served_in_order() {
    let rig = Rig::starting_at(1);
    let first = rig.admitted().await;
    let mut waiters: Vec<_> = (0..100).map(|_| Box::pin(rig.gate.acquire())).collect();
    for waiter in &mut waiters {
        assert!(poll_once(waiter.as_mut()).is_none());
    }
    first.finish(Outcome::Refused);
    for (index, mut waiter) in waiters.into_iter().enumerate() {
        let permit = poll_once(waiter.as_mut()).unwrap_or_else(|| panic!("number {index} is next"));
        assert_eq!(rig.gate.status().waiting, 99 - index);
        permit.finish(Outcome::Refused);
    }
}

/// The first in line has not been told yet that the hold is over when somebody else comes.
#[tokio::test(start_paused = true)]
async fn whoever_comes_as_a_slot_falls_free_stands_behind_those_in_line() {
    let rig = Rig::new();
    rig.admitted().await.finish(TIMED_OUT);
    let mut first = Box::pin(rig.gate.acquire());
    assert!(poll_once(first.as_mut()).is_none());
    rig.at(900).await;
    let (mut late, mut brief) = (Box::pin(rig.gate.acquire()), Box::pin(rig.gate.acquire_within(secs(10))));
    assert!(poll_once(late.as_mut()).is_none() && poll_once(brief.as_mut()).is_none());
    assert!(poll_once(first.as_mut()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_permit_dropped_without_a_word_frees_its_slot_and_teaches_nothing() {
    let rig = Rig::new();
    rig.succeed(9).await;
    let (one, other) = (rig.admitted().await, rig.admitted().await);
    let waiter = rig.waiter("w").await;
    drop(one);
    assert_eq!(ended(waiter).await.elapsed(), secs(0));
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
