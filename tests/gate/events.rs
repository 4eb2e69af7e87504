//! The events of a gate: in order, numbered, bounded.

use std::pin::pin;
use std::time::Duration;

use portcullis::Outcome;
use portcullis::gate::{Call, CallerKind, GateEvents, GaveUp, Happened};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, ended, hms, poll_once, secs};

fn drain(events: &mut GateEvents) -> Vec<(u64, u64, Happened)> {
    let event_of =
        || events.try_next().map(|event| (event.seq, u64::try_from(event.at.as_millis()).unwrap(), event.what));
    std::iter::from_fn(event_of).collect()
}

const fn admitted(kind: CallerKind, probe: bool, waited_s: u64) -> Happened {
    Happened::Admitted { kind, probe, waited: Duration::from_secs(waited_s) }
}

fn finished(kind: CallerKind, outcome: Option<Outcome>, counted: bool) -> Happened {
    Happened::Finished { call: Call::Gated(kind), outcome, counted }
}

#[tokio::test(start_paused = true)]
async fn an_outage_and_its_end_event_by_event() {
    use CallerKind::{Background, Brief};
    let rig = Rig::starting_at(1);
    let mut events = rig.gate.events();
    let call = rig.admitted().await;
    rig.at(1).await;
    let waiter = rig.waiter("w").await;
    rig.at(30).await;
    call.finish(TIMED_OUT);
    assert!(rig.gate.acquire_within(secs(10)).await.is_none());
    rig.at(930).await;
    ended(waiter).await.finish(FAST);
    assert_eq!(
        drain(&mut events),
        [
            (0, 0, admitted(Background, false, 0)),
            (1, 30_000, finished(Background, Some(TIMED_OUT), true)),
            (2, 30_000, Happened::Held { until: secs(930) }),
            (3, 30_000, Happened::LimitChanged { from: 1, to: 0 }),
            (4, 30_000, Happened::Opened { outcome: TIMED_OUT, period_ends: secs(90), reopened: 0 }),
            (5, 30_000, Happened::GaveUp { kind: Brief, why: GaveUp::NotClosed, waited: secs(0) }),
            (6, 930_000, Happened::HoldExpired),
            (7, 930_000, Happened::Probing),
            (8, 930_000, admitted(Background, true, 929)),
            (9, 930_000, finished(Background, Some(FAST), true)),
            (10, 930_000, Happened::Closed),
            (11, 930_000, Happened::LimitChanged { from: 0, to: 1 }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_says_whether_an_outcome_counted() {
    let rig = Rig::starting_at(4);
    let mut events = rig.gate.events();
    let (one, other) = (rig.admitted().await, rig.admitted().await);
    let start = rig.gate.interactive();
    one.finish(FAILED);
    other.finish(FAILED);
    start.report(FAILED);
    rig.polling().await.finish(FAST);
    drop(rig.admitted().await);
    let said: Vec<_> = drain(&mut events)
        .into_iter()
        .filter_map(|(_, _, what)| match what {
            Happened::Finished { call, outcome, counted } => Some((call, outcome, counted)),
            _ => None,
        })
        .collect();
    assert_eq!(
        said,
        [
            (Call::Gated(CallerKind::Background), Some(FAILED), true),
            (Call::Gated(CallerKind::Background), Some(FAILED), false),
            (Call::Interactive, Some(FAILED), false),
            (Call::Gated(CallerKind::LongPoll), Some(FAST), false),
            (Call::Gated(CallerKind::Background), None, false),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_the_line_is_seen_with_the_reason() {
    let rig = Rig::starting_at(1);
    let _active = rig.admitted().await;
    let mut events = rig.gate.events();
    drain(&mut events);
    assert!(rig.gate.acquire_within(secs(10)).await.is_none());
    assert!(rig.gate.acquire_unless(tokio::time::sleep(secs(5))).await.is_err());
    let found: Vec<_> = drain(&mut events).into_iter().map(|(_, at, what)| (at, what)).collect();
    assert_eq!(
        found,
        [
            (10_000, Happened::GaveUp { kind: CallerKind::Brief, why: GaveUp::OutOfTime, waited: secs(10) }),
            (15_000, Happened::GaveUp { kind: CallerKind::Background, why: GaveUp::Cancelled, waited: secs(5) }),
        ]
    );
}

/// Nobody waits, so no timer runs; the gate is looked at ten minutes later.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_hold_has_its_own_time_however_late_it_is_noticed() {
    let rig = Rig::new();
    let mut events = rig.gate.events();
    rig.admitted().await.finish(TIMED_OUT);
    drain(&mut events);
    rig.at_ms(hms(0, 25, 0)).await;
    assert!(rig.gate.status().held_until_ms.is_empty());
    assert_eq!(drain(&mut events), [(4, hms(0, 15, 0), Happened::HoldExpired)]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_misses_the_oldest_and_sees_the_gap() {
    let rig = Rig::new();
    let mut events = rig.gate.events();
    for _ in 0..500 {
        rig.polling().await.finish(FAST);
    }
    let found = drain(&mut events);
    assert_eq!((found.len(), found[0].0, found[255].0), (256, 744, 999));
    assert!(found.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
}

#[tokio::test(start_paused = true)]
async fn without_a_reader_calls_that_come_and_go_push_out_nothing() {
    let rig = Rig::starting_at(4);
    rig.gate.interactive().report(FAILED);
    for _ in 0..500 {
        rig.admitted().await.finish(Outcome::Refused);
    }
    let mut events = rig.gate.events();
    assert_eq!(drain(&mut events), [(0, 0, Happened::LimitChanged { from: 4, to: 2 })]);
    rig.admitted().await.finish(Outcome::Refused);
    assert_eq!(drain(&mut events).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_what_comes_next_and_two_see_the_same() {
    let rig = Rig::new();
    let (mut one, mut other) = (rig.gate.events(), rig.gate.events());
    let reader = tokio::spawn(async move {
        let (first, second) = (one.next().await, one.next().await);
        (first.seq, second.seq, second.what.as_label())
    });
    assert!(poll_once(pin!(other.next())).is_none(), "dropping this loses nothing");
    rig.at(5).await;
    rig.gate.interactive().report(FAILED);
    assert_eq!(ended(reader).await, (0, 1, "limit-changed"));
    assert_eq!((other.next().await.seq, other.next().await.at), (0, secs(5)));
    assert!(other.try_next().is_none());
}
