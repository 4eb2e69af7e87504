//! Who waits, in order of arrival.

use std::collections::VecDeque;
use std::time::Duration;

/// Room for so many waiters before a queue allocates: a caller that is served at once passes through it.
const ROOM: usize = 8;

/// The name the shell gives to one waiter; free again once the waiter was answered or has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(pub usize);

/// What a caller waits for, and how long it is willing to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerKind {
    /// Waits for a slot as long as it takes.
    Background,
    /// Waits for a slot briefly, and not at all while the breaker is not closed.
    Brief,
    /// Takes no slot; waits only while the breaker is not closed.
    LongPoll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) id: WaiterId,
    pub(super) kind: CallerKind,
    pub(super) since: Duration,
}

/// First come, first served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    line: VecDeque<Waiter>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { line: VecDeque::with_capacity(ROOM) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(super) fn join(&mut self, waiter: Waiter) {
        self.line.push_back(waiter);
    }

    pub(super) fn next(&mut self) -> Option<Waiter> {
        self.line.pop_front()
    }

    /// Takes one waiter out, wherever it stands.
    pub(super) fn leave(&mut self, id: WaiterId) -> Option<Waiter> {
        let at = self.line.iter().position(|waiter| waiter.id == id)?;
        self.line.remove(at)
    }

    /// Takes out the first that waits briefly.
    pub(super) fn take_brief(&mut self) -> Option<Waiter> {
        let at = self.line.iter().position(|waiter| waiter.kind == CallerKind::Brief)?;
        self.line.remove(at)
    }

    pub(super) fn count(&self, kind: CallerKind) -> usize {
        self.line.iter().filter(|waiter| waiter.kind == kind).count()
    }

    pub(super) fn oldest(&self) -> Option<Duration> {
        self.line.front().map(|waiter| waiter.since)
    }

    /// The same with everybody's wait begun at 0.
    pub(super) fn canonical(&self) -> Self {
        Self { line: self.line.iter().map(|waiter| Waiter { since: Duration::ZERO, ..*waiter }).collect() }
    }
}
