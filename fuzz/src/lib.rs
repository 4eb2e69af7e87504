//! What the targets share.

use std::future::Future;

/// Runs a target whose answers take time. Time is paused: whenever everything waits, the clock leaps to the next timer.
///
/// *Panics:* as the target does.
pub fn in_paused_time(target: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime without I/O").block_on(target);
}
