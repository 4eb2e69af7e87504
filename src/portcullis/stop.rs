//! An orderly stop.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Portcullis;
use super::media::MediaDesk;
use crate::admission::Admission;

/// How often [`Portcullis::drain`] looks whether the last call has ended.
const DRAIN_STEP: Duration = Duration::from_millis(10);

impl Portcullis {
    /// For an orderly stop: makes no new calls from now on, waits up to `patience` for those in flight, then cuts them
    /// short. Returns how many were cut short.
    ///
    /// Local and remembered answers go on.
    ///
    /// *Panics:* polled outside of a tokio runtime with its timer on, while a call is in flight; without a runtime there is
    /// [`Portcullis::drain_blocking`]. *Cancel safety:* dropping the future leaves new calls refused and those in flight
    /// running. *Blocking:* no.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use portcullis::Portcullis;
    ///
    /// async fn stop(portcullis: &Portcullis) {
    ///     let cut_short = portcullis.drain(Duration::from_secs(10)).await;
    ///     eprintln!("stopping; {cut_short} lookups and files were cut short");
    /// }
    /// ```
    pub async fn drain(&self, patience: Duration) -> usize {
        self.stopping.store(true, Ordering::Relaxed);
        self.until_idle(patience).await;
        self.cut_short()
    }

    /// The same for a homeserver without a runtime. The waiting is done on the runtime of our own.
    ///
    /// *Panics:* never. *Blocking:* yes, up to `patience`. Not for a thread that drives an asynchronous runtime.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use portcullis::Portcullis;
    ///
    /// fn stop(portcullis: &Portcullis) {
    ///     let cut_short = portcullis.drain_blocking(Duration::from_secs(10));
    ///     eprintln!("stopping; {cut_short} lookups and files were cut short");
    /// }
    /// ```
    #[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
    pub fn drain_blocking(&self, patience: Duration) -> usize {
        self.stopping.store(true, Ordering::Relaxed);
        // Without an answer nobody waited, and what is in flight is cut short at once.
        let _ = self.worker.run(self.until_idle(patience));
        self.cut_short()
    }

    fn until_idle(&self, patience: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (admission, media) = (self.admission.clone(), Arc::clone(&self.media));
        async move {
            let started_at = Instant::now();
            while in_flight(&admission, &media) > 0 && started_at.elapsed() < patience {
                sleep(DRAIN_STEP).await;
            }
        }
    }

    fn cut_short(&self) -> usize {
        let left = in_flight(&self.admission, &self.media);
        self.cut_short.send_replace(true);
        left
    }
}

fn in_flight(admission: &Admission, media: &MediaDesk) -> usize {
    admission.budget().in_flight().saturating_add(media.door.in_flight())
}
