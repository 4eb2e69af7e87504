//! The one table from outcome to answer: the only module that knows HTTP statuses and errcodes.
//!
//! A client must be able to tell "slow down" from "it is broken over there" from "you asked for nonsense", and must never
//! learn from us what a stranger's server or our resolver said. So every text here is fixed, every answer is JSON, and
//! every answer, errors too, carries the headers without which a browser shows the page nothing at all.
//!
//! | outcome | status | errcode |
//! |---|---|---|
//! | over a cap, or too often | 429 | `M_LIMIT_EXCEEDED`, `retry_after_ms`, `Retry-After` |
//! | time ended the call | 504 | `M_UNKNOWN` |
//! | the peer, or the way to it, failed | 502 | `M_UNKNOWN` |
//! | the peer's room list is closed to us | 403 | `M_FORBIDDEN` |
//! | the peer does not know the alias | 404 | `M_NOT_FOUND` |
//! | a name or a parameter is not valid | 400 | `M_INVALID_PARAM` |
//! | the body is not JSON, or not of the right form | 400 | `M_NOT_JSON`, `M_BAD_JSON` |
//! | a token is missing, nobody's, or a locked user's | 401 | `M_MISSING_TOKEN`, `M_UNKNOWN_TOKEN`, `M_USER_LOCKED` |
//! | nobody can tell whose the token is | 503 | `M_UNKNOWN`, `Retry-After` |
//!
//! Files have a table of their own in `media`: what is sent of a file, and what where there is none.
//!
//! A failed call is never a 500, and never the peer's 401: a client would log its user out.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::admission::{InvalidRoute, Refusal};
#[cfg(feature = "outbound")]
pub(crate) use crate::proxy::response_body::ResponseBody;

#[derive(Serialize)]
struct ErrorContent<'a> {
    errcode: &'a str,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// A Matrix error. `text` is ours: never a peer's or a resolver's words.
pub(crate) fn error<B: From<Bytes>>(status: StatusCode, errcode: &str, text: &str) -> Response<B> {
    json(status, &ErrorContent { errcode, error: text, retry_after_ms: None })
}

/// A JSON answer with the headers that every answer carries.
pub(crate) fn json<B: From<Bytes>>(status: StatusCode, content: &impl Serialize) -> Response<B> {
    match serde_json::to_vec(content) {
        Ok(bytes) => with_headers(status, bytes.into()),
        // No type of ours gets here: none has a key that is not a text.
        Err(_) => with_headers(StatusCode::BAD_GATEWAY, Bytes::from_static(br#"{"errcode":"M_UNKNOWN","error":""}"#)),
    }
}

fn with_headers<B: From<Bytes>>(status: StatusCode, body: Bytes) -> Response<B> {
    let mut response = Response::new(B::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    open_to_browsers(headers);
    response
}

/// Without these a browser shows a page nothing of an answer.
fn open_to_browsers(headers: &mut HeaderMap) {
    for (name, value) in for_browsers() {
        headers.insert(name, value);
    }
}

/// The same where an answer of somebody else's says nothing of it.
#[cfg(feature = "server")]
fn fill_in_for_browsers(headers: &mut HeaderMap) {
    for (name, value) in for_browsers() {
        headers.entry(name).or_insert(value);
    }
}

fn for_browsers() -> [(HeaderName, HeaderValue); 5] {
    [
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE, OPTIONS"),
        // The last two are for parts of files.
        (ACCESS_CONTROL_ALLOW_HEADERS, "X-Requested-With, Content-Type, Authorization, Range, If-Range"),
        // Without this a web client cannot see how long to wait.
        (ACCESS_CONTROL_EXPOSE_HEADERS, "Retry-After"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

impl Refusal {
    /// The answer to a refused request: 429 with both retry fields for the caps, 403 or 404 as the rules say.
    ///
    /// ```
    /// use std::time::Duration;
    /// use portcullis::Refusal;
    ///
    /// let answer = Refusal::ClientCap { retry_after: Duration::from_millis(1500) }.into_response();
    /// assert_eq!(answer.status(), 429);
    /// assert_eq!(answer.headers()["retry-after"], "2"); // and retry_after_ms is 1500
    /// assert!(answer.body().starts_with(br#"{"errcode":"M_LIMIT_EXCEEDED""#));
    /// ```
    ///
    /// It carries no `Content-Length`; the server that writes it adds the length of these bytes, and leaves the bytes out
    /// where the request was `HEAD`.
    #[must_use]
    pub fn into_response(self) -> Response<Bytes> {
        match self {
            Self::GlobalCap { retry_after } => limit_exceeded(
                "This server has too many lookups at other servers in flight, try again soon",
                retry_after,
            ),
            Self::ClientCap { retry_after } => limit_exceeded(
                "A lookup at another server is already in flight for this address, wait for its answer",
                retry_after,
            ),
            Self::Rate { retry_after } => limit_exceeded(
                "Too many lookups at other servers were asked for from this address, wait a while",
                retry_after,
            ),
            // Only a caller that did not look at its own data first can come here.
            Self::OwnServer => not_found("There is nothing of that name on this server"),
            Self::RemoteFetchOff => not_found(NO_SUCH_FILE),
            Self::Forbidden => error(StatusCode::FORBIDDEN, "M_FORBIDDEN", "This server does not talk to that server"),
            Self::Hidden => not_found("Not found"),
        }
    }
}

/// The same whether the file is not there or not to be fetched.
const NO_SUCH_FILE: &str = "There is no such file here";

fn not_found<B: From<Bytes>>(text: &str) -> Response<B> {
    error(StatusCode::NOT_FOUND, "M_NOT_FOUND", text)
}

/// Both retry fields from the one duration, rounded up: told to wait 0, a client spins.
fn limit_exceeded<B: From<Bytes>>(text: &str, retry_after: Duration) -> Response<B> {
    let milliseconds = u64::try_from(retry_after.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1);
    let content = ErrorContent { errcode: "M_LIMIT_EXCEEDED", error: text, retry_after_ms: Some(milliseconds) };
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, &content);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
    response
}

impl InvalidRoute {
    /// The answer to a request that names nothing valid: 400 `M_INVALID_PARAM`.
    #[must_use]
    pub fn into_response(self) -> Response<Bytes> {
        invalid_parameter(&self.to_string())
    }
}

fn invalid_parameter<B: From<Bytes>>(text: &str) -> Response<B> {
    error(StatusCode::BAD_REQUEST, "M_INVALID_PARAM", text)
}

#[cfg(feature = "outbound")]
mod lookups {
    //! The directory routes' part of the table.

    use super::{Bytes, Response, ResponseBody, StatusCode, error, invalid_parameter, json, not_found, with_headers};
    use http::HeaderValue;
    use http::header::{ACCESS_CONTROL_MAX_AGE, RETRY_AFTER};

    use super::{Duration, media};
    use crate::limits::TOKEN_RETRY;
    use crate::outcome::{Outcome, Took};
    use crate::proxy::denied::Denied;
    use crate::proxy::directory::{Found, LookupFailure, LookupKind};
    use crate::proxy::local_view::{AliasAnswer, RoomListPage};
    use crate::proxy::public_rooms::InvalidListRequest;

    impl InvalidListRequest {
        /// The answer to a room list request that is not valid: 400 with `M_NOT_JSON`, `M_BAD_JSON` or `M_INVALID_PARAM`.
        #[must_use]
        pub fn into_response(self) -> Response<Bytes> {
            let errcode = match self {
                Self::NotJson => "M_NOT_JSON",
                Self::Form => "M_BAD_JSON",
                _ => return invalid_parameter(&self.to_string()),
            };
            error(StatusCode::BAD_REQUEST, errcode, &self.to_string())
        }
    }

    impl Denied {
        /// The answer to a request that goes no further.
        pub(crate) fn into_response(self) -> Response<ResponseBody> {
            match self {
                Self::Route(invalid) => invalid.into_response().map(ResponseBody::from),
                Self::List(invalid) => invalid.into_response().map(ResponseBody::from),
                Self::PageToken(invalid) => invalid_parameter(&invalid.to_string()),
                Self::MissingToken => {
                    error(StatusCode::UNAUTHORIZED, "M_MISSING_TOKEN", "This request needs an access token")
                }
                Self::UnknownToken { soft_logout } => bad_token(false, soft_logout),
                Self::UserLocked => bad_token(true, true),
                Self::TokenUnavailable => token_unavailable(),
                Self::NoSuchAlias => no_such_alias(),
                Self::Refused(refusal) => refusal.into_response().map(ResponseBody::from),
                Self::MediaRefused(refusal) => media::media_refused(refusal),
                Self::NoMedia(failure) => media::failure(failure),
                Self::LegacyMedia => media::legacy_is_off(),
                Self::Stopping => stopping(),
            }
        }
    }

    /// A token that is of no use, and whether its session is still there all the same.
    pub(crate) fn bad_token(locked: bool, soft_logout: bool) -> Response<ResponseBody> {
        #[derive(serde::Serialize)]
        struct Content {
            errcode: &'static str,
            error: &'static str,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            soft_logout: bool,
        }
        let (errcode, error) = if locked {
            ("M_USER_LOCKED", "This account is locked")
        } else {
            ("M_UNKNOWN_TOKEN", "The access token is not known here")
        };
        json(StatusCode::UNAUTHORIZED, &Content { errcode, error, soft_logout })
    }

    /// Nobody can tell now whose a token is.
    fn token_unavailable() -> Response<ResponseBody> {
        let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "Access tokens cannot be looked up now");
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(TOKEN_RETRY.as_secs()));
        answer
    }

    /// The answer to OPTIONS, which does no work.
    pub(crate) fn preflight() -> Response<ResponseBody> {
        let mut response = with_headers(StatusCode::OK, Bytes::from_static(b"{}"));
        response.headers_mut().insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        response
    }

    /// This server is about to stop.
    pub(crate) fn stopping() -> Response<ResponseBody> {
        error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "This server is stopping")
    }

    /// A page of the local room list.
    pub(crate) fn room_list(page: &RoomListPage) -> Response<ResponseBody> {
        json(StatusCode::OK, page)
    }

    /// What a local alias points to.
    pub(crate) fn alias(answer: &AliasAnswer) -> Response<ResponseBody> {
        json(StatusCode::OK, answer)
    }

    /// What came of asking another server.
    pub(crate) fn lookup(kind: LookupKind, outcome: Result<Found, LookupFailure>) -> Response<ResponseBody> {
        // One text per route, whatever failed: it must not tell a refused address from a dead one.
        let failed = match kind {
            LookupKind::RoomList => "The other server's room list could not be fetched",
            LookupKind::Alias => "The alias could not be looked up at its server",
        };
        match outcome {
            Ok(Found::Content(body)) => with_headers(StatusCode::OK, body),
            Ok(Found::NoSuchAlias) => no_such_alias(),
            Err(LookupFailure::Forbidden) => {
                error(StatusCode::FORBIDDEN, "M_FORBIDDEN", "The other server does not show its room list")
            }
            Err(LookupFailure::TimedOut) => error(StatusCode::GATEWAY_TIMEOUT, "M_UNKNOWN", failed),
            Err(LookupFailure::Overloaded | LookupFailure::Failed) => {
                error(StatusCode::BAD_GATEWAY, "M_UNKNOWN", failed)
            }
        }
    }

    fn no_such_alias() -> Response<ResponseBody> {
        not_found("There is no such room alias")
    }

    /// Whether a peer's status lets its room list be read.
    pub(crate) fn judge_room_list(status: StatusCode) -> Result<(), LookupFailure> {
        match status {
            StatusCode::OK => Ok(()),
            StatusCode::FORBIDDEN => Err(LookupFailure::Forbidden),
            other => Err(unexpected(other)),
        }
    }

    /// Whether a peer's status says that it answered with the alias (`true`) or that it does not know it.
    pub(crate) fn judge_alias(status: StatusCode) -> Result<bool, LookupFailure> {
        match status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            other => Err(unexpected(other)),
        }
    }

    /// Whether a status that brings no answer says that the peer has too much to do. How long it took says nothing here.
    fn unexpected(status: StatusCode) -> LookupFailure {
        match Outcome::of_status(status, Took { elapsed: Duration::ZERO, timeout: Duration::ZERO }) {
            load if load.is_load() => LookupFailure::Overloaded,
            _ => LookupFailure::Failed,
        }
    }

    /// Whether a peer's answer to POST publicRooms means that it knows GET alone, in any of the ways servers say so.
    pub(crate) fn knows_no_post(status: StatusCode, body: &Bytes) -> bool {
        #[derive(serde::Deserialize)]
        struct Said {
            errcode: String,
        }
        let errcode = || serde_json::from_slice::<Said>(body).ok().map(|said| said.errcode);
        match status {
            StatusCode::METHOD_NOT_ALLOWED => true,
            // No body, a web server's page, or one of two errcodes. Any other errcode is an answer to the question.
            StatusCode::NOT_FOUND => errcode().is_none_or(|code| code == "M_UNRECOGNIZED" || code == "M_NOT_FOUND"),
            StatusCode::BAD_REQUEST => errcode().is_some_and(|code| code == "M_UNRECOGNIZED"),
            _ => false,
        }
    }
}

#[cfg(feature = "server")]
pub(crate) mod homeserver;
#[cfg(feature = "outbound")]
pub(crate) mod media;

#[cfg(feature = "server")]
pub(crate) use lookups::bad_token;
#[cfg(feature = "outbound")]
pub(crate) use lookups::{alias, judge_alias, judge_room_list, knows_no_post, lookup, preflight, room_list, stopping};

#[cfg(test)]
mod tests;
