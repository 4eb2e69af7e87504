//! How often things happened at a gate since it was made.

use serde::Serialize;

use crate::gate::effects::{Call, Happened};
use crate::gate::queue::CallerKind;
use crate::outcome::Outcome;

/// How often things happened, since the gate was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GateCounts {
    /// Calls admitted that took a slot.
    pub admitted: u64,
    /// Long-polls let through.
    pub polls: u64,
    /// Probes, among the two above.
    pub probes: u64,
    /// Calls that users waited for and that reported.
    pub interactive: u64,
    /// Outcomes, of whatever call, that moved the limit, the count of successes or the breaker.
    pub counted: u64,
    /// Calls, of whatever kind, that timed out.
    pub timed_out: u64,
    /// Calls, of whatever kind, that ended in a 5xx, a 429 or a transport error.
    pub overloaded: u64,
    /// Calls given up without a word.
    pub dropped: u64,
    /// Slots held for a call that timed out.
    pub held: u64,
    /// Times the breaker opened after it had been closed.
    pub opened: u64,
    /// Times it opened again because a probe failed.
    pub reopened: u64,
    /// Times it closed.
    pub closed: u64,
    /// Waiters who left without having gone.
    pub gave_up: u64,
}

impl GateCounts {
    #[inline]
    pub(super) fn note(&mut self, what: Happened) {
        let add = |count: &mut u64| *count = count.saturating_add(1);
        match what {
            Happened::Admitted { kind: CallerKind::LongPoll, .. } => add(&mut self.polls),
            Happened::Admitted { .. } => add(&mut self.admitted),
            Happened::Finished { call, outcome, counted } => {
                if call == Call::Interactive {
                    add(&mut self.interactive);
                }
                if counted {
                    add(&mut self.counted);
                }
                match outcome {
                    Some(Outcome::TimedOut) => add(&mut self.timed_out),
                    Some(Outcome::Overloaded(_)) => add(&mut self.overloaded),
                    Some(_) => {}
                    None => add(&mut self.dropped),
                }
            }
            Happened::Held { .. } => add(&mut self.held),
            Happened::Opened { reopened: 0, .. } => add(&mut self.opened),
            Happened::Opened { .. } => add(&mut self.reopened),
            Happened::Probing => add(&mut self.probes),
            Happened::Closed => add(&mut self.closed),
            Happened::GaveUp { .. } => add(&mut self.gave_up),
            Happened::LimitChanged { .. } | Happened::HoldExpired => {}
        }
    }

    /// These and `others` together.
    #[must_use]
    pub fn plus(self, others: Self) -> Self {
        Self {
            admitted: self.admitted.saturating_add(others.admitted),
            polls: self.polls.saturating_add(others.polls),
            probes: self.probes.saturating_add(others.probes),
            interactive: self.interactive.saturating_add(others.interactive),
            counted: self.counted.saturating_add(others.counted),
            timed_out: self.timed_out.saturating_add(others.timed_out),
            overloaded: self.overloaded.saturating_add(others.overloaded),
            dropped: self.dropped.saturating_add(others.dropped),
            held: self.held.saturating_add(others.held),
            opened: self.opened.saturating_add(others.opened),
            reopened: self.reopened.saturating_add(others.reopened),
            closed: self.closed.saturating_add(others.closed),
            gave_up: self.gave_up.saturating_add(others.gave_up),
        }
    }
}
