//! A fixed number of threads, and a short queue in front of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use parking_lot::Mutex;

type Job = Box<dyn FnOnce() + Send>;

/// The request pool. Its threads end when it is dropped and their work is done.
pub(crate) struct Pool {
    jobs: SyncSender<Job>,
}

impl Pool {
    pub(crate) fn start(threads: usize, queued: usize) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(queued);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new().name("request".to_owned()).spawn(move || {
                while let Some(job) = next(&waiting) {
                    job();
                }
            })?;
        }
        Ok(Self { jobs })
    }

    /// Runs `job` on a thread of the pool, or gives it back: a queue without end would hide an overload.
    pub(crate) fn try_run<J: FnOnce() + Send + 'static>(&self, job: J) -> bool {
        match self.jobs.try_send(Box::new(job)) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

/// One thread at a time waits for a job; the others wait for the lock.
fn next(waiting: &Mutex<Receiver<Job>>) -> Option<Job> {
    waiting.lock().recv().ok()
}
