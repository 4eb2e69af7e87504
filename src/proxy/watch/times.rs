//! [`CallTimes`]: how long calls took, counted in steps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::limits::CALL_TIME_STEPS;

/// How long the calls took that ended since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallTimes {
    /// Calls that ended.
    pub calls: u64,
    /// The time of all of them together.
    pub total_ms: u64,
    /// The time of the longest.
    pub longest_ms: u64,
    /// The steps of [`CALL_TIME_STEPS`], shortest first.
    pub at_most: Vec<CallTimeStep>,
}

/// A step of [`CallTimes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallTimeStep {
    /// Its length.
    pub ms: u64,
    /// Calls that took no longer, those of the shorter steps included.
    pub calls: u64,
}

/// The counters behind [`CallTimes`].
///
/// Always: one call is in one step, so that no two readings of a step and the whole disagree
/// (`each_call_is_in_every_step_it_fits`).
#[derive(Debug, Default)]
pub(super) struct CallTimer {
    steps: [AtomicU64; CALL_TIME_STEPS.len()],
    longer: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Default for CallTimes {
    /// No call has ended; the steps are there.
    fn default() -> Self {
        CallTimer::default().times()
    }
}

impl CallTimer {
    pub(super) fn note(&self, took: Duration) {
        let fits = CALL_TIME_STEPS.iter().zip(&self.steps).find(|(step, _)| took <= **step);
        fits.map_or(&self.longer, |(_, counter)| counter).fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.total_us.fetch_add(us, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> CallTimes {
        let mut calls: u64 = 0;
        let mut count = |counter: &AtomicU64| {
            calls = calls.saturating_add(counter.load(Ordering::Relaxed));
            calls
        };
        let steps = CALL_TIME_STEPS.iter().zip(&self.steps);
        let at_most =
            steps.map(|(step, counter)| CallTimeStep { ms: whole_ms(*step), calls: count(counter) }).collect();
        let calls = count(&self.longer);
        let whole_ms = |us: &AtomicU64| us.load(Ordering::Relaxed) / 1000;
        CallTimes { calls, total_ms: whole_ms(&self.total_us), longest_ms: whole_ms(&self.longest_us), at_most }
    }
}

pub(super) fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_in_every_step_it_fits() {
        let timer = CallTimer::default();
        for ms in [0, 50, 51, 2_500, 10_000, 32_001, 10_001, 30_000, 32_000] {
            timer.note(Duration::from_millis(ms));
        }
        let times = timer.times();
        let calls: Vec<_> = times.at_most.iter().map(|step| (step.ms, step.calls)).collect();
        let expected = [
            (50, 2),
            (100, 3),
            (250, 3),
            (500, 3),
            (1_000, 3),
            (2_500, 4),
            (5_000, 4),
            (10_000, 5),
            (12_000, 6),
            (20_000, 6),
            (30_000, 7),
            (32_000, 8),
        ];
        assert_eq!(calls, expected);
        assert_eq!((times.calls, times.total_ms, times.longest_ms), (9, 116_603, 32_001));
    }

    #[test]
    fn no_length_of_time_is_too_long() {
        let timer = CallTimer::default();
        timer.note(Duration::MAX);
        assert_eq!(timer.times().calls, 1);
    }
}
