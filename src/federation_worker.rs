//! [`FederationWorker`]: where outbound calls run when the caller is a thread of a request pool.
//!
//! The threads of a synchronous homeserver must be given back in time whatever a call does, and a call must not lose its
//! slot because a thread gave up on it. So the call runs on a runtime of our own, with threads of its own: the pool thread
//! hands it over and waits on a channel, until the call's deadline plus a margin at most. The slot travels inside the
//! call. Nobody else's runtime is ever blocked on, and a runtime that nobody drives is never relied on.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::deadline::OutboundDeadline;
use crate::limits::{FEDERATION_WORKER_BLOCKING_THREADS, MEDIA_CALLBACKS};

/// A private runtime, and the way across.
///
/// Always: what a call owns (its slot) is dropped before its answer is sent (`the_slot_is_free_before_the_answer_is_seen`).
/// Dropping the worker drops the calls on it, and never blocks.
pub(crate) struct FederationWorker {
    /// `None` only while being dropped.
    runtime: Option<Runtime>,
    /// One for each callback that may run; those threads are beside the ones for the disk.
    callbacks: Arc<Semaphore>,
    overruns: AtomicU64,
}

/// The worker has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkerError {
    /// The margin is used up and the call still runs; it keeps its slot until it ends.
    #[error("the call still runs after its deadline and the margin")]
    StillRunning,
    /// The call ended without an answer: it panicked, or the worker is going away.
    #[error("the call ended without an answer")]
    Ended,
}

impl FederationWorker {
    /// A worker with `threads` threads of its own, 0 counting as 1, and threads that come and go for what blocks: the disk,
    /// parsing large answers, and callbacks.
    ///
    /// *Errors:* the system gives no threads.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            // Callbacks take no more than their part, so that the disk always has its own.
            .max_blocking_threads(FEDERATION_WORKER_BLOCKING_THREADS.saturating_add(MEDIA_CALLBACKS))
            .thread_name("portcullis-federation")
            .enable_all()
            .build()?;
        let callbacks = Arc::new(Semaphore::new(MEDIA_CALLBACKS));
        Ok(Self { runtime: Some(runtime), callbacks, overruns: AtomicU64::new(0) })
    }

    /// Runs `call` here and waits for its answer until `deadline` plus `margin` at most.
    ///
    /// The call has to keep to the deadline by itself; the margin is for one that does not, a call that never yields.
    ///
    /// *Errors:* [`WorkerError`]. *Panics:* never; a panic of `call` is [`WorkerError::Ended`]. *Blocking:* yes, as said.
    pub(crate) fn wait<F>(
        &self,
        deadline: OutboundDeadline,
        margin: Duration,
        call: F,
    ) -> Result<F::Output, WorkerError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or(WorkerError::Ended)?;
        let (send, receive) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            // The call, and the slot in it, is gone at the end of this statement: whoever sees the answer may ask again at
            // once and must not meet its own slot.
            let answer = call.await;
            // The caller may have given up.
            let _ = send.send(answer);
        });
        let patience = deadline.remaining(Instant::now()).unwrap_or(Duration::ZERO).saturating_add(margin);
        receive.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                self.overruns.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(target: "portcullis::worker", "a call still runs after its deadline and the margin");
                WorkerError::StillRunning
            }
            RecvTimeoutError::Disconnected => WorkerError::Ended,
        })
    }

    /// Runs `task` here and waits for its end, which it has to come to by itself.
    ///
    /// *Errors:* [`WorkerError::Ended`]. *Panics:* never. *Blocking:* yes, as said.
    pub(crate) fn run<F>(&self, task: F) -> Result<F::Output, WorkerError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or(WorkerError::Ended)?;
        let (send, receive) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            // Whoever waits is there until it has heard.
            let _ = send.send(task.await);
        });
        receive.recv().map_err(|_| WorkerError::Ended)
    }

    /// Runs `call` here, and then `on_answer` with its answer on a thread where it may wait; nobody waits for it. While
    /// [`MEDIA_CALLBACKS`] of them run, the answer waits, and what the call owned is free. Once the worker goes away, both
    /// are dropped instead.
    pub(crate) fn spawn<F>(&self, call: F, on_answer: impl FnOnce(F::Output) + Send + 'static)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let Some(runtime) = &self.runtime else { return };
        let callbacks = Arc::clone(&self.callbacks);
        runtime.spawn(async move {
            let answer = call.await;
            // It is never closed.
            let Ok(turn) = callbacks.acquire_owned().await else { return };
            tokio::task::spawn_blocking(move || {
                // Given back in a panic too, which ends here.
                let _turn = turn;
                on_answer(answer);
            });
        });
    }

    /// Where tasks are spawned that are to run here.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.runtime.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// How many calls outlived their deadline and the margin so far.
    pub(crate) fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::Relaxed)
    }
}

impl Drop for FederationWorker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // An ordinary drop waits for the threads, and panics inside somebody's runtime.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for FederationWorker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FederationWorker").field("overruns", &self.overruns()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{InFlightBudget, InFlightCaps, Slot};

    const MARGIN: Duration = Duration::from_millis(20);

    fn worker() -> FederationWorker {
        FederationWorker::start(2).unwrap()
    }

    fn deadline_in(milliseconds: u64) -> OutboundDeadline {
        OutboundDeadline::after(Duration::from_millis(milliseconds), Instant::now())
    }

    /// Holds `slot` as a call does, and answers.
    async fn call(slot: Slot<u8>) -> u32 {
        tokio::task::yield_now().await;
        drop(slot);
        7
    }

    fn wait_until_empty(budget: &InFlightBudget<u8>) {
        while budget.in_flight() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_answer_comes_across() {
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&1).unwrap();
        assert_eq!(worker().wait(deadline_in(10_000), MARGIN, call(slot)), Ok(7));
    }

    #[test]
    fn the_slot_is_free_before_the_answer_is_seen() {
        /// A call that does not give its slot back by itself.
        struct Careless(#[expect(dead_code, reason = "held, not read")] Slot<u8>);
        impl Future for Careless {
            type Output = ();
            fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
                std::task::Poll::Ready(())
            }
        }
        let worker = worker();
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        for turn in 0..20_000 {
            let slot = budget.try_acquire(&1).unwrap_or_else(|full| panic!("turn {turn}: {full}"));
            worker.wait(deadline_in(10_000), MARGIN, Careless(slot)).unwrap();
        }
    }

    #[test]
    fn d13_a_call_that_never_yields_gives_the_thread_back_and_keeps_its_slot() {
        let worker = worker();
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&1).unwrap();
        let (let_go, held) = mpsc::channel::<()>();
        let outcome = worker.wait(deadline_in(20), MARGIN, async move {
            let _ = held.recv(); // blocks the worker's thread: no deadline can cut this
            drop(slot);
        });
        assert_eq!(outcome, Err(WorkerError::StillRunning));
        assert_eq!((worker.overruns(), budget.in_flight()), (1, 1));

        // The other thread still works, and the slot comes back with the end of the call.
        assert_eq!(worker.wait(deadline_in(10_000), MARGIN, async { 8 }), Ok(8));
        let_go.send(()).unwrap();
        wait_until_empty(&budget);
        assert_eq!(budget.tracked_keys(), 0);
    }

    #[test]
    fn a_panic_inside_is_an_end_without_an_answer_and_the_slot_is_back() {
        let worker = worker();
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&1).unwrap();
        let outcome = worker.wait(deadline_in(10_000), MARGIN, async move {
            let _slot = slot;
            tokio::task::yield_now().await;
            panic!("inside the call")
        });
        assert_eq!(outcome, Err::<(), _>(WorkerError::Ended));
        wait_until_empty(&budget);
        assert_eq!(worker.overruns(), 0);
        assert_eq!(worker.wait(deadline_in(10_000), MARGIN, async { 8 }), Ok(8));
    }

    #[tokio::test]
    async fn dropping_it_inside_a_runtime_frees_the_slots_and_does_not_panic() {
        let worker = worker();
        let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
        let slot = budget.try_acquire(&1).unwrap();
        let forever = async move {
            let _slot = slot;
            std::future::pending::<()>().await;
        };
        assert_eq!(worker.wait(deadline_in(0), Duration::ZERO, forever), Err(WorkerError::StillRunning));
        assert_eq!(budget.in_flight(), 1);
        drop(worker);
        wait_until_empty(&budget);
    }
}
