//! [`AdminStatus`]: what `/v1/status` answers, and what everything else on the operator's socket is made of.

use serde::Serialize;

use super::process::ProcessFigures;
use crate::homeserver::fair_budget::FairBudgetStatus;
use crate::homeserver::request_pool::RequestPool;
use crate::homeserver::upstream::UpstreamStatus;
use crate::status::Status;

/// The answer of `/v1/status`: the library's [`Status`] with what the server itself adds, in one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AdminStatus {
    /// What the library counts.
    #[serde(flatten)]
    pub status: Status,
    /// Whether the server is stopping: requests in flight are answered, no new connections are taken.
    pub draining: bool,
    /// The request pool; null where there is none.
    pub request_pool: Option<RequestPoolStatus>,
    /// Answers that may take long (files, and what the homeserver behind is asked), and the places they have; null without
    /// a request pool.
    pub long_answers: Option<FairBudgetStatus>,
    /// The homeserver behind (`homeserver.upstream`); null without one.
    pub upstream: Option<UpstreamStatus>,
    /// What the system says of the process.
    pub process: ProcessFigures,
}

/// The request pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestPoolStatus {
    /// Its threads.
    pub threads: usize,
    /// Those that wait for a request.
    pub idle: usize,
    /// Requests since the start that were answered 500 because their handler panicked.
    pub panicked: u64,
}

impl RequestPoolStatus {
    /// `pool`, whose handlers panicked `panicked` times.
    #[must_use]
    pub fn of(pool: &RequestPool, panicked: u64) -> Self {
        Self { threads: pool.threads(), idle: pool.idle_threads(), panicked: panicked.saturating_add(pool.panicked()) }
    }
}
