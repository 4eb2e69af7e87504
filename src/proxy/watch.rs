//! [`Watch`]: what an operator learns about a call: a count always, and at level debug a line that says why it failed.
//!
//! A stranger can make calls fail as often as it likes, so that no line of theirs is above debug. Nothing in a line is the
//! other server's: its name passed the grammar, everything else is a fixed word or a number.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::time::Instant;

use crate::deadline::OutboundDeadline;

/// How calls ended since the start. A request that shared another's call is not counted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallCounts {
    /// The other server answered the question, if only to say no.
    pub answered: u64,
    /// Time ended it.
    pub timed_out: u64,
    /// Anything else; why is in the log at level debug.
    pub failed: u64,
}

/// The counters behind [`CallCounts`].
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    answered: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
}

impl Outcomes {
    /// How the calls so far ended.
    pub(crate) fn counts(&self) -> CallCounts {
        CallCounts {
            answered: self.answered.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered,
    TimedOut,
    Failed,
}

/// The words for a call that did not give what was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    /// How far it got.
    pub(crate) phase: &'static str,
    /// What was in the way.
    pub(crate) reason: &'static str,
}

/// A call that is counted once, however it ends: also when it is dropped or panics.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    outcomes: &'a Outcomes,
    subject: Subject,
    deadline: OutboundDeadline,
    began: Instant,
    status: Option<u16>,
    ended: bool,
}

/// Whom a call asks, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The other server, in canonical form.
    pub(crate) server: String,
    /// The fixed word for what it is asked.
    pub(crate) route: &'static str,
    /// The whole line: what has failed.
    pub(crate) failed: &'static str,
}

impl<'a> Watch<'a> {
    /// A call begins.
    pub(crate) fn new(outcomes: &'a Outcomes, subject: Subject, deadline: OutboundDeadline) -> Self {
        Self { outcomes, subject, deadline, began: Instant::now(), status: None, ended: false }
    }

    /// The status of the other server's last answer; `None` if there was none to the last request.
    pub(crate) fn answered_with(&mut self, status: Option<u16>) {
        self.status = status;
    }

    /// How long it has been going on.
    pub(crate) fn elapsed(&self) -> std::time::Duration {
        self.began.elapsed()
    }

    /// The call came to an end of its own. A server that says no has answered; then, too, `why` says so.
    pub(crate) fn ended(mut self, how: Ended, why: Option<Why>) {
        self.ended = true;
        self.count(how);
        if let Some(why) = why {
            self.tell(why);
        }
    }

    fn count(&self, how: Ended) {
        let counter = match how {
            Ended::Answered => &self.outcomes.answered,
            Ended::TimedOut => &self.outcomes.timed_out,
            Ended::Failed => &self.outcomes.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self, why: Why) {
        tell(&self.subject, why, self.status, self.began);
    }
}

/// The line, also for what failed before there was a call to watch.
pub(crate) fn tell(subject: &Subject, why: Why, status: Option<u16>, began: Instant) {
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (Subject { server, route, failed }, Why { phase, reason }) = (subject, why);
    tracing::debug!(target: "portcullis::proxy", server, route, phase, reason, status, ms, "{failed}");
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (how, reason) = if self.deadline.is_expired(Instant::now()) {
            (Ended::TimedOut, "deadline")
        } else {
            (Ended::Failed, "cut-short")
        };
        self.count(how);
        self.tell(Why { phase: "call", reason });
    }
}

#[cfg(test)]
pub(crate) mod lines;
