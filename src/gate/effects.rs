//! What a step of the gate led to, as data: who may go, what happened, and when time alone will change anything.

use std::time::Duration;

use crate::gate::limit::Epoch;
use crate::gate::queue::{CallerKind, WaiterId};
use crate::outcome::Outcome;

/// What one [`step`](crate::gate::state::State::step) led to. Times count from the making of the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Waiters who have their answer, in the order they got it.
    pub verdicts: Vec<(WaiterId, Verdict)>,
    /// What happened, in order.
    pub happened: Vec<Dated>,
    /// When somebody who waits may go by the passing of time alone; the gate has to be stepped then.
    pub wake_at: Option<Duration>,
}

/// The answer to a waiter, who waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may send its call, and has to say how it ended.
    Granted(Grant),
    /// It goes away without: it waits briefly, and the breaker is not closed.
    Refused,
}

/// Leave to send one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Whose call it is.
    pub kind: CallerKind,
    /// Whether it is the probe of a breaker that is not closed. Never two at a time.
    pub probe: bool,
    /// The decreases it has seen.
    pub started: Epoch,
}

/// Something that happened, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dated {
    /// Time since the gate was made. A hold's end has its own time, however late it was noticed.
    pub at: Duration,
    /// What.
    pub what: Happened,
}

/// Something that happened at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happened {
    /// A caller may send its call.
    Admitted {
        /// Whose.
        kind: CallerKind,
        /// Whether it is the probe.
        probe: bool,
        /// How long it waited.
        waited: Duration,
    },
    /// A call ended.
    Finished {
        /// Whose.
        call: Call,
        /// How; nothing if it was given up without a word.
        outcome: Option<Outcome>,
        /// Whether it moved the limit, the count of successes or the breaker.
        counted: bool,
    },
    /// The limit changed.
    LimitChanged {
        /// It was so high.
        from: usize,
        /// And is so high now.
        to: usize,
    },
    /// A call that timed out keeps its slot.
    Held {
        /// Until then.
        until: Duration,
    },
    /// A held slot is free again.
    HoldExpired,
    /// The breaker opened.
    Opened {
        /// By this outcome.
        outcome: Outcome,
        /// The open period is over then; holds may last longer.
        period_ends: Duration,
        /// How often a probe failed since it last closed.
        reopened: u32,
    },
    /// The breaker lets one call through.
    Probing,
    /// The breaker closed.
    Closed,
    /// A waiter left without having gone.
    GaveUp {
        /// Who.
        kind: CallerKind,
        /// Why.
        why: GaveUp,
        /// How long it had waited.
        waited: Duration,
    },
}

/// Whose call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// One that was admitted.
    Gated(CallerKind),
    /// One a user waited for; it was never admitted.
    Interactive,
}

/// Why a waiter left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GaveUp {
    /// It was cancelled, or its future dropped.
    Cancelled,
    /// Its brief wait was over.
    OutOfTime,
    /// It waits briefly, and the breaker was not closed.
    NotClosed,
}

/// Takes in what a step leads to, while it does.
pub(super) trait Sink {
    fn answer(&mut self, waiter: WaiterId, verdict: Verdict);
    fn note(&mut self, at: Duration, what: Happened);
}

impl Sink for Effects {
    fn answer(&mut self, waiter: WaiterId, verdict: Verdict) {
        self.verdicts.push((waiter, verdict));
    }

    fn note(&mut self, at: Duration, what: Happened) {
        self.happened.push(Dated { at, what });
    }
}
