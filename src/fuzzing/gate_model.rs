//! The load gate as its record tells it: a diary of calls and timeouts, from which everything else is worked out anew.
//!
//! Slow and plain on purpose, and written from the record's text alone. Nothing is kept that can be derived: a slot is
//! held because a timeout in the diary is younger than a hold; the next admission is found by trying every moment that
//! could bring one.

use std::time::Duration;

use crate::gate::GateConstants;
use crate::gate::state::{CallerKind, DecidedBy, NextAdmission};
use crate::outcome::Outcome;

#[derive(Clone, Debug)]
pub(super) struct Model {
    constants: GateConstants,
    /// In order of arrival.
    callers: Vec<Caller>,
    /// When each admitted call that timed out did so.
    timeouts: Vec<Duration>,
    limit: usize,
    /// Fast successes since the limit last changed.
    streak: u32,
    decreases: u64,
    outage: Option<Outage>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) id: usize,
    pub(super) kind: CallerKind,
    pub(super) since: Duration,
    pub(super) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Waiting,
    Out { probe: bool, decreases_seen: u64 },
}

/// From the limit's reaching 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    pub(super) opened_at: Duration,
    pub(super) period_ends: Duration,
    pub(super) failed_probes: u32,
}

/// What came of one event: who goes, as a probe or not, and who is turned away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) go: Vec<(usize, bool)>,
    pub(super) turned_away: Vec<usize>,
}

impl Model {
    pub(super) fn new(constants: GateConstants) -> Self {
        let limit = constants.initial_limit;
        Self { constants, callers: Vec::new(), timeouts: Vec::new(), limit, streak: 0, decreases: 0, outage: None }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn decreases(&self) -> u64 {
        self.decreases
    }

    pub(super) fn outage(&self) -> Option<Outage> {
        self.outage
    }

    pub(super) fn probing(&self) -> bool {
        self.out().any(|caller| matches!(caller.place, Place::Out { probe: true, .. }))
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Caller> {
        self.callers.iter().filter(|caller| caller.place == Place::Waiting)
    }

    pub(super) fn out(&self) -> impl Iterator<Item = &Caller> {
        self.callers.iter().filter(|caller| caller.place != Place::Waiting)
    }

    pub(super) fn active(&self) -> usize {
        self.out().filter(|caller| caller.kind != CallerKind::LongPoll).count()
    }

    /// When each hold ends that has not ended at `now`.
    pub(super) fn held(&self, now: Duration) -> Vec<Duration> {
        self.hold_ends().filter(|end| *end > now).collect()
    }

    pub(super) fn hold_ends(&self) -> impl Iterator<Item = Duration> + '_ {
        self.timeouts.iter().map(|at| *at + self.constants.timeout_hold)
    }

    pub(super) fn arrives(&mut self, id: usize, kind: CallerKind, now: Duration) -> Told {
        // Everybody who waits comes before one who will not wait for the probe: a poll does, too.
        let mut told = if kind == CallerKind::Brief { self.settle(now) } else { Told::default() };
        self.callers.push(Caller { id, kind, since: now, place: Place::Waiting });
        told.go.extend(self.settle(now).go);
        if kind == CallerKind::Brief && self.outage.is_some() {
            told.turned_away.extend(self.turn_away());
        }
        told
    }

    pub(super) fn leaves(&mut self, id: usize, now: Duration) -> Told {
        self.callers.retain(|caller| caller.id != id || caller.place != Place::Waiting);
        self.settle(now)
    }

    pub(super) fn ends(&mut self, id: usize, outcome: Option<Outcome>, now: Duration) -> Told {
        let at = self.callers.iter().position(|caller| caller.id == id).unwrap();
        let caller = self.callers.remove(at);
        let Place::Out { probe, decreases_seen } = caller.place else { unreachable!("{caller:?} was not out") };
        if outcome == Some(Outcome::TimedOut) {
            self.timeouts.push(now);
        }
        let mut told = Told::default();
        if probe {
            self.probe_ends(outcome, now);
        } else if self.outage.is_none() {
            match outcome {
                Some(Outcome::FastSuccess) if caller.kind != CallerKind::LongPoll => self.one_more_fast_success(),
                Some(Outcome::TimedOut | Outcome::Overloaded(_)) if decreases_seen == self.decreases => {
                    self.halve(0);
                    if self.limit == 0 {
                        self.opens(0, now);
                        told.turned_away = self.turn_away();
                    }
                }
                _ => {}
            }
        }
        told.go = self.settle(now).go;
        told
    }

    pub(super) fn interactive(&mut self, decreases_seen: u64, outcome: Outcome, upload: bool, now: Duration) -> Told {
        let load = match outcome {
            Outcome::TimedOut => !upload,
            Outcome::Overloaded(_) => true,
            _ => false,
        };
        if load && self.outage.is_none() && self.limit > 1 && decreases_seen == self.decreases {
            self.halve(1);
        }
        self.settle(now)
    }

    pub(super) fn time_passes(&mut self, now: Duration) -> Told {
        self.settle(now)
    }

    /// When somebody is let in next, if no call ends before. Asked by one who would wait for a slot if nobody waits yet.
    pub(super) fn next_admission(&self, now: Duration) -> NextAdmission {
        let mut asked = self.clone();
        if asked.waiting().next().is_none() {
            asked.callers.push(Caller {
                id: usize::MAX,
                kind: CallerKind::Background,
                since: now,
                place: Place::Waiting,
            });
        }
        let period_end = self.outage.map(|outage| outage.period_ends);
        let mut moments: Vec<_> = self.hold_ends().chain(period_end).filter(|moment| *moment > now).collect();
        moments.push(now);
        moments.sort();
        let at = moments.into_iter().find(|moment| !asked.clone().settle(*moment).go.is_empty());
        let decided_by = match (at, self.outage) {
            (Some(at), Some(outage)) if at > now && at == outage.period_ends => DecidedBy::Cooldown,
            (Some(at), _) if at > now => DecidedBy::Hold,
            (_, None) => DecidedBy::Slot,
            (_, Some(_)) => DecidedBy::Probe,
        };
        NextAdmission { at, decided_by }
    }

    fn probe_ends(&mut self, outcome: Option<Outcome>, now: Duration) {
        let failed_before = self.outage.unwrap().failed_probes;
        match outcome {
            Some(Outcome::FastSuccess | Outcome::SlowSuccess | Outcome::Refused) => {
                self.outage = None;
                self.limit = 1;
                self.streak = 0;
            }
            Some(Outcome::TimedOut | Outcome::Overloaded(_)) => self.opens(failed_before + 1, now),
            // Open, with a period that is over already, as it was when the probe went.
            Some(Outcome::UnknownSuccess | Outcome::Unsent) | None => {}
        }
    }

    fn one_more_fast_success(&mut self) {
        self.streak += 1;
        if self.streak == self.constants.grow_after {
            self.streak = 0;
            self.limit = self.constants.max_limit.min(self.limit + 1);
        }
    }

    fn halve(&mut self, floor: usize) {
        self.limit = floor.max(self.limit / 2);
        self.streak = 0;
        self.decreases += 1;
    }

    fn opens(&mut self, failed_probes: u32, now: Duration) {
        let mut period = self.constants.cooldown;
        for _ in 0..failed_probes {
            period = (2 * period).min(self.constants.cooldown_max);
        }
        let period = period.min(self.constants.cooldown_max);
        self.outage = Some(Outage { opened_at: now, period_ends: now + period, failed_probes });
    }

    /// Those who wait briefly do not wait at a breaker that is not closed.
    fn turn_away(&mut self) -> Vec<usize> {
        let is_turned_away = |caller: &Caller| caller.kind == CallerKind::Brief && caller.place == Place::Waiting;
        let ids = self.callers.iter().filter(|caller| is_turned_away(caller)).map(|caller| caller.id).collect();
        self.callers.retain(|caller| !is_turned_away(caller));
        ids
    }

    /// Lets in whoever may go at `now`.
    fn settle(&mut self, now: Duration) -> Told {
        let mut told = Told::default();
        while let Some(at) = self.whose_turn(now) {
            let probe = self.outage.is_some();
            self.callers[at].place = Place::Out { probe, decreases_seen: self.decreases };
            told.go.push((self.callers[at].id, probe));
        }
        told
    }

    fn whose_turn(&self, now: Duration) -> Option<usize> {
        let first = |poll: bool| {
            let is_it =
                |caller: &Caller| caller.place == Place::Waiting && (caller.kind == CallerKind::LongPoll) == poll;
            self.callers.iter().position(is_it)
        };
        let held = self.held(now).len();
        match self.outage {
            None if self.active() + held < self.limit => first(false).or_else(|| first(true)),
            None => first(true),
            Some(outage) => {
                let due = !self.probing() && held == 0 && now >= outage.period_ends;
                if due { first(false).or_else(|| first(true)) } else { None }
            }
        }
    }
}
