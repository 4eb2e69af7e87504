//! One clock for one call: [`OutboundDeadline`].
//!
//! Discovery, connecting, the request and the whole body draw from the same deadline, so no phase can start a clock of its
//! own. A phase may be given a *share* ([`OutboundDeadline::share`]): a deadline that ends earlier, never later.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// Stands in for "no end" where adding the allowance would overflow the clock.
const FAR_FUTURE: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// The moment by which a call, discovery included, has ended.
///
/// Always: a deadline made from another one ends no later than it (`a_derived_deadline_never_ends_later`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundDeadline {
    started_at: Instant,
    expires_at: Instant,
}

/// The deadline passed before the work was done. The work was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed")]
pub struct Expired;

impl OutboundDeadline {
    /// A deadline `allowed` after `now`. An allowance the clock cannot hold counts as one year.
    #[must_use]
    pub fn after(allowed: Duration, now: Instant) -> Self {
        let expires_at = now.checked_add(allowed).or_else(|| now.checked_add(FAR_FUTURE)).unwrap_or(now);
        Self { started_at: now, expires_at }
    }

    /// The same start with a shorter allowance. `None`, or a longer limit, changes nothing: this can only shorten.
    #[must_use]
    pub fn tightened_by(self, limit: Option<Duration>) -> Self {
        match limit {
            Some(limit) if limit < self.allowed() => Self::after(limit, self.started_at),
            _ => self,
        }
    }

    /// A deadline for one phase: at most one part in `parts` of what is left at `now`. Zero parts count as one.
    ///
    /// ```
    /// use portcullis::OutboundDeadline;
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// let start = Instant::now();
    /// let whole = OutboundDeadline::after(Duration::from_secs(9), start);
    /// let third = whole.share(3, start);
    /// assert_eq!(third.remaining(start), Some(Duration::from_secs(3)));
    /// ```
    #[must_use]
    pub fn share(self, parts: u32, now: Instant) -> Self {
        let left = self.remaining(now).unwrap_or(Duration::ZERO);
        let phase = Self::after(left / parts.max(1), now);
        Self { started_at: now, expires_at: phase.expires_at.min(self.expires_at) }
    }

    /// What is left at `now`; `None` once expired. Never underflows, also when `now` lies before the start.
    #[must_use]
    pub fn remaining(self, now: Instant) -> Option<Duration> {
        let left = self.expires_at.saturating_duration_since(now);
        (!left.is_zero()).then_some(left.min(self.allowed()))
    }

    /// Whether nothing is left at `now`.
    #[must_use]
    pub fn is_expired(self, now: Instant) -> bool {
        self.remaining(now).is_none()
    }

    /// The original length, for messages.
    #[must_use]
    pub fn allowed(self) -> Duration {
        self.expires_at.saturating_duration_since(self.started_at)
    }

    /// The moment it ends.
    #[must_use]
    pub fn expires_at(self) -> Instant {
        self.expires_at
    }

    /// Drives `work` until it is done or the deadline passes, whichever is first.
    ///
    /// *Errors:* [`Expired`], and `work` has been dropped; work handed in after the deadline is not even started.
    /// *Panics:* never, inside a tokio runtime with its timer on. *Cancel safety:* dropping the returned future drops
    /// `work`. *Blocking:* no; but `work` that never yields cannot be cut (see the federation worker for that).
    pub async fn cut<F: Future>(self, work: F) -> Result<F::Output, Expired> {
        if self.is_expired(Instant::now()) {
            return Err(Expired);
        }
        tokio::time::timeout_at(self.expires_at, work).await.map_err(|_| Expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn remaining_counts_down_and_ends() {
        let start = Instant::now();
        let deadline = OutboundDeadline::after(10 * SECOND, start);
        assert_eq!(deadline.remaining(start), Some(10 * SECOND));
        assert_eq!(deadline.remaining(start + 4 * SECOND), Some(6 * SECOND));
        assert_eq!(deadline.remaining(start + 10 * SECOND), None);
        assert!(deadline.is_expired(start + 11 * SECOND));
        assert_eq!(deadline.allowed(), 10 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_zero_deadline_is_born_expired() {
        let now = Instant::now();
        assert!(OutboundDeadline::after(Duration::ZERO, now).is_expired(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_went_back_gives_no_more_than_was_allowed() {
        let earlier = Instant::now();
        let deadline = OutboundDeadline::after(5 * SECOND, earlier + 3 * SECOND);
        assert_eq!(deadline.remaining(earlier), Some(5 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_timeout_shortens_and_never_lengthens() {
        let now = Instant::now();
        let ten = OutboundDeadline::after(10 * SECOND, now);
        assert_eq!(ten.tightened_by(Some(60 * SECOND)), ten);
        assert_eq!(ten.tightened_by(None), ten);
        assert_eq!(ten.tightened_by(Some(5 * SECOND)).remaining(now), Some(5 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_derived_deadline_never_ends_later() {
        let start = Instant::now();
        let whole = OutboundDeadline::after(9 * SECOND, start);
        for spent in 0..12 {
            let now = start + spent * SECOND;
            for parts in [0, 1, 2, 3, 4, u32::MAX] {
                assert!(whole.share(parts, now).expires_at() <= whole.expires_at().max(now));
            }
        }
        assert_eq!(whole.share(3, start + 3 * SECOND).remaining(start + 3 * SECOND), Some(2 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_huge_allowance_does_not_overflow_the_clock() {
        let now = Instant::now();
        assert!(!OutboundDeadline::after(Duration::MAX, now).is_expired(now));
    }

    #[tokio::test(start_paused = true)]
    async fn cut_ends_at_the_deadline_to_the_millisecond() {
        let start = Instant::now();
        let outcome = OutboundDeadline::after(3 * SECOND, start).cut(std::future::pending::<()>()).await;
        assert_eq!(outcome, Err(Expired));
        assert_eq!(start.elapsed(), 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_ready_in_time_is_returned() {
        let deadline = OutboundDeadline::after(SECOND, Instant::now());
        assert_eq!(deadline.cut(async { 7 }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn work_handed_in_after_the_deadline_is_not_started() {
        let deadline = OutboundDeadline::after(Duration::ZERO, Instant::now());
        let mut started = false;
        assert_eq!(deadline.cut(async { started = true }).await, Err(Expired));
        assert!(!started);
    }
}
