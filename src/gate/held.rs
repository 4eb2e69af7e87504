//! Slots of calls that timed out: the homeserver is still at work on them.

use std::collections::VecDeque;
use std::time::Duration;

/// When each held slot is free again, soonest first. A hold is over *at* its end.
///
/// All holds are of one length and time does not run backwards, so the last placed is the last to end. Their number is
/// bounded by the calls that can time out in one hold's length: the limit's, and the long-polls the embedder runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeldSlots {
    ends: VecDeque<Duration>,
}

/// Room for so many holds at most is made in advance.
const ROOM: usize = 64;

impl HeldSlots {
    /// With room for `expected` holds, so that placing one of them does not allocate.
    pub(super) fn with_room(expected: usize) -> Self {
        Self { ends: VecDeque::with_capacity(expected.min(ROOM)) }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn place(&mut self, end: Duration) {
        self.ends.push_back(end);
    }

    /// Takes out one hold that is over at `now`, and says when it ended.
    #[inline]
    pub(super) fn take_expired(&mut self, now: Duration) -> Option<Duration> {
        self.ends.pop_front_if(|end| *end <= now)
    }

    /// When the `n`th hold ends, counted from 1.
    pub(super) fn nth_end(&self, n: usize) -> Option<Duration> {
        self.ends.get(n.checked_sub(1)?).copied()
    }

    pub(super) fn last_end(&self) -> Option<Duration> {
        self.ends.back().copied()
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = Duration> + '_ {
        self.ends.iter().copied()
    }

    /// The same with each end counted from `now`.
    pub(super) fn canonical(&self, now: Duration) -> Self {
        Self { ends: self.ends.iter().map(|end| end.saturating_sub(now)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_hold_is_over_at_its_end_and_not_before() {
        let mut held = HeldSlots::with_room(2);
        held.place(10 * SECOND);
        held.place(12 * SECOND);
        assert_eq!(held.take_expired(Duration::from_nanos(9_999_999_999)), None);
        assert_eq!(held.take_expired(10 * SECOND), Some(10 * SECOND));
        assert_eq!(held.take_expired(10 * SECOND), None);
        assert_eq!(
            (held.count(), held.nth_end(1), held.nth_end(2), held.nth_end(0)),
            (1, Some(12 * SECOND), None, None)
        );
    }
}
