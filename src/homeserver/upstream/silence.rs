//! [`SilenceWatch`]: when the log tells that the homeserver behind is silent, and that it answers again.

use tokio::time::Instant;

use crate::limits::UPSTREAM_LINE_INTERVAL;

/// What is due in the log. Nothing in it is a stranger's but how many requests there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SilenceLine {
    /// It is silent; so many requests were answered 502 since the last line.
    Silent {
        /// This one included.
        answered_502: u64,
    },
    /// It has answered after that; so many more were answered 502 meanwhile.
    AnswersAgain {
        /// Since the last line.
        answered_502: u64,
    },
}

/// Hears of every answer, and of every request that had none. It reads no time itself.
///
/// Never: more than one line a minute that it is silent, however often it changes its mind, nor one that it answers without
/// one before (`one_that_answers_now_and_then_is_told_of_once_a_minute`).
#[derive(Debug, Default)]
pub(super) struct SilenceWatch {
    told: LineInterval,
    /// The last line says that it is silent.
    stands: bool,
    answered_502: u64,
}

/// When a line is due that may come once a minute.
#[derive(Debug, Default)]
pub(super) struct LineInterval(Option<Instant>);

impl LineInterval {
    /// Whether a line is due. If so it is taken to be written.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.saturating_duration_since(last) >= UPSTREAM_LINE_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

impl SilenceWatch {
    /// A request was answered 502 because it was silent.
    pub(super) fn silent(&mut self, now: Instant) -> Option<SilenceLine> {
        self.answered_502 = self.answered_502.saturating_add(1);
        self.told.is_due(now).then(|| {
            self.stands = true;
            SilenceLine::Silent { answered_502: std::mem::take(&mut self.answered_502) }
        })
    }

    /// It has answered.
    pub(super) fn answered(&mut self) -> Option<SilenceLine> {
        std::mem::take(&mut self.stands)
            .then(|| SilenceLine::AnswersAgain { answered_502: std::mem::take(&mut self.answered_502) })
    }
}

impl SilenceLine {
    pub(super) fn write(self, origin: &str) {
        match self {
            Self::Silent { answered_502 } => tracing::warn!(
                target: "portcullis::upstream",
                origin,
                answered_502,
                "the homeserver behind does not answer"
            ),
            Self::AnswersAgain { answered_502 } => tracing::info!(
                target: "portcullis::upstream",
                origin,
                answered_502,
                "the homeserver behind answers again"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn silent(answered_502: u64) -> SilenceLine {
        SilenceLine::Silent { answered_502 }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once_then_once_a_minute_and_once_that_it_is_over() {
        let (mut watch, start) = (SilenceWatch::default(), Instant::now());
        assert_eq!(watch.answered(), None, "nothing was wrong");
        assert_eq!(watch.silent(start), Some(silent(1)));
        for second in 1..60 {
            assert_eq!(watch.silent(start + second * SECOND), None);
        }
        assert_eq!(watch.silent(start + 60 * SECOND), Some(silent(60)));
        assert_eq!(watch.silent(start + 61 * SECOND), None);
        assert_eq!(watch.answered(), Some(SilenceLine::AnswersAgain { answered_502: 1 }));
        assert_eq!(watch.answered(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_answers_now_and_then_is_told_of_once_a_minute() {
        let (mut watch, start) = (SilenceWatch::default(), Instant::now());
        assert_eq!(watch.silent(start), Some(silent(1)));
        assert_eq!(watch.answered(), Some(SilenceLine::AnswersAgain { answered_502: 0 }));
        for second in 1..60 {
            assert_eq!((watch.silent(start + second * SECOND), watch.answered()), (None, None));
        }
        assert_eq!(watch.silent(start + 60 * SECOND), Some(silent(60)));
        assert_eq!(watch.answered(), Some(SilenceLine::AnswersAgain { answered_502: 0 }));
    }
}
