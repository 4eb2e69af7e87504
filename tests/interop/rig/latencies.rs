//! How long requests took, and what is said of many of them.

use std::time::Duration;

/// Times of requests that were answered as they should be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that `percent` of all requests did not exceed (nearest rank); zero of none.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

impl Extend<Self> for Latencies {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, others: I) {
        self.0.extend(others.into_iter().flat_map(|other| other.0));
    }
}
