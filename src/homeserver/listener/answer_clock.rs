//! [`AnswerClock`]: how long a client may keep an answer waiting.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::ListenerLimits;

/// What an answer is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// It is in memory: it has to be gone within a time.
    Whole,
    /// It comes piece by piece: it has to be taken at a rate.
    Streamed,
}

/// The clock of the answers of one connection, one after another. It reads no time itself.
///
/// A whole answer has [`answer_time`](ListenerLimits::answer_time) from its first byte to its last.
///
/// A streamed one has patience, which lasts [`read_grace`](ListenerLimits::read_grace) at first, shrinks while a write
/// waits for the client, and grows by the time each byte taken is worth at the least rate, up to the longer of those two
/// times. So one that is read at the least rate never ends by this clock, and one that is not read ends soon, however
/// quickly it was read before. While there is nothing to write no time passes.
///
/// *Worst case:* a client may hold an answer of n bytes for the grace and n at the least rate: 53 min for 50 MiB.
#[derive(Debug)]
pub(super) struct AnswerClock {
    answer_time: Duration,
    grace: Duration,
    least_rate: u32,
    kind: AnswerKind,
    /// When what is being written has to be gone, if the answer is whole.
    end: Option<Instant>,
    /// What is left of it, if the answer is streamed; while a write waits, what was left as it began to.
    patience: Duration,
    waiting_since: Option<Instant>,
}

impl AnswerClock {
    pub(super) fn new(limits: &ListenerLimits) -> Self {
        Self {
            answer_time: limits.answer_time,
            grace: limits.read_grace,
            least_rate: limits.least_read_rate.get(),
            kind: AnswerKind::Whole,
            end: None,
            patience: limits.read_grace,
            waiting_since: None,
        }
    }

    /// Another answer begins; nothing of the last one is left to write.
    pub(super) fn begun(&mut self, kind: AnswerKind) {
        self.kind = kind;
        self.end = None;
        self.patience = self.grace;
        self.waiting_since = None;
    }

    /// The client took `bytes`.
    pub(super) fn taken(&mut self, now: Instant, bytes: usize) {
        self.end_waiting(now);
        let worth = Duration::from_nanos(
            u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(1_000_000_000) / u64::from(self.least_rate),
        );
        self.patience = self.patience.saturating_add(worth).min(self.grace.max(self.answer_time));
    }

    /// A write is being made.
    pub(super) fn writes(&mut self, now: Instant) {
        if self.end.is_none() {
            self.end = after(now, self.answer_time);
        }
    }

    /// A write waits for the client; it may until the time that is returned.
    pub(super) fn waits(&mut self, now: Instant) -> Instant {
        let since = *self.waiting_since.get_or_insert(now);
        let end = match self.kind {
            AnswerKind::Whole => self.end,
            AnswerKind::Streamed => after(since, self.patience),
        };
        end.unwrap_or(now)
    }

    /// All that was written is gone.
    pub(super) fn gone(&mut self, now: Instant) {
        self.end_waiting(now);
        self.end = None;
    }

    pub(super) fn kind(&self) -> AnswerKind {
        self.kind
    }

    /// A streamed answer was taken at the least rate so far, its pauses included.
    pub(super) fn keeps_pace(&self) -> bool {
        self.patience >= self.grace
    }

    fn end_waiting(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.patience = self.patience.saturating_sub(now.saturating_duration_since(since));
        }
    }
}

/// A time that never comes is as far away as can be told.
fn after(now: Instant, time: Duration) -> Option<Instant> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now.checked_add(time.min(YEAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> AnswerClock {
        let mut clock = AnswerClock::new(&ListenerLimits::default());
        clock.begun(AnswerKind::Streamed);
        clock
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_nothing_has_the_grace_and_what_it_took_counts_for_it() {
        let (mut clock, start) = (clock(), Instant::now());
        assert_eq!(clock.waits(start), start + 10 * SECOND);
        assert_eq!(clock.waits(start + 3 * SECOND), start + 10 * SECOND, "the same wait goes on");
        clock.taken(start + 4 * SECOND, 2 * 16 * 1024);
        assert!(!clock.keeps_pace(), "two seconds' worth in four");
        assert_eq!(clock.waits(start + 4 * SECOND), start + 12 * SECOND);
        clock.taken(start + 4 * SECOND, 2 * 16 * 1024);
        assert!(clock.keeps_pace());
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_there_is_nothing_to_write_does_not_count() {
        let (mut clock, start) = (clock(), Instant::now());
        clock.waits(start);
        clock.taken(start + 9 * SECOND, 1);
        clock.gone(start + 9 * SECOND);
        let later = start + 1000 * SECOND;
        let left = clock.waits(later) - later;
        assert_eq!(left, SECOND + Duration::from_nanos(1_000_000_000 / (16 * 1024)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_was_quick_may_still_not_stop_for_longer_than_a_whole_answer_takes() {
        let (mut clock, start) = (clock(), Instant::now());
        clock.taken(start, 40 << 20);
        assert_eq!(clock.waits(start), start + 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_answer_has_one_time_whatever_is_taken_and_each_has_its_own() {
        let (mut clock, start) = (clock(), Instant::now());
        clock.begun(AnswerKind::Whole);
        clock.writes(start);
        clock.taken(start + SECOND, 40 << 20);
        clock.writes(start + SECOND);
        assert_eq!(clock.waits(start + SECOND), start + 60 * SECOND);
        clock.gone(start + 2 * SECOND);
        clock.writes(start + 100 * SECOND);
        assert_eq!(clock.waits(start + 100 * SECOND), start + 160 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_answer_starts_with_nothing_of_the_last() {
        let (mut clock, start) = (clock(), Instant::now());
        clock.waits(start);
        clock.taken(start + 9 * SECOND, 1);
        clock.gone(start + 9 * SECOND);
        clock.begun(AnswerKind::Streamed);
        assert_eq!(clock.waits(start + 9 * SECOND), start + 19 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_overflows() {
        let limits =
            ListenerLimits { answer_time: Duration::MAX, read_grace: Duration::MAX, ..ListenerLimits::default() };
        let (mut clock, now) = (AnswerClock::new(&limits), Instant::now());
        clock.writes(now);
        clock.taken(now, usize::MAX);
        assert!(clock.waits(now) > now + 1000 * SECOND);
        clock.begun(AnswerKind::Streamed);
        clock.taken(now, usize::MAX);
        assert!(clock.waits(now) > now + 1000 * SECOND);
    }
}
