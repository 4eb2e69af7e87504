//! [`GateConstants`]: the record's figures in one value, so that a rehearsal can run them faster.

use std::time::Duration;

use crate::limits::{COOLDOWN, COOLDOWN_MAX, GROW_AFTER, INITIAL_LIMIT, MAX_LIMIT, TIMEOUT_HOLD};

/// The figures a gate goes by. The default is the load-gate record's, and no configuration changes it: a gate takes others
/// only through a constructor that says `dangerous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GateConstants {
    /// The limit at the start.
    pub initial_limit: usize,
    /// The limit is never higher.
    pub max_limit: usize,
    /// Fast successes that raise the limit by one.
    pub grow_after: u32,
    /// How long a timed-out call keeps its slot.
    pub timeout_hold: Duration,
    /// How long the breaker stays open at first.
    pub cooldown: Duration,
    /// The longest it stays open, however often it reopens.
    pub cooldown_max: Duration,
}

impl Default for GateConstants {
    fn default() -> Self {
        Self {
            initial_limit: INITIAL_LIMIT,
            max_limit: MAX_LIMIT,
            grow_after: GROW_AFTER,
            timeout_hold: TIMEOUT_HOLD,
            cooldown: COOLDOWN,
            cooldown_max: COOLDOWN_MAX,
        }
    }
}

impl GateConstants {
    /// The same with every time divided by `factor` (0 counts as 1): at 60 the record's minutes pass in seconds.
    #[must_use]
    pub fn sped_up(self, factor: u32) -> Self {
        let factor = factor.max(1);
        Self {
            timeout_hold: self.timeout_hold / factor,
            cooldown: self.cooldown / factor,
            cooldown_max: self.cooldown_max / factor,
            ..self
        }
    }

    /// The same with every number in its range: a gate that could never admit anything is not to be had.
    pub(crate) fn in_range(self) -> Self {
        let max_limit = self.max_limit.max(1);
        Self {
            initial_limit: self.initial_limit.clamp(1, max_limit),
            max_limit,
            grow_after: self.grow_after.max(1),
            ..self
        }
    }

    /// How long the breaker stays open once it has reopened `reopened` times: doubling, up to the cap.
    pub(crate) fn open_period(&self, reopened: u32) -> Duration {
        1_u32
            .checked_shl(reopened)
            .and_then(|times| self.cooldown.checked_mul(times))
            .unwrap_or(self.cooldown_max)
            .min(self.cooldown_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_period_doubles_to_its_cap_and_stays_there() {
        let constants = GateConstants::default();
        let minutes: Vec<u64> = (0..8).map(|reopened| constants.open_period(reopened).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16, 30, 30, 30]);
        for reopened in [31, 32, 33, u32::MAX] {
            assert_eq!(constants.open_period(reopened), COOLDOWN_MAX);
        }
    }

    #[test]
    fn sixty_times_as_fast_turns_minutes_into_seconds() {
        let fast = GateConstants::default().sped_up(60);
        assert_eq!(fast.timeout_hold, Duration::from_secs(15));
        assert_eq!((fast.cooldown, fast.cooldown_max), (Duration::from_secs(1), Duration::from_secs(30)));
        assert_eq!(GateConstants::default().sped_up(0), GateConstants::default());
    }

    #[test]
    fn a_gate_that_admits_nothing_is_not_to_be_had() {
        let none = GateConstants { initial_limit: 0, max_limit: 0, grow_after: 0, ..GateConstants::default() };
        let least = none.in_range();
        assert_eq!((least.initial_limit, least.max_limit, least.grow_after), (1, 1, 1));
        let over = GateConstants { initial_limit: 9, ..GateConstants::default() };
        assert_eq!(over.in_range().initial_limit, MAX_LIMIT);
    }
}
