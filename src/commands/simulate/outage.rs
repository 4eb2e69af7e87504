//! `portcullis simulate outage`: the story of one gate, and the JSON object.

use std::fmt::Write as _;
use std::time::Duration;

use portcullis::gate::state::Happened;
use portcullis::limits::INITIAL_LIMIT;
use portcullis::simulation::{Outage, OutageKind, Recording};
use serde::Serialize;

use super::figures::{Figures, GateTimeline, clock, whole_ms};

/// Everything one rehearsal showed. Its JSON form is the contract of `portcullis simulate outage --json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    kind: &'static str,
    well_from_ms: u64,
    /// When the first page came, counted from the recovery.
    noticed_after_ms: Option<u64>,
    ungoverned: Figures,
    gate: Gated,
    /// Calls made while the server was down.
    calls_while_down: WhileDown,
    #[serde(skip)]
    story: Vec<(Duration, String)>,
}

#[derive(Debug, Serialize)]
struct Gated {
    #[serde(flatten)]
    figures: Figures,
    #[serde(flatten)]
    timeline: GateTimeline,
}

#[derive(Debug, Serialize)]
struct WhileDown {
    ungoverned: usize,
    gate: usize,
}

impl Report {
    pub(super) fn of(outage: &Outage) -> Self {
        let while_down = |run: &Recording| run.calls_between(Duration::ZERO, outage.well_from);
        Self {
            kind: match outage.kind {
                OutageKind::Silent => "silent",
                OutageKind::Refusing => "refusing",
            },
            well_from_ms: whole_ms(outage.well_from),
            noticed_after_ms: outage.noticed_after().map(whole_ms),
            ungoverned: Figures::of(&outage.ungoverned),
            gate: Gated {
                figures: Figures::of(&outage.gate),
                timeline: GateTimeline::of(&outage.gate, 0, INITIAL_LIMIT),
            },
            calls_while_down: WhileDown { ungoverned: while_down(&outage.ungoverned), gate: while_down(&outage.gate) },
            story: story(outage),
        }
    }

    pub(super) fn render(&self) -> String {
        let down = match self.kind {
            "silent" => "does not answer",
            _ => "answers 503",
        };
        let well_from = clock(Duration::from_millis(self.well_from_ms));
        let mut text = format!(
            "A homeserver {down} until {well_from} and is well from then on (a page in 0.84 s). Four callers always want a\n\
             page, and ask for the next at once.\n\n"
        );
        for (at, what) in &self.story {
            let _ = writeln!(text, "{:>12}  {what}", clock(*at));
        }
        let WhileDown { ungoverned, gate } = &self.calls_while_down;
        let _ = writeln!(
            text,
            "\n{:<44}{:>18}{:>16}\n{:<44}{ungoverned:>18}{gate:>16}",
            "", "without the gate", "with the gate", "calls while it was down"
        );
        let _ = writeln!(
            text,
            "{:<44}{:>18}{:>16}",
            "most at work at the homeserver at once", self.ungoverned.in_flight_peak, self.gate.figures.in_flight_peak
        );
        if let Some(noticed) = self.noticed_after_ms {
            let noticed = clock(Duration::from_millis(noticed));
            let _ = writeln!(text, "{:<44}{:>18}{noticed:>16}", "first page after the recovery", "");
        }
        text
    }
}

/// What an onlooker would tell of the gate, in order.
fn story(outage: &Outage) -> Vec<(Duration, String)> {
    let mut story = Vec::new();
    let mut well = false;
    for (_, dated) in &outage.gate.happened {
        if !well && dated.at >= outage.well_from {
            well = true;
            story.push((outage.well_from, "the homeserver is well again".to_owned()));
        }
        let told = match dated.what {
            Happened::Admitted { probe: true, waited, .. } => {
                format!("the breaker lets one call through; it waited {}", clock(waited))
            }
            Happened::LimitChanged { from, to: 0 } => format!("limit {from} to 0"),
            Happened::LimitChanged { from: 0, to } => format!("limit {to}"),
            Happened::LimitChanged { from, to } => format!("limit {from} to {to}"),
            Happened::Held { until } => format!("a call timed out; its slot is held until {}", clock(until)),
            Happened::Opened { outcome, period_ends, reopened } => {
                let again = if reopened == 0 { "opens" } else { "stays open" };
                format!("the breaker {again} ({}); this period ends at {}", outcome.as_label(), clock(period_ends))
            }
            Happened::Closed => "the breaker closes: the homeserver answered".to_owned(),
            _ => continue,
        };
        story.push((dated.at, told));
    }
    story
}
