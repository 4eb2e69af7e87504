//! [`Leave`]: what a permit and a poll's turn have in common. It is given back exactly once, with an outcome or without.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::gate::effects::Grant;
use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::outer_timeout::{OuterTimeout, within};
use crate::outcome::{Outcome, Took};

/// Leave to send one call through a gate. Dropped, it is given back without a word.
pub(super) struct Leave {
    gate: HomeserverGate,
    /// Nothing once it was given back.
    grant: Option<Grant>,
}

impl Leave {
    pub(super) fn new(gate: HomeserverGate, grant: Grant) -> Self {
        Self { gate, grant: Some(grant) }
    }

    /// The call ended so.
    pub(super) fn finish(mut self, outcome: Outcome) {
        self.give_back(Some(outcome));
    }

    pub(super) async fn run_within<T>(
        self,
        outer: Duration,
        call: impl Future<Output = T>,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, OuterTimeout> {
        let (answer, outcome) = within(outer, call, classify).await;
        self.finish(outcome);
        answer
    }

    pub(super) fn is_probe(&self) -> bool {
        self.grant.is_some_and(|grant| grant.probe)
    }

    /// The time on the gate's clock.
    pub(super) fn now(&self) -> Duration {
        self.gate.shared.now()
    }

    #[inline]
    fn give_back(&mut self, outcome: Option<Outcome>) {
        if let Some(grant) = self.grant.take() {
            self.gate.shared.tell_end(grant, outcome);
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Leave").field("gate", self.gate.key()).field("grant", &self.grant).finish()
    }
}
