//! Long-polls: no slot, no wait while closed, failures like anybody's, and the probe when nobody else wants to be it.

use portcullis::Outcome;
use portcullis::gate::BreakerState;
use portcullis::limits::{LONG_POLL_SERVER_WAIT, LONG_POLL_TIMEOUT};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, ended, hms, secs};

const QUARTER: u64 = hms(0, 15, 0);

#[tokio::test(start_paused = true)]
async fn a_poll_holds_no_slot_and_waits_for_none() {
    let rig = Rig::starting_at(1);
    let _active = rig.admitted().await;
    let _polls = (rig.polling().await, rig.polling().await, rig.polling().await);
    assert_eq!(rig.slots(), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shut_gate_that_is_closed_does_not_stop_a_poll() {
    let rig = Rig::new();
    let (one, other) = (rig.admitted().await, rig.admitted().await);
    one.finish(TIMED_OUT);
    other.finish(TIMED_OUT);
    assert_eq!((rig.slots(), rig.breaker()), ((1, 0, 2), (BreakerState::Closed, 0)));
    rig.polling().await.finish(FAST);
}

#[tokio::test(start_paused = true)]
async fn successes_of_polls_never_raise_the_limit_however_fast() {
    let rig = Rig::new();
    for _ in 0..100 {
        rig.polling().await.finish(FAST);
    }
    assert_eq!(rig.limit(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_of_polls_halve_once_per_burst_and_open_with_n_at_nothing() {
    let rig = Rig::new();
    let (one, other) = (rig.polling().await, rig.polling().await);
    one.finish(FAILED);
    other.finish(FAILED);
    assert_eq!(rig.limit(), 1);
    rig.polling().await.finish(FAILED);
    let look = rig.look();
    assert_eq!((look.state, look.reopened, look.period_ends), (BreakerState::Open, 0, Some(60_000)), "g10");
}

#[tokio::test(start_paused = true)]
async fn an_outer_timeout_of_a_poll_halves_and_holds() {
    let rig = Rig::new();
    let poll = rig.polling().await;
    rig.at(90).await;
    poll.finish(TIMED_OUT);
    assert_eq!((rig.slots(), rig.look().held_until), ((1, 0, 1), vec![90_000 + QUARTER]));
}

#[tokio::test(start_paused = true)]
async fn g11_a_polls_timeout_that_halves_nothing_is_held_all_the_same() {
    let rig = Rig::starting_at(4);
    let (one, other) = (rig.polling().await, rig.polling().await);
    one.finish(TIMED_OUT);
    other.finish(TIMED_OUT);
    assert_eq!(rig.slots(), (2, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn s9_with_nobody_else_in_line_the_poll_is_the_probe_and_its_answer_closes() {
    let rig = Rig::open().await;
    rig.at(5).await;
    let poll = rig.poller("poll").await;
    assert_eq!(rig.look().waiting, 1, "g13");
    assert_eq!(rig.gate.status().waiting_by_kind.long_poll, 1);
    rig.at(60).await;
    assert_eq!((rig.slots(), rig.breaker()), ((0, 0, 0), (BreakerState::Probing, 0)));
    let poll = ended(poll).await;
    assert!(poll.is_probe());
    rig.at(75).await;
    let b = rig.waiter("B").await;
    rig.at(90).await;
    assert!(!b.is_finished());
    poll.finish(FAST);
    rig.at(90).await;
    assert_eq!((rig.breaker(), rig.slots()), ((BreakerState::Closed, 0), (1, 1, 0)));
    assert_eq!(rig.who_when(), [("poll", 60_000), ("B", 90_000)]);
    rig.polling().await.finish(FAST);
}

#[tokio::test(start_paused = true)]
async fn s9_a_poll_that_times_out_as_the_probe_holds_and_the_next_probe_is_the_one_in_line() {
    let rig = Rig::open().await;
    let poll = rig.poller("poll").await;
    rig.at(150).await;
    ended(poll).await.finish(TIMED_OUT);
    let look = rig.look();
    assert_eq!((look.state, look.reopened, look.period_ends), (BreakerState::Open, 1, Some(270_000)));
    assert_eq!((look.held_until, look.next_probe), (vec![1_050_000], Some(1_050_000)));
    let next_poll = rig.poller("poll").await;
    let _b = rig.waiter("B").await;
    rig.at(1_050).await;
    assert_eq!(rig.who_when(), [("poll", 60_000), ("B", 1_050_000)]);
    assert!(!next_poll.is_finished(), "the poll waits on, though it came first");
}

#[tokio::test(start_paused = true)]
async fn every_poll_that_waits_goes_when_the_breaker_closes() {
    let rig = Rig::open().await;
    let polls = [rig.poller("p1").await, rig.poller("p2").await, rig.poller("p3").await];
    rig.at(61).await;
    let [p1, p2, p3] = polls;
    assert!(!p2.is_finished() && !p3.is_finished());
    ended(p1).await.finish(Outcome::Refused);
    rig.at(62).await;
    assert_eq!(rig.who_when(), [("p1", 60_000), ("p2", 61_000), ("p3", 61_000)]);
    assert!(!ended(p2).await.is_probe() && !ended(p3).await.is_probe());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_poll_that_was_the_probe_passes_it_on() {
    let rig = Rig::open().await;
    let (p1, p2) = (rig.poller("p1").await, rig.poller("p2").await);
    rig.at(70).await;
    drop(ended(p1).await);
    let p2 = ended(p2).await;
    assert_eq!((p2.is_probe(), rig.breaker()), (true, (BreakerState::Probing, 0)));
}

/// A poll opened the breaker over a call that was out.
async fn with_a_stray() -> (Rig, portcullis::gate::Permit) {
    let rig = Rig::starting_at(1);
    let stray = rig.admitted().await;
    rig.polling().await.finish(FAILED);
    assert_eq!((rig.slots(), rig.breaker()), ((0, 1, 0), (BreakerState::Open, 0)));
    (rig, stray)
}

#[tokio::test(start_paused = true)]
async fn g6_a_stray_success_never_closes_the_breaker() {
    let (rig, stray) = with_a_stray().await;
    stray.finish(FAST);
    assert_eq!((rig.slots(), rig.breaker()), ((0, 0, 0), (BreakerState::Open, 0)));
    let (rig, stray) = with_a_stray().await;
    rig.at(60).await;
    let _probe = rig.admitted().await;
    stray.finish(FAST);
    assert_eq!((rig.slots(), rig.breaker()), ((0, 1, 0), (BreakerState::Probing, 0)));
}

#[tokio::test(start_paused = true)]
async fn g6_a_stray_teaches_nothing_while_open_and_while_probing() {
    for outcome in [FAST, Outcome::SlowSuccess, Outcome::Refused, FAILED, TIMED_OUT] {
        for probing in [false, true] {
            let (rig, stray) = with_a_stray().await;
            rig.at(60).await;
            let probe = if probing { Some(rig.admitted().await) } else { None };
            let counted = rig.gate.status().counts.counted;
            stray.finish(outcome);
            let status = rig.gate.status();
            assert_eq!((status.counts.counted, status.limit, status.breaker.reopened), (counted, 0, 0), "{outcome:?}");
            drop(probe);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn g7_a_stray_timeout_is_held_and_keeps_the_probe_away() {
    let (rig, stray) = with_a_stray().await;
    rig.at(30).await;
    stray.finish(TIMED_OUT);
    let look = rig.look();
    assert_eq!((look.reopened, look.period_ends, look.next_probe), (0, Some(60_000), Some(30_000 + QUARTER)));
}

#[tokio::test(start_paused = true)]
async fn g8_an_active_stray_does_not_keep_the_probe_away() {
    let (rig, _stray) = with_a_stray().await;
    rig.at(60).await;
    let probe = rig.admitted().await;
    assert_eq!((probe.is_probe(), rig.slots()), (true, (0, 2, 0)));
    probe.finish(FAST);
    let waiter = rig.waiter("w").await;
    rig.at(600).await;
    assert_eq!((rig.slots(), waiter.is_finished()), ((1, 1, 0), false), "the stray fills the limit of one");
}

#[tokio::test(start_paused = true)]
async fn the_preset_waits_ninety_seconds_and_reports_a_timeout() {
    assert_eq!((LONG_POLL_SERVER_WAIT, LONG_POLL_TIMEOUT), (secs(30), secs(90)));
    let rig = Rig::new();
    let silent = rig.gate.long_poll(std::future::pending::<()>, |(), _| FAST).await;
    assert_eq!(silent.unwrap_err().allowed, secs(90));
    assert_eq!((rig.now_ms(), rig.slots()), (90_000, (1, 0, 1)));
    let answered = rig.gate.long_poll(|| async { 200 }, |_, took| Outcome::success(took)).await;
    assert_eq!((answered, rig.slots()), (Ok(200), (1, 0, 1)));
}
