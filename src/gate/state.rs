//! The gate's rules as a pure state machine: [`State::step`] takes an event and the time, and says what follows.
//!
//! No clock, no lock, no log. Times are durations since the gate was made. The shell around it keeps the lock, the wakers
//! and the clock; simulators and checkers drive it directly.
//!
//! ```
//! use portcullis::Outcome;
//! use portcullis::gate::GateConstants;
//! use portcullis::gate::state::{CallerKind, Event, State, Verdict, WaiterId};
//! use std::time::Duration;
//!
//! let mut state = State::new(GateConstants::default());
//! let arrived = Event::Arrived { waiter: WaiterId(0), kind: CallerKind::Background };
//! let effects = state.step(arrived, Duration::ZERO);
//! let [(WaiterId(0), Verdict::Granted(grant))] = effects.verdicts[..] else { panic!("a slot is free") };
//! state.step(Event::Ended { grant, outcome: Some(Outcome::TimedOut) }, Duration::from_secs(30));
//! let seen = state.snapshot();
//! assert_eq!((seen.limit, seen.active, seen.held), (1, 0, vec![Duration::from_secs(930)]));
//! ```

use std::time::Duration;

use crate::gate::breaker::Breaker;
use crate::gate::constants::GateConstants;
use crate::gate::effects::Sink;
pub use crate::gate::effects::{Call, Dated, Effects, GaveUp, Grant, Happened, Verdict};
use crate::gate::held::HeldSlots;
pub use crate::gate::limit::Epoch;
use crate::gate::limit::{Change, Limit};
pub use crate::gate::queue::{CallerKind, WaiterId};
use crate::gate::queue::{Queue, Waiter};
pub use crate::gate::snapshot::{BreakerSnapshot, DecidedBy, NextAdmission, Snapshot, WaitingCounts};
use crate::outcome::Outcome;

/// Something the gate is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A caller wants to send a call.
    Arrived {
        /// A name nobody who waits has.
        waiter: WaiterId,
        /// How it waits.
        kind: CallerKind,
    },
    /// A caller who has no verdict yet goes away. Of one that does not wait: nothing.
    Left {
        /// Who.
        waiter: WaiterId,
        /// Why.
        why: GaveUp,
    },
    /// An admitted call ended.
    Ended {
        /// Its leave.
        grant: Grant,
        /// How; nothing if the caller dropped it without a word.
        outcome: Option<Outcome>,
    },
    /// A call that a user waited for ended.
    Interactive {
        /// The epoch when it started.
        started: Epoch,
        /// How it ended.
        outcome: Outcome,
        /// Whether a timeout says nothing of the server: that of an upload depends on the file and the uplink.
        upload: bool,
    },
    /// Nothing but time.
    TimePassed,
}

/// The gate of one homeserver.
///
/// Always: the limit is 0 exactly while the breaker is not closed; an admission while it is closed finds fewer slots in
/// use than the limit. Never: two probes at a time, a probe while a slot is held or before the open period is over, an
/// opening by an interactive call (`gate::state::tests`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) constants: GateConstants,
    pub(super) limit: Limit,
    /// Admitted calls that take a slot, a probe among them included.
    pub(super) active: usize,
    pub(super) held: HeldSlots,
    pub(super) breaker: Breaker,
    /// Callers who need a slot.
    pub(super) line: Queue,
    pub(super) polls: Queue,
}

/// What the end of a call leads to, before it is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lesson {
    Nothing,
    /// One success more toward growth.
    Growth,
    /// Half the limit; at none the breaker opens.
    Decrease,
    /// The probe was answered.
    Recovered,
    /// The probe failed.
    StillDown,
    /// The probe said nothing: the next waiter probes.
    PassOn,
}

impl State {
    /// A gate nobody has used yet. Numbers out of range are brought into it: limits are at least 1, the first is no
    /// higher than the ceiling.
    #[must_use]
    pub fn new(constants: GateConstants) -> Self {
        let constants = constants.in_range();
        Self {
            limit: Limit::new(&constants),
            constants,
            active: 0,
            held: HeldSlots::with_room(constants.max_limit),
            breaker: Breaker::Closed,
            line: Queue::new(),
            polls: Queue::new(),
        }
    }

    /// Takes `event` at `now` and says what follows. `now` never runs backwards.
    pub fn step(&mut self, event: Event, now: Duration) -> Effects {
        let mut effects = Effects::default();
        effects.wake_at = self.step_into(event, now, &mut effects);
        effects
    }

    /// The same into `effects`, but for the time to step again, which is returned.
    #[inline]
    pub(super) fn step_into(&mut self, event: Event, now: Duration, effects: &mut impl Sink) -> Option<Duration> {
        while let Some(end) = self.held.take_expired(now) {
            effects.note(end, Happened::HoldExpired);
        }
        match event {
            Event::Arrived { waiter, kind } => self.arrived(Waiter { id: waiter, kind, since: now }, now, effects),
            Event::Left { waiter, why } => {
                if let Some(gone) = self.line.leave(waiter).or_else(|| self.polls.leave(waiter)) {
                    gave_up(gone, why, now, effects);
                }
            }
            Event::Ended { grant, outcome } => self.ended(grant, outcome, now, effects),
            Event::Interactive { started, outcome, upload } => {
                self.interactive(started, outcome, upload, now, effects);
            }
            Event::TimePassed => {}
        }
        if self.line.is_empty() && self.polls.is_empty() {
            return None;
        }
        self.admit(now, effects);
        self.wake_at(now)
    }

    /// Takes in the end of a call that moves a count at most, so that no time has to be read for it, and says whether it
    /// counted. Nothing is done, and nothing said, about one that takes a [`step`](Self::step): the outcome says load, or
    /// somebody waits, a slot is held, the call is the probe, or the limit is about to grow.
    #[inline]
    pub(super) fn ends_quietly(&mut self, grant: Grant, outcome: Option<Outcome>) -> Option<bool> {
        if self.held.count() > 0
            || !self.line.is_empty()
            || !self.polls.is_empty()
            || outcome.is_some_and(Outcome::is_load)
        {
            return None;
        }
        let counted = match self.lesson(grant, outcome) {
            Lesson::Nothing => false,
            Lesson::Growth if !self.limit.is_about_to_grow(&self.constants) => {
                self.limit.count_success(&self.constants);
                true
            }
            _ => return None,
        };
        self.give_back(grant);
        Some(counted)
    }

    /// The decreases a call that starts now has seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.limit.epoch()
    }

    /// The slots in use: active calls and held ones.
    #[must_use]
    #[inline]
    pub fn slots_in_use(&self) -> usize {
        self.active.saturating_add(self.held.count())
    }

    /// Whether nothing is going on and nothing is remembered that a new gate would not know: closed, the limit at its
    /// start or above, nothing active, held or waiting. Holds that are over count until the next step.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.breaker.is_closed()
            && self.limit.current() >= self.constants.initial_limit
            && self.slots_in_use() == 0
            && self.line.is_empty()
            && self.polls.is_empty()
    }

    /// The same state as seen from `now`, for a search that wants to know whether it has been there before: times count
    /// from `now`, decreases from 0, and what only a reader cares about is left out. A call in flight whose epoch is the
    /// state's own has epoch 0 then, and every other counts as older.
    #[doc(hidden)]
    #[must_use]
    pub fn canonical(&self, now: Duration) -> Self {
        Self {
            constants: self.constants,
            limit: self.limit.canonical(),
            active: self.active,
            held: self.held.canonical(now),
            breaker: self.breaker.canonical(now, &self.constants),
            line: self.line.canonical(),
            polls: self.polls.canonical(),
        }
    }

    #[inline]
    fn arrived(&mut self, waiter: Waiter, now: Duration, effects: &mut impl Sink) {
        match waiter.kind {
            // With nobody before it, it need not join the line to be the next.
            CallerKind::Background | CallerKind::Brief if self.line.is_empty() && self.has_room() => {
                self.grant(waiter, false, now, effects);
            }
            CallerKind::Background => self.line.join(waiter),
            CallerKind::LongPoll => self.polls.join(waiter),
            CallerKind::Brief if self.breaker.is_closed() => self.line.join(waiter),
            CallerKind::Brief => {
                // Whoever waits goes first; only a probe that nobody else wants is left for this one.
                self.admit(now, effects);
                if self.probe_is_due(now) {
                    self.send_probe(waiter, now, effects);
                } else {
                    refuse(waiter, now, effects);
                }
            }
        }
    }

    #[inline]
    fn ended(&mut self, grant: Grant, outcome: Option<Outcome>, now: Duration, effects: &mut impl Sink) {
        self.give_back(grant);
        let lesson = self.lesson(grant, outcome);
        let counted = !matches!(lesson, Lesson::Nothing | Lesson::PassOn);
        effects.note(now, Happened::Finished { call: Call::Gated(grant.kind), outcome, counted });
        if outcome == Some(Outcome::TimedOut) {
            let until = now.saturating_add(self.constants.timeout_hold);
            self.held.place(until);
            effects.note(now, Happened::Held { until });
        }
        match (lesson, outcome) {
            (Lesson::Growth, _) => {
                if let Some(change) = self.limit.count_success(&self.constants) {
                    limit_changed(change, now, effects);
                }
            }
            (Lesson::Decrease, Some(outcome)) => {
                let change = self.limit.halve();
                limit_changed(change, now, effects);
                if change.to == 0 {
                    self.open(outcome, now, effects);
                }
            }
            (Lesson::StillDown, Some(outcome)) => self.open(outcome, now, effects),
            (Lesson::Recovered, _) => {
                self.breaker.close();
                effects.note(now, Happened::Closed);
                limit_changed(self.limit.begin_again(), now, effects);
            }
            (Lesson::PassOn, _) => self.breaker.pass_on(),
            (Lesson::Nothing | Lesson::Decrease | Lesson::StillDown, _) => {}
        }
    }

    #[inline]
    fn give_back(&mut self, grant: Grant) {
        if grant.kind != CallerKind::LongPoll {
            self.active = self.active.saturating_sub(1);
        }
    }

    /// The tables of the record: outcomes of an ordinary call, and outcomes of the probe.
    #[inline]
    fn lesson(&self, grant: Grant, outcome: Option<Outcome>) -> Lesson {
        if grant.probe {
            return match outcome {
                Some(Outcome::FastSuccess | Outcome::SlowSuccess | Outcome::Refused) => Lesson::Recovered,
                Some(Outcome::TimedOut | Outcome::Overloaded(_)) => Lesson::StillDown,
                Some(Outcome::UnknownSuccess | Outcome::Unsent) | None => Lesson::PassOn,
            };
        }
        match outcome {
            // A call that was out when the breaker opened: what it says is old.
            _ if !self.breaker.is_closed() => Lesson::Nothing,
            Some(Outcome::FastSuccess)
                if grant.kind != CallerKind::LongPoll && self.limit.can_grow(&self.constants) =>
            {
                Lesson::Growth
            }
            Some(outcome) if outcome.is_load() && grant.started == self.limit.epoch() => Lesson::Decrease,
            _ => Lesson::Nothing,
        }
    }

    fn interactive(&mut self, started: Epoch, outcome: Outcome, upload: bool, now: Duration, effects: &mut impl Sink) {
        let says_load = outcome.is_load() && !(upload && outcome == Outcome::TimedOut);
        // Never below 1; and while the breaker is not closed there is nothing to halve.
        let counted = says_load && self.limit.current() > 1 && started == self.limit.epoch();
        effects.note(now, Happened::Finished { call: Call::Interactive, outcome: Some(outcome), counted });
        if counted {
            limit_changed(self.limit.halve(), now, effects);
        }
    }

    fn open(&mut self, outcome: Outcome, now: Duration, effects: &mut impl Sink) {
        let outage = self.breaker.open(now, &self.constants);
        let (period_ends, reopened) = (outage.period_ends, outage.reopened);
        effects.note(now, Happened::Opened { outcome, period_ends, reopened });
        while let Some(waiter) = self.line.take_brief() {
            refuse(waiter, now, effects);
        }
    }

    /// Lets in whoever may go.
    fn admit(&mut self, now: Duration, effects: &mut impl Sink) {
        if self.breaker.is_closed() {
            while self.has_room()
                && let Some(waiter) = self.line.next()
            {
                self.grant(waiter, false, now, effects);
            }
            while let Some(poll) = self.polls.next() {
                self.grant(poll, false, now, effects);
            }
        } else if self.probe_is_due(now)
            && let Some(waiter) = self.line.next().or_else(|| self.polls.next())
        {
            self.send_probe(waiter, now, effects);
        }
    }

    /// Whether one more call may go out, the breaker being closed.
    #[inline]
    fn has_room(&self) -> bool {
        self.breaker.is_closed() && self.slots_in_use() < self.limit.current()
    }

    fn probe_is_due(&self, now: Duration) -> bool {
        matches!(self.breaker, Breaker::Open(outage) if outage.period_ends <= now) && self.held.count() == 0
    }

    fn send_probe(&mut self, waiter: Waiter, now: Duration, effects: &mut impl Sink) {
        self.breaker.probe();
        effects.note(now, Happened::Probing);
        self.grant(waiter, true, now, effects);
    }

    #[inline]
    fn grant(&mut self, waiter: Waiter, probe: bool, now: Duration, effects: &mut impl Sink) {
        if waiter.kind != CallerKind::LongPoll {
            self.active = self.active.saturating_add(1);
        }
        let waited = now.saturating_sub(waiter.since);
        effects.note(now, Happened::Admitted { kind: waiter.kind, probe, waited });
        let grant = Grant { kind: waiter.kind, probe, started: self.limit.epoch() };
        effects.answer(waiter.id, Verdict::Granted(grant));
    }
}

fn refuse(waiter: Waiter, now: Duration, effects: &mut impl Sink) {
    gave_up(waiter, GaveUp::NotClosed, now, effects);
    effects.answer(waiter.id, Verdict::Refused);
}

fn gave_up(waiter: Waiter, why: GaveUp, now: Duration, effects: &mut impl Sink) {
    let waited = now.saturating_sub(waiter.since);
    effects.note(now, Happened::GaveUp { kind: waiter.kind, why, waited });
}

fn limit_changed(change: Change, now: Duration, effects: &mut impl Sink) {
    effects.note(now, Happened::LimitChanged { from: change.from, to: change.to });
}

#[cfg(test)]
mod tests;
