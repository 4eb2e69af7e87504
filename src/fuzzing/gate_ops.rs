//! Events at the load gate's core, against a model written from the record's text.

use std::time::Duration;

use super::gate_model::{Caller, Model, Place, Told};
use crate::gate::GateConstants;
use crate::gate::state::{
    BreakerSnapshot, Call, CallerKind, Effects, Epoch, Event, GaveUp, Grant, Happened, State, Verdict, WaiterId,
};
use crate::outcome::{Outcome, Overload};

/// As many may wait and be out at a time; more would only be slower.
const MOST_CALLERS: usize = 12;

/// Most calls of users that are out.
const MOST_INTERACTIVE: usize = 8;

/// One thing that happens. Numbers name the nth of those there are, counted round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAct {
    /// A caller comes.
    Arrives(CallerKind),
    /// One of those who wait goes away.
    Leaves(u8),
    /// One of the calls that are out ends; nothing: it is dropped.
    Ends(u8, Option<Outcome>),
    /// A user's call starts.
    UserStarts,
    /// One of the users' calls ends.
    UserEnds(u8, Outcome, bool),
    /// Time passes and the gate is told.
    Waits(Duration),
    /// Time passes and the gate is not told before the next event.
    WaitsUnseen(Duration),
    /// Time passes to the moment the gate gave for its next admission.
    WaitsUntilNext,
    /// The same, but for a millisecond.
    WaitsUntilJustBefore,
}

const ENDINGS: [Option<Outcome>; 12] = [
    Some(Outcome::FastSuccess),
    Some(Outcome::SlowSuccess),
    Some(Outcome::UnknownSuccess),
    Some(Outcome::Refused),
    Some(Outcome::Unsent),
    Some(Outcome::TimedOut),
    Some(Outcome::Overloaded(Overload::ServerError)),
    Some(Outcome::Overloaded(Overload::TooManyRequests)),
    Some(Outcome::Overloaded(Overload::Transport)),
    None,
    Some(Outcome::FastSuccess),
    Some(Outcome::TimedOut),
];

const KINDS: [CallerKind; 3] = [CallerKind::Background, CallerKind::Brief, CallerKind::LongPoll];

/// Any list of events: the gate lets in whom the model lets in, when the model does, and shows what the model shows.
///
/// The first byte chooses the gate's figures, the record's or smaller ones; then two bytes make one event.
pub fn gate_ops(input: &[u8]) {
    let [figures, events @ ..] = input else { return };
    let acts: Vec<_> = events.chunks_exact(2).map(|pair| act(pair[0], pair[1])).collect();
    gate_acts(figures_of(*figures), &acts);
}

/// The figures for a byte: the record's, or some in which everything is reached within a few events.
#[must_use]
pub fn figures_of(byte: u8) -> GateConstants {
    let record = GateConstants::default();
    if byte.is_multiple_of(4) {
        return record;
    }
    let max_limit = 1 + usize::from(byte >> 2 & 3);
    GateConstants {
        initial_limit: max_limit.min(1 + usize::from(byte >> 4 & 1)),
        max_limit,
        grow_after: 1 + u32::from(byte >> 5 & 1),
        timeout_hold: record.timeout_hold / if byte & 1 == 1 { 60 } else { 900 },
        cooldown: record.cooldown / 20,
        cooldown_max: record.cooldown_max / if byte >> 6 & 1 == 1 { 20 } else { 120 },
    }
}

fn act(what: u8, argument: u8) -> GateAct {
    let ending = ENDINGS[usize::from(what >> 4) % ENDINGS.len()];
    match what & 15 {
        0..=2 => GateAct::Arrives(CallerKind::Background),
        3 | 4 => GateAct::Arrives(KINDS[usize::from(argument) % KINDS.len()]),
        5 => GateAct::Leaves(argument),
        6..=9 => GateAct::Ends(argument, ending),
        10 => GateAct::UserStarts,
        11 => GateAct::UserEnds(argument / 2, ending.unwrap_or(Outcome::Refused), argument & 1 == 1),
        12 => GateAct::Waits(Duration::from_millis(1) * u32::from(argument).pow(2)),
        13 => GateAct::WaitsUnseen(Duration::from_secs(1) * u32::from(argument)),
        14 => GateAct::WaitsUntilJustBefore,
        _ => GateAct::WaitsUntilNext,
    }
}

/// How far a script came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateReached {
    /// The highest limit.
    pub limit: usize,
    /// The highest count of reopenings.
    pub reopened: u32,
    /// The most slots held at a time.
    pub held: usize,
    /// Probes, by kind of caller: background, brief, long-poll.
    pub probes: [usize; 3],
    /// Times the breaker closed.
    pub closed: usize,
    /// Times a user's call halved the limit.
    pub halved_by_users: usize,
}

/// Plays `acts` to a gate and to the model, and says how far they came.
///
/// *Panics:* if they disagree.
#[expect(clippy::must_use_candidate, reason = "most only want to know that they agree")]
pub fn gate_acts(constants: GateConstants, acts: &[GateAct]) -> GateReached {
    let mut both = Both {
        gate: State::new(constants),
        model: Model::new(constants),
        grants: Vec::new(),
        users: Vec::new(),
        now: Duration::ZERO,
        stepped_at: Duration::ZERO,
        next_id: 0,
        reached: GateReached::default(),
    };
    for act in acts {
        both.play(*act);
    }
    both.reached
}

struct Both {
    gate: State,
    model: Model,
    grants: Vec<(usize, Grant)>,
    /// What the users' calls saw when they started.
    users: Vec<(Epoch, u64)>,
    now: Duration,
    stepped_at: Duration,
    next_id: usize,
    reached: GateReached,
}

impl Both {
    fn play(&mut self, act: GateAct) {
        let now = self.now;
        match act {
            GateAct::Arrives(kind) if self.model.waiting().count() < MOST_CALLERS => {
                if self.model.out().count() >= MOST_CALLERS {
                    return;
                }
                let id = self.next_id;
                self.next_id += 1;
                let told = self.model.arrives(id, kind, now);
                self.step(Event::Arrived { waiter: WaiterId(id), kind }, &told);
            }
            GateAct::Leaves(index) => {
                let Some(id) = nth(self.model.waiting(), index) else { return };
                let told = self.model.leaves(id, now);
                self.step(Event::Left { waiter: WaiterId(id), why: GaveUp::Cancelled }, &told);
            }
            GateAct::Ends(index, outcome) => {
                let Some(id) = nth(self.model.out(), index) else { return };
                let at = self.grants.iter().position(|(granted, _)| *granted == id).unwrap();
                let (_, grant) = self.grants.remove(at);
                let told = self.model.ends(id, outcome, now);
                self.step(Event::Ended { grant, outcome }, &told);
            }
            GateAct::UserStarts if self.users.len() < MOST_INTERACTIVE => {
                self.users.push((self.gate.epoch(), self.model.decreases()));
            }
            GateAct::UserEnds(index, outcome, upload) if !self.users.is_empty() => {
                let (started, decreases_seen) = self.users.remove(usize::from(index) % self.users.len());
                let told = self.model.interactive(decreases_seen, outcome, upload, now);
                self.step(Event::Interactive { started, outcome, upload }, &told);
            }
            GateAct::Waits(time) => self.wait_until(now + time),
            GateAct::WaitsUnseen(time) => self.now = now + time,
            GateAct::WaitsUntilNext => self.wait_until(self.next_time()),
            GateAct::WaitsUntilJustBefore => {
                let before = self.next_time().saturating_sub(Duration::from_millis(1));
                self.wait_until(before.max(now));
            }
            GateAct::Arrives(_) | GateAct::UserStarts | GateAct::UserEnds(..) => {}
        }
    }

    fn next_time(&self) -> Duration {
        self.gate.next_admission(self.stepped_at).at.unwrap_or(self.now).max(self.now)
    }

    fn wait_until(&mut self, moment: Duration) {
        self.now = moment;
        let told = self.model.time_passes(moment);
        self.step(Event::TimePassed, &told);
    }

    fn step(&mut self, event: Event, told: &Told) {
        let effects = self.gate.step(event, self.now);
        let mut found = Told::default();
        for (WaiterId(id), verdict) in &effects.verdicts {
            match verdict {
                Verdict::Granted(grant) => {
                    found.go.push((*id, grant.probe));
                    self.grants.push((*id, *grant));
                }
                Verdict::Refused => found.turned_away.push(*id),
            }
        }
        assert_eq!(found, *told, "{event:?} at {:?}", self.now);
        self.same_times(&effects);
        self.stepped_at = self.now;
        self.same_view(&effects);
        self.reached.note(&effects, &self.gate);
    }

    /// Holds ended when they should have, and everybody waited for as long as they did.
    fn same_times(&self, effects: &Effects) {
        let over = self.model.hold_ends().filter(|end| self.stepped_at < *end && *end <= self.now);
        let noted = effects.happened.iter().filter(|dated| dated.what == Happened::HoldExpired).map(|dated| dated.at);
        assert_eq!(noted.collect::<Vec<_>>(), over.collect::<Vec<_>>(), "holds over at {:?}", self.now);

        let noted = effects.happened.iter().filter_map(|dated| match dated.what {
            Happened::Admitted { waited, .. } => Some(waited),
            _ => None,
        });
        let gone = effects.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Granted(_)));
        let since = |id| self.model.out().find(|caller| caller.id == id).unwrap().since;
        let waited: Vec<_> = gone.map(|(WaiterId(id), _)| self.now.checked_sub(since(*id)).unwrap()).collect();
        assert_eq!(noted.collect::<Vec<_>>(), waited, "waits at {:?}", self.now);
    }

    /// Both look alike from outside.
    fn same_view(&self, effects: &Effects) {
        let (seen, now) = (self.gate.snapshot(), self.now);
        assert_eq!(seen.limit, self.model.limit(), "limit");
        assert_eq!(seen.active, self.model.active(), "active");
        assert_eq!(seen.held, self.model.held(now), "held");
        let waiting = |kind| self.model.waiting().filter(|caller| caller.kind == kind).count();
        let kinds = [seen.waiting.background, seen.waiting.brief, seen.waiting.long_poll];
        assert_eq!(kinds, KINDS.map(waiting), "waiting");
        assert_eq!(seen.waiting_since, self.model.waiting().map(|caller| caller.since).min(), "oldest wait");
        let breaker = match self.model.outage() {
            None => BreakerSnapshot::Closed,
            Some(outage) if self.model.probing() => {
                BreakerSnapshot::Probing { opened_at: outage.opened_at, reopened: outage.failed_probes }
            }
            Some(outage) => BreakerSnapshot::Open {
                opened_at: outage.opened_at,
                period_ends: outage.period_ends,
                reopened: outage.failed_probes,
            },
        };
        assert_eq!(seen.breaker, breaker);
        assert_eq!(seen.limit == 0, breaker != BreakerSnapshot::Closed);
        let next = self.model.next_admission(now);
        assert_eq!(self.gate.next_admission(now), next, "next admission at {now:?}");
        let waits = self.model.waiting().next().is_some();
        assert_eq!(effects.wake_at, next.at.filter(|_| waits), "when to wake at {now:?}");
        for (id, grant) in &self.grants {
            let caller = self.model.out().find(|caller| caller.id == *id).unwrap();
            let Place::Out { decreases_seen, .. } = caller.place else { unreachable!("{caller:?} is out") };
            let fresh = decreases_seen == self.model.decreases();
            assert_eq!(grant.started == self.gate.epoch(), fresh, "whether {caller:?} started after the decrease");
        }
    }
}

impl GateReached {
    fn note(&mut self, effects: &Effects, gate: &State) {
        let seen = gate.snapshot();
        self.limit = self.limit.max(seen.limit);
        self.held = self.held.max(seen.held.len());
        let mut by_user = false;
        for dated in &effects.happened {
            match dated.what {
                Happened::Opened { reopened, .. } => self.reopened = self.reopened.max(reopened),
                Happened::Admitted { kind, probe: true, .. } => {
                    let at = KINDS.iter().position(|known| *known == kind).unwrap();
                    self.probes[at] += 1;
                }
                Happened::Closed => self.closed += 1,
                Happened::Finished { call, counted, .. } => by_user = counted && call == Call::Interactive,
                Happened::LimitChanged { .. } if by_user => self.halved_by_users += 1,
                _ => {}
            }
        }
    }
}

/// Whom the number means, counted round.
fn nth<'a>(callers: impl Iterator<Item = &'a Caller>, index: u8) -> Option<usize> {
    let ids: Vec<_> = callers.map(|caller| caller.id).collect();
    Some(ids[usize::from(index).checked_rem(ids.len())?])
}
