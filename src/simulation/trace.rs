//! The incident's calls, one by one: 2,111 pages asked for in nine hours, 1,016 of them given up.
//!
//! The record gives totals and percentiles, not the log. The trace is drawn from those without chance: values at evenly
//! spaced ranks of the distribution, dealt out in an order that mixes short and long.

use std::time::Duration;

use crate::limits::BACKFILL_PAGE_TIMEOUT;

/// How long the incident lasted.
pub const HOURS: usize = 9;

const HOUR: Duration = Duration::from_secs(3600);
/// Two instances, each with one page at a time.
const INSTANCES: u32 = 2;

/// Calls and timeouts of each hour. *Source: load-gate record for both totals and the peak of 177 timeouts; the shape
/// between them is ours.*
const BY_HOUR: [(u32, u32); HOURS] =
    [(235, 60), (235, 90), (235, 105), (235, 120), (235, 177), (234, 140), (234, 120), (234, 110), (234, 94)];

/// Seconds a completed page took, at ranks between 0 and 1. *Source: load-gate record (median, share over 10 s, p99,
/// greatest); the least is ours.*
const ANSWER_SECONDS: &[(f64, f64)] = &[(0.0, 0.10), (0.5, 0.84), (0.956, 10.0), (0.99, 14.3), (1.0, 23.4)];

/// Minutes the server went on with a page that was given up. *Source: load-gate record (p10, median, p90, greatest, and the
/// shares that 15, 20 and 30 minutes outlast).*
const WORK_LEFT_MINUTES: &[(f64, f64)] =
    &[(0.0, 0.0), (0.10, 3.0), (0.43, 15.0), (0.50, 18.0), (0.51, 20.0), (0.56, 30.0), (0.90, 132.0), (1.0, 144.0)];

/// Steps with no common divisor with the number of values, so that every value is dealt exactly once.
const ANSWER_STRIDE: usize = 431;
const WORK_LEFT_STRIDE: usize = 389;
const WORK_LEFT_OFFSET: usize = 7;

/// What became of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server answered.
    Answered {
        /// So long after it was asked.
        after: Duration,
    },
    /// The client gave up at its timeout.
    GivenUp {
        /// And the server worked on it so much longer.
        work_left: Duration,
    },
}

/// One page of the incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedPage {
    /// The hour it belongs to, from 0.
    pub hour: usize,
    /// What became of it.
    pub fate: Fate,
}

/// Every page of the incident, in order.
#[derive(Clone, Debug)]
pub struct IncidentTrace {
    /// The pages.
    pub pages: Vec<TracedPage>,
    /// How long a caller waited before its next page, by hour: what is left of the hour once its calls are done.
    pub pauses: Vec<Duration>,
    work_left: Vec<Duration>,
}

impl Fate {
    /// How long the client waited for it.
    #[must_use]
    pub fn call_time(self) -> Duration {
        match self {
            Self::Answered { after } => after,
            Self::GivenUp { .. } => BACKFILL_PAGE_TIMEOUT,
        }
    }
}

impl IncidentTrace {
    /// The incident of the load-gate record.
    #[must_use]
    pub fn new() -> Self {
        let timeouts: u32 = BY_HOUR.iter().map(|(_, timeouts)| timeouts).sum();
        let calls: u32 = BY_HOUR.iter().map(|(calls, _)| calls).sum();
        let answers = at_even_ranks(calls.saturating_sub(timeouts), |rank| {
            Duration::from_secs_f64(log_linear(ANSWER_SECONDS, rank))
        });
        let work_left = at_even_ranks(timeouts, |rank| Duration::from_secs_f64(60.0 * linear(WORK_LEFT_MINUTES, rank)));
        let mut trace = Self { pages: Vec::new(), pauses: Vec::new(), work_left };
        let (mut answered, mut given_up) = (0_usize, 0_usize);
        for (hour, (calls, timeouts)) in BY_HOUR.into_iter().enumerate() {
            let mut busy = Duration::ZERO;
            for call in 0..calls {
                let fate = if (call + 1) * timeouts / calls > call * timeouts / calls {
                    given_up += 1;
                    Fate::GivenUp { work_left: trace.work_left(given_up - 1) }
                } else {
                    answered += 1;
                    Fate::Answered { after: dealt(&answers, ANSWER_STRIDE * (answered - 1)) }
                };
                busy += fate.call_time();
                trace.pages.push(TracedPage { hour, fate });
            }
            trace.pauses.push((HOUR * INSTANCES).saturating_sub(busy) / calls);
        }
        trace
    }

    /// How long the server worked on the `j`th page that was given up.
    #[must_use]
    pub fn work_left(&self, j: usize) -> Duration {
        dealt(&self.work_left, WORK_LEFT_STRIDE * j + WORK_LEFT_OFFSET)
    }

    /// The longest that any page was worked on after it was given up.
    #[must_use]
    pub fn longest_work_left(&self) -> Duration {
        self.work_left.iter().copied().max().unwrap_or_default()
    }

    /// The pause after each page.
    #[must_use]
    pub fn pause_after_each(&self) -> Vec<Duration> {
        self.pages.iter().map(|page| self.pauses.get(page.hour).copied().unwrap_or_default()).collect()
    }
}

impl Default for IncidentTrace {
    fn default() -> Self {
        Self::new()
    }
}

/// The value whose turn it is, round and round.
fn dealt(values: &[Duration], turn: usize) -> Duration {
    turn.checked_rem(values.len()).and_then(|index| values.get(index)).copied().unwrap_or_default()
}

/// `count` values, each at the middle of its share of the ranks; the last is the greatest there is.
fn at_even_ranks(count: u32, value: impl Fn(f64) -> Duration) -> Vec<Duration> {
    let mut values: Vec<_> = (0..count).map(|i| value((f64::from(i) + 0.5) / f64::from(count))).collect();
    if let Some(last) = values.last_mut() {
        *last = value(1.0);
    }
    values
}

/// The inverse of a distribution given by knots (rank, value), straight between them.
fn linear(knots: &[(f64, f64)], rank: f64) -> f64 {
    let Some(((from, low), (to, high))) =
        knots.iter().zip(knots.iter().skip(1)).find(|(_, (to, _))| rank <= *to).map(|(below, above)| (*below, *above))
    else {
        return knots.last().map_or(0.0, |(_, value)| *value);
    };
    low + (rank - from) / (to - from) * (high - low)
}

/// The same, straight between the values' logarithms.
fn log_linear(knots: &[(f64, f64)], rank: f64) -> f64 {
    let logarithms: Vec<_> = knots.iter().map(|(rank, value)| (*rank, value.ln())).collect();
    linear(&logarithms, rank).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < 1e-9
    }

    #[test]
    fn both_distributions_go_through_their_knots() {
        for (rank, value) in ANSWER_SECONDS {
            assert!(close(log_linear(ANSWER_SECONDS, *rank), *value), "{rank}");
        }
        for (rank, value) in WORK_LEFT_MINUTES {
            assert!(close(linear(WORK_LEFT_MINUTES, *rank), *value), "{rank}");
        }
    }

    #[test]
    fn every_value_is_dealt_exactly_once() {
        let trace = IncidentTrace::new();
        let mut dealt: Vec<_> = (0..1016).map(|j| trace.work_left(j)).collect();
        let mut all = trace.work_left.clone();
        dealt.sort_unstable();
        all.sort_unstable();
        assert_eq!(dealt, all);
        assert_eq!((all.len(), trace.pages.len()), (1016, 2111));
    }

    #[test]
    fn the_pauses_fill_each_hour() {
        let tenths: Vec<_> =
            IncidentTrace::new().pauses.iter().map(|pause| format!("{:.1}", pause.as_secs_f64())).collect();
        assert_eq!(tenths, ["21.1", "17.6", "15.9", "14.1", "7.5", "11.8", "14.2", "15.4", "17.3"]);
    }

    #[test]
    fn each_hour_has_its_calls_and_its_timeouts() {
        let trace = IncidentTrace::new();
        for (hour, (calls, timeouts)) in BY_HOUR.into_iter().enumerate() {
            let of_hour: Vec<_> = trace.pages.iter().filter(|page| page.hour == hour).collect();
            let given_up = of_hour.iter().filter(|page| matches!(page.fate, Fate::GivenUp { .. })).count();
            assert_eq!((of_hour.len(), given_up), (calls.try_into().unwrap(), timeouts.try_into().unwrap()));
        }
    }
}
