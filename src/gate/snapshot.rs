//! What the gate looks like at one moment, and what the next admission waits for.

use std::time::Duration;

use crate::gate::breaker::Breaker;
use crate::gate::queue::CallerKind;
use crate::gate::state::State;

/// The gate at one moment; times count from its making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The limit.
    pub limit: usize,
    /// Calls out that take a slot.
    pub active: usize,
    /// When each held slot is free again, soonest first.
    pub held: Vec<Duration>,
    /// Who waits.
    pub waiting: WaitingCounts,
    /// Since when the first of them has waited.
    pub waiting_since: Option<Duration>,
    /// The breaker.
    pub breaker: BreakerSnapshot,
}

/// How many wait, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct WaitingCounts {
    /// As long as it takes.
    pub background: usize,
    /// Briefly.
    pub brief: usize,
    /// Long-polls.
    pub long_poll: usize,
}

/// The breaker at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerSnapshot {
    /// Calls go out as the limit says.
    Closed,
    /// Nothing goes out.
    Open {
        /// Since then.
        opened_at: Duration,
        /// The open period is over then.
        period_ends: Duration,
        /// How often a probe failed since it last closed.
        reopened: u32,
    },
    /// One call is out.
    Probing {
        /// The breaker opened then.
        opened_at: Duration,
        /// How often a probe failed since it last closed.
        reopened: u32,
    },
}

/// When a call will be let in next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextAdmission {
    /// At this time, or earlier if a call ends first; nothing if it depends on the end of calls alone.
    pub at: Option<Duration>,
    /// What it waits for.
    pub decided_by: DecidedBy,
}

/// What the next admission waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A slot: one is free for the next caller, or will be when a call ends.
    Slot,
    /// The end of a hold.
    Hold,
    /// The end of the open period.
    Cooldown,
    /// The probe: its end while it is out, or the next caller, who will be it.
    Probe,
}

impl WaitingCounts {
    /// All of them.
    #[must_use]
    pub fn total(self) -> usize {
        self.background.saturating_add(self.brief).saturating_add(self.long_poll)
    }
}

impl State {
    /// The state as of the last step. To see the present, step with [`TimePassed`](crate::gate::state::Event::TimePassed)
    /// first.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let since = [self.line.oldest(), self.polls.oldest()];
        Snapshot {
            limit: self.limit.current(),
            active: self.active,
            held: self.held.ends().collect(),
            waiting: WaitingCounts {
                background: self.line.count(CallerKind::Background),
                brief: self.line.count(CallerKind::Brief),
                long_poll: self.polls.count(CallerKind::LongPoll),
            },
            waiting_since: since.into_iter().flatten().min(),
            breaker: match self.breaker {
                Breaker::Closed => BreakerSnapshot::Closed,
                Breaker::Open(outage) => BreakerSnapshot::Open {
                    opened_at: outage.opened_at,
                    period_ends: outage.period_ends,
                    reopened: outage.reopened,
                },
                Breaker::Probing(outage) => {
                    BreakerSnapshot::Probing { opened_at: outage.opened_at, reopened: outage.reopened }
                }
            },
        }
    }

    /// When a call will be let in next, as of the last step, which was at `now`.
    #[must_use]
    pub fn next_admission(&self, now: Duration) -> NextAdmission {
        match self.breaker {
            Breaker::Closed => {
                let free = self.limit.current().saturating_sub(self.slots_in_use());
                if free > 0 {
                    return NextAdmission { at: Some(now), decided_by: DecidedBy::Slot };
                }
                // So many have to be given back before one is free.
                let over = self.slots_in_use().saturating_sub(self.limit.current()).saturating_add(1);
                match self.held.nth_end(over) {
                    Some(end) => NextAdmission { at: Some(end), decided_by: DecidedBy::Hold },
                    None => NextAdmission { at: None, decided_by: DecidedBy::Slot },
                }
            }
            Breaker::Open(outage) => match self.held.last_end() {
                Some(end) if end > outage.period_ends => NextAdmission { at: Some(end), decided_by: DecidedBy::Hold },
                _ if outage.period_ends > now => {
                    NextAdmission { at: Some(outage.period_ends), decided_by: DecidedBy::Cooldown }
                }
                _ => NextAdmission { at: Some(now), decided_by: DecidedBy::Probe },
            },
            Breaker::Probing(_) => NextAdmission { at: None, decided_by: DecidedBy::Probe },
        }
    }

    pub(super) fn wake_at(&self, now: Duration) -> Option<Duration> {
        if self.line.is_empty() && self.polls.is_empty() {
            return None;
        }
        let next = self.next_admission(now);
        matches!(next.decided_by, DecidedBy::Hold | DecidedBy::Cooldown).then_some(next.at).flatten()
    }
}
