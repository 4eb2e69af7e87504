//! [`Outgoing`]: what whoever makes a connection's answers tells the stream they are written to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::answer_clock::AnswerKind;
use super::standing::Standing;

/// Between a connection's service and its stream, with the HTTP library in between.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The kind of the answer that was made last, until its first byte is written.
    announced: Mutex<Option<AnswerKind>>,
    cut: AtomicBool,
    closes_early: AtomicBool,
    pub(super) standing: Arc<Standing>,
}

impl Outgoing {
    pub(super) fn new(standing: Arc<Standing>) -> Self {
        Self { announced: Mutex::default(), cut: AtomicBool::default(), closes_early: AtomicBool::default(), standing }
    }

    /// An answer is made. The library makes none before the body of the last one is written.
    pub(super) fn announce(&self, kind: AnswerKind) {
        *self.announced.lock() = Some(kind);
    }

    /// The kind of the answer whose first byte is to be written, if it is another answer than before.
    pub(super) fn announced(&self) -> Option<AnswerKind> {
        self.announced.lock().take()
    }

    /// The body ended before its end.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// The connection ends with the answer that is made now, and not because its client wants it to.
    pub(super) fn close_early(&self) {
        self.closes_early.store(true, Ordering::Relaxed);
    }

    /// Its client may still be sending when it ends.
    pub(super) fn closes_early(&self) -> bool {
        self.closes_early.load(Ordering::Relaxed)
    }

    /// Part of a file is on its way, and the rest is not.
    pub(super) fn is_unfinished(&self) -> bool {
        self.cut.load(Ordering::Relaxed) || self.standing.streams()
    }
}
