//! [`WatchedCall`]: what an operator learns about a call: a count always, and at level debug a line that says why it failed.
//!
//! A stranger can make lookups fail as often as it likes, so that no line of theirs is above debug. Nothing in a line is the
//! other server's: its name passed the grammar, everything else is a fixed word or a number.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use serde::Serialize;
use tokio::time::Instant;

use super::{DirectoryCall, Found, LookupFailure, LookupKind};
use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::call::RemoteReply;
use crate::outbound::endpoint::Endpoint;
use crate::outbound::error::CallError;

/// How calls ended since the start. A lookup that shared another's call is not counted again.
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
pub(super) struct Outcomes {
    answered: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
}

impl Outcomes {
    pub(super) fn counts(&self) -> CallCounts {
        CallCounts {
            answered: self.answered.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// A call that is counted once, however it ends: also when it is dropped or panics.
pub(super) struct WatchedCall<'a> {
    call: Box<dyn DirectoryCall>,
    outcomes: &'a Outcomes,
    server: String,
    route: LookupKind,
    deadline: OutboundDeadline,
    began: Instant,
    last: Last,
    ended: bool,
}

/// How far the call got.
#[derive(Clone, Copy)]
enum Last {
    /// No request came back yet.
    Nothing,
    Failed(CallError),
    Answered(StatusCode),
}

impl<'a> WatchedCall<'a> {
    pub(super) fn new(
        call: Box<dyn DirectoryCall>,
        outcomes: &'a Outcomes,
        server: String,
        route: LookupKind,
        deadline: OutboundDeadline,
    ) -> Self {
        let began = Instant::now();
        Self { call, outcomes, server, route, deadline, began, last: Last::Nothing, ended: false }
    }

    /// The call came to an end of its own. A peer that says no has answered.
    pub(super) fn ended(mut self, outcome: &Result<Found, LookupFailure>) {
        self.ended = true;
        let (counter, said) = match outcome {
            Ok(_) => return count(&self.outcomes.answered),
            Err(LookupFailure::Forbidden) => (&self.outcomes.answered, Some("forbidden")),
            Err(LookupFailure::TimedOut) => (&self.outcomes.timed_out, None),
            Err(LookupFailure::Failed) => (&self.outcomes.failed, None),
        };
        count(counter);
        let timed_out = *outcome == Err(LookupFailure::TimedOut);
        let (phase, reason) = match self.last {
            Last::Failed(error) => (error.phase.as_label(), error.as_label()),
            Last::Answered(_) if timed_out => ("answer", "answer-reading-timed-out"),
            Last::Answered(StatusCode::OK) => ("answer", "answer-malformed"),
            Last::Answered(_) => ("answer", said.unwrap_or("unexpected-status")),
            Last::Nothing => ("prepare", "request-not-buildable"),
        };
        self.tell(phase, reason);
    }

    fn tell(&self, phase: &'static str, reason: &'static str) {
        let status = match self.last {
            Last::Answered(status) => Some(status.as_u16()),
            Last::Nothing | Last::Failed(_) => None,
        };
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (server, route) = (self.server.as_str(), self.route.as_label());
        tracing::debug!(target: "portcullis::proxy", server, route, phase, reason, status, ms, "lookup failed");
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl DirectoryCall for WatchedCall<'_> {
    fn request<'a>(&'a mut self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>> {
        Box::pin(async move {
            let outcome = self.call.request(endpoint).await;
            self.last = match &outcome {
                Ok(reply) => Last::Answered(reply.status),
                Err(error) => Last::Failed(*error),
            };
            outcome
        })
    }
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.deadline.is_expired(Instant::now()) {
            count(&self.outcomes.timed_out);
            self.tell("call", "deadline");
        } else {
            count(&self.outcomes.failed);
            self.tell("call", "cut-short");
        }
    }
}

#[cfg(test)]
mod tests;
