//! [`InteractiveStart`]: calls a user waits for. They never wait at the gate; they tell it how they fared.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::limit::Epoch;
use crate::gate::outer_timeout::{OuterTimeout, within};
use crate::gate::registry::GateRegistry;
use crate::gate::state::Event;
use crate::outcome::{Outcome, Took};

/// A call that a user waits for has started. Made by [`HomeserverGate::interactive`] and [`GateRegistry::interactive`].
///
/// Its report can only halve the limit, never below 1, once per burst; it never opens the breaker and is ignored while the
/// breaker is not closed. Dropped without a report, it says nothing: a caller who went away is no sign of load.
///
/// ```
/// use portcullis::Outcome;
/// use portcullis::gate::{GateKey, HomeserverGate};
///
/// let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org")?);
/// let (receipt, send) = (gate.interactive(), gate.interactive());
/// receipt.report(Outcome::timeout());
/// assert_eq!(gate.status().limit, 1);
/// send.report(Outcome::timeout()); // the same burst, and at the floor besides
/// assert_eq!(gate.status().limit, 1);
/// # Ok::<(), portcullis::gate::InvalidBaseUrl>(())
/// ```
#[must_use = "without a report the gate does not learn how the call fared"]
pub struct InteractiveStart {
    heard_by: HeardBy,
    upload: bool,
}

enum HeardBy {
    Gate(HomeserverGate, Epoch),
    /// There was no gate when the call started.
    Nobody(GateRegistry),
}

impl InteractiveStart {
    pub(super) fn at(gate: HomeserverGate) -> Self {
        let started = gate.shared.epoch();
        Self { heard_by: HeardBy::Gate(gate, started), upload: false }
    }

    pub(super) fn unheard(registry: GateRegistry) -> Self {
        Self { heard_by: HeardBy::Nobody(registry), upload: false }
    }

    /// The call is an upload: its timeout depends on the file's size and this side's uplink, so it does not count. Its
    /// other failures do.
    pub fn of_an_upload(self) -> Self {
        Self { upload: true, ..self }
    }

    /// The call ended so. Without a gate this is logged at trace, and counted by the registry.
    ///
    /// *Panics:* never. *Blocking:* no.
    pub fn report(self, outcome: Outcome) {
        match self.heard_by {
            HeardBy::Gate(gate, started) => {
                gate.shared.tell(Event::Interactive { started, outcome, upload: self.upload });
            }
            HeardBy::Nobody(registry) => {
                registry.count_unheard();
                // Of the lookups that accounts cause, hardly one goes to a server that has a gate.
                tracing::trace!(
                    target: "portcullis::gate",
                    outcome = outcome.as_label(),
                    "a call ended that no gate knew of when it started"
                );
            }
        }
    }

    /// Runs `call` under an outer timeout and reports what `classify` makes of its answer, as
    /// [`Permit::run_within`](crate::gate::Permit::run_within) does.
    ///
    /// *Errors:* [`OuterTimeout`]. *Panics:* never, inside a tokio runtime with its timer on. *Cancel safety:* dropping the
    /// future drops `call`, and nothing is reported.
    pub async fn run_within<T>(
        self,
        outer: Duration,
        call: impl Future<Output = T>,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, OuterTimeout> {
        let (answer, outcome) = within(outer, call, classify).await;
        self.report(outcome);
        answer
    }
}

impl fmt::Debug for InteractiveStart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gate = match &self.heard_by {
            HeardBy::Gate(gate, _) => Some(gate.key()),
            HeardBy::Nobody(_) => None,
        };
        out.debug_struct("InteractiveStart").field("gate", &gate).field("upload", &self.upload).finish()
    }
}
