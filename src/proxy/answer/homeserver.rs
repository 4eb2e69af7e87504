//! The reference homeserver's part of the table: what it answers around the directory routes.

use http::header::{ALLOW, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::{ResponseBody, error, json};

/// Why a request was not read to its end. The connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadRequest {
    /// No `Host`, an empty one, or several.
    Host,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// The body did not come in time.
    BodyTooSlow,
    /// The body ended early or is garbled.
    Body,
}

impl BadRequest {
    /// The status that says so.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Body => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// The answer to a client.
    #[must_use]
    pub fn into_response(self) -> Response<ResponseBody> {
        let (errcode, text) = match self {
            Self::Host => ("M_UNKNOWN", "Exactly one Host header is needed"),
            Self::BodyTooLarge => ("M_TOO_LARGE", "The request body is too large"),
            Self::BodyTooSlow => ("M_UNKNOWN", "The request body did not come in time"),
            Self::Body => ("M_UNKNOWN", "The request body could not be read"),
        };
        error(self.status(), errcode, text)
    }
}

/// Content that this server has at hand.
pub(crate) fn content<T: Serialize>(content: &T) -> Response<ResponseBody> {
    json(StatusCode::OK, content)
}

/// A path nobody here knows.
pub(crate) fn unrecognised_path() -> Response<ResponseBody> {
    error(StatusCode::NOT_FOUND, "M_UNRECOGNIZED", "Unrecognised request")
}

/// A known path under a method it does not have; `allowed` are those it has.
pub(crate) fn unrecognised_method(allowed: &'static str) -> Response<ResponseBody> {
    let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, "M_UNRECOGNIZED", "Unrecognised method");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Every request thread is busy and the queue is full.
pub(crate) fn busy() -> Response<ResponseBody> {
    let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "The server is busy");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Whether an answer tells its client that it asks too much.
pub(crate) fn says_too_much(answer: &Response<ResponseBody>) -> bool {
    answer.status() == StatusCode::TOO_MANY_REQUESTS
}

/// A fault of this server's own: a handler panicked, or the key cannot sign.
pub(crate) fn internal_fault() -> Response<ResponseBody> {
    error(StatusCode::INTERNAL_SERVER_ERROR, "M_UNKNOWN", "Internal server error")
}

pub(crate) mod upstream;
