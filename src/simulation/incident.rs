//! The incident of the load-gate record, with the gate and without.

use std::time::Duration;

use crate::gate::GateConstants;
use crate::limits::{BACKFILL_PAGE_TIMEOUT, MAX_LIMIT};
use crate::simulation::recording::Recording;
use crate::simulation::run::{Gated, Load, Seen, run};
use crate::simulation::server::{Answer, Scripted};
use crate::simulation::trace::{Fate, IncidentTrace};

/// Nine hours.
const LENGTH: Duration = Duration::from_secs(9 * 3600);
const INSTANCES: usize = 2;
/// As many as a gate ever lets in: there is always somebody who wants a page.
const CALLERS_EACH: usize = MAX_LIMIT;

/// The incident, as it was and as it would have been.
#[derive(Clone, Debug)]
pub struct Incident {
    /// As it was.
    pub ungoverned: Recording,
    /// With the gate, and every page it lets through times out: the server never gets better.
    pub gate: Recording,
    /// The same, and each of those pages is worked on as long as the longest of the incident.
    pub gate_at_worst: Recording,
    /// With the gate, and each page ends as the next one of the incident did.
    pub same_outcomes: Recording,
}

impl Incident {
    /// Replays it, four times.
    #[must_use]
    pub fn replay() -> Self {
        let trace = IncidentTrace::new();
        let longest = trace.longest_work_left();
        Self {
            ungoverned: ungoverned(&trace),
            gate: all_time_out(|j| trace.work_left(j)),
            gate_at_worst: all_time_out(|_| longest),
            same_outcomes: with_the_same_outcomes(&trace, &mut |_| {}),
        }
    }

    /// How long it lasted.
    #[must_use]
    pub fn length(&self) -> Duration {
        LENGTH
    }
}

/// Two instances without a gate, one page at a time each, until the incident's last page.
#[must_use]
pub fn ungoverned(trace: &IncidentTrace) -> Recording {
    let load = Load {
        instances: INSTANCES,
        callers_each: 1,
        pause_after: trace.pause_after_each(),
        pages: trace.pages.len(),
        // The last pages are asked for a little after nine hours.
        until: LENGTH + Duration::from_secs(3600),
    };
    let mut recording = run(&load, Gated::No, &mut Scripted::new(|page, _| as_traced(trace, page)), &mut |_| {});
    recording.until = LENGTH;
    recording
}

/// Two instances, each with its gate, and every page times out; `work_left` says how long the server works on the `j`th
/// after that, those of the first instance before those of the second.
#[must_use]
pub fn all_time_out(work_left: impl Fn(usize) -> Duration) -> Recording {
    let mut given_up = 0;
    let mut one_instance = || {
        let mut server = Scripted::new(|_, _| {
            given_up += 1;
            (BACKFILL_PAGE_TIMEOUT + work_left(given_up - 1), Answer::Page)
        });
        run(&hungry(1), Gated::By(GateConstants::default()), &mut server, &mut |_| {})
    };
    one_instance().beside(one_instance())
}

/// Two instances, each with its gate; each page ends as the next one of the incident did, as if the server had been no
/// better for the calls it was spared. `watch` sees each step of the gates.
pub fn with_the_same_outcomes(trace: &IncidentTrace, watch: &mut dyn FnMut(Seen<'_>)) -> Recording {
    let mut server = Scripted::new(|page, _| as_traced(trace, page));
    run(&hungry(INSTANCES), Gated::By(GateConstants::default()), &mut server, watch)
}

/// As many pages as the gate allows.
fn hungry(instances: usize) -> Load {
    Load { instances, callers_each: CALLERS_EACH, pause_after: Vec::new(), pages: usize::MAX, until: LENGTH }
}

fn as_traced(trace: &IncidentTrace, page: usize) -> (Duration, Answer) {
    let page = page.checked_rem(trace.pages.len()).and_then(|page| trace.pages.get(page));
    match page.map(|page| page.fate) {
        Some(Fate::Answered { after }) => (after, Answer::Page),
        Some(Fate::GivenUp { work_left }) => (BACKFILL_PAGE_TIMEOUT + work_left, Answer::Page),
        None => (Duration::ZERO, Answer::Lost),
    }
}
