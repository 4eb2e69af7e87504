//! The operator's socket: health, status, metrics and a page that shows them. Clients have no business here.
//!
//! It answers on a socket of its own, to reading alone, without CORS, and only under a Host that cannot be rebound: a page in
//! the operator's browser whose name was made to point here gets nothing.
//!
//! | path | answers |
//! |---|---|
//! | `/` | a page that shows the status and keeps up with it |
//! | `/v1/status` | [`AdminStatus`] as JSON |
//! | `/metrics` | the metrics of [`metric_names`], in the text format of Prometheus |
//! | `/healthz` | 200 `ok` while serving, 503 `stopping` from [`Admin::drain`] on |

mod exposition;
mod hosts;
pub mod metric_names;
mod metrics;
mod page;
mod process;
mod report;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use self::hosts::AdminHosts;
pub use self::process::ProcessFigures;
pub use self::report::{AdminStatus, RequestPoolStatus};
use super::fair_budget::FairBudgetStatus;
use super::listener::{BadRequest, Handler};
use super::upstream::UpstreamStatus;
use crate::outbound::BoxFuture;
use crate::proxy::answer::ResponseBody;
use crate::status::Status;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";

/// Answers on the operator's socket.
pub struct Admin {
    snapshot: Box<dyn Fn() -> Status + Send + Sync>,
    pool: Option<Box<dyn Fn() -> RequestPoolStatus + Send + Sync>>,
    long_answers: Option<Box<dyn Fn() -> FairBudgetStatus + Send + Sync>>,
    upstream: Option<Box<dyn Fn() -> Option<UpstreamStatus> + Send + Sync>>,
    hosts: AdminHosts,
    draining: AtomicBool,
}

/// What there is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Status,
    StatusJson,
    Style,
    Script,
    Metrics,
    Health,
}

impl Page {
    fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Status,
            "/v1/status" => Self::StatusJson,
            "/status.css" => Self::Style,
            "/status.js" => Self::Script,
            "/metrics" => Self::Metrics,
            "/healthz" => Self::Health,
            _ => return None,
        })
    }
}

impl Admin {
    /// Shows what `snapshot` counts, on a socket bound to `bound`.
    #[must_use]
    pub fn new(bound: SocketAddr, snapshot: impl Fn() -> Status + Send + Sync + 'static) -> Self {
        Self {
            snapshot: Box::new(snapshot),
            pool: None,
            long_answers: None,
            upstream: None,
            hosts: AdminHosts::of(bound),
            draining: AtomicBool::new(false),
        }
    }

    /// Shows the request pool too.
    #[must_use]
    pub fn with_request_pool(self, pool: impl Fn() -> RequestPoolStatus + Send + Sync + 'static) -> Self {
        Self { pool: Some(Box::new(pool)), ..self }
    }

    /// Shows the places of answers that may take long too.
    #[must_use]
    pub fn with_long_answers(self, places: impl Fn() -> FairBudgetStatus + Send + Sync + 'static) -> Self {
        Self { long_answers: Some(Box::new(places)), ..self }
    }

    /// Shows the homeserver behind too, where there is one.
    #[must_use]
    pub fn with_upstream(self, upstream: impl Fn() -> Option<UpstreamStatus> + Send + Sync + 'static) -> Self {
        Self { upstream: Some(Box::new(upstream)), ..self }
    }

    /// Says from now on that the server is stopping, so that nobody sends it anything new.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// What `/v1/status` answers. *Blocking:* reads a few lines of the kernel's, no disk.
    #[must_use]
    pub fn status(&self) -> AdminStatus {
        AdminStatus {
            status: (self.snapshot)(),
            draining: self.draining.load(Ordering::Relaxed),
            request_pool: self.pool.as_ref().map(|pool| pool()),
            long_answers: self.long_answers.as_ref().map(|places| places()),
            upstream: self.upstream.as_ref().and_then(|upstream| upstream()),
            process: ProcessFigures::now(),
        }
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<ResponseBody> {
        if !self.hosts.are_asked(request) {
            return plain(StatusCode::FORBIDDEN, "ask by this socket's address or as localhost");
        }
        let Some(page) = Page::at(request.uri().path()) else {
            return plain(StatusCode::NOT_FOUND, "here are /, /healthz, /metrics and /v1/status");
        };
        // A HEAD is a GET whose body the HTTP library leaves out.
        if *request.method() != Method::GET && *request.method() != Method::HEAD {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match page {
            Page::Status => found(HTML, page::html(&self.status())),
            Page::StatusJson => match serde_json::to_vec(&self.status()) {
                Ok(body) => found(JSON, body),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "no status"),
            },
            Page::Style => found(STYLE, page::STYLE),
            Page::Script => found(SCRIPT, page::SCRIPT),
            Page::Metrics => found(exposition::CONTENT_TYPE, metrics::text(&self.status())),
            Page::Health if self.draining.load(Ordering::Relaxed) => plain(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Page::Health => plain(StatusCode::OK, "ok"),
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Admin").field("hosts", &self.hosts).field("draining", &self.draining).finish_non_exhaustive()
    }
}

impl Handler for Admin {
    fn handle(&self, _peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let answer = self.answer(&request);
        Box::pin(std::future::ready(answer))
    }

    fn refuse(&self, _problem: BadRequest) -> Response<ResponseBody> {
        plain(StatusCode::BAD_REQUEST, "bad request")
    }

    fn busy(&self) -> Response<ResponseBody> {
        plain(StatusCode::SERVICE_UNAVAILABLE, "too many answers are unread")
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    with_type(status, TEXT, format!("{text}\n"))
}

fn found(content_type: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    with_type(StatusCode::OK, content_type, body)
}

/// The one place where an answer of this socket gets its headers: for a browser it is text of its own type, not to be kept,
/// framed, or read by a page of anybody else's.
fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::from(body.into()));
    *answer.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
