//! `portcullis simulate incident`: the tables and the JSON object.

use std::fmt::Write as _;
use std::time::Duration;

use portcullis::limits::INITIAL_LIMIT;
use portcullis::simulation::{BreakerSpan, Curve, Incident, Overloaded, Recording};
use serde::Serialize;

use super::figures::{Figures, GateTimeline, HourFigures, breaker_before, clock, hundredths, whole_ms};

/// Everything one replay showed. Its JSON form is the contract of `portcullis simulate incident --json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    length_ms: u64,
    /// When the gate of each instance let a page through, if every page timed out.
    admissions_all_timeout_ms: Vec<u64>,
    ungoverned: Ungoverned,
    gate: Gated,
    gate_if_all_work_is_longest: Figures,
    gate_with_the_same_outcomes: Figures,
    overload: Overload,
    #[serde(skip)]
    told: Told,
}

#[derive(Debug, Serialize)]
struct Ungoverned {
    #[serde(flatten)]
    figures: Figures,
    /// How long the server went on with a page after it was given up.
    work_left_minutes: Percentiles,
}

#[derive(Debug, Serialize)]
struct Gated {
    #[serde(flatten)]
    figures: Figures,
    #[serde(flatten)]
    timeline: GateTimeline,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    p10: f64,
    p50: f64,
    p90: f64,
    max: f64,
}

/// A server that slows down under load, and a burst of others' requests.
#[derive(Debug, Serialize)]
struct Overload {
    burst_over_ms: u64,
    ungoverned: Afterwards,
    gate: Afterwards,
}

#[derive(Debug, Serialize)]
struct Afterwards {
    received: usize,
    abandoned: usize,
    /// How long after the burst pages were still given up.
    failing_for_ms: u64,
    /// In the ten minutes around an hour after it.
    an_hour_later: HourLater,
    limit_an_hour_later: Option<usize>,
}

#[derive(Debug, Serialize)]
struct HourLater {
    received: usize,
    abandoned: usize,
}

/// What only the tables need.
#[derive(Debug)]
struct Told {
    length: Duration,
    limit: Curve,
    spans: Vec<BreakerSpan>,
    admissions: Vec<Duration>,
}

impl Report {
    pub(super) fn of(incident: &Incident, overload: &Overloaded) -> Self {
        let gate = &incident.gate;
        let timeline = GateTimeline::of(gate, 0, INITIAL_LIMIT);
        Self {
            length_ms: whole_ms(incident.length()),
            admissions_all_timeout_ms: timeline.admissions_ms.clone(),
            ungoverned: Ungoverned {
                figures: Figures::of(&incident.ungoverned),
                work_left_minutes: Percentiles::of_minutes(&incident.ungoverned.work_left()),
            },
            gate: Gated { figures: Figures::of(gate), timeline },
            gate_if_all_work_is_longest: Figures::of(&incident.gate_at_worst),
            gate_with_the_same_outcomes: Figures::of(&incident.same_outcomes),
            overload: Overload {
                burst_over_ms: whole_ms(overload.burst_over),
                ungoverned: Afterwards::of(overload, &overload.ungoverned, false),
                gate: Afterwards::of(overload, &overload.gate, true),
            },
            told: Told {
                length: incident.length(),
                limit: gate.limit(0, INITIAL_LIMIT),
                spans: gate.breaker_spans(0),
                admissions: gate.admissions(0),
            },
        }
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::from(
            "An incident, replayed under virtual time. Two clients fill in the history of a large room, page by page, for nine\n\
             hours. A page that takes longer than 30 s is given up; the homeserver goes on working on it, for 18 minutes in the\n\
             median. \"At work\" counts those pages too. With the gate every page that it lets through is taken to time out.\n\n",
        );
        self.hours(&mut text);
        self.rest(&mut text);
        self.after_a_burst(&mut text);
        text
    }

    fn hours(&self, text: &mut String) {
        let _ = writeln!(text, "{:<6}{:>36}  {:>34}", "", "without the gate", "with a gate in each client");
        let _ = writeln!(
            text,
            "{:<6}{:>7}{:>10}{:>12}{:>7}  {:>7}{:>10}{:>10}{:>7}  each gate at the end",
            "hour", "pages", "given up", "at work", "peak", "pages", "given up", "at work", "peak"
        );
        let rows = self.ungoverned.figures.hours.iter().zip(&self.gate.figures.hours);
        for (hour, (without, with)) in (0_u32..).zip(rows) {
            let end = Duration::from_secs(3600) * hour + Duration::from_secs(3600);
            let limit = self.told.limit.at(end.min(self.told.length));
            let breaker = breaker_before(&self.told.spans, end);
            let _ = writeln!(
                text,
                "{:<6}{}  limit {limit}, {breaker}",
                format!("{hour}–{}", hour + 1),
                cells(without, with)
            );
        }
        let whole = |figures: &Figures| HourFigures {
            calls: figures.calls,
            abandoned: figures.abandoned,
            in_flight_mean: figures.in_flight_mean,
            in_flight_peak: figures.in_flight_peak,
        };
        let _ = writeln!(text, "{:<6}{}\n", "all", cells(&whole(&self.ungoverned.figures), &whole(&self.gate.figures)));
    }

    fn rest(&self, text: &mut String) {
        let Percentiles { p10, p50, p90, max } = self.ungoverned.work_left_minutes;
        let _ = writeln!(
            text,
            "Work the homeserver did: {:.1} request-hours without the gate, {:.1} with it. On a page that was given up it went\n\
             on for {p10:.1} min (10th percentile), {p50:.1} (median), {p90:.1} (90th), {max:.1} (longest).\n",
            self.ungoverned.figures.request_hours, self.gate.figures.request_hours
        );
        let _ = writeln!(text, "Each gate let these through:");
        for times in self.told.admissions.chunks(8) {
            let times: Vec<_> = times.iter().map(|at| format!("{:>9}", clock(*at))).collect();
            let _ = writeln!(text, " {}", times.join("  "));
        }
        let worst = &self.gate_if_all_work_is_longest;
        let same = &self.gate_with_the_same_outcomes;
        let _ = writeln!(
            text,
            "\nWith the gate, had the homeserver worked {max:.0} min on each of those: {:.2} at work, peak {}.\n\
             With the gate, had pages come and been given up in the incident's own order: {} pages, {} given up,\n\
             {:.2} at work, peak {}.\n",
            worst.in_flight_mean,
            worst.in_flight_peak,
            same.calls,
            same.abandoned,
            same.in_flight_mean,
            same.in_flight_peak
        );
    }

    fn after_a_burst(&self, text: &mut String) {
        let Overload { burst_over_ms, ungoverned, gate } = &self.overload;
        let _ = writeln!(
            text,
            "A homeserver that slows down the more it has to do, after {} minutes of others' requests:\n\n{:<52}{:>18}{:>16}",
            burst_over_ms / 60_000,
            "",
            "without the gate",
            "with the gate"
        );
        let mut row = |label: &str, cell: &dyn Fn(&Afterwards) -> String| {
            let _ = writeln!(text, "{label:<52}{:>18}{:>16}", cell(ungoverned), cell(gate));
        };
        row("pages were given up for so long after it", &|run| clock(Duration::from_millis(run.failing_for_ms)));
        row("an hour after it, in ten minutes: pages that came", &|run| run.an_hour_later.received.to_string());
        row("                                  given up", &|run| run.an_hour_later.abandoned.to_string());
        row("in four hours: pages that came", &|run| run.received.to_string());
        row("               given up", &|run| run.abandoned.to_string());
    }
}

fn cells(without: &HourFigures, with: &HourFigures) -> String {
    format!(
        "{:>7}{:>10}{:>12.2}{:>7}  {:>7}{:>10}{:>10.2}{:>7}",
        without.calls,
        without.abandoned,
        without.in_flight_mean,
        without.in_flight_peak,
        with.calls,
        with.abandoned,
        with.in_flight_mean,
        with.in_flight_peak
    )
}

impl Percentiles {
    /// By nearest rank, of `sorted`; 0 of nothing.
    fn of_minutes(sorted: &[Duration]) -> Self {
        let at = |percent: usize| {
            let rank = sorted.len().saturating_mul(percent).div_ceil(100).saturating_sub(1);
            hundredths(sorted.get(rank).copied().unwrap_or_default().as_secs_f64() / 60.0)
        };
        Self { p10: at(10), p50: at(50), p90: at(90), max: at(100) }
    }
}

impl Afterwards {
    fn of(overload: &Overloaded, run: &Recording, gated: bool) -> Self {
        let (received, abandoned) = overload.an_hour_later(run);
        let later = overload.burst_over + Duration::from_secs(3600);
        Self {
            received: run.pages_received(),
            abandoned: run.given_up(),
            failing_for_ms: whole_ms(overload.failed_until(run)),
            an_hour_later: HourLater { received, abandoned },
            limit_an_hour_later: gated.then(|| run.limit(0, INITIAL_LIMIT).at(later)),
        }
    }
}
