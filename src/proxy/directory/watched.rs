//! [`WatchedCall`]: a lookup that is counted, and told about if it fails.

use http::StatusCode;

use super::{DirectoryCall, Found, LookupFailure, LookupKind, Report};
use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::call::RemoteReply;
use crate::outbound::endpoint::Endpoint;
use crate::outbound::error::CallError;
use crate::outcome::{Outcome, Took};
use crate::proxy::watch::{Ended, Outcomes, Subject, Watch, Why};

/// A call that is counted once, however it ends: also when it is dropped or panics.
pub(super) struct WatchedCall<'a> {
    call: Box<dyn DirectoryCall>,
    watch: Watch<'a>,
    last: Last,
    deadline: OutboundDeadline,
    report: Report,
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
        report: Report,
    ) -> Self {
        let subject = Subject { server, route: route.as_label(), failed: "lookup failed" };
        Self { call, watch: Watch::new(outcomes, subject, deadline), last: Last::Nothing, deadline, report }
    }

    /// Before the first request: a gate has to know when the call set out, not when it ended.
    async fn set_out(&mut self) -> Result<(), CallError> {
        if self.report.is_due() {
            let base_url = self.call.base_url().await?;
            self.report.sets_out(&base_url);
        }
        Ok(())
    }

    /// The call came to an end of its own. A peer that says no has answered.
    pub(super) fn ended(self, outcome: &Result<Found, LookupFailure>) {
        self.report.ended(match self.last {
            Last::Nothing => Outcome::unsent(),
            Last::Failed(error) => error.outcome(),
            Last::Answered(status) => {
                Outcome::of_status(status, Took { elapsed: self.watch.elapsed(), timeout: self.deadline.allowed() })
            }
        });
        let (how, said) = match outcome {
            Ok(_) => return self.watch.ended(Ended::Answered, None),
            Err(LookupFailure::Forbidden) => (Ended::Answered, Some("forbidden")),
            Err(LookupFailure::TimedOut) => (Ended::TimedOut, None),
            Err(LookupFailure::Overloaded) => (Ended::Failed, Some("overloaded")),
            Err(LookupFailure::Failed) => (Ended::Failed, None),
        };
        let (phase, reason) = match self.last {
            Last::Failed(error) => (error.phase.as_label(), error.as_label()),
            Last::Answered(_) if how == Ended::TimedOut => ("answer", "answer-reading-timed-out"),
            Last::Answered(StatusCode::OK) => ("answer", "answer-malformed"),
            Last::Answered(_) => ("answer", said.unwrap_or("unexpected-status")),
            Last::Nothing => ("prepare", "request-not-buildable"),
        };
        self.watch.ended(how, Some(Why { phase, reason }));
    }
}

impl DirectoryCall for WatchedCall<'_> {
    fn base_url(&mut self) -> BoxFuture<'_, Result<String, CallError>> {
        self.call.base_url()
    }

    fn request<'a>(&'a mut self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>> {
        Box::pin(async move {
            let outcome = match self.set_out().await {
                Ok(()) => self.call.request(endpoint).await,
                Err(error) => Err(error),
            };
            self.last = match &outcome {
                Ok(reply) => Last::Answered(reply.status),
                Err(error) => Last::Failed(*error),
            };
            self.watch.answered_with(outcome.as_ref().ok().map(|reply| reply.status.as_u16()));
            outcome
        })
    }
}

#[cfg(test)]
mod tests;
