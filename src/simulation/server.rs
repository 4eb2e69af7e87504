//! The homeserver of a rehearsal: asked for pages, it answers each in its own time, whether or not anybody still listens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// What a server sends in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// The page.
    Page,
    /// A 503.
    Unavailable,
    /// Nothing; the work is gone, and the connection stays silent.
    Lost,
}

/// A server under virtual time.
pub trait PageServer {
    /// Page number `page` is asked for at `now`.
    fn begin(&mut self, page: usize, now: Duration);

    /// When something happens here next, if nothing more is asked for.
    fn next_event(&self) -> Option<Duration>;

    /// It is `now`, no later than [`next_event`](Self::next_event): the page whose work ends now, if any.
    fn advance(&mut self, now: Duration) -> Option<(usize, Answer)>;
}

/// A server that does what a script says: of page number so-and-so, asked for then, how much work it is and how it ends.
pub struct Scripted<F> {
    script: F,
    ends: BinaryHeap<Reverse<(Duration, usize, Answer)>>,
}

impl<F: FnMut(usize, Duration) -> (Duration, Answer)> Scripted<F> {
    /// A server that follows `script`.
    pub fn new(script: F) -> Self {
        Self { script, ends: BinaryHeap::new() }
    }
}

impl<F> std::fmt::Debug for Scripted<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl<F: FnMut(usize, Duration) -> (Duration, Answer)> PageServer for Scripted<F> {
    fn begin(&mut self, page: usize, now: Duration) {
        let (work, answer) = (self.script)(page, now);
        self.ends.push(Reverse((now + work, page, answer)));
    }

    fn next_event(&self) -> Option<Duration> {
        self.ends.peek().map(|Reverse((end, ..))| *end)
    }

    fn advance(&mut self, now: Duration) -> Option<(usize, Answer)> {
        if self.next_event()? > now {
            return None;
        }
        self.ends.pop().map(|Reverse((_, page, answer))| (page, answer))
    }
}
