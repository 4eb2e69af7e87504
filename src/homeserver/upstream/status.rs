//! [`UpstreamStatus`]: how it stands with the homeserver behind, and what that is counted from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use super::super::fair_budget::{FairBudget, FairBudgetStatus};
use super::silence::{SilenceLine, SilenceWatch};
use super::tokens::TokenDesk;

/// How it stands with the homeserver behind. A snapshot, to be shown as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// Where it is.
    pub origin: String,
    /// What came of the latest that it was asked.
    pub state: UpstreamState,
    /// When it last answered, in Unix milliseconds; null before it ever did.
    pub last_answer_at_ms: Option<u64>,
    /// When a request was last answered 502 because it was silent, in Unix milliseconds; null if none ever was.
    pub last_silence_at_ms: Option<u64>,
    /// Questions whose an access token is. Equal ones count once, but for those answered 503 or 502.
    pub token_questions: UpstreamRequests,
    /// Requests that wait for the answer to somebody's equal question.
    pub token_waiters: FairBudgetStatus,
    /// Requests for data of its own, until the last byte of their answers is here.
    pub passed_on: UpstreamPassedOn,
}

/// Requests for data of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UpstreamPassedOn {
    /// Lists and aliases.
    pub small: UpstreamRequests,
    /// Files.
    pub files: UpstreamRequests,
}

/// Whether it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UpstreamState {
    /// Nothing that it was asked has ended yet.
    #[default]
    NotAsked,
    /// The latest was answered.
    Answers,
    /// The latest was not: not to be reached, out of time, or without sense.
    Silent,
}

/// What it is asked, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UpstreamRequests {
    /// Those that are out.
    pub in_flight: usize,
    /// Most at once.
    pub cap: usize,
    /// Most at once of one client; of requests for data of its own fewer where little is left.
    pub per_client: usize,
    /// Those that it answered, since the start.
    pub answered: u64,
    /// Requests answered 503 since the start: too many were out.
    pub refused: u64,
    /// Requests answered 502 since the start: it did not answer.
    pub silent: u64,
}

/// What is counted, of each kind.
#[derive(Debug, Default)]
pub(super) struct UpstreamCounts {
    pub(super) token_questions: KindCounts,
    pub(super) small: KindCounts,
    pub(super) files: KindCounts,
    /// The budgets of the other kinds count for themselves.
    questions_refused: AtomicU64,
    latest: Mutex<Latest>,
    silence: Mutex<SilenceWatch>,
    /// Where it is.
    origin: String,
}

/// What is counted of one kind.
#[derive(Debug, Default)]
pub(super) struct KindCounts {
    answered: AtomicU64,
    silent: AtomicU64,
}

/// Which of both came last is kept by itself: a clock that is set back turns no silence into an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    state: UpstreamState,
    answer_at_ms: Option<u64>,
    silence_at_ms: Option<u64>,
}

/// One of the kinds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    TokenQuestion,
    /// A list or an alias.
    Small,
    File,
}

impl UpstreamCounts {
    /// Of the homeserver at `origin`.
    pub(super) fn at(origin: &str) -> Self {
        Self { origin: origin.to_owned(), ..Self::default() }
    }

    pub(super) fn answered(&self, kind: Kind) {
        self.of(kind).answered.fetch_add(1, Ordering::Relaxed);
        let now_ms = now_ms();
        let mut latest = self.latest.lock();
        *latest = Latest { state: UpstreamState::Answers, answer_at_ms: Some(now_ms), ..*latest };
        drop(latest);
        let line = self.silence.lock().answered();
        self.write(line);
    }

    pub(super) fn silent(&self, kind: Kind) {
        self.of(kind).silent.fetch_add(1, Ordering::Relaxed);
        let now_ms = now_ms();
        let mut latest = self.latest.lock();
        *latest = Latest { state: UpstreamState::Silent, silence_at_ms: Some(now_ms), ..*latest };
        drop(latest);
        let line = self.silence.lock().silent(Instant::now());
        self.write(line);
    }

    fn write(&self, line: Option<SilenceLine>) {
        if let Some(line) = line {
            line.write(&self.origin);
        }
    }

    pub(super) fn question_refused(&self) {
        self.questions_refused.fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, kind: Kind) -> &KindCounts {
        match kind {
            Kind::TokenQuestion => &self.token_questions,
            Kind::Small => &self.small,
            Kind::File => &self.files,
        }
    }

    /// All of it, with what is out.
    pub(super) fn status(&self, desk: &TokenDesk, small: &FairBudget, files: &FairBudget) -> UpstreamStatus {
        let Latest { state, answer_at_ms, silence_at_ms } = *self.latest.lock();
        UpstreamStatus {
            origin: self.origin.clone(),
            state,
            last_answer_at_ms: answer_at_ms,
            last_silence_at_ms: silence_at_ms,
            token_questions: self.token_questions.status(FairBudgetStatus {
                in_flight: desk.slots().in_flight(),
                cap: desk.slots().global_cap(),
                per_client: desk.slots().per_key_cap(),
                refused: self.questions_refused.load(Ordering::Relaxed),
            }),
            token_waiters: desk.waiters().status(),
            passed_on: UpstreamPassedOn {
                small: self.small.status(small.status()),
                files: self.files.status(files.status()),
            },
        }
    }
}

impl KindCounts {
    fn status(&self, out: FairBudgetStatus) -> UpstreamRequests {
        UpstreamRequests {
            in_flight: out.in_flight,
            cap: out.cap,
            per_client: out.per_client,
            answered: self.answered.load(Ordering::Relaxed),
            refused: out.refused,
            silent: self.silent.load(Ordering::Relaxed),
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tests::desk_that_asks_nobody;
    use super::*;
    use crate::admission::{ClientKey, InFlightCaps};
    use crate::limits::UPSTREAM_LINE_INTERVAL;
    use crate::proxy::watch::lines::Lines;

    fn seen(counts: &UpstreamCounts) -> UpstreamStatus {
        let (small, files) = (
            FairBudget::new(InFlightCaps { global: 64, per_key: 16 }),
            FairBudget::new(InFlightCaps { global: 128, per_key: 64 }),
        );
        let _out = files.try_acquire(&ClientKey::shared()).unwrap();
        counts.status(&desk_that_asks_nobody(), &small, &files)
    }

    #[test]
    fn what_came_last_says_whether_it_answers() {
        let counts = UpstreamCounts::default();
        let status = seen(&counts);
        assert_eq!((status.state, status.last_answer_at_ms, status.last_silence_at_ms), Default::default());
        counts.question_refused();
        assert_eq!(seen(&counts).state, UpstreamState::NotAsked, "a refusal is none of its words");
        counts.answered(Kind::TokenQuestion);
        let status = seen(&counts);
        assert_eq!(status.state, UpstreamState::Answers);
        assert!(status.last_answer_at_ms.is_some() && status.last_silence_at_ms.is_none(), "{status:?}");
        counts.silent(Kind::File);
        let status = seen(&counts);
        assert_eq!(status.state, UpstreamState::Silent);
        assert!(status.last_answer_at_ms.is_some() && status.last_silence_at_ms.is_some(), "{status:?}");
        counts.answered(Kind::File);
        assert_eq!(seen(&counts).state, UpstreamState::Answers);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_is_two_lines_in_the_log_and_one_more_for_each_minute_of_it() {
        let (lines, _logging) = Lines::of_this_thread(tracing::Level::INFO);
        let counts = UpstreamCounts::at("http://127.0.0.1:8008");
        counts.answered(Kind::File);
        for _ in 0..3 {
            counts.silent(Kind::File);
            counts.silent(Kind::TokenQuestion);
        }
        tokio::time::advance(UPSTREAM_LINE_INTERVAL).await;
        counts.silent(Kind::File);
        counts.silent(Kind::File);
        counts.answered(Kind::TokenQuestion);
        counts.answered(Kind::TokenQuestion);
        let told: Vec<_> =
            lines.read().into_iter().map(|line| (line["level"].clone(), line["fields"].clone())).collect();
        let line = |level: &str, message: &str, answered_502: u64| {
            let origin = "http://127.0.0.1:8008";
            (level.into(), serde_json::json!({ "message": message, "origin": origin, "answered_502": answered_502 }))
        };
        assert_eq!(
            told,
            [
                line("WARN", "the homeserver behind does not answer", 1),
                line("WARN", "the homeserver behind does not answer", 6),
                line("INFO", "the homeserver behind answers again", 1),
            ]
        );
    }

    #[test]
    fn each_kind_is_counted_by_itself() {
        let counts = UpstreamCounts::default();
        counts.answered(Kind::TokenQuestion);
        for _ in 0..2 {
            counts.question_refused();
            counts.answered(Kind::Small);
        }
        for _ in 0..3 {
            counts.silent(Kind::File);
        }
        let status = seen(&counts);
        let questions = UpstreamRequests { in_flight: 0, cap: 64, per_client: 4, answered: 1, refused: 2, silent: 0 };
        let small = UpstreamRequests { in_flight: 0, cap: 64, per_client: 16, answered: 2, refused: 0, silent: 0 };
        let files = UpstreamRequests { in_flight: 1, cap: 128, per_client: 64, answered: 0, refused: 0, silent: 3 };
        assert_eq!((status.token_questions, status.passed_on), (questions, UpstreamPassedOn { small, files }));
        let waiters = FairBudgetStatus { in_flight: 0, cap: 128, per_client: 64, refused: 0 };
        assert_eq!(status.token_waiters, waiters);
    }
}
