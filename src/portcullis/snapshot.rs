//! [`Portcullis::status`]: every counter at one moment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Portcullis;
use crate::status::{BudgetStatus, Budgets, CallTimesByClass, Calls, Destinations, Status, WorkerStatus};

impl Portcullis {
    /// A snapshot of the counters. *Blocking:* no I/O.
    #[must_use]
    pub fn status(&self) -> Status {
        let directory = &self.directory;
        Status {
            server_name: self.admission.own_name().to_string(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: whole_ms(self.started_at.elapsed()),
            seen_at_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, whole_ms),
            budgets: Budgets { directory: BudgetStatus::of(&self.admission), media: self.media.budget_status() },
            calls: Calls { directory: directory.calls(), media: self.media.calls() },
            call_times: CallTimesByClass { directory: directory.call_times(), media: self.media.call_times() },
            destinations: Destinations { directory: directory.destinations(), media: self.media.destinations() },
            media: self.media.status(),
            federation_worker: WorkerStatus { overruns: self.worker.overruns() },
            #[cfg(feature = "gate")]
            homeservers: directory.homeservers(),
            #[cfg(feature = "gate")]
            gate_counts: directory.gate_counts(),
        }
    }
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
