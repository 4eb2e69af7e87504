//! One timeout around a whole call, whatever it does inside.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::outcome::{Outcome, Took};

/// The outer timeout passed before the call was done. The call was dropped; the homeserver may go on working on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call took longer than {} s", allowed.as_secs_f32())]
pub struct OuterTimeout {
    /// How long it was allowed to take.
    pub allowed: Duration,
}

/// Runs `call` for `outer` at most, and says what came of it.
pub(super) async fn within<T>(
    outer: Duration,
    call: impl Future<Output = T>,
    classify: impl FnOnce(&T, Took) -> Outcome,
) -> (Result<T, OuterTimeout>, Outcome) {
    let started = Instant::now();
    match tokio::time::timeout(outer, call).await {
        Ok(answer) => {
            let outcome = classify(&answer, Took { elapsed: started.elapsed(), timeout: outer });
            (Ok(answer), outcome)
        }
        Err(_) => (Err(OuterTimeout { allowed: outer }), Outcome::TimedOut),
    }
}
