//! [`Permit`]: leave to send one call that takes a slot.

use std::future::Future;
use std::time::Duration;

use crate::gate::effects::Grant;
use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::leave::Leave;
use crate::gate::outer_timeout::OuterTimeout;
use crate::outcome::{Outcome, Took};

/// Leave to send one bounded call. Made by [`HomeserverGate::acquire`] and [`HomeserverGate::acquire_within`].
///
/// [`finish`](Self::finish) is the only way to teach the gate. Dropped instead, as by a `?` between the two, it frees its slot
/// and teaches nothing, an error of the homeserver's included; if it was the probe, the next waiter is. Dropping never
/// panics and never waits.
///
/// The gate sets no end to the call: one without a timeout of its own keeps its slot for ever, and as the probe it keeps the
/// breaker from closing. [`run_within`](Self::run_within) bounds it.
#[must_use = "dropping the permit gives the slot back: it has to live as long as the call"]
#[derive(Debug)]
pub struct Permit {
    leave: Leave,
    admitted_at: Duration,
}

impl Permit {
    pub(super) fn new(gate: HomeserverGate, grant: Grant, admitted_at: Duration) -> Self {
        Self { leave: Leave::new(gate, grant), admitted_at }
    }

    /// The call ended so. A timeout keeps the slot for as long as a homeserver is expected to go on working.
    ///
    /// *Panics:* never. *Blocking:* no; nothing is allocated.
    pub fn finish(self, outcome: Outcome) {
        self.leave.finish(outcome);
    }

    /// The call, whose own timeout is `timeout`, succeeded; it is fast if it took less than half of that since it was
    /// admitted.
    pub fn finish_success_within(self, timeout: Duration) {
        let outcome = Outcome::success(Took { elapsed: self.elapsed(), timeout });
        self.finish(outcome);
    }

    /// Time since the call was admitted.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.leave.now().saturating_sub(self.admitted_at)
    }

    /// Whether the call is the probe that decides if the breaker closes.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.leave.is_probe()
    }

    /// Runs `call` under an outer timeout and finishes with what `classify` makes of its answer and the time it took.
    ///
    /// For calls that retry inside: a permit must not cover retries that go on for minutes, so `outer` bounds the call and
    /// its retries together, and dropping `call` ends them. The span of the permit is bounded, and a timeout is reported as
    /// one.
    ///
    /// *Errors:* [`OuterTimeout`]; `call` was dropped and the slot is held. *Panics:* never, inside a tokio runtime with its
    /// timer on. *Cancel safety:* dropping the future drops `call` and the permit, which teaches nothing.
    ///
    /// ```
    /// use portcullis::Outcome;
    /// use portcullis::gate::{GateKey, HomeserverGate};
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// # let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org").unwrap());
    /// let outer = Duration::from_secs(30);
    /// let join = async { Err::<(), _>(http::StatusCode::BAD_GATEWAY) }; // retries inside, for how long nobody knows
    /// let joined = gate.acquire().await.run_within(outer, join, |answer, took| match answer {
    ///     Ok(()) => Outcome::success(took),
    ///     Err(status) => Outcome::of_status(*status, took),
    /// });
    /// assert_eq!(joined.await, Ok(Err(http::StatusCode::BAD_GATEWAY)));
    /// assert_eq!(gate.status().limit, 1);
    /// # });
    /// ```
    pub async fn run_within<T>(
        self,
        outer: Duration,
        call: impl Future<Output = T>,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, OuterTimeout> {
        self.leave.run_within(outer, call, classify).await
    }
}
