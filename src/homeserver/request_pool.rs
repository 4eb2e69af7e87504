//! [`RequestPool`]: a fixed number of threads that answer requests, with a short bounded queue in front.
//!
//! This is the pool the in-flight budget protects. A job that does not fit into the queue is refused at once: waiting
//! longer would only turn an overload into a slower one.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// Request threads and their queue.
///
/// Always: at most `threads` jobs run and at most `queued` wait (`a_full_queue_refuses_at_once`). A job that panics
/// costs no thread (`a_job_that_panics_loses_no_thread`). Dropping the pool stops it, and waits for its threads.
#[derive(Debug)]
pub struct RequestPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    work_or_end: Condvar,
    max_queued: usize,
    panicked: AtomicU64,
}

struct Queue {
    jobs: VecDeque<Job>,
    open: bool,
    /// Threads that wait for a job.
    idle: usize,
}

/// The pool takes no job now. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("every request thread is busy and the queue is full")]
pub struct Busy;

impl RequestPool {
    /// Starts `threads` threads, named `request-0` and so on, with room for `max_queued` waiting jobs.
    ///
    /// *Errors:* the system gives no thread; those already started are stopped again. *Panics:* never.
    pub fn start(threads: usize, max_queued: usize) -> io::Result<Self> {
        let queue = Mutex::new(Queue { jobs: VecDeque::with_capacity(max_queued), open: true, idle: 0 });
        let shared = Arc::new(Shared { queue, work_or_end: Condvar::new(), max_queued, panicked: AtomicU64::new(0) });
        let mut pool = Self { shared, threads: Vec::with_capacity(threads) };
        for index in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new().name(format!("request-{index}"));
            pool.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// Hands a job over.
    ///
    /// *Errors:* [`Busy`] if the queue is full or the pool is stopping; the job is dropped. *Blocking:* no.
    pub fn try_run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let mut queue = self.shared.queue.lock();
        if !queue.open || queue.jobs.len() >= self.shared.max_queued {
            return Err(Busy);
        }
        queue.jobs.push_back(Box::new(job));
        drop(queue);
        self.shared.work_or_end.notify_one();
        Ok(())
    }

    /// How many threads there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// How many threads are alive and wait for a job.
    #[must_use]
    pub fn idle_threads(&self) -> usize {
        self.shared.queue.lock().idle
    }

    /// How many jobs panicked so far.
    #[must_use]
    pub fn panicked(&self) -> u64 {
        self.shared.panicked.load(Ordering::Relaxed)
    }

    /// Takes no more jobs, finishes those it has, and ends its threads.
    ///
    /// *Blocking:* until the last job is done; an outbound call ends by its deadline plus the worker margin.
    pub fn stop(mut self) {
        self.end();
    }

    pub(super) fn end(&mut self) {
        self.shared.queue.lock().open = false;
        self.shared.work_or_end.notify_all();
        for thread in self.threads.drain(..) {
            // A thread ends with an error only if it panicked outside a job, and then there is nothing left to wait for.
            drop(thread.join());
        }
    }
}

impl Drop for RequestPool {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                self.panicked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The next job; `None` at the end.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if !queue.open {
                return None;
            }
            queue.idle = queue.idle.saturating_add(1);
            self.work_or_end.wait(&mut queue);
            queue.idle = queue.idle.saturating_sub(1);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Queue")
            .field("waiting", &self.jobs.len())
            .field("open", &self.open)
            .field("idle", &self.idle)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Only a test that fails waits this long.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn jobs_run_on_named_threads() {
        let pool = RequestPool::start(2, 4).unwrap();
        let (say, hear) = mpsc::channel();
        pool.try_run(move || say.send(std::thread::current().name().map(ToOwned::to_owned)).unwrap()).unwrap();
        assert!(hear.recv().unwrap().unwrap().starts_with("request-"));
    }

    #[test]
    fn a_full_queue_refuses_at_once() {
        let pool = RequestPool::start(1, 1).unwrap();
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        pool.try_run(move || {
            started.send(()).unwrap();
            let _ = released.recv();
        })
        .unwrap();
        has_started.recv().unwrap();
        assert_eq!(pool.try_run(|| ()), Ok(()));
        assert_eq!(pool.try_run(|| ()), Err(Busy));
        drop(release);
        pool.stop();
    }

    #[test]
    fn a_job_that_panics_loses_no_thread() {
        let pool = RequestPool::start(1, 8).unwrap();
        let (say, hear) = mpsc::channel();
        pool.try_run(|| panic!("on purpose")).unwrap();
        pool.try_run(move || say.send(()).unwrap()).unwrap();
        hear.recv_timeout(LONG).expect("the thread is gone");
        assert_eq!(pool.panicked(), 1);
    }

    #[test]
    fn stopping_finishes_what_was_taken_and_takes_no_more() {
        let pool = RequestPool::start(2, 64).unwrap();
        let (say, hear) = mpsc::channel();
        for _ in 0..32 {
            let say = say.clone();
            pool.try_run(move || say.send(()).unwrap()).unwrap();
        }
        drop(say);
        pool.stop();
        assert_eq!(hear.iter().count(), 32);
    }
}
