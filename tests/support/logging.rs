//! Makes a test's own subscriber hear its own thread's lines, whichever thread first came to write one.

use std::sync::LazyLock;

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

/// To be called before a test sets a subscriber for its thread.
///
/// As long as there is one subscriber alone, whether a line is wanted is decided, once and for all, by the thread that first
/// comes to write it: another test's, which listens to nobody. So this makes sure that there is always a second one.
pub(crate) fn let_each_thread_decide() {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&SECOND);
}
