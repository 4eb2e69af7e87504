//! [`Status`]: what an operator sees at a glance. A snapshot of counters; making one asks nobody.

use serde::Serialize;

use crate::admission::{Admission, MediaAdmission, RefusedCounts};
#[cfg(feature = "gate")]
use crate::gate::{GateCounts, GateStatus};
pub use crate::proxy::media_store::StoreUsage;
pub use crate::proxy::watch::{CallCounts, CallTimeStep, CallTimes, DestinationStatus, Ended, LastCall};

/// A snapshot, to be shown as JSON.
///
/// ```
/// use portcullis::Portcullis;
///
/// /// For an admin command of your own. Names of servers are in it, those of clients are not.
/// fn status(portcullis: &Portcullis) -> serde_json::Result<String> {
///     serde_json::to_string_pretty(&portcullis.status())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// The server's own name.
    pub server_name: String,
    /// The version of this crate.
    pub version: &'static str,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// When this was seen, in Unix milliseconds.
    pub seen_at_ms: u64,
    /// The budgets, by class of call.
    pub budgets: Budgets,
    /// How calls ended, by class.
    pub calls: Calls,
    /// How long calls took, by class.
    pub call_times: CallTimesByClass,
    /// Servers that were asked lately, by class.
    pub destinations: Destinations,
    /// Files of other servers.
    pub media: MediaStatus,
    /// The runtime that pool threads hand their calls to.
    pub federation_worker: WorkerStatus,
    /// The load gates of [`PortcullisBuilder::gates`](crate::PortcullisBuilder::gates), by key; none without it.
    #[cfg(feature = "gate")]
    pub homeservers: Vec<GateStatus>,
    /// What all those gates counted together, those that are forgotten included.
    #[cfg(feature = "gate")]
    pub gate_counts: GateCounts,
}

/// One budget per class of call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Budgets {
    /// Everything that holds a thread of the request pool: room lists and aliases, and files that are fetched there.
    pub directory: BudgetStatus,
    /// Files that are fetched off the pool.
    pub media: BudgetStatus,
}

/// One budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BudgetStatus {
    /// Slots held now.
    pub in_flight: usize,
    /// Slots in all.
    pub cap: usize,
    /// Slots of one client.
    pub per_client: usize,
    /// Requests refused since the start.
    pub refused: RefusedCounts,
}

/// How calls ended, by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Calls {
    /// Room lists and aliases.
    pub directory: CallCounts,
    /// Files.
    pub media: CallCounts,
}

/// How long calls took, by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallTimesByClass {
    /// Room lists and aliases.
    pub directory: CallTimes,
    /// Files, from the turn to the last byte.
    pub media: CallTimes,
}

/// Servers that were asked lately, by class; at most [`DESTINATIONS_SHOWN`](crate::limits::DESTINATIONS_SHOWN) each. One that
/// was not asked for an hour makes room first, then the one with the fewest calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Destinations {
    /// For room lists and aliases.
    pub directory: Vec<DestinationStatus>,
    /// For files.
    pub media: Vec<DestinationStatus>,
}

/// Files of other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MediaStatus {
    /// Requests refused since the start because the switch is off, or by their own `allow_remote`.
    pub refused_by_switch: u64,
    /// Fetches that run.
    pub running: usize,
    /// Fetches that wait for their turn.
    pub waiting: usize,
    /// What is stored; `None` while the switch is off.
    pub store: Option<StoreUsage>,
}

/// The federation worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Calls that still ran after their deadline and the margin, since the start.
    pub overruns: u64,
}

impl BudgetStatus {
    /// The budget behind `admission`, now.
    #[must_use]
    pub fn of(admission: &Admission) -> Self {
        let budget = admission.budget();
        Self {
            in_flight: budget.in_flight(),
            cap: budget.global_cap(),
            per_client: budget.per_key_cap(),
            refused: admission.refused(),
        }
    }

    /// The media budget, now.
    pub(crate) fn of_media(door: &MediaAdmission) -> Self {
        Self {
            in_flight: door.in_flight(),
            cap: door.limits().max_in_flight(),
            per_client: door.limits().max_per_client(),
            refused: door.refused(),
        }
    }
}
