//! [`UpstreamGate`]: what the load gate of the homeserver behind hears.
//!
//! Its gate is made at the start, from the configuration, so no stranger made it; and it hears only of requests whose token
//! the homeserver vouched for within the last minute, so no stranger moves it.

use http::StatusCode;
use tokio::time::Instant;

use super::origin::UpstreamOrigin;
use crate::gate::{GateKey, GateRegistry, HomeserverGate, InteractiveStart, RegistryFull};
use crate::limits::UPSTREAM_HEAD_TIME;
use crate::outcome::{Outcome, Took, TransportKind};

/// The gate, held so that it is never forgotten.
#[derive(Clone, Debug)]
pub(super) struct UpstreamGate(Option<HomeserverGate>);

/// To whom one request will say how it ended.
#[derive(Debug)]
pub(super) struct AccountReport {
    /// `None`: to nobody.
    start: Option<InteractiveStart>,
    started_at: Instant,
}

impl UpstreamGate {
    /// The gate of `origin`, which no background call of this process goes through.
    pub(super) fn of(origin: &UpstreamOrigin, gates: &GateRegistry) -> Result<Self, RegistryFull> {
        // An origin is a base URL.
        let Ok(key) = GateKey::from_base_url(&origin.to_string()) else { return Ok(Self(None)) };
        let gate = gates.gate(&key)?;
        gate.without_background_callers();
        Ok(Self(Some(gate)))
    }

    /// A request sets out; it `is_account`'s, or says nothing.
    pub(super) fn starts(&self, is_account: bool) -> AccountReport {
        let start = self.0.as_ref().filter(|_| is_account).map(HomeserverGate::interactive);
        AccountReport { start, started_at: Instant::now() }
    }
}

impl AccountReport {
    /// It was answered, or not.
    pub(super) fn ended(self, answer: Result<StatusCode, TransportKind>) {
        let took = self.started_at.elapsed();
        if let Some(start) = self.start {
            start.report(match answer {
                Ok(status) => Outcome::of_status(status, Took { elapsed: took, timeout: UPSTREAM_HEAD_TIME }),
                Err(failure) => Outcome::of_transport(failure),
            });
        }
    }
}
