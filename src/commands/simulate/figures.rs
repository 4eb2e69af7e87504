//! What is told of one run, for tables and JSON alike.

use std::time::Duration;

use portcullis::simulation::{BreakerSpan, Recording, SpanKind};
use serde::Serialize;

const HOUR: Duration = Duration::from_secs(3600);

/// One run in figures.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) calls: usize,
    /// Given up at their timeout.
    pub(super) abandoned: usize,
    /// Pages that came.
    pub(super) received: usize,
    /// At the server, whether or not anybody still waits: the mean over the run.
    pub(super) in_flight_mean: f64,
    pub(super) in_flight_peak: usize,
    pub(super) in_flight_peak_at_ms: u64,
    /// What the server worked in all, calls one after another.
    pub(super) request_hours: f64,
    pub(super) hours: Vec<HourFigures>,
}

/// One hour of it.
#[derive(Debug, Serialize)]
pub(super) struct HourFigures {
    pub(super) calls: usize,
    pub(super) abandoned: usize,
    pub(super) in_flight_mean: f64,
    pub(super) in_flight_peak: usize,
}

/// The gate of one instance over time.
#[derive(Debug, Serialize)]
pub(super) struct GateTimeline {
    pub(super) admissions_ms: Vec<u64>,
    pub(super) limit: Vec<LimitStep>,
    pub(super) holds: Vec<Hold>,
    pub(super) breaker: Vec<BreakerTime>,
}

#[derive(Debug, Serialize)]
pub(super) struct LimitStep {
    at_ms: u64,
    limit: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Hold {
    from_ms: u64,
    until_ms: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct BreakerTime {
    state: &'static str,
    from_ms: u64,
    to_ms: u64,
    reopened: u32,
}

impl Figures {
    pub(super) fn of(run: &Recording) -> Self {
        let at_work = run.at_work();
        let (in_flight_peak, since) = at_work.peak(Duration::ZERO, run.until);
        let starts = (0..).map(|hour| HOUR * hour).take_while(|start| *start < run.until);
        Self {
            calls: run.calls(),
            abandoned: run.given_up(),
            received: run.pages_received(),
            in_flight_mean: hundredths(at_work.mean(Duration::ZERO, run.until)),
            in_flight_peak,
            in_flight_peak_at_ms: whole_ms(since),
            request_hours: hundredths(at_work.area(Duration::ZERO, Duration::MAX).as_secs_f64() / HOUR.as_secs_f64()),
            hours: starts
                .map(|from| (from, (from + HOUR).min(run.until)))
                .map(|(from, to)| HourFigures {
                    calls: run.calls_between(from, to),
                    abandoned: run.given_up_between(from, to),
                    in_flight_mean: hundredths(at_work.mean(from, to)),
                    in_flight_peak: at_work.peak(from, to).0,
                })
                .collect(),
        }
    }
}

impl GateTimeline {
    /// That of `instance`, whose gate began with a limit of `initial`.
    pub(super) fn of(run: &Recording, instance: usize, initial: usize) -> Self {
        Self {
            admissions_ms: run.admissions(instance).into_iter().map(whole_ms).collect(),
            limit: run
                .limit(instance, initial)
                .steps()
                .iter()
                .map(|(at, limit)| LimitStep { at_ms: whole_ms(*at), limit: *limit })
                .collect(),
            holds: run
                .holds(instance)
                .into_iter()
                .map(|(from, until)| Hold { from_ms: whole_ms(from), until_ms: whole_ms(until) })
                .collect(),
            breaker: run
                .breaker_spans(instance)
                .into_iter()
                .map(|span| BreakerTime {
                    state: match span.kind {
                        SpanKind::Open => "open",
                        SpanKind::Probing => "probing",
                    },
                    from_ms: whole_ms(span.from),
                    to_ms: whole_ms(span.to),
                    reopened: span.reopened,
                })
                .collect(),
        }
    }
}

/// The breaker just before `at`, in words.
pub(super) fn breaker_before(spans: &[BreakerSpan], at: Duration) -> String {
    match spans.iter().find(|span| span.from < at && at <= span.to) {
        None => "closed".to_owned(),
        Some(BreakerSpan { kind: SpanKind::Probing, .. }) => "probing".to_owned(),
        Some(BreakerSpan { reopened: 0, .. }) => "open".to_owned(),
        Some(BreakerSpan { reopened: 1, .. }) => "open, 1 probe failed".to_owned(),
        Some(BreakerSpan { reopened, .. }) => format!("open, {reopened} probes failed"),
    }
}

pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.saturating_add(Duration::from_micros(500)).as_millis()).unwrap_or(u64::MAX)
}

/// Rounded to two decimals.
pub(super) fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// `h:mm:ss`, and milliseconds where there are any.
pub(super) fn clock(time: Duration) -> String {
    let ms = whole_ms(time);
    let clock = format!("{}:{:02}:{:02}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    match ms % 1000 {
        0 => clock,
        rest => format!("{clock}.{rest:03}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_milliseconds_only_where_there_are_any() {
        assert_eq!(clock(Duration::from_secs(7470)), "2:04:30");
        assert_eq!(clock(Duration::from_millis(9_309_240)), "2:35:09.240");
        assert_eq!(clock(Duration::from_nanos(18_064_656_587_257)), "5:01:04.657");
    }
}
