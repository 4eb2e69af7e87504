//! What halves the limit, and that one burst does so once: a call counts only if it began after the last decrease.

use portcullis::{Outcome, Overload};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT};

#[tokio::test(start_paused = true)]
async fn every_sign_of_load_halves_the_limit() {
    for outcome in [
        Outcome::TimedOut,
        Outcome::Overloaded(Overload::ServerError),
        Outcome::Overloaded(Overload::TooManyRequests),
        Outcome::Overloaded(Overload::Transport),
    ] {
        let rig = Rig::starting_at(4);
        rig.admitted().await.finish(outcome);
        let held = usize::from(outcome == Outcome::TimedOut);
        assert_eq!(rig.slots(), (2, 0, held), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn halving_rounds_down() {
    let rig = Rig::starting_at(3);
    rig.admitted().await.finish(FAILED);
    assert_eq!(rig.limit(), 1);
    rig.admitted().await.finish(FAILED);
    assert_eq!(rig.limit(), 0);
}

#[tokio::test(start_paused = true)]
async fn four_calls_that_fail_together_halve_once() {
    let rig = Rig::starting_at(4);
    let mut burst = Vec::new();
    for _ in 0..4 {
        burst.push(rig.admitted().await);
    }
    for call in burst {
        call.finish(FAILED);
        assert_eq!(rig.limit(), 2);
    }
}

/// No clock tells the two apart: both began, and the first failed, at the same instant.
#[tokio::test(start_paused = true)]
async fn g1_before_and_after_are_counted_and_not_timed() {
    let rig = Rig::starting_at(4);
    let (first, second) = (rig.admitted().await, rig.admitted().await);
    first.finish(FAILED);
    let after = rig.admitted().await;
    second.finish(FAILED);
    assert_eq!(rig.limit(), 2, "it began before the decrease");
    after.finish(FAILED);
    assert_eq!(rig.limit(), 1, "it began after it, at the same instant");
    assert_eq!(rig.now_ms(), 0);
}

#[tokio::test(start_paused = true)]
async fn growth_is_no_decrease_and_excuses_nobody() {
    let rig = Rig::new();
    let old = rig.admitted().await;
    rig.succeed(10).await;
    assert_eq!(rig.limit(), 3);
    old.finish(FAILED);
    assert_eq!(rig.limit(), 1);
}

#[tokio::test(start_paused = true)]
async fn s3_a_staggered_burst_at_four_halves_once_and_holds_all_four_slots() {
    let rig = Rig::starting_at(4);
    let mut burst = Vec::new();
    for second in 0..4 {
        rig.at(second).await;
        burst.push(rig.admitted().await);
    }
    for (second, call) in (30..).zip(burst) {
        rig.at(second).await;
        call.finish(TIMED_OUT);
        assert_eq!(rig.limit(), 2, "at {second} s");
    }
    assert_eq!(rig.look().held_until, [930_000, 931_000, 932_000, 933_000]);
    for caller in ["R1", "R2", "R3", "R4"] {
        rig.caller_for_ever(caller, |_| (30_000, TIMED_OUT));
    }
    rig.at(931).await;
    assert_eq!((rig.slots(), rig.admissions().len()), ((2, 0, 2), 0));
    rig.at(962).await;
    assert_eq!(rig.who_when(), [("R1", 932_000), ("R2", 933_000)]);
    assert_eq!(rig.limit(), 1);
    rig.at(963).await;
    assert_eq!((rig.limit(), rig.look().held_until), (1, vec![1_862_000, 1_863_000]));
    rig.at(1_893).await;
    let look = rig.look();
    assert_eq!((look.opened_at, look.reopened, look.period_ends), (Some(1_893_000), 0, Some(1_953_000)));
    assert_eq!(look.held_until, [2_793_000]);
    rig.at(2_823).await;
    assert_eq!(rig.who_when(), [("R1", 932_000), ("R2", 933_000), ("R3", 1_863_000), ("R4", 2_793_000)]);
    assert_eq!(rig.look().reopened, 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_before_the_decrease_teaches_nothing_after_the_recovery_either() {
    let rig = Rig::starting_at(1);
    let poll = rig.polling().await;
    let stray = rig.admitted().await;
    poll.finish(FAILED);
    assert_eq!(rig.limit(), 0);
    rig.at(60).await;
    rig.admitted().await.finish(FAST);
    assert_eq!(rig.limit(), 1);
    stray.finish(FAILED);
    assert_eq!(rig.limit(), 1, "it began before the breaker opened");
}
