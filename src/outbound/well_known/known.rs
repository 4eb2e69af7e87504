//! [`Known`]: what is known about one host's well-known file, and until when it holds. No clock of its own.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    WELL_KNOWN_FAILURE_AFTER_SUCCESS, WELL_KNOWN_FAILURE_MAX, WELL_KNOWN_FAILURE_MIN, WELL_KNOWN_GRACE,
};
use crate::outbound::well_known::Delegation;
use crate::outbound::well_known::fetch::{FetchFailure, File};
use crate::server_name::ServerName;

/// A good answer, a failure after it, both, or nothing yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    good: Option<Good>,
    failure: Option<Failure>,
}

#[derive(Clone, Debug)]
struct Good {
    server: ServerName,
    found_at: Instant,
    lifetime: Duration,
}

#[derive(Clone, Debug)]
struct Failure {
    why: FetchFailure,
    at: Instant,
    keep_for: Duration,
    /// Failures since the last good answer was given up, this one included.
    in_a_row: u32,
}

/// What to do with a question about the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// This is the answer.
    Use(Delegation),
    /// Four fifths of its life are over: whoever has the time asks anew, everybody else uses this.
    Refresh(Delegation),
    /// Nothing that holds is known.
    Fetch,
}

impl Known {
    /// A file was found at `now`.
    pub(super) fn good(file: File, now: Instant) -> Self {
        Self { good: Some(Good { server: file.server, found_at: now, lifetime: file.lifetime }), failure: None }
    }

    /// The fetch failed at `now`. An old good answer is kept for its grace and tried again soon; without one the pauses
    /// double up to an hour.
    #[must_use]
    pub(super) fn failed(self, why: FetchFailure, now: Instant) -> Self {
        let good = self.good.filter(|good| now < good.given_up_at());
        let before = self.failure.map_or(0, |failure| failure.in_a_row);
        let (in_a_row, keep_for) = match good {
            Some(_) => (0, WELL_KNOWN_FAILURE_AFTER_SUCCESS),
            None => (before.saturating_add(1), pause_after(before)),
        };
        Self { good, failure: Some(Failure { why, at: now, keep_for, in_a_row }) }
    }

    /// When the last fetch ended.
    pub(super) fn found_out_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.at).or_else(|| self.good.as_ref().map(|good| good.found_at))
    }

    pub(super) fn advice(&self, now: Instant) -> Advice {
        if self.good.as_ref().is_some_and(|good| now < good.found_at + good.lifetime.mul_f32(0.8)) {
            return Advice::Use(self.delegation(now));
        }
        if self.failure.as_ref().is_some_and(|failure| now < failure.at + failure.keep_for) {
            return Advice::Use(self.delegation(now));
        }
        match &self.good {
            Some(good) if now < good.found_at + good.lifetime => Advice::Refresh(self.delegation(now)),
            _ => Advice::Fetch,
        }
    }

    /// The answer as of now: a good one up to two hours past its end, else why there is none.
    pub(super) fn delegation(&self, now: Instant) -> Delegation {
        let why = self.failure.as_ref().map_or(FetchFailure::TimedOut, |failure| failure.why);
        self.instead_of(why, now)
    }

    /// The good answer if it may still be used, else `failure`.
    pub(super) fn instead_of(&self, failure: FetchFailure, now: Instant) -> Delegation {
        let good = self.good.as_ref().filter(|good| now < good.given_up_at());
        good.map_or(Delegation::None(failure), |good| Delegation::To(good.server.clone()))
    }
}

impl Good {
    fn given_up_at(&self) -> Instant {
        self.found_at + self.lifetime + WELL_KNOWN_GRACE
    }
}

/// The pause after a failure that `before` others went before: 1, 2, 4 … minutes, an hour at most.
fn pause_after(before: u32) -> Duration {
    let doublings = 1_u32.checked_shl(before).unwrap_or(u32::MAX);
    WELL_KNOWN_FAILURE_MIN.saturating_mul(doublings).min(WELL_KNOWN_FAILURE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn file(lifetime: Duration) -> File {
        File { server: "hs.beta.example:8449".parse().unwrap(), lifetime }
    }

    fn delegated() -> Delegation {
        Delegation::To("hs.beta.example:8449".parse().unwrap())
    }

    const GONE: FetchFailure = FetchFailure::Status(404);

    #[tokio::test(start_paused = true)]
    async fn a_good_answer_is_used_refreshed_from_four_fifths_on_and_then_fetched_anew() {
        let t = Instant::now();
        let known = Known::good(file(100 * MINUTE), t);
        assert_eq!(known.advice(t), Advice::Use(delegated()));
        assert_eq!(known.advice(t + 79 * MINUTE), Advice::Use(delegated()));
        assert_eq!(known.advice(t + 81 * MINUTE), Advice::Refresh(delegated()));
        assert_eq!(known.advice(t + 100 * MINUTE), Advice::Fetch);
        assert_eq!(Known::default().advice(t), Advice::Fetch);
    }

    #[tokio::test(start_paused = true)]
    async fn when_refreshing_fails_the_old_answer_serves_two_hours_past_its_end_and_is_asked_every_two_minutes() {
        let t = Instant::now();
        let end = t + 100 * MINUTE;
        let blip = Known::good(file(100 * MINUTE), t).failed(GONE, t + 90 * MINUTE);
        assert_eq!(blip.advice(t + 91 * MINUTE), Advice::Use(delegated()));
        assert_eq!(blip.advice(t + 92 * MINUTE), Advice::Refresh(delegated()), "two minutes later");
        let down = blip.failed(GONE, end + 119 * MINUTE);
        assert_eq!(down.advice(end + 119 * MINUTE), Advice::Use(delegated()));
        assert_eq!(down.advice(end + 120 * MINUTE), Advice::Use(Delegation::None(GONE)), "two hours are over");
        let lost = down.failed(GONE, end + 121 * MINUTE);
        assert_eq!(lost.advice(end + 121 * MINUTE), Advice::Use(Delegation::None(GONE)));
        assert_eq!(lost.advice(end + 122 * MINUTE), Advice::Fetch, "the pauses begin with one minute");
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_are_remembered_longer_and_longer_up_to_an_hour() {
        let mut now = Instant::now();
        let mut known = Known::default();
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            known = known.failed(GONE, now);
            let end = now + minutes * MINUTE;
            let a_moment = Duration::from_millis(1);
            assert_eq!(known.advice(end - a_moment), Advice::Use(Delegation::None(GONE)), "{minutes} minutes");
            assert_eq!(known.advice(end), Advice::Fetch, "{minutes} minutes");
            now = end;
        }
        assert_eq!(pause_after(u32::MAX), WELL_KNOWN_FAILURE_MAX);
        assert_eq!(Known::good(file(MINUTE), now).failed(GONE, now).failure.unwrap().in_a_row, 0, "forgiven");
    }
}
