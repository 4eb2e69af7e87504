//! What an operator would read, for tests that look.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tracing_subscriber::Registry;
use tracing_subscriber::fmt::MakeWriter;

use crate::sync::Mutex;

/// Log lines as JSON, kept in memory.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Keeps what this thread logs from here on, down to `level`.
    pub(crate) fn of_this_thread(level: tracing::Level) -> (Self, tracing::subscriber::DefaultGuard) {
        // As long as there is one subscriber alone, whether a line is wanted is decided by the thread that first comes to
        // write it: another test's, which listens to nobody. So there is always a second one.
        static ANOTHER: LazyLock<tracing::Dispatch> = LazyLock::new(|| tracing::Dispatch::new(Registry::default()));
        LazyLock::force(&ANOTHER);
        let lines = Self::default();
        let log = tracing_subscriber::fmt().json().with_max_level(level).with_writer(lines.clone()).finish();
        (lines, tracing::subscriber::set_default(log))
    }

    /// What was logged so far.
    pub(crate) fn read(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
