//! [`WatchedCall`]: a lookup that is counted, and told about if it fails.

use http::StatusCode;

use super::{DirectoryCall, Found, LookupFailure, LookupKind};
use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::call::RemoteReply;
use crate::outbound::endpoint::Endpoint;
use crate::outbound::error::CallError;
use crate::proxy::watch::{Ended, Outcomes, Subject, Watch, Why};

/// A call that is counted once, however it ends: also when it is dropped or panics.
pub(super) struct WatchedCall<'a> {
    call: Box<dyn DirectoryCall>,
    watch: Watch<'a>,
    last: Last,
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
        let subject = Subject { server, route: route.as_label(), failed: "lookup failed" };
        Self { call, watch: Watch::new(outcomes, subject, deadline), last: Last::Nothing }
    }

    /// The call came to an end of its own. A peer that says no has answered.
    pub(super) fn ended(self, outcome: &Result<Found, LookupFailure>) {
        let (how, said) = match outcome {
            Ok(_) => return self.watch.ended(Ended::Answered, None),
            Err(LookupFailure::Forbidden) => (Ended::Answered, Some("forbidden")),
            Err(LookupFailure::TimedOut) => (Ended::TimedOut, None),
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
    fn request<'a>(&'a mut self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>> {
        Box::pin(async move {
            let outcome = self.call.request(endpoint).await;
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
