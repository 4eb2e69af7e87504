//! [`PollTurn`]: leave to send one long-poll.

use std::future::Future;
use std::time::Duration;

use crate::gate::effects::Grant;
use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::leave::Leave;
use crate::gate::outer_timeout::OuterTimeout;
use crate::outcome::{Outcome, Took};

/// Leave to send one long-poll. Made by [`HomeserverGate::poll_turn`].
///
/// It holds no slot, and how long it takes says nothing: a poll is meant to wait at the homeserver. A failure halves the
/// limit like any other, can open the breaker, and a timeout leaves a held slot. Dropped, it teaches nothing; if it was the
/// probe, the next waiter is. As the probe it keeps the breaker from closing until it ends: bound it, as
/// [`run_within`](Self::run_within) does.
///
/// ```
/// use portcullis::Outcome;
/// use portcullis::gate::{GateKey, HomeserverGate};
/// use portcullis::limits::LONG_POLL_TIMEOUT;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// # let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org").unwrap());
/// let turn = gate.poll_turn().await; // at once, while the breaker is closed
/// let silent = std::future::pending::<()>();
/// turn.run_within(LONG_POLL_TIMEOUT, silent, |(), took| Outcome::success(took)).await.unwrap_err();
/// let status = gate.status();
/// assert_eq!((status.limit, status.active, status.held), (1, 0, 1));
/// # });
/// ```
#[must_use = "a dropped turn teaches the gate nothing"]
#[derive(Debug)]
pub struct PollTurn {
    leave: Leave,
}

impl PollTurn {
    pub(super) fn new(gate: HomeserverGate, grant: Grant) -> Self {
        Self { leave: Leave::new(gate, grant) }
    }

    /// The poll ended so.
    ///
    /// *Panics:* never. *Blocking:* no.
    pub fn finish(self, outcome: Outcome) {
        self.leave.finish(outcome);
    }

    /// Whether the poll is the probe that decides if the breaker closes.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.leave.is_probe()
    }

    /// Runs `call` under an outer timeout and finishes with what `classify` makes of its answer, as
    /// [`Permit::run_within`](crate::gate::Permit::run_within) does.
    ///
    /// *Errors:* [`OuterTimeout`]; a slot is held. *Panics:* never, inside a tokio runtime with its timer on. *Cancel
    /// safety:* dropping the future drops `call` and the turn.
    pub async fn run_within<T>(
        self,
        outer: Duration,
        call: impl Future<Output = T>,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, OuterTimeout> {
        self.leave.run_within(outer, call, classify).await
    }
}
