//! One gate, its clock in milliseconds, and callers that write down when they were let in.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use portcullis::gate::{BreakerState, DecidedBy, GateConstants, GateKey, GateStatus, HomeserverGate, Permit, PollTurn};
use portcullis::{Outcome, Overload};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

pub(crate) const FAILED: Outcome = Outcome::Overloaded(Overload::ServerError);
pub(crate) const TIMED_OUT: Outcome = Outcome::TimedOut;
pub(crate) const FAST: Outcome = Outcome::FastSuccess;

/// A time of day of the worked examples, in milliseconds.
pub(crate) const fn hms(hours: u64, minutes: u64, seconds: u64) -> u64 {
    ((hours * 60 + minutes) * 60 + seconds) * 1000
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn key() -> GateKey {
    GateKey::from_base_url("https://matrix.example.org").unwrap()
}

/// One admission, as its caller saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) caller: &'static str,
    pub(crate) at_ms: u64,
    pub(crate) waited_ms: u64,
    pub(crate) probe: bool,
}

#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) gate: HomeserverGate,
    start: Instant,
    admissions: Arc<Mutex<Vec<Admission>>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(GateConstants::default())
    }

    /// The record's figures, but for the limit at the start.
    pub(crate) fn starting_at(initial_limit: usize) -> Self {
        Self::with(GateConstants { initial_limit, ..GateConstants::default() })
    }

    fn with(constants: GateConstants) -> Self {
        let gate = HomeserverGate::with_dangerous_constants(key(), constants);
        Self { gate, start: Instant::now(), admissions: Arc::default() }
    }

    /// A gate that a 503 to its only call has opened, at 0; the period is over at 60 s.
    pub(crate) async fn open() -> Self {
        let rig = Self::starting_at(1);
        rig.gate.acquire().await.finish(FAILED);
        assert_eq!(rig.breaker(), (BreakerState::Open, 0));
        rig
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    /// Waits for a moment, and until everything that is due by then has happened.
    pub(crate) async fn at_ms(&self, ms: u64) {
        sleep_until(self.start + Duration::from_millis(ms)).await;
        settle().await;
    }

    pub(crate) async fn at(&self, seconds: u64) {
        self.at_ms(seconds * 1000).await;
    }

    pub(crate) fn look(&self) -> Look {
        Look::of(self, &self.gate.status())
    }

    /// Limit, active, held.
    pub(crate) fn slots(&self) -> (usize, usize, usize) {
        let status = self.gate.status();
        (status.limit, status.active, status.held)
    }

    /// The state and how often it reopened.
    pub(crate) fn breaker(&self) -> (BreakerState, u32) {
        let breaker = self.gate.status().breaker;
        (breaker.state, breaker.reopened)
    }

    pub(crate) fn limit(&self) -> usize {
        self.gate.status().limit
    }

    /// Fast successes, one after the other; no time passes.
    pub(crate) async fn succeed(&self, times: usize) {
        for _ in 0..times {
            self.gate.acquire().await.finish(FAST);
        }
    }

    /// One call that is let in at once, or the test fails.
    pub(crate) async fn admitted(&self) -> Permit {
        self.gate.acquire_unless(std::future::ready(())).await.expect("a slot is free")
    }

    /// One long-poll that is let through at once, or the test fails.
    pub(crate) async fn polling(&self) -> PollTurn {
        self.gate.poll_turn_unless(std::future::ready(())).await.expect("the breaker is closed")
    }

    /// A caller that waits from now on; the handle gives its permit.
    pub(crate) async fn waiter(&self, caller: &'static str) -> JoinHandle<Permit> {
        let rig = self.clone();
        let since = self.now_ms();
        let waiting = tokio::spawn(async move {
            let permit = rig.gate.acquire().await;
            rig.admitted_now(caller, since, permit.is_probe());
            permit
        });
        settle().await;
        waiting
    }

    /// A long-poll that waits from now on.
    pub(crate) async fn poller(&self, caller: &'static str) -> JoinHandle<PollTurn> {
        let rig = self.clone();
        let since = self.now_ms();
        let waiting = tokio::spawn(async move {
            let turn = rig.gate.poll_turn().await;
            rig.admitted_now(caller, since, turn.is_probe());
            turn
        });
        settle().await;
        waiting
    }

    /// A caller for ever: waits, takes as long as `takes_ms` says of the moment it starts, ends as told.
    pub(crate) fn caller_for_ever(
        &self,
        caller: &'static str,
        call: impl Fn(u64) -> (u64, Outcome) + Send + 'static,
    ) -> JoinHandle<()> {
        let rig = self.clone();
        tokio::spawn(async move {
            loop {
                let since = rig.now_ms();
                let permit = rig.gate.acquire().await;
                rig.admitted_now(caller, since, permit.is_probe());
                let started = rig.now_ms();
                let (takes_ms, outcome) = call(started);
                sleep_until(rig.start + Duration::from_millis(started + takes_ms)).await;
                permit.finish(outcome);
            }
        })
    }

    pub(crate) fn admitted_now(&self, caller: &'static str, since_ms: u64, probe: bool) {
        let at_ms = self.now_ms();
        self.admissions.lock().push(Admission { caller, at_ms, waited_ms: at_ms - since_ms, probe });
    }

    pub(crate) fn admissions(&self) -> Vec<Admission> {
        self.admissions.lock().clone()
    }

    pub(crate) fn admission_times(&self) -> Vec<u64> {
        self.admissions().iter().map(|admission| admission.at_ms).collect()
    }

    /// Who was let in when.
    pub(crate) fn who_when(&self) -> Vec<(&'static str, u64)> {
        self.admissions().iter().map(|admission| (admission.caller, admission.at_ms)).collect()
    }
}

/// Lets every task that can run do so; no time passes.
pub(crate) async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// What a task that has to be done by now came to. It is not waited for: a test that waits for what never comes hangs.
pub(crate) async fn ended<T>(task: JoinHandle<T>) -> T {
    settle().await;
    assert!(task.is_finished(), "it is still waiting");
    task.await.unwrap()
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_with(future, Waker::noop())
}

/// Polls once.
pub(crate) fn poll_with<T>(future: Pin<&mut impl Future<Output = T>>, waker: &Waker) -> Option<T> {
    match future.poll(&mut Context::from_waker(waker)) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// A status with its Unix times turned into milliseconds since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) state: BreakerState,
    pub(crate) slots: (usize, usize, usize),
    pub(crate) opened_at: Option<u64>,
    pub(crate) reopened: u32,
    pub(crate) period_ends: Option<u64>,
    pub(crate) next_probe: Option<u64>,
    pub(crate) next: (Option<u64>, DecidedBy),
    pub(crate) waiting: usize,
    pub(crate) oldest_wait: Option<u64>,
    pub(crate) held_until: Vec<u64>,
}

impl Look {
    fn of(rig: &Rig, status: &GateStatus) -> Self {
        let now = rig.now_ms();
        let since_start = |unix_ms: u64| (now + unix_ms).checked_sub(status.seen_at_ms).unwrap();
        Self {
            state: status.breaker.state,
            slots: (status.limit, status.active, status.held),
            opened_at: status.breaker.opened_at_ms.map(since_start),
            reopened: status.breaker.reopened,
            period_ends: status.breaker.period_ends_at_ms.map(since_start),
            next_probe: status.breaker.next_probe_at_ms.map(since_start),
            next: (status.next_admission.at_ms.map(since_start), status.next_admission.decided_by),
            waiting: status.waiting,
            oldest_wait: status.oldest_wait_ms,
            held_until: status.held_until_ms.iter().copied().map(since_start).collect(),
        }
    }
}
