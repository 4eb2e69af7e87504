//! The shell around the pure state: one lock, and what has to happen once it is free again.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::gate::cells::Cells;
use crate::gate::clock::{Clock, Timer};
use crate::gate::constants::GateConstants;
use crate::gate::counts::GateCounts;
use crate::gate::effects::{Call, Dated, GaveUp, Grant, Happened, Sink, Verdict};
use crate::gate::events::EventLog;
use crate::gate::key::GateKey;
use crate::gate::limit::Epoch;
use crate::gate::queue::{CallerKind, WaiterId};
use crate::gate::snapshot::{NextAdmission, Snapshot};
use crate::gate::state::{Event, State};
use crate::outcome::Outcome;
use crate::sync::Mutex;

/// What the handles of one gate share.
///
/// Never: a waker is called or dropped, a log line written or anything awaited under the lock. The registry's lock may be held when
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
    /// When somebody who waits may go by the passing of time alone.
    wake_at: Option<Duration>,
    around: Around,
}

/// What there is around the state: who waits for its verdicts, and who hears of what happens.
#[derive(Debug)]
struct Around {
    cells: Cells,
    log: EventLog,
    counts: GateCounts,
    /// Whether background calls may go through here, for status.
    background_callers: bool,
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
    pub(super) background_callers: bool,
}

impl Shared {
    pub(super) fn new(key: GateKey, constants: GateConstants) -> Self {
        let inner = Inner {
            state: State::new(constants),
            wake_at: None,
            around: Around {
                cells: Cells::new(),
                log: EventLog::new(),
                counts: GateCounts::default(),
                background_callers: true,
            },
        };
        Self { key, clock: Clock::start(), inner: Mutex::new(inner) }
    }

    pub(super) fn expect_no_background_callers(&self) {
        self.inner.lock().around.background_callers = false;
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.inner.lock().state.epoch()
    }

    /// Tells the gate something, and does what follows.
    #[inline]
    pub(super) fn tell(&self, event: Event) {
        let mut after = Aftermath::default();
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        inner.step(event, now, &mut after);
        drop(inner);
        after.carry_out(&self.key);
    }

    /// Tells the gate how a call ended. The usual end needs neither the time nor anybody woken.
    #[inline]
    pub(super) fn tell_end(&self, grant: Grant, outcome: Option<Outcome>) {
        let mut inner = self.inner.lock();
        if !inner.around.log.has_readers()
            && let Some(counted) = inner.state.ends_quietly(grant, outcome)
        {
            inner.around.counts.note(Happened::Finished { call: Call::Gated(grant.kind), outcome, counted });
            return;
        }
        let mut after = Aftermath::default();
        let now = self.clock.now();
        inner.step(Event::Ended { grant, outcome }, now, &mut after);
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
            let mut discarded = None;
            let mut inner = self.inner.lock();
            let now = self.clock.now();
            let (id, gives_up_at) = match stage {
                Stage::Answered => return Poll::Pending,
                Stage::Outside => {
                    if let Some(verdict) = inner.arrive(kind, now, &mut after) {
                        *stage = Stage::Answered;
                        drop(inner);
                        after.carry_out(&self.key);
                        return Poll::Ready(granted(verdict, now));
                    }
                    let id = inner.around.cells.enter();
                    let gives_up_at = patience.map(|patience| now.saturating_add(patience));
                    *stage = Stage::Inside { id, gives_up_at, timer: None };
                    (id, gives_up_at)
                }
                Stage::Inside { id, gives_up_at, .. } => {
                    discarded = inner.around.cells.unregister(*id);
                    if inner.wake_at.is_some_and(|at| at <= now) {
                        inner.step(Event::TimePassed, now, &mut after);
                    }
                    (*id, *gives_up_at)
                }
            };
            let mut verdict = inner.around.cells.take_answer(id);
            if verdict.is_none() && gives_up_at.is_some_and(|at| at <= now) {
                inner.step(Event::Left { waiter: id, why: GaveUp::OutOfTime }, now, &mut after);
                let _unregistered = inner.around.cells.free(id);
                verdict = Some(Verdict::Refused);
            }
            if verdict.is_none() {
                inner.around.cells.register(id, context.waker());
            }
            let alarm = inner.wake_at.into_iter().chain(gives_up_at).min();
            drop(inner);
            drop(discarded);
            after.carry_out(&self.key);
            if let Some(verdict) = verdict {
                *stage = Stage::Answered;
                return Poll::Ready(granted(verdict, now));
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
        let verdict = inner.around.cells.take_answer(id);
        let discarded = inner.around.cells.free(id);
        match verdict {
            None => inner.step(Event::Left { waiter: id, why: GaveUp::Cancelled }, now, &mut after),
            Some(Verdict::Granted(grant)) => inner.step(Event::Ended { grant, outcome: None }, now, &mut after),
            Some(Verdict::Refused) => {}
        }
        drop(inner);
        drop(discarded);
        after.carry_out(&self.key);
    }

    /// The gate as it is now, whether or not a timer ran, and what is left to do about that.
    pub(super) fn look(&self) -> (Seen, Aftermath) {
        let mut after = Aftermath::default();
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        inner.step(Event::TimePassed, now, &mut after);
        let (state, counts) = (&inner.state, inner.around.counts);
        let background_callers = inner.around.background_callers;
        (Seen { now, snapshot: state.snapshot(), next: state.next_admission(now), counts, background_callers }, after)
    }

    /// Whether a gate that nobody holds may be forgotten, and what it counted.
    pub(super) fn at_rest(&mut self) -> Option<GateCounts> {
        let now = self.clock.now();
        let inner = self.inner.get_mut();
        // Nobody waits, so nobody is to be woken.
        inner.step(Event::TimePassed, now, &mut Aftermath::default());
        inner.state.is_at_rest().then_some(inner.around.counts)
    }

    pub(super) fn counts(&self) -> GateCounts {
        self.inner.lock().around.counts
    }

    pub(super) fn with_log<T>(&self, ask: impl FnOnce(&mut EventLog) -> T) -> T {
        ask(&mut self.inner.lock().around.log)
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
    #[inline]
    fn step(&mut self, event: Event, now: Duration, after: &mut Aftermath) {
        let mut listener = Listener { around: &mut self.around, after, arriving: None, answer: None };
        let wake_at = self.state.step_into(event, now, &mut listener);
        self.note_wake_at(wake_at, after);
    }

    /// Somebody comes. Without a verdict at once it has to enter the cells.
    #[inline]
    fn arrive(&mut self, kind: CallerKind, now: Duration, after: &mut Aftermath) -> Option<Verdict> {
        let waiter = self.around.cells.next_id();
        let mut listener = Listener { around: &mut self.around, after, arriving: Some(waiter), answer: None };
        let wake_at = self.state.step_into(Event::Arrived { waiter, kind }, now, &mut listener);
        let answer = listener.answer;
        self.note_wake_at(wake_at, after);
        answer
    }

    #[inline]
    fn note_wake_at(&mut self, wake_at: Option<Duration>, after: &mut Aftermath) {
        if self.wake_at != wake_at {
            self.wake_at = wake_at;
            if wake_at.is_some() {
                // Each waiter keeps a timer for that moment: none depends on another one's being polled.
                after.wakers.extend(self.around.cells.take_wakers());
            }
        }
    }
}

/// Brings the effects of one step to whom they concern.
struct Listener<'step> {
    around: &'step mut Around,
    after: &'step mut Aftermath,
    /// Who comes with this step, and has no cell yet.
    arriving: Option<WaiterId>,
    answer: Option<Verdict>,
}

impl Sink for Listener<'_> {
    #[inline]
    fn answer(&mut self, waiter: WaiterId, verdict: Verdict) {
        if self.arriving == Some(waiter) {
            self.answer = Some(verdict);
        } else {
            self.after.wakers.extend(self.around.cells.answer(waiter, verdict));
        }
    }

    #[inline]
    fn note(&mut self, at: Duration, what: Happened) {
        self.around.counts.note(what);
        self.around.log.note(Dated { at, what });
        if matches!(what, Happened::Opened { .. } | Happened::Closed) {
            self.after.turned = Some(what);
        }
        if self.around.log.has_readers() {
            self.after.wakers.extend(self.around.log.take_wakers());
        }
    }
}

fn granted(verdict: Verdict, now: Duration) -> Option<(Grant, Duration)> {
    match verdict {
        Verdict::Granted(grant) => Some((grant, now)),
        Verdict::Refused => None,
    }
}

impl Aftermath {
    /// Wakes and logs. To be called without a lock.
    #[inline]
    pub(super) fn carry_out(self, key: &GateKey) {
        if !self.wakers.is_empty() || self.turned.is_some() {
            self.wake_and_log(key);
        }
    }

    #[cold]
    fn wake_and_log(self, key: &GateKey) {
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
