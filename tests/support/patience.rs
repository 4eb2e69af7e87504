//! Waiting for what is bound to happen, and giving up on it only when it will not.

use std::time::Duration;

/// When a test gives up. Only one that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// Waits until `count` says `wanted`.
///
/// # Panics
/// If it does not.
pub(crate) async fn until(what: &str, wanted: usize, count: impl Fn() -> usize) {
    let waiting = async {
        while count() != wanted {
            tokio::time::sleep(STEP).await;
        }
    };
    let happened = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(happened.is_ok(), "{what}: {} instead of {wanted}", count());
}
