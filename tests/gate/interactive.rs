//! Calls a user waits for: they never wait, take no slot, halve to one at the least, and say nothing while it is open.

use portcullis::gate::{BreakerState, GateKey, GateRegistry};
use portcullis::{Outcome, Overload};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, key, secs};

#[tokio::test(start_paused = true)]
async fn a_sign_of_load_halves_and_a_timeout_holds_nothing() {
    for outcome in
        [TIMED_OUT, FAILED, Outcome::Overloaded(Overload::TooManyRequests), Outcome::Overloaded(Overload::Transport)]
    {
        let rig = Rig::starting_at(4);
        rig.gate.interactive().report(outcome);
        assert_eq!(rig.slots(), (2, 0, 0), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn successes_never_raise_the_limit_and_refusals_say_nothing() {
    let rig = Rig::new();
    for outcome in [FAST, Outcome::SlowSuccess, Outcome::Refused, Outcome::Unsent, Outcome::UnknownSuccess] {
        for _ in 0..50 {
            rig.gate.interactive().report(outcome);
        }
        assert_eq!(rig.limit(), 2, "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_floor_is_one_and_the_breaker_never_opens() {
    let rig = Rig::starting_at(4);
    for limit in [2, 1, 1, 1, 1] {
        rig.gate.interactive().report(TIMED_OUT);
        assert_eq!((rig.limit(), rig.breaker()), (limit, (BreakerState::Closed, 0)));
    }
}

#[tokio::test(start_paused = true)]
async fn from_three_it_is_one_and_from_there_a_background_failure_opens() {
    let rig = Rig::starting_at(3);
    rig.gate.interactive().report(FAILED);
    assert_eq!(rig.limit(), 1);
    rig.admitted().await.finish(FAILED);
    assert_eq!(rig.breaker(), (BreakerState::Open, 0));
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_user_calls_halves_once_and_excuses_background_calls_of_the_same_burst() {
    let rig = Rig::starting_at(4);
    let calls = [rig.gate.interactive(), rig.gate.interactive(), rig.gate.interactive()];
    let background = rig.admitted().await;
    for call in calls {
        call.report(TIMED_OUT);
        assert_eq!(rig.limit(), 2);
    }
    background.finish(FAILED);
    assert_eq!(rig.limit(), 2);
    rig.gate.interactive().report(FAILED);
    assert_eq!(rig.limit(), 1);
}

#[tokio::test(start_paused = true)]
async fn g2_a_report_at_the_floor_is_no_decrease_and_forgets_no_success() {
    let rig = Rig::starting_at(1);
    rig.succeed(9).await;
    let background = rig.admitted().await;
    rig.gate.interactive().report(TIMED_OUT);
    rig.gate.interactive().report(FAILED);
    background.finish(FAST);
    assert_eq!(rig.limit(), 2, "the tenth");

    let rig = Rig::starting_at(1);
    let background = rig.admitted().await;
    rig.gate.interactive().report(TIMED_OUT);
    background.finish(FAILED);
    assert_eq!(rig.breaker(), (BreakerState::Open, 0), "a background call is not excused by it");
}

#[tokio::test(start_paused = true)]
async fn g3_reports_are_ignored_while_open_and_while_probing() {
    let rig = Rig::open().await;
    rig.gate.interactive().report(FAILED);
    assert_eq!(rig.look().next_probe, Some(60_000));
    rig.at(60).await;
    let probe = rig.admitted().await;
    rig.gate.interactive().report(TIMED_OUT);
    rig.gate.interactive().report(FAST);
    assert_eq!(rig.breaker(), (BreakerState::Probing, 0));
    probe.finish(FAST);
    assert_eq!((rig.breaker(), rig.limit()), ((BreakerState::Closed, 0), 1));
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_times_out_says_nothing_and_its_other_failures_do() {
    let rig = Rig::starting_at(4);
    rig.gate.interactive().of_an_upload().report(TIMED_OUT);
    assert_eq!(rig.limit(), 4);
    for (outcome, limit) in [(FAILED, 2), (Outcome::Overloaded(Overload::TooManyRequests), 1)] {
        rig.gate.interactive().of_an_upload().report(outcome);
        assert_eq!(rig.limit(), limit);
    }
    let rig = Rig::starting_at(4);
    rig.gate.interactive().of_an_upload().report(Outcome::Overloaded(Overload::Transport));
    assert_eq!(rig.limit(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_client_abandons_reports_nothing() {
    let rig = Rig::starting_at(4);
    drop(rig.gate.interactive());
    let started = rig.gate.interactive();
    let abandoned = started.run_within(secs(30), std::future::pending::<()>(), |(), _| FAILED);
    assert!(tokio::time::timeout(secs(7), abandoned).await.is_err());
    assert_eq!((rig.limit(), rig.gate.status().counts.interactive), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn the_outer_timeout_is_reported_as_one() {
    let rig = Rig::starting_at(4);
    let silent = rig.gate.interactive().run_within(secs(30), std::future::pending::<()>(), |(), _| FAST).await;
    assert_eq!((silent.unwrap_err().allowed, rig.now_ms(), rig.slots()), (secs(30), 30_000, (2, 0, 0)));
    let answer = rig.gate.interactive().run_within(secs(30), async { 503 }, |_, _| FAILED).await;
    assert_eq!((answer, rig.limit()), (Ok(503), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_gate_knew_of_makes_none_and_is_counted() {
    let registry = GateRegistry::new(8);
    let start = registry.interactive(&key());
    let gate = registry.gate(&key()).unwrap();
    start.report(TIMED_OUT);
    assert_eq!((registry.unheard_reports(), gate.status().limit), (1, 2), "it began before there was a gate");
    registry.interactive(&key()).report(TIMED_OUT);
    assert_eq!((registry.unheard_reports(), gate.status().limit), (1, 1));
    let other = GateKey::from_base_url("https://other.example.org").unwrap();
    registry.interactive(&other).of_an_upload().report(FAILED);
    drop(registry.interactive(&other));
    assert_eq!((registry.unheard_reports(), registry.len()), (2, 1));
    assert!(registry.existing(&other).is_none());
}
