//! The incident with the gate: when everything times out, and when pages end as they did.

use std::collections::VecDeque;

use super::*;
use crate::gate::state::{BreakerSnapshot, Happened};
use crate::limits::{MAX_LIMIT, TIMEOUT_HOLD};
use crate::outcome::Outcome;
use crate::simulation::{IncidentTrace, Seen, SpanKind, all_time_out, with_the_same_outcomes};

/// The admissions of one gate in nine hours in which every page times out.
fn admissions() -> Vec<Duration> {
    let mut times = vec![at(0, 0, 0), at(0, 0, 0), at(0, 15, 30), at(0, 31, 0), at(0, 46, 30), at(1, 2, 0)];
    times.extend([at(1, 17, 30), at(1, 34, 0)]);
    // Then one every thirty minutes and a half.
    times.extend([at(2, 4, 30), at(2, 35, 0), at(3, 5, 30), at(3, 36, 0), at(4, 6, 30), at(4, 37, 0), at(5, 7, 30)]);
    times.extend([at(5, 38, 0), at(6, 8, 30), at(6, 39, 0), at(7, 9, 30), at(7, 40, 0), at(8, 10, 30), at(8, 41, 0)]);
    times
}

#[test]
fn each_instance_sends_twenty_two_pages_in_nine_hours() {
    let trace = IncidentTrace::new();
    let run = all_time_out(|j| trace.work_left(j));
    assert_eq!((run.calls(), run.given_up(), run.pages_received()), (44, 44, 0));
    for instance in 0..2 {
        assert_eq!(run.admissions(instance), admissions());
    }
    assert_eq!(run.calls_between(at(0, 0, 30), at(0, 15, 30)), 0, "nothing for 15 minutes after the first timeouts");
}

#[test]
fn the_server_has_few_pages_at_work() {
    let trace = IncidentTrace::new();
    let run = all_time_out(|j| trace.work_left(j));
    let at_work = run.at_work();
    assert_eq!(format!("{:.2}", at_work.mean(Duration::ZERO, 9 * HOUR)), "3.68");
    assert_eq!(at_work.peak(Duration::ZERO, Duration::MAX), (7, at(1, 2, 0)));
    assert_eq!(format!("{:.1}", at_work.area(Duration::ZERO, Duration::MAX).as_secs_f64() / 3600.0), "33.7");
    let believed = run.believed_in_flight();
    assert_eq!(believed.peak(Duration::ZERO, Duration::MAX), (4, Duration::ZERO));
    assert_eq!(believed.peak(at(0, 0, 30), Duration::MAX).0, 2);
}

#[test]
fn the_server_has_few_pages_at_work_even_if_each_takes_as_long_as_the_longest() {
    let run = all_time_out(|_| 144 * MINUTE);
    let at_work = run.at_work();
    assert_eq!(format!("{:.1}", at_work.mean(Duration::ZERO, 9 * HOUR)), "10.6");
    assert_eq!(at_work.peak(Duration::ZERO, Duration::MAX), (18, at(2, 4, 30)));
}

#[test]
fn holds_shut_it_first_and_then_the_breaker() {
    let run = all_time_out(|_| MINUTE);
    assert_eq!(run.limit(0, 2).steps(), [(at(0, 0, 0), 2), (at(0, 0, 30), 1), (at(0, 16, 0), 0)]);
    assert_eq!(
        run.holds(0)[..3],
        [(at(0, 0, 30), at(0, 15, 30)), (at(0, 0, 30), at(0, 15, 30)), (at(0, 16, 0), at(0, 31, 0))]
    );
    let spans = run.breaker_spans(0);
    assert_eq!((spans[0].kind, spans[0].from, spans[0].to), (SpanKind::Open, at(0, 16, 0), at(0, 31, 0)));
    assert_eq!((spans[1].kind, spans[1].from, spans[1].to), (SpanKind::Probing, at(0, 31, 0), at(0, 31, 30)));
    let last = spans.last().unwrap();
    assert_eq!((last.kind, last.from, last.to, last.reopened), (SpanKind::Open, at(8, 41, 30), at(9, 0, 0), 19));
}

/// What is true of the gates after every step, whatever the server does.
#[derive(Default)]
struct Rules {
    steps: usize,
    /// Timeouts of both, for as long as the server may go on with them.
    timeouts: VecDeque<Duration>,
    of: [OneGate; 2],
}

#[derive(Default)]
struct OneGate {
    timeouts: Vec<Duration>,
    /// Nothing may go before then.
    shut_until: Duration,
    probing: bool,
}

impl Rules {
    fn check(&mut self, seen: &Seen<'_>) {
        self.steps += 1;
        let (now, gate, of) = (seen.at, seen.gate.snapshot(), &mut self.of[seen.instance]);
        assert_eq!(gate.limit == 0, gate.breaker != BreakerSnapshot::Closed, "at {now:?}: {gate:?}");
        for dated in &seen.effects.happened {
            match dated.what {
                Happened::Admitted { probe, .. } => {
                    assert!(now >= of.shut_until, "let in at {now:?}, with a hold until {:?}", of.shut_until);
                    assert!(!of.probing, "beside a probe, at {now:?}");
                    of.probing = probe;
                    assert!(probe || seen.gate.slots_in_use() <= gate.limit, "at {now:?}: {gate:?}");
                }
                Happened::Finished { outcome, .. } => {
                    of.probing = false;
                    if outcome == Some(Outcome::TimedOut) {
                        of.timeouts.push(now);
                        let fifth_last = of.timeouts.iter().rev().nth(MAX_LIMIT);
                        assert!(fifth_last.is_none_or(|then| now >= *then + TIMEOUT_HOLD), "{:?}", of.timeouts);
                        self.timeouts.push_back(now);
                        if gate.held.len() >= gate.limit && gate.limit > 0 {
                            of.shut_until = gate.held[0];
                        }
                    }
                }
                _ => {}
            }
        }
        while self.timeouts.front().is_some_and(|timeout| now > *timeout + 144 * MINUTE) {
            self.timeouts.pop_front();
        }
        assert!(seen.at_work <= 2 * MAX_LIMIT + self.timeouts.len(), "{} at work at {now:?}", seen.at_work);
    }
}

#[test]
fn no_rule_is_broken_when_pages_end_as_they_did() {
    let mut rules = Rules::default();
    let run = with_the_same_outcomes(&IncidentTrace::new(), &mut |seen| rules.check(&seen));
    assert!(rules.steps > 500, "{} steps", rules.steps);
    for instance in 0..2 {
        assert!(!run.breaker_spans(instance).is_empty(), "the breaker opened");
        let steps = run.limit(instance, 2).steps().len();
        assert!(steps > 10, "and closed again, often: the limit changed {steps} times");
    }
    assert!(run.given_up() < 100 && run.calls() < 2111 / 4, "{} of {}", run.given_up(), run.calls());
}
