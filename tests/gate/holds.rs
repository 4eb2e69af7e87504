//! A timed-out call keeps its slot for fifteen minutes: from the timeout, whether or not the limit was halved.

use portcullis::gate::{BreakerState, DecidedBy};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, hms};

const QUARTER: u64 = hms(0, 15, 0);

#[tokio::test(start_paused = true)]
async fn g9_a_hold_is_over_exactly_fifteen_minutes_after_the_timeout() {
    let rig = Rig::starting_at(2);
    let call = rig.admitted().await;
    rig.at(30).await;
    call.finish(TIMED_OUT);
    let _waiter = rig.waiter("w").await;
    rig.at_ms(30_000 + QUARTER - 1).await;
    assert_eq!((rig.slots(), rig.admissions().len()), ((1, 0, 1), 0));
    rig.at_ms(30_000 + QUARTER).await;
    assert_eq!((rig.slots(), rig.who_when()), ((1, 1, 0), vec![("w", 930_000)]));
}

#[tokio::test(start_paused = true)]
async fn the_status_is_right_at_the_end_of_a_hold_though_nobody_waits_and_no_timer_runs() {
    let rig = Rig::new();
    rig.admitted().await.finish(TIMED_OUT);
    rig.at_ms(QUARTER - 1).await;
    assert_eq!((rig.slots(), rig.look().next), ((1, 0, 1), (Some(QUARTER), DecidedBy::Hold)));
    rig.at_ms(QUARTER).await;
    assert_eq!((rig.slots(), rig.look().next), ((1, 0, 0), (Some(QUARTER), DecidedBy::Slot)));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_halves_nothing_is_held_all_the_same() {
    let rig = Rig::starting_at(4);
    let (first, second) = (rig.admitted().await, rig.admitted().await);
    first.finish(TIMED_OUT);
    rig.at(10).await;
    second.finish(TIMED_OUT);
    assert_eq!((rig.limit(), rig.look().held_until), (2, vec![QUARTER, 10_000 + QUARTER]));
}

#[tokio::test(start_paused = true)]
async fn overload_and_refusals_hold_nothing() {
    let rig = Rig::starting_at(4);
    for outcome in [FAILED, FAST, portcullis::Outcome::Refused, portcullis::Outcome::SlowSuccess] {
        rig.admitted().await.finish(outcome);
        assert!(rig.look().held_until.is_empty(), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn held_slots_count_like_active_ones() {
    let rig = Rig::starting_at(4);
    rig.admitted().await.finish(TIMED_OUT);
    let _active = rig.admitted().await;
    assert_eq!(rig.slots(), (2, 1, 1));
    let waiter = rig.waiter("w").await;
    rig.at(600).await;
    assert!(!waiter.is_finished());
}

#[tokio::test(start_paused = true)]
async fn the_probe_waits_for_the_last_hold_and_not_for_the_period_alone() {
    let rig = Rig::starting_at(1);
    rig.admitted().await.finish(TIMED_OUT);
    let _waiter = rig.waiter("w").await;
    rig.at(60).await;
    let look = rig.look();
    assert_eq!((look.state, look.period_ends, look.next_probe), (BreakerState::Open, Some(60_000), Some(QUARTER)));
    assert_eq!(look.next, (Some(QUARTER), DecidedBy::Hold));
    rig.at_ms(QUARTER - 1).await;
    assert_eq!(rig.breaker(), (BreakerState::Open, 0));
    rig.at_ms(QUARTER).await;
    assert_eq!((rig.breaker(), rig.who_when()), ((BreakerState::Probing, 0), vec![("w", QUARTER)]));
}
