//! The shell around the pure state: one lock, and what has to happen once it is free again.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::gate::cells::Cells;
use crate::gate::clock::{Clock, Timer};
use crate::gate::constants::GateConstants;
use crate::gate::counts::GateCounts;
use crate::gate::effects::{Effects, GaveUp, Grant, Happened, Verdict};
use crate::gate::events::EventLog;
use crate::gate::key::GateKey;
use crate::gate::limit::Epoch;
use crate::gate::queue::{CallerKind, WaiterId};
use crate::gate::snapshot::{NextAdmission, Snapshot};
use crate::gate::state::{Event, State};
use crate::sync::Mutex;

/// What the handles of one gate share.
///
/// Never: a waker is called, a log line written or anything awaited under the lock. The registry's lock may be held when
/// this one is taken, never the other way round.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) key: GateKey,
    clock: Clock,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: State,
    /// The effects of the last step; their memory is used again.
    effects: Effects,
    cells: Cells,
    /// When somebody who waits may go by the passing of time alone.
    wake_at: Option<Duration>,
    log: EventLog,
    counts: GateCounts,
}

/// What is left to do once the lock is free.
#[derive(Debug, Default)]
#[must_use = "somebody has to be woken"]
pub(super) struct Aftermath {
    wakers: Vec<Waker>,
    /// The opening or the closing: one step leads to one of them at most.
    turned: Option<Happened>,
}

/// Where a waiter is.
#[derive(Debug)]
pub(super) enum Stage {
    Outside,
    Inside { id: WaiterId, gives_up_at: Option<Duration>, timer: Option<Timer> },
    Answered,
}

/// The gate as its status shows it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) now: Duration,
    pub(super) snapshot: Snapshot,
    pub(super) next: NextAdmission,
    pub(super) counts: GateCounts,
}

impl Shared {
    pub(super) fn new(key: GateKey, constants: GateConstants) -> Self {
        let inner = Inner {
            state: State::new(constants),
            effects: Effects::with_room(),
            cells: Cells::new(),
            wake_at: None,
            log: EventLog::new(),
            counts: GateCounts::default(),
        };
        Self { key, clock: Clock::start(), inner: Mutex::new(inner) }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.inner.lock().state.epoch()
    }

    /// Tells the gate something, and does what follows.
    pub(super) fn tell(&self, event: Event) {
        let mut after = Aftermath::default();
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        inner.step(event, now, &mut after);
        drop(inner);
        after.carry_out(&self.key);
    }

    /// Polls one waiter: asks for it the first time, then looks for its verdict, and keeps a timer for the moment when
    /// time alone may bring one. Returns with the time of the verdict.
    pub(super) fn poll_turn(
        &self,
        stage: &mut Stage,
        kind: CallerKind,
        patience: Option<Duration>,
        context: &mut Context<'_>,
    ) -> Poll<Option<(Grant, Duration)>> {
        loop {
            let mut after = Aftermath::default();
            let mut inner = self.inner.lock();
            let now = self.clock.now();
            let (id, gives_up_at) = match stage {
                Stage::Answered => return Poll::Pending,
                Stage::Outside => {
                    let id = inner.cells.enter();
                    let gives_up_at = patience.map(|patience| now.saturating_add(patience));
                    *stage = Stage::Inside { id, gives_up_at, timer: None };
                    inner.step(Event::Arrived { waiter: id, kind }, now, &mut after);
                    (id, gives_up_at)
                }
                Stage::Inside { id, gives_up_at, .. } => {
                    inner.cells.unregister(*id);
                    if inner.wake_at.is_some_and(|at| at <= now) {
                        inner.step(Event::TimePassed, now, &mut after);
                    }
                    (*id, *gives_up_at)
                }
            };
            let mut verdict = inner.cells.take_answer(id);
            if verdict.is_none() && gives_up_at.is_some_and(|at| at <= now) {
                inner.step(Event::Left { waiter: id, why: GaveUp::OutOfTime }, now, &mut after);
                inner.cells.free(id);
                verdict = Some(Verdict::Refused);
            }
            if verdict.is_none() {
                inner.cells.register(id, context.waker());
            }
            let alarm = inner.wake_at.into_iter().chain(gives_up_at).min();
            drop(inner);
            after.carry_out(&self.key);
            match verdict {
                Some(Verdict::Granted(grant)) => {
                    *stage = Stage::Answered;
                    return Poll::Ready(Some((grant, now)));
                }
                Some(Verdict::Refused) => {
                    *stage = Stage::Answered;
                    return Poll::Ready(None);
                }
                None => {}
            }
            if self.poll_alarm(stage, alarm, context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// A waiter goes away. If it has just been given its turn, the turn is passed on.
    pub(super) fn leave(&self, stage: &mut Stage) {
        let Stage::Inside { id, .. } = *stage else { return };
        *stage = Stage::Answered;
        let mut after = Aftermath::default();
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        let verdict = inner.cells.take_answer(id);
        inner.cells.free(id);
        match verdict {
            None => inner.step(Event::Left { waiter: id, why: GaveUp::Cancelled }, now, &mut after),
            Some(Verdict::Granted(grant)) => inner.step(Event::Ended { grant, outcome: None }, now, &mut after),
            Some(Verdict::Refused) => {}
        }
        drop(inner);
        after.carry_out(&self.key);
    }

    /// The gate as it is now, whether or not a timer ran, and what is left to do about that.
    pub(super) fn look(&self) -> (Seen, Aftermath) {
        let mut after = Aftermath::default();
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        inner.step(Event::TimePassed, now, &mut after);
        let (state, counts) = (&inner.state, inner.counts);
        (Seen { now, snapshot: state.snapshot(), next: state.next_admission(now), counts }, after)
    }

    /// Whether a gate that nobody holds may be forgotten, and what it counted.
    pub(super) fn at_rest(&mut self) -> Option<GateCounts> {
        let now = self.clock.now();
        let inner = self.inner.get_mut();
        // Nobody waits, so nobody is to be woken.
        inner.step(Event::TimePassed, now, &mut Aftermath::default());
        inner.state.is_at_rest().then_some(inner.counts)
    }

    pub(super) fn counts(&self) -> GateCounts {
        self.inner.lock().counts
    }

    pub(super) fn with_log<T>(&self, ask: impl FnOnce(&mut EventLog) -> T) -> T {
        ask(&mut self.inner.lock().log)
    }

    /// Moves the clock of a race checker on and tells the gate, as a timer would.
    #[cfg(any(portcullis_loom, portcullis_shuttle))]
    pub(super) fn pass_time_to(&self, to: Duration) {
        self.clock.set(to);
        self.tell(Event::TimePassed);
    }

    fn poll_alarm(&self, stage: &mut Stage, alarm: Option<Duration>, context: &mut Context<'_>) -> Poll<()> {
        let Stage::Inside { timer, .. } = stage else { return Poll::Pending };
        let Some(alarm) = alarm else {
            *timer = None;
            return Poll::Pending;
        };
        if timer.as_ref().is_none_or(|timer| timer.end != alarm) {
            *timer = Some(self.clock.timer(alarm));
        }
        timer.as_mut().map_or(Poll::Pending, |timer| timer.poll(context))
    }
}

impl Inner {
    fn step(&mut self, event: Event, now: Duration, after: &mut Aftermath) {
        self.state.step_into(event, now, &mut self.effects);
        for (id, verdict) in &self.effects.verdicts {
            after.wakers.extend(self.cells.answer(*id, *verdict));
        }
        if self.effects.wake_at != self.wake_at {
            self.wake_at = self.effects.wake_at;
            if self.wake_at.is_some() {
                // Each waiter keeps a timer for that moment: none depends on another one's being polled.
                after.wakers.extend(self.cells.take_wakers());
            }
        }
        for dated in &self.effects.happened {
            self.counts.note(dated.what);
            self.log.note(*dated);
            if matches!(dated.what, Happened::Opened { .. } | Happened::Closed) {
                after.turned = Some(dated.what);
            }
        }
        if !self.effects.happened.is_empty() {
            after.wakers.extend(self.log.take_wakers());
        }
    }
}

impl Aftermath {
    /// Wakes and logs. To be called without a lock.
    pub(super) fn carry_out(self, key: &GateKey) {
        for waker in self.wakers {
            waker.wake();
        }
        match self.turned {
            Some(Happened::Opened { outcome, period_ends: _, reopened: 0 }) => tracing::warn!(
                target: "portcullis::gate",
                homeserver = %key,
                outcome = outcome.as_label(),
                "background calls to a homeserver stop: it has too much to do"
            ),
            Some(Happened::Opened { outcome, reopened, .. }) => tracing::debug!(
                target: "portcullis::gate",
                homeserver = %key,
                outcome = outcome.as_label(),
                reopened,
                "a probe of a homeserver failed"
            ),
            Some(Happened::Closed) => tracing::info!(
                target: "portcullis::gate",
                homeserver = %key,
                "background calls to a homeserver go on, one at a time"
            ),
            _ => {}
        }
    }
}
