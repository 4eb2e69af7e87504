//! What raises the limit: ten fast successes since it last changed, up to four. Slow successes and refusals do nothing.

use portcullis::Outcome;

use crate::rig::{FAST, Rig, TIMED_OUT, ended, secs};

#[tokio::test(start_paused = true)]
async fn s1_the_limit_is_three_at_five_seconds_and_four_at_nine_and_stays_there() {
    let rig = Rig::new();
    for caller in ["a", "b", "c", "d", "e"] {
        rig.caller_for_ever(caller, |_| (1_000, FAST));
    }
    for (at_ms, limit) in [(4_999, 2), (5_000, 3), (8_999, 3), (9_000, 4), (12_000, 4), (60_000, 4)] {
        rig.at_ms(at_ms).await;
        assert_eq!(rig.limit(), limit, "at {at_ms} ms");
    }
    assert!(rig.admissions().len() > 120);
}

#[tokio::test(start_paused = true)]
async fn nine_fast_successes_change_nothing_and_the_tenth_does() {
    let rig = Rig::new();
    rig.succeed(9).await;
    assert_eq!(rig.limit(), 2);
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 3);
    rig.succeed(9).await;
    assert_eq!(rig.limit(), 3, "the count begins anew with each change");
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_decrease_forgets_the_successes_before_it() {
    let rig = Rig::new();
    rig.succeed(9).await;
    rig.admitted().await.finish(Outcome::Overloaded(portcullis::Overload::ServerError));
    assert_eq!(rig.limit(), 1);
    rig.succeed(9).await;
    assert_eq!(rig.limit(), 1);
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 2);
}

#[tokio::test(start_paused = true)]
async fn slow_successes_refusals_and_calls_that_say_nothing_neither_grow_nor_halve() {
    let rig = Rig::new();
    for outcome in [Outcome::SlowSuccess, Outcome::Refused, Outcome::UnknownSuccess, Outcome::Unsent] {
        for _ in 0..20 {
            rig.admitted().await.finish(outcome);
        }
        for _ in 0..20 {
            drop(rig.admitted().await);
        }
        assert_eq!(rig.slots(), (2, 0, 0), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_does_not_forget_what_did() {
    let rig = Rig::new();
    for _ in 0..9 {
        rig.succeed(1).await;
        rig.admitted().await.finish(Outcome::SlowSuccess);
        rig.admitted().await.finish(Outcome::Refused);
    }
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 3);
}

#[tokio::test(start_paused = true)]
async fn fast_is_measured_by_each_calls_own_timeout() {
    let rig = Rig::new();
    // 7.5 s: fast for a page of 30 s, half of it exactly for an upstream probe of 15 s.
    for round in 0..10 {
        let permit = rig.admitted().await;
        tokio::time::sleep(std::time::Duration::from_millis(7_500)).await;
        assert_eq!(permit.elapsed(), std::time::Duration::from_millis(7_500));
        permit.finish_success_within(secs(15));
        assert_eq!(rig.limit(), 2, "round {round}");
    }
    for _ in 0..10 {
        let permit = rig.admitted().await;
        tokio::time::sleep(std::time::Duration::from_millis(7_500)).await;
        permit.finish_success_within(secs(30));
    }
    assert_eq!(rig.limit(), 3);
}

#[tokio::test(start_paused = true)]
async fn waiting_is_no_part_of_the_call() {
    let rig = Rig::starting_at(1);
    let first = rig.admitted().await;
    let waiter = rig.waiter("w").await;
    rig.at(600).await;
    first.finish(FAST);
    let permit = ended(waiter).await;
    assert_eq!(permit.elapsed(), secs(0));
    permit.finish_success_within(secs(30));
    rig.succeed(8).await;
    assert_eq!(rig.limit(), 2, "first, waiter and eight make ten");
}

#[tokio::test(start_paused = true)]
async fn g5_a_fast_success_of_a_call_that_began_before_the_change_counts_when_it_ends() {
    let rig = Rig::new();
    let old = rig.admitted().await;
    rig.admitted().await.finish(Outcome::Overloaded(portcullis::Overload::Transport));
    assert_eq!(rig.limit(), 1);
    old.finish(FAST);
    rig.succeed(9).await;
    assert_eq!(rig.limit(), 2);
}

#[tokio::test(start_paused = true)]
async fn g4_after_a_recovery_the_count_begins_at_nothing_and_the_probe_does_not_count() {
    let rig = Rig::open().await;
    rig.at(60).await;
    let probe = rig.admitted().await;
    assert!(probe.is_probe());
    probe.finish(FAST);
    assert_eq!(rig.limit(), 1);
    rig.succeed(9).await;
    assert_eq!(rig.limit(), 1);
    rig.succeed(1).await;
    assert_eq!(rig.limit(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_went_down_with_more_calls_out_cancels_none_and_lets_none_in() {
    let rig = Rig::starting_at(4);
    let mut out = Vec::new();
    for _ in 0..4 {
        out.push(rig.admitted().await);
    }
    out.pop().unwrap().finish(TIMED_OUT);
    assert_eq!(rig.slots(), (2, 3, 1));
    let waiter = rig.waiter("w").await;
    out.pop().unwrap().finish(FAST);
    out.pop().unwrap().finish(FAST);
    assert_eq!(rig.slots(), (2, 1, 1));
    rig.at(1).await;
    assert!(!waiter.is_finished(), "one active and one held are not fewer than two");
    out.pop().unwrap().finish(FAST);
    rig.at(2).await;
    assert!(waiter.is_finished());
}
