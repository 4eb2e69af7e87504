//! How many calls may be out at once: up by one after enough fast successes, down by half at a sign of load.

use crate::gate::constants::GateConstants;

/// Which decreases a call has seen when it started.
///
/// A sign of load halves the limit only if its call started after the most recent decrease: calls already in flight then
/// report the same trouble again. Counted, not timed: two things can happen at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

/// The limit went from one number to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The limit and what moves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Limit {
    current: usize,
    /// Fast successes since the limit last changed.
    fast_successes: u32,
    decreases: Epoch,
}

impl Limit {
    pub(super) fn new(constants: &GateConstants) -> Self {
        Self { current: constants.initial_limit, fast_successes: 0, decreases: Epoch(0) }
    }

    #[inline]
    pub(super) fn current(&self) -> usize {
        self.current
    }

    #[inline]
    pub(super) fn epoch(&self) -> Epoch {
        self.decreases
    }

    /// Whether a fast success counts: at the ceiling there is nothing to grow to.
    #[inline]
    pub(super) fn can_grow(&self, constants: &GateConstants) -> bool {
        self.current < constants.max_limit
    }

    /// Whether the next fast success raises the limit.
    #[inline]
    pub(super) fn is_about_to_grow(&self, constants: &GateConstants) -> bool {
        self.fast_successes.saturating_add(1) >= constants.grow_after
    }

    /// Counts one fast success.
    #[inline]
    pub(super) fn count_success(&mut self, constants: &GateConstants) -> Option<Change> {
        if !self.can_grow(constants) {
            return None;
        }
        self.fast_successes = self.fast_successes.saturating_add(1);
        (self.fast_successes >= constants.grow_after).then(|| self.change_to(self.current.saturating_add(1)))
    }

    /// Halves, rounding down: one becomes none.
    pub(super) fn halve(&mut self) -> Change {
        self.decreases = Epoch(self.decreases.0.wrapping_add(1));
        self.change_to(self.current / 2)
    }

    /// The breaker closed: one call at a time, and the count of successes begins anew.
    pub(super) fn begin_again(&mut self) -> Change {
        self.change_to(1)
    }

    /// The same limit with its decreases counted from 0.
    pub(super) fn canonical(&self) -> Self {
        Self { decreases: Epoch(0), ..self.clone() }
    }

    fn change_to(&mut self, to: usize) -> Change {
        let change = Change { from: self.current, to };
        self.current = to;
        self.fast_successes = 0;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_after_ten_fast_successes_since_it_last_changed() {
        let constants = GateConstants::default();
        let mut limit = Limit::new(&constants);
        for _ in 0..9 {
            assert_eq!(limit.count_success(&constants), None);
        }
        assert_eq!(limit.count_success(&constants), Some(Change { from: 2, to: 3 }));
        for _ in 0..9 {
            assert_eq!(limit.count_success(&constants), None);
        }
        assert_eq!(limit.halve(), Change { from: 3, to: 1 });
        for _ in 0..9 {
            assert_eq!(limit.count_success(&constants), None, "the nine before the decrease are forgotten");
        }
        assert_eq!(limit.count_success(&constants), Some(Change { from: 1, to: 2 }));
    }

    #[test]
    fn it_stays_at_its_ceiling() {
        let constants = GateConstants { initial_limit: 4, ..GateConstants::default() };
        let mut limit = Limit::new(&constants);
        for _ in 0..1000 {
            assert_eq!(limit.count_success(&constants), None);
        }
        assert_eq!(limit.halve(), Change { from: 4, to: 2 });
        for _ in 0..9 {
            assert_eq!(limit.count_success(&constants), None, "what came at the ceiling does not count");
        }
    }

    #[test]
    fn each_decrease_begins_an_epoch_and_nothing_else_does() {
        let constants = GateConstants::default();
        let mut limit = Limit::new(&constants);
        let start = limit.epoch();
        for _ in 0..10 {
            limit.count_success(&constants);
        }
        assert_eq!(limit.epoch(), start, "growth is no decrease");
        limit.halve();
        assert_ne!(limit.epoch(), start);
        let lower = limit.epoch();
        limit.halve();
        assert_ne!(limit.epoch(), lower);
        let lowest = limit.epoch();
        limit.begin_again();
        assert_eq!(limit.epoch(), lowest, "closing is no decrease");
    }
}
