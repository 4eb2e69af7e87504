//! A server that is down for a while and then well again.

use std::time::Duration;

use crate::gate::GateConstants;
use crate::limits::MAX_LIMIT;
use crate::simulation::recording::Recording;
use crate::simulation::run::{Gated, Load, run};
use crate::simulation::server::{Answer, Scripted};

/// How long a page takes that is answered. *Source: load-gate record, median of the pages that completed.*
const WELL: Duration = Duration::from_millis(840);
/// How long a server that refuses takes to say so. *Source: ours.*
const REFUSAL: Duration = Duration::from_millis(100);
/// A run goes on this long after the recovery: the longest open period, and as much again to see the limit climb.
const AFTERWARDS: Duration = Duration::from_secs(3600);

/// How a server is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// It accepts and does not answer.
    Silent,
    /// It answers 503 at once.
    Refusing,
}

/// One instance that meets a server which is down, and is there when it is well again.
#[derive(Clone, Debug)]
pub struct Outage {
    /// How it was down.
    pub kind: OutageKind,
    /// The server is well from then on. What it was asked before is lost.
    pub well_from: Duration,
    /// Without a gate.
    pub ungoverned: Recording,
    /// With it.
    pub gate: Recording,
}

impl Outage {
    /// Rehearses an outage that ends at `well_from`.
    #[must_use]
    pub fn rehearse(kind: OutageKind, well_from: Duration) -> Self {
        let load = Load {
            instances: 1,
            callers_each: MAX_LIMIT,
            pause_after: Vec::new(),
            pages: usize::MAX,
            until: well_from.saturating_add(AFTERWARDS),
        };
        let server = || {
            Scripted::new(move |_, now: Duration| match kind {
                _ if now >= well_from => (WELL, Answer::Page),
                OutageKind::Silent => (well_from.saturating_sub(now), Answer::Lost),
                OutageKind::Refusing => (REFUSAL, Answer::Unavailable),
            })
        };
        Self {
            kind,
            well_from,
            ungoverned: run(&load, Gated::No, &mut server(), &mut |_| {}),
            gate: run(&load, Gated::By(GateConstants::default()), &mut server(), &mut |_| {}),
        }
    }

    /// How long after the recovery the first page came with the gate.
    #[must_use]
    pub fn noticed_after(&self) -> Option<Duration> {
        let came = |page: &crate::simulation::recording::Page| page.answer_time().and(page.ended).map(|(at, _)| at);
        Some(self.gate.pages.iter().filter_map(came).min()?.saturating_sub(self.well_from))
    }
}
