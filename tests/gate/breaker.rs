//! The breaker: when it opens and for how long, every row of the table of the probe, and the reset on closing.

use portcullis::gate::{BreakerState, DecidedBy};
use portcullis::{Outcome, Overload};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, hms};

#[tokio::test(start_paused = true)]
async fn a_failure_at_a_limit_of_one_opens_it_for_a_minute() {
    let rig = Rig::starting_at(1);
    rig.at(5).await;
    rig.admitted().await.finish(FAILED);
    let look = rig.look();
    assert_eq!((look.state, look.slots, look.reopened), (BreakerState::Open, (0, 0, 0), 0));
    assert_eq!((look.opened_at, look.period_ends, look.next_probe), (Some(5_000), Some(65_000), Some(65_000)));
    assert_eq!(look.next, (Some(65_000), DecidedBy::Cooldown));
}

#[tokio::test(start_paused = true)]
async fn g9_the_period_is_over_at_its_end_and_then_exactly_one_goes() {
    let rig = Rig::open().await;
    let mut waiters = Vec::new();
    for caller in ["w1", "w2", "w3"] {
        waiters.push(rig.waiter(caller).await);
    }
    rig.at_ms(59_999).await;
    assert_eq!(rig.admissions(), []);
    rig.at_ms(60_000).await;
    assert_eq!(rig.who_when(), [("w1", 60_000)]);
    assert_eq!((rig.slots(), rig.breaker()), ((0, 1, 0), (BreakerState::Probing, 0)));
    rig.at(3_600).await;
    assert_eq!(rig.admissions().len(), 1, "one at a time, however long it takes");
}

#[tokio::test(start_paused = true)]
async fn s5_refusals_climb_the_ladder_of_one_to_thirty_minutes() {
    let rig = Rig::new();
    for caller in ["a", "b", "c"] {
        rig.caller_for_ever(caller, |_| (100, FAILED));
    }
    let ladder = [60_200, 180_300, 420_400, 900_500, 1_860_600, 3_660_700, 5_460_800, 7_260_900];
    for (n, probe_at) in (1..).zip(ladder) {
        rig.at_ms(probe_at).await;
        assert_eq!(rig.breaker(), (BreakerState::Probing, n - 1));
        rig.at_ms(probe_at + 100).await;
        assert_eq!((rig.breaker(), rig.slots()), ((BreakerState::Open, n), (0, 0, 0)));
    }
    let mut expected = vec![0, 0, 100];
    expected.extend(ladder);
    assert_eq!(rig.admission_times(), expected);
    assert_eq!(rig.look().next_probe, Some(7_261_000 + hms(0, 30, 0)));
}

#[tokio::test(start_paused = true)]
async fn s5_the_first_failure_of_a_pair_halves_and_the_next_call_opens() {
    let rig = Rig::new();
    for caller in ["a", "b", "c"] {
        rig.caller_for_ever(caller, |_| (100, FAILED));
    }
    rig.at_ms(100).await;
    assert_eq!((rig.limit(), rig.breaker()), (1, (BreakerState::Closed, 0)));
    rig.at_ms(200).await;
    let look = rig.look();
    assert_eq!((look.state, look.opened_at, look.period_ends), (BreakerState::Open, Some(200), Some(60_200)));
}

#[tokio::test(start_paused = true)]
async fn every_row_of_the_table_of_the_probe() {
    let closed = (BreakerState::Closed, 0, (1, 0, 0));
    let open = |reopened, held| (BreakerState::Open, reopened, (0, 0, held));
    for (outcome, after, next_probe) in [
        (Some(FAST), closed, None),
        (Some(Outcome::SlowSuccess), closed, None),
        (Some(Outcome::Refused), closed, None),
        (Some(TIMED_OUT), open(1, 1), Some(90_000 + hms(0, 15, 0))),
        (Some(Outcome::Overloaded(Overload::ServerError)), open(1, 0), Some(90_000 + hms(0, 2, 0))),
        (Some(Outcome::Overloaded(Overload::TooManyRequests)), open(1, 0), Some(90_000 + hms(0, 2, 0))),
        (Some(Outcome::Overloaded(Overload::Transport)), open(1, 0), Some(90_000 + hms(0, 2, 0))),
        (Some(Outcome::UnknownSuccess), open(0, 0), Some(60_000)),
        (Some(Outcome::Unsent), open(0, 0), Some(60_000)),
        (None, open(0, 0), Some(60_000)),
    ] {
        let rig = Rig::open().await;
        rig.at(60).await;
        let probe = rig.admitted().await;
        assert!(probe.is_probe());
        rig.at(90).await;
        match outcome {
            Some(outcome) => probe.finish(outcome),
            None => drop(probe),
        }
        let look = rig.look();
        assert_eq!((look.state, look.reopened, look.slots), after, "{outcome:?}");
        assert_eq!(look.next_probe, next_probe, "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_forgets_how_often_it_reopened() {
    let rig = Rig::open().await;
    for (n, minutes) in [(1, 2), (2, 4), (3, 8)] {
        rig.at_ms(rig.look().next_probe.unwrap()).await;
        rig.admitted().await.finish(FAILED);
        let look = rig.look();
        assert_eq!((look.reopened, look.next_probe), (n, Some(rig.now_ms() + hms(0, minutes, 0))));
    }
    rig.at_ms(rig.look().next_probe.unwrap()).await;
    rig.admitted().await.finish(Outcome::Refused);
    assert_eq!((rig.breaker(), rig.limit()), ((BreakerState::Closed, 0), 1));
    rig.admitted().await.finish(FAILED);
    let look = rig.look();
    assert_eq!((look.reopened, look.period_ends), (0, Some(rig.now_ms() + hms(0, 1, 0))));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_due_waits_for_a_caller_however_long() {
    let rig = Rig::open().await;
    rig.at(10_000).await;
    let look = rig.look();
    assert_eq!((look.state, look.next), (BreakerState::Open, (Some(10_000_000), DecidedBy::Probe)));
    assert!(rig.admitted().await.is_probe());
}
