//! A server that gets better: after an outage, and after a burst of others' requests.

use super::*;
use crate::simulation::{Outage, OutageKind, Overloaded, SpanKind};

#[test]
fn a_silent_server_that_is_well_again_is_found_by_the_next_probe() {
    let outage = Outage::rehearse(OutageKind::Silent, at(2, 10, 0));
    let mut probes = outage.gate.breaker_spans(0);
    probes.retain(|span| span.kind == SpanKind::Probing);
    let last_two: Vec<_> = probes.iter().rev().take(2).map(|span| (clock(span.from), span.reopened)).collect();
    assert_eq!(last_two, [("2:35:00.000".to_owned(), 6), ("2:04:30.000".to_owned(), 5)]);
    let limit: Vec<_> = outage.gate.limit(0, 2).steps().iter().map(|(at, limit)| (clock(*at), *limit)).collect();
    assert_eq!(limit[..3], [("0:00:00.000".into(), 2), ("0:00:30.000".into(), 1), ("0:16:00.000".into(), 0)]);
    assert_eq!(
        limit[3..],
        [("2:35:00.840".into(), 1), ("2:35:09.240".into(), 2), ("2:35:13.440".into(), 3), ("2:35:16.800".into(), 4)]
    );
    assert_eq!(outage.noticed_after().map(clock).as_deref(), Some("0:25:00.840"));
}

#[test]
fn a_server_that_refuses_is_asked_again_after_the_cooldowns_alone() {
    let outage = Outage::rehearse(OutageKind::Refusing, at(0, 10, 0));
    assert!(outage.gate.holds(0).is_empty(), "a refusal holds no slot");
    let asked: Vec<_> = outage.gate.admissions(0).into_iter().take(7).map(clock).collect();
    assert_eq!(
        asked,
        ["0:00:00.000", "0:00:00.000", "0:00:00.100", "0:01:00.200", "0:03:00.300", "0:07:00.400", "0:15:00.500"]
    );
    assert_eq!(outage.noticed_after().map(clock).as_deref(), Some("0:05:01.340"));
}

#[test]
fn recovery_is_noticed_within_half_an_hour_and_one_page() {
    for minutes in (20..300).step_by(7) {
        let outage = Outage::rehearse(OutageKind::Silent, minutes * MINUTE);
        let noticed = outage.noticed_after().unwrap();
        assert!(noticed <= Duration::from_secs(30 * 60 + 30), "down for {minutes} minutes: {noticed:?}");
    }
}

#[test]
fn without_a_gate_an_overloaded_server_is_kept_full_by_pages_nobody_wants() {
    let overload = Overloaded::rehearse();
    let run = &overload.ungoverned;
    assert!(overload.failed_until(run) > HOUR, "{:?}", overload.failed_until(run));
    let (came, given_up) = overload.an_hour_later(run);
    assert!(given_up > 0 && came == 0, "{came} came, {given_up} were given up");
}

#[test]
fn with_a_gate_it_drains_and_the_next_probe_succeeds() {
    let overload = Overloaded::rehearse();
    let (run, over) = (&overload.gate, overload.burst_over);
    let limit = run.limit(0, 2);
    let steps: Vec<_> = limit.steps().iter().map(|(_, limit)| *limit).collect();
    assert_eq!(steps, [2, 1, 0, 1, 2, 3, 4], "shut by its holds, then open, then closed and climbing");
    let probe = run.breaker_spans(0).into_iter().find(|span| span.kind == SpanKind::Probing).unwrap();
    let drained = run.at_work().steps().iter().find(|(at, count)| *at > Duration::ZERO && *count == 0).unwrap().0;
    assert!(drained < probe.from && over < probe.from, "drained at {drained:?}, probed at {:?}", probe.from);
    assert_eq!(run.breaker_spans(0).len(), 2, "the first probe closed it");
    assert!(limit.at(over + HOUR) >= 2);
    assert_eq!(overload.an_hour_later(run).1, 0, "no page is given up any more");
    assert!(run.pages_received() > overload.ungoverned.pages_received(), "and more pages came in all");
}
