//! A server that slows down under load, and a burst of others' requests: what becomes of it with the gate and without.
//!
//! The figures are ours and chosen so that both are possible: without a gate the callers ask for almost as much as the
//! server can do, so what they gave up keeps it full for hours after the burst. They show a shape, not a measurement.

use std::time::Duration;

use crate::gate::GateConstants;
use crate::simulation::recording::Recording;
use crate::simulation::run::{Gated, Load, run};
use crate::simulation::sharing::{Burst, SharingServer};

const MINUTE: Duration = Duration::from_secs(60);
const INSTANCES: usize = 2;
/// Accounts in each instance; each pages one room at a time.
const CALLERS_EACH: usize = 8;
const PLACES: u32 = 2;
/// Sixteen callers at 30 s apiece ask for 1.92 places' worth of it; eight, which two gates let in at most, have each page
/// in 14.4 s, under half of the timeout.
const WORK_PER_PAGE: Duration = Duration::from_millis(3600);
const BURST: Burst = Burst { from: Duration::ZERO, to: Duration::from_secs(1200), requests: 24 };
/// Long enough to see the end of it without a gate too.
const LENGTH: Duration = Duration::from_secs(4 * 3600);

/// Twenty minutes of others' requests, and what came of them.
#[derive(Clone, Debug)]
pub struct Overloaded {
    /// When the burst was over.
    pub burst_over: Duration,
    /// Without a gate.
    pub ungoverned: Recording,
    /// With one in each instance.
    pub gate: Recording,
}

impl Overloaded {
    /// Rehearses it.
    #[must_use]
    pub fn rehearse() -> Self {
        let load = Load {
            instances: INSTANCES,
            callers_each: CALLERS_EACH,
            pause_after: Vec::new(),
            pages: usize::MAX,
            until: LENGTH,
        };
        let server = || SharingServer::new(PLACES, WORK_PER_PAGE, BURST);
        Self {
            burst_over: BURST.to,
            ungoverned: run(&load, Gated::No, &mut server(), &mut |_| {}),
            gate: run(&load, Gated::By(GateConstants::default()), &mut server(), &mut |_| {}),
        }
    }

    /// How long after the burst the last page was given up.
    #[must_use]
    pub fn failed_until(&self, run: &Recording) -> Duration {
        let given_up = run.pages.iter().filter(|page| page.was_given_up()).filter_map(|page| page.ended);
        given_up.map(|(at, _)| at).max().unwrap_or_default().saturating_sub(self.burst_over)
    }

    /// Ten minutes around an hour after the burst: pages that came, and pages that were given up.
    #[must_use]
    pub fn an_hour_later(&self, run: &Recording) -> (usize, usize) {
        let around = self.burst_over + 55 * MINUTE..self.burst_over + 65 * MINUTE;
        let then = || run.pages.iter().filter(|page| page.ended.is_some_and(|(at, _)| around.contains(&at)));
        (then().filter(|page| page.answer_time().is_some()).count(), then().filter(|page| page.was_given_up()).count())
    }
}
