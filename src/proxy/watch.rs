//! [`Watch`]: what an operator learns about a call: how it ended, how long it took and where, and at level debug a line that
//! says why it failed.
//!
//! A stranger can make calls fail as often as it likes, so that no line of theirs is above debug. Nothing in a line is the
//! other server's: its name passed the grammar, everything else is a fixed word or a number.

mod destinations;
mod times;

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::time::Instant;

pub use self::destinations::{DestinationStatus, LastCall};
use self::destinations::{Destinations, Failed, IsListed};
use self::times::CallTimer;
pub use self::times::{CallTimeStep, CallTimes};
use crate::deadline::OutboundDeadline;
use crate::limits::DESTINATIONS_SHOWN;

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

/// What is remembered of the calls of one class: their ends, their times and whom they asked.
#[derive(Debug)]
pub(crate) struct Outcomes {
    answered: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
    timer: CallTimer,
    destinations: Destinations,
}

impl Default for Outcomes {
    fn default() -> Self {
        Self {
            answered: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            timer: CallTimer::default(),
            destinations: Destinations::new(DESTINATIONS_SHOWN),
        }
    }
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

    /// How long they took.
    pub(crate) fn times(&self) -> CallTimes {
        self.timer.times()
    }

    /// Whom they asked lately.
    pub(crate) fn destinations(&self) -> Vec<DestinationStatus> {
        self.destinations.status()
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ended {
    /// The other server answered the question, if only to say no.
    Answered,
    /// Time ended it.
    TimedOut,
    /// Anything else.
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
    listed: IsListed,
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
        let began = Instant::now();
        let listed = outcomes.destinations.begin(&subject.server, began);
        Self { outcomes, subject, deadline, began, status: None, listed, ended: false }
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
        self.count(how, why);
        if let Some(why) = why {
            self.tell(why);
        }
    }

    fn count(&self, how: Ended, why: Option<Why>) {
        let counter = match how {
            Ended::Answered => &self.outcomes.answered,
            Ended::TimedOut => &self.outcomes.timed_out,
            Ended::Failed => &self.outcomes.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let took = self.began.elapsed();
        self.outcomes.timer.note(took);
        let failed = why.map(|why| Failed { why, status: self.status });
        self.outcomes.destinations.end(self.listed, &self.subject.server, how, failed, took);
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
        let why = Why { phase: "call", reason };
        self.count(how, Some(why));
        self.tell(why);
    }
}

#[cfg(test)]
pub(crate) mod lines;
