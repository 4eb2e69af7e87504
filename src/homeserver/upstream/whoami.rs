//! [`WhoamiOverHttp`]: the question itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, USER_AGENT, VIA};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt as _, Limited};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::UpstreamClient;
use super::rebuild::{FORWARDED_FOR_NAME, Rebuilt, bearer, forwarded_for};
use super::report::UpstreamGate;
use super::silence::LineInterval;
use super::status::{Kind, UpstreamCounts};
use super::tokens::{TokenQuestion, Unasked, Whoami};
use crate::deadline::OutboundDeadline;
use crate::limits::MAX_ERROR_BODY_BYTES;
use crate::outbound::BoxFuture;
use crate::outcome::TransportKind;
use crate::proxy::answer::homeserver::upstream::{TokenVerdict, judge_whoami};
use crate::server_name::ServerName;

const PATH: &str = "/_matrix/client/v3/account/whoami";

/// Asks over HTTP.
pub(super) struct WhoamiOverHttp(Arc<Asking>);

/// What it asks with.
pub(super) struct WhoamiParts {
    pub(super) client: Arc<UpstreamClient>,
    pub(super) gate: UpstreamGate,
    pub(super) own_name: ServerName,
    pub(super) via: HeaderValue,
    pub(super) counts: Arc<UpstreamCounts>,
    /// When the log was last told that an answer made no sense.
    pub(super) no_sense: Mutex<LineInterval>,
}

struct Asking {
    parts: WhoamiParts,
    warned_of_another_name: AtomicBool,
}

impl WhoamiOverHttp {
    pub(super) fn new(parts: WhoamiParts) -> Self {
        Self(Arc::new(Asking { parts, warned_of_another_name: AtomicBool::new(false) }))
    }
}

impl Whoami for WhoamiOverHttp {
    fn ask(
        &self,
        question: TokenQuestion,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'static, Result<TokenVerdict, Unasked>> {
        let asking = Arc::clone(&self.0);
        Box::pin(async move {
            let verdict = asking.parts.ask(question, deadline).await?;
            asking.parts.counts.answered(Kind::TokenQuestion);
            if let TokenVerdict::Good(user) = &verdict {
                asking.warn_of_another_name(user);
            }
            Ok(verdict)
        })
    }
}

impl WhoamiParts {
    async fn ask(&self, question: TokenQuestion, deadline: OutboundDeadline) -> Result<TokenVerdict, Unasked> {
        let request = self.request(&question).ok_or(Unasked::Failed)?;
        // A made-up token is a stranger's, and what comes of it says nothing to the gate.
        let report = self.gate.starts(question.was_good);
        let answer = self.client.send(request, deadline).await;
        report.ended(answer.as_ref().map(http::Response::status).map_err(|failure| *failure));
        let answer = answer.map_err(|failure| match failure {
            TransportKind::TimedOut => Unasked::TimedOut,
            _ => Unasked::Failed,
        })?;
        let (head, body) = answer.into_parts();
        let body = deadline.cut(Limited::new(body, MAX_ERROR_BODY_BYTES).collect()).await;
        let body = body.map_err(|_| Unasked::TimedOut)?.map_err(|_| Unasked::Failed)?.to_bytes();
        judge_whoami(head.status, &body).map_err(|_| {
            if self.no_sense.lock().is_due(Instant::now()) {
                tracing::warn!(
                    target: "portcullis::upstream",
                    status = head.status.as_u16(),
                    "the homeserver behind did not say whose an access token is"
                );
            }
            Unasked::Failed
        })
    }

    fn request(&self, question: &TokenQuestion) -> Option<Rebuilt> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer(&question.token)?);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(FORWARDED_FOR_NAME, forwarded_for(question.from));
        headers.insert(VIA, self.via.clone());
        if let Some(user_agent) = &question.user_agent {
            headers.insert(USER_AGENT, user_agent.clone());
        }
        Some(Rebuilt { method: Method::GET, path_and_query: PATH.to_owned(), headers, body: Bytes::new() })
    }
}

impl Asking {
    /// Under another name its own aliases and files would be asked for elsewhere.
    fn warn_of_another_name(&self, user: &str) {
        let server = user.split_once(':').and_then(|(_, server)| server.parse::<ServerName>().ok());
        let is_ours = server.is_some_and(|server| server.is_same_server(&self.parts.own_name));
        if !is_ours && !self.warned_of_another_name.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "portcullis::upstream",
                server_name = %self.parts.own_name,
                "the homeserver behind has users of another server_name: write its own name in server_name"
            );
        }
    }
}
