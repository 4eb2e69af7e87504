//! The event loop: callers that always want a page, with a gate in front of the server or without.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::gate::GateConstants;
use crate::gate::state::{CallerKind, Effects, Event, Grant, State, Verdict, WaiterId};
use crate::limits::BACKFILL_PAGE_TIMEOUT;
use crate::outcome::{Outcome, Overload, Took};
use crate::simulation::recording::{Page, Recording};
use crate::simulation::server::{Answer, PageServer};

/// Somebody looks at each gate's status so often. Looking has to change nothing.
const LOOKS_EVERY: Duration = Duration::from_secs(60);

/// Whether a gate stands before the server.
#[derive(Clone, Copy, Debug)]
pub enum Gated {
    /// No: whoever wants a page asks for it.
    No,
    /// Each instance has a gate of its own.
    By(GateConstants),
}

/// Who asks, for how long, and how much.
#[derive(Clone, Debug)]
pub struct Load {
    /// Processes, each with its own gate.
    pub instances: usize,
    /// Callers in each. Each asks for one page at a time, over and over.
    pub callers_each: usize,
    /// How long a caller waits after page number so-and-so; past the end, not at all.
    pub pause_after: Vec<Duration>,
    /// So many pages are wanted in all, if gates do not come first.
    pub pages: usize,
    /// Nothing is asked for from then on.
    pub until: Duration,
}

/// A step a gate has just made.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Whose gate.
    pub instance: usize,
    /// Since the beginning.
    pub at: Duration,
    /// The gate after the step.
    pub gate: &'a State,
    /// What the step led to.
    pub effects: &'a Effects,
    /// Pages at work at the server before anything the step allows.
    pub at_work: usize,
}

/// In this order where two are due at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    GivesUp { page: usize },
    Wants { instance: usize, caller: usize },
    Looks { instance: usize },
}

struct Client {
    gate: Option<State>,
    wake_at: Option<Duration>,
}

struct Simulation<'a> {
    load: &'a Load,
    server: &'a mut dyn PageServer,
    watch: &'a mut dyn FnMut(Seen<'_>),
    now: Duration,
    due: BinaryHeap<Reverse<(Duration, Due)>>,
    clients: Vec<Client>,
    /// The caller and the leave of each page.
    askers: Vec<(usize, Option<Grant>)>,
    at_work: usize,
    recording: Recording,
}

/// Lets `load` loose on `server` and records what happens; `watch` sees every step of every gate.
pub fn run(load: &Load, gated: Gated, server: &mut dyn PageServer, watch: &mut dyn FnMut(Seen<'_>)) -> Recording {
    let client = || Client {
        gate: match gated {
            Gated::No => None,
            Gated::By(constants) => Some(State::new(constants)),
        },
        wake_at: None,
    };
    let mut simulation = Simulation {
        load,
        server,
        watch,
        now: Duration::ZERO,
        due: BinaryHeap::new(),
        clients: (0..load.instances).map(|_| client()).collect(),
        askers: Vec::new(),
        at_work: 0,
        recording: Recording::new(load.instances, load.until),
    };
    for caller in 0..load.callers_each {
        for instance in 0..load.instances {
            simulation.due.push(Reverse((Duration::ZERO, Due::Wants { instance, caller })));
        }
    }
    if matches!(gated, Gated::By(_)) {
        for instance in 0..load.instances {
            simulation.due.push(Reverse((LOOKS_EVERY, Due::Looks { instance })));
        }
    }
    simulation.until_nobody_asks();
    simulation.until_the_work_is_done();
    simulation.recording
}

impl Simulation<'_> {
    fn until_nobody_asks(&mut self) {
        loop {
            let server = self.server.next_event();
            let due = self.due.peek().map(|Reverse((at, _))| *at);
            let wake = self.clients.iter().filter_map(|client| client.wake_at).min();
            let Some(next) = [due, wake].into_iter().flatten().min() else { return };
            let next = server.map_or(next, |server| server.min(next));
            if next >= self.load.until {
                return;
            }
            self.now = next;
            if server == Some(next) {
                if let Some((page, answer)) = self.server.advance(next) {
                    self.served(page, answer);
                }
            } else if due == Some(next) {
                match self.due.pop() {
                    Some(Reverse((_, Due::GivesUp { page }))) => self.ended(page, Outcome::timeout()),
                    Some(Reverse((_, Due::Wants { instance, caller }))) => self.wants(instance, caller),
                    Some(Reverse((_, Due::Looks { instance }))) => {
                        self.step(instance, Event::TimePassed);
                        self.due.push(Reverse((next + LOOKS_EVERY, Due::Looks { instance })));
                    }
                    None => {}
                }
            } else {
                for instance in 0..self.clients.len() {
                    if self.clients.get(instance).is_some_and(|client| client.wake_at == Some(next)) {
                        self.step(instance, Event::TimePassed);
                    }
                }
            }
        }
    }

    /// The server goes on with what it was asked for, although nobody listens.
    fn until_the_work_is_done(&mut self) {
        while let Some(next) = self.server.next_event() {
            self.now = next;
            if let Some((page, _)) = self.server.advance(next)
                && let Some(page) = self.recording.pages.get_mut(page)
            {
                page.served = Some(next);
            }
        }
    }

    fn wants(&mut self, instance: usize, caller: usize) {
        if self.recording.pages.len() >= self.load.pages {
            if let Some(finished) = self.recording.finished.get_mut(instance) {
                *finished = self.now;
            }
        } else if self.clients.get(instance).is_some_and(|client| client.gate.is_some()) {
            self.step(instance, Event::Arrived { waiter: WaiterId(caller), kind: CallerKind::Background });
        } else {
            self.ask(instance, caller, None);
        }
    }

    fn ask(&mut self, instance: usize, caller: usize, grant: Option<Grant>) {
        let page = self.recording.pages.len();
        self.recording.pages.push(Page { instance, asked: self.now, ended: None, served: None });
        self.askers.push((caller, grant));
        self.at_work += 1;
        self.server.begin(page, self.now);
        self.due.push(Reverse((self.now + BACKFILL_PAGE_TIMEOUT, Due::GivesUp { page })));
    }

    fn served(&mut self, page: usize, answer: Answer) {
        let Some(recorded) = self.recording.pages.get_mut(page) else { return };
        recorded.served = Some(self.now);
        self.at_work -= 1;
        let took = self.now.saturating_sub(recorded.asked);
        match answer {
            Answer::Page => self.ended(page, Outcome::success(Took { elapsed: took, timeout: BACKFILL_PAGE_TIMEOUT })),
            Answer::Unavailable => self.ended(page, Outcome::overloaded(Overload::ServerError)),
            Answer::Lost => {}
        }
    }

    /// The end of a page for its caller, unless it has ended already.
    fn ended(&mut self, page: usize, outcome: Outcome) {
        let Some(recorded) = self.recording.pages.get_mut(page).filter(|page| page.ended.is_none()) else { return };
        recorded.ended = Some((self.now, outcome));
        let instance = recorded.instance;
        let Some((caller, grant)) = self.askers.get(page).copied() else { return };
        if let Some(grant) = grant {
            self.step(instance, Event::Ended { grant, outcome: Some(outcome) });
        }
        let pause = self.load.pause_after.get(page).copied().unwrap_or_default();
        self.due.push(Reverse((self.now + pause, Due::Wants { instance, caller })));
    }

    fn step(&mut self, instance: usize, event: Event) {
        let Some(client) = self.clients.get_mut(instance) else { return };
        let Some(gate) = client.gate.as_mut() else { return };
        let effects = gate.step(event, self.now);
        client.wake_at = effects.wake_at;
        (self.watch)(Seen { instance, at: self.now, gate, effects: &effects, at_work: self.at_work });
        self.recording.happened.extend(effects.happened.iter().map(|dated| (instance, *dated)));
        for (WaiterId(caller), verdict) in effects.verdicts {
            if let Verdict::Granted(grant) = verdict {
                self.ask(instance, caller, Some(grant));
            }
        }
    }
}
