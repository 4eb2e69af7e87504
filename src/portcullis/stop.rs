//! An orderly stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Portcullis;

/// How often [`Portcullis::drain`] looks whether the last call has ended.
const DRAIN_STEP: Duration = Duration::from_millis(10);

impl Portcullis {
    /// For an orderly stop: makes no new calls from now on, waits up to `patience` for those in flight, then cuts them
    /// short. Returns how many were cut short.
    ///
    /// Local and remembered answers go on. *Cancel safety:* dropping the future leaves new calls refused and those in
    /// flight running. *Blocking:* no.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.stopping.store(true, Ordering::Relaxed);
        let started_at = Instant::now();
        while self.in_flight() > 0 && started_at.elapsed() < patience {
            sleep(DRAIN_STEP).await;
        }
        let left = self.in_flight();
        self.cut_short.send_replace(true);
        left
    }

    fn in_flight(&self) -> usize {
        self.admission.budget().in_flight().saturating_add(self.media.door.in_flight())
    }
}
