//! [`World`]: a gate, everybody who uses it, and the searcher's own book of slots, holds and the open period.

use std::time::Duration;

use super::Scale;
use crate::gate::constants::GateConstants;
use crate::gate::queue::{Queue, Waiter};
use crate::gate::state::{
    CallerKind, Dated, DecidedBy, Effects, Epoch, Event, GaveUp, Grant, Happened, State, Verdict, WaiterId,
};
use crate::outcome::{Outcome, Overload};

pub(super) const TICK: Duration = Duration::from_secs(1);

/// The epoch of every call that started before the latest decrease. A canonical state counts its own from 0.
const OLDER: Epoch = Epoch(u64::MAX);

const OVERLOADED: Outcome = Outcome::Overloaded(Overload::ServerError);

const ENDINGS: [Option<Outcome>; 8] = [
    Some(Outcome::FastSuccess),
    Some(Outcome::SlowSuccess),
    Some(Outcome::UnknownSuccess),
    Some(Outcome::Refused),
    Some(Outcome::Unsent),
    Some(Outcome::TimedOut),
    Some(OVERLOADED),
    None,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// As seen from now: its times count from this tick.
    gate: State,
    /// In order, so that who is who makes no difference.
    out: Vec<Out>,
    /// Who waits for a slot, the first in line first.
    line: Vec<CallerKind>,
    polls_waiting: usize,
    /// Ticks until each hold ends, soonest first.
    held: Vec<u32>,
    outage: Option<Outage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Out {
    takes_slot: bool,
    probe: bool,
    /// Whether it started after the latest decrease.
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Outage {
    ticks_left: u32,
    /// How often a probe failed; no further than it makes a difference.
    reopened: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Tick,
    Arrives(CallerKind),
    /// The nth of those who wait, long-polls last.
    Leaves(usize),
    Ends(Out, Option<Outcome>),
    Interactive {
        fresh: bool,
        outcome: Outcome,
        upload: bool,
    },
}

fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap()
}

/// The record's rule, spelled another way: twice as long each time, up to the cap.
fn open_ticks(constants: &GateConstants, reopened: u32) -> u32 {
    let mut period = ticks(constants.cooldown);
    for _ in 0..reopened {
        period *= 2;
    }
    period.min(ticks(constants.cooldown_max))
}

fn capped(constants: &GateConstants, reopened: u32) -> u32 {
    (0..reopened).find(|n| open_ticks(constants, *n) == ticks(constants.cooldown_max)).unwrap_or(reopened)
}

impl World {
    pub(super) fn new(constants: GateConstants) -> Self {
        let gate = State::new(constants).canonical(Duration::ZERO);
        Self { gate, out: Vec::new(), line: Vec::new(), polls_waiting: 0, held: Vec::new(), outage: None }
    }

    pub(super) fn slots_in_use(&self) -> usize {
        self.out.iter().filter(|call| call.takes_slot).count() + self.held.len()
    }

    /// Whether so many calls are out as the search looks at.
    pub(super) fn is_within(&self, scale: &Scale) -> bool {
        let slots = self.out.iter().filter(|call| call.takes_slot).count();
        slots <= scale.slots && self.out.len() - slots <= scale.polls
    }

    /// Nobody is out, nobody waits, and the breaker is closed.
    pub(super) fn is_served(&self) -> bool {
        self.outage.is_none() && self.out.is_empty() && self.line.is_empty() && self.polls_waiting == 0
    }

    /// What happens next if all goes well: every call succeeds, and somebody comes to probe.
    pub(super) fn kindly(&self) -> Option<Move> {
        if self.is_served() {
            return None;
        }
        let nobody_waits = self.line.is_empty() && self.polls_waiting == 0;
        Some(match self.out.first() {
            Some(call) => Move::Ends(*call, Some(Outcome::FastSuccess)),
            None if nobody_waits => Move::Arrives(CallerKind::Background),
            None => Move::Tick,
        })
    }

    pub(super) fn moves(&self, scale: &Scale) -> Vec<Move> {
        let mut moves = vec![Move::Tick];
        if self.line.len() < scale.line {
            moves.push(Move::Arrives(CallerKind::Background));
            moves.extend(scale.brief.then_some(Move::Arrives(CallerKind::Brief)));
        }
        if self.polls_waiting < scale.polls {
            moves.push(Move::Arrives(CallerKind::LongPoll));
        }
        moves.extend((0..self.line.len() + self.polls_waiting).map(Move::Leaves));
        let mut different = self.out.clone();
        different.dedup();
        for call in different {
            moves.extend(ENDINGS.map(|outcome| Move::Ends(call, outcome)));
        }
        for fresh in [false, true] {
            for outcome in [Outcome::FastSuccess, Outcome::TimedOut, OVERLOADED] {
                moves.extend([false, true].map(|upload| Move::Interactive { fresh, outcome, upload }));
            }
        }
        moves
    }

    /// Makes one move and holds what follows from it against the rules.
    pub(super) fn after(&self, what: Move) -> Self {
        let now = if what == Move::Tick { TICK } else { Duration::ZERO };
        let mut next = self.clone();
        let mut line: Vec<_> = self.line.iter().copied().enumerate().collect();
        let mut polls: Vec<_> = (self.line.len()..).take(self.polls_waiting).collect();
        let event = next.book(what, &mut line, &mut polls);
        let quietly = next.ended_quietly(event);
        let effects = next.gate.step(event, now);
        if let Some((gate, counted)) = quietly {
            assert_eq!(gate, next.gate, "{what:?} without a look at the clock, in {self:?}");
            assert!(effects.verdicts.is_empty() && effects.wake_at.is_none(), "{effects:?} in {self:?}");
            let [Dated { what: Happened::Finished { counted: noted, .. }, .. }] = effects.happened[..] else {
                panic!("more than an end: {effects:?} in {self:?}")
            };
            assert_eq!(counted, noted, "{what:?} in {self:?}");
        }
        next.check_changes(self, what, &effects, now);
        next.out.iter_mut().filter(|_| next.gate.epoch() != self.gate.epoch()).for_each(|call| call.fresh = false);
        for (WaiterId(id), verdict) in &effects.verdicts {
            match verdict {
                Verdict::Granted(grant) => next.grant(*id, *grant, &mut line, &mut polls),
                Verdict::Refused => {
                    let at = line.iter().position(|(waiter, _)| waiter == id).unwrap();
                    assert_eq!(line.remove(at).1, CallerKind::Brief, "only who waits briefly is sent away");
                    assert!(next.outage.is_some(), "and only while the breaker is not closed");
                }
            }
        }
        next.line = line.iter().map(|(_, kind)| *kind).collect();
        next.polls_waiting = polls.len();
        next.out.sort_unstable();
        next.gate = relabelled(next.gate.canonical(now));
        next.check_promises(self, what, &effects);
        next
    }

    /// The gate after an end that it takes in without a look at the clock, and whether that end counted.
    fn ended_quietly(&self, event: Event) -> Option<(State, bool)> {
        let Event::Ended { grant, outcome } = event else { return None };
        let mut gate = self.gate.clone();
        let counted = gate.ends_quietly(grant, outcome);
        assert!(counted.is_some() || gate == self.gate, "an end it does not take in has changed it: {self:?}");
        counted.map(|counted| (gate, counted))
    }

    /// Enters the move itself into our own book, and puts it into the gate's words.
    fn book(&mut self, what: Move, line: &mut Vec<(usize, CallerKind)>, polls: &mut Vec<usize>) -> Event {
        let arriving = line.len() + polls.len();
        match what {
            Move::Tick => {
                self.held.iter_mut().for_each(|left| *left -= 1);
                self.held.retain(|left| *left > 0);
                if let Some(outage) = &mut self.outage {
                    outage.ticks_left = outage.ticks_left.saturating_sub(1);
                }
                Event::TimePassed
            }
            Move::Arrives(kind) => {
                if kind == CallerKind::LongPoll {
                    polls.push(arriving);
                } else {
                    line.push((arriving, kind));
                }
                Event::Arrived { waiter: WaiterId(arriving), kind }
            }
            Move::Leaves(id) => {
                line.retain(|(waiter, _)| *waiter != id);
                polls.retain(|waiter| *waiter != id);
                Event::Left { waiter: WaiterId(id), why: GaveUp::Cancelled }
            }
            Move::Ends(call, outcome) => {
                let at = self.out.iter().position(|out| *out == call).unwrap();
                self.out.remove(at);
                if outcome == Some(Outcome::TimedOut) {
                    self.held.push(ticks(self.gate.constants.timeout_hold));
                }
                let kind = if call.takes_slot { CallerKind::Background } else { CallerKind::LongPoll };
                let started = if call.fresh { self.gate.epoch() } else { OLDER };
                Event::Ended { grant: Grant { kind, probe: call.probe, started }, outcome }
            }
            Move::Interactive { fresh, outcome, upload } => {
                let started = if fresh { self.gate.epoch() } else { OLDER };
                Event::Interactive { started, outcome, upload }
            }
        }
    }

    /// What the limit and the breaker did is what this move allows.
    fn check_changes(&mut self, before: &Self, what: Move, effects: &Effects, now: Duration) {
        let constants = self.gate.constants;
        let (was, is) = (before.gate.limit.current(), self.gate.limit.current());
        let closed = before.outage.is_none();
        let limits: &[usize] = match what {
            Move::Ends(Out { probe: true, .. }, Some(outcome)) if outcome.is_load() => &[0],
            Move::Ends(Out { probe: true, .. }, Some(Outcome::UnknownSuccess | Outcome::Unsent) | None) => &[0],
            Move::Ends(Out { probe: true, .. }, _) => &[1],
            Move::Ends(Out { fresh: true, .. }, Some(outcome)) if closed && outcome.is_load() => &[was / 2],
            Move::Ends(Out { takes_slot: true, .. }, Some(Outcome::FastSuccess)) if closed => &[was, was + 1],
            Move::Interactive { outcome: Outcome::TimedOut, upload: true, .. } => &[was],
            Move::Interactive { fresh: true, outcome, .. } if closed && outcome.is_load() => &[(was / 2).max(1)],
            _ => &[was],
        };
        assert!(limits.contains(&is), "{was} became {is} by {what:?} in {before:?}");
        assert!(is <= constants.max_limit);

        for event in &effects.happened {
            match event.what {
                Happened::Opened { period_ends, reopened, .. } => {
                    let expected = before.outage.map_or(0, |outage| outage.reopened + 1);
                    let ticks_left = open_ticks(&constants, expected);
                    assert_eq!(capped(&constants, reopened), capped(&constants, expected), "n, by {what:?}");
                    assert_eq!(period_ends, now + ticks_left * TICK, "{what:?} in {before:?}");
                    assert!(matches!(what, Move::Ends(..)), "{what:?} opened the breaker");
                    self.outage = Some(Outage { ticks_left, reopened: capped(&constants, expected) });
                }
                Happened::Closed => {
                    assert!(before.has_probe(), "it closed without a probe");
                    self.outage = None;
                }
                _ => {}
            }
        }
        assert_eq!(is == 0, self.outage.is_some(), "the limit is none exactly while the breaker is not closed");
    }

    /// Somebody is let out: whose turn it is, and whether there is room.
    fn grant(&mut self, id: usize, grant: Grant, line: &mut Vec<(usize, CallerKind)>, polls: &mut Vec<usize>) {
        let takes_slot = grant.kind != CallerKind::LongPoll;
        if takes_slot {
            assert_eq!(line.remove(0), (id, grant.kind), "the first in line goes first");
        } else {
            assert_eq!(polls.remove(0), id, "the first poll goes first");
        }
        assert_eq!(grant.started, self.gate.epoch());
        assert_eq!(grant.probe, self.outage.is_some(), "a probe, exactly while the breaker is not closed");
        if let Some(outage) = self.outage {
            assert!(self.held.is_empty(), "a probe while a slot is held");
            assert_eq!(outage.ticks_left, 0, "a probe before the period is over");
            assert!(!self.has_probe(), "two probes");
            assert!(takes_slot || line.is_empty(), "a poll probes only if nobody else waits");
        } else if takes_slot {
            assert!(self.slots_in_use() < self.gate.limit.current(), "over the limit: {self:?}");
        }
        self.out.push(Out { takes_slot, probe: grant.probe, fresh: true });
    }

    fn has_probe(&self) -> bool {
        self.out.iter().any(|call| call.probe)
    }

    /// What the gate said about the time to come is what has come.
    fn check_promises(&self, before: &Self, what: Move, effects: &Effects) {
        let granted = effects.verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Granted(_)));
        let promised = before.gate.next_admission(Duration::ZERO).at;
        let promised_now = self.gate.next_admission(Duration::ZERO).at;
        match what {
            Move::Tick => {
                let woken = before.gate.wake_at(Duration::ZERO);
                let later = self.gate.wake_at(Duration::ZERO).map(|end| end + TICK);
                assert_eq!(woken, if granted { Some(TICK) } else { later }, "woken when it is of use: {before:?}");
                if granted {
                    assert_eq!(promised, Some(TICK), "{before:?}");
                } else {
                    let left = promised.map(|end| end.saturating_sub(TICK));
                    assert_eq!(promised_now, left, "a promise moved: {before:?}");
                }
            }
            Move::Arrives(CallerKind::Background) => {
                assert_eq!(granted, promised == Some(Duration::ZERO), "{before:?}");
            }
            _ => {}
        }
    }

    /// What has to hold in every state.
    pub(super) fn check(&self, scale: &Scale) {
        let (limit, slots) = (self.gate.limit.current(), self.slots_in_use());
        let probes = self.out.iter().filter(|call| call.probe).count();
        let seen = self.gate.snapshot();
        assert_eq!(limit == 0, self.outage.is_some(), "{self:?}");
        assert_eq!(self.gate.slots_in_use(), slots, "{self:?}");
        assert_eq!(seen.held, self.held.iter().map(|left| *left * TICK).collect::<Vec<_>>());
        assert!(self.held.is_sorted());
        assert!(probes <= 1 && (probes == 0 || self.outage.is_some()), "{self:?}");
        assert_eq!(seen.waiting.total(), self.line.len() + self.polls_waiting);
        let waits = !self.line.is_empty() || self.polls_waiting > 0;
        match self.outage {
            None => {
                assert!(self.line.is_empty() || slots >= limit, "somebody waits for a free slot: {self:?}");
                assert_eq!(self.polls_waiting, 0, "a poll waits at a closed breaker: {self:?}");
            }
            Some(outage) if probes == 0 => {
                let due = self.held.is_empty() && outage.ticks_left == 0;
                assert!(!due || !waits, "nobody probes: {self:?}");
                assert!(
                    !self.line.contains(&CallerKind::Brief),
                    "who waits briefly waits at an open breaker: {self:?}"
                );
            }
            // Without long-polls nobody else is out when the breaker opens, so that there is nobody left to be held.
            Some(_) => assert!(self.held.is_empty() || scale.polls > 0),
        }
        let next = self.gate.next_admission(Duration::ZERO);
        let decided_rightly = match next.decided_by {
            DecidedBy::Slot => self.outage.is_none(),
            DecidedBy::Hold => !self.held.is_empty(),
            DecidedBy::Cooldown => self.outage.is_some_and(|outage| next.at == Some(outage.ticks_left * TICK)),
            DecidedBy::Probe => self.outage.is_some(),
        };
        assert!(decided_rightly, "{next:?} in {self:?}");
        if waits && self.out.is_empty() {
            assert!(self.gate.wake_at(Duration::ZERO).is_some(), "nothing will ever let them in: {self:?}");
        }
    }
}

/// The same gate with its waiters numbered by their places.
fn relabelled(mut gate: State) -> State {
    let mut ids = 0..;
    let mut relabel = |queue: &mut Queue| {
        let mut line = Queue::new();
        while let Some(waiter) = queue.next() {
            line.join(Waiter { id: WaiterId(ids.next().unwrap()), ..waiter });
        }
        *queue = line;
    };
    relabel(&mut gate.line);
    relabel(&mut gate.polls);
    gate
}
