//! The part of the table that is about the homeserver behind: what it said of a token, and what clients are told of it.

use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;

use super::{ResponseBody, error};
use crate::limits::MAX_USER_ID_BYTES;
use crate::proxy::answer::{bad_token, fill_in_for_browsers};

/// What the homeserver behind said of an access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenVerdict {
    /// It is this user's.
    Good(Box<str>),
    /// It is of no use.
    Bad(BadToken),
}

/// Why a token is of no use, as far as it makes a difference to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadToken {
    /// The user is locked; otherwise the token is nobody's.
    locked: bool,
    /// The session is still there. A client that is not told so throws its keys away.
    soft_logout: bool,
}

/// What was said says nothing of the token: the homeserver is not able to, or something else answers in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoVerdict;

/// What an answer to `GET /_matrix/client/v3/account/whoami` says of the token it was asked with (Matrix v1.19).
pub(crate) fn judge_whoami(status: StatusCode, body: &[u8]) -> Result<TokenVerdict, NoVerdict> {
    #[derive(Deserialize)]
    struct Who {
        user_id: Box<str>,
    }
    #[derive(Deserialize)]
    struct Refusal<'a> {
        errcode: &'a str,
        #[serde(default)]
        soft_logout: bool,
    }
    match status {
        StatusCode::OK => {
            let Who { user_id } = serde_json::from_slice(body).map_err(|_| NoVerdict)?;
            let is_user = user_id.starts_with('@') && user_id.len() <= MAX_USER_ID_BYTES;
            if is_user { Ok(TokenVerdict::Good(user_id)) } else { Err(NoVerdict) }
        }
        // A gateway's 401 is not about the token.
        StatusCode::UNAUTHORIZED => {
            let Refusal { errcode, soft_logout } = serde_json::from_slice(body).map_err(|_| NoVerdict)?;
            match errcode {
                "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" => Ok(TokenVerdict::Bad(BadToken { locked: false, soft_logout })),
                "M_USER_LOCKED" => Ok(TokenVerdict::Bad(BadToken { locked: true, soft_logout })),
                _ => Err(NoVerdict),
            }
        }
        _ => Err(NoVerdict),
    }
}

impl BadToken {
    /// The answer to whoever came with it.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        bad_token(self.locked, self.soft_logout)
    }
}

/// The homeserver behind gave no answer, in time or at all.
pub(crate) fn silent() -> Response<ResponseBody> {
    error(StatusCode::BAD_GATEWAY, "M_UNKNOWN", "The homeserver does not answer")
}

/// What was passed on came back here.
pub(crate) fn circle() -> Response<ResponseBody> {
    error(StatusCode::BAD_GATEWAY, "M_UNKNOWN", "The homeserver is not where this server looks for it")
}

/// Whether an answer is one that can be passed on: one to the request, and not to a wish to talk otherwise.
pub(crate) fn is_final(status: StatusCode) -> bool {
    !status.is_informational()
}

/// Whether an answer may say how long a body is that does not follow.
pub(crate) fn has_body_of_its_own(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The homeserver's own answer, with what a browser needs where it left that out. `length` is the length of the whole, if
/// it is known.
pub(crate) fn passed_on(mut head: Parts, length: Option<u64>, body: ResponseBody) -> Response<ResponseBody> {
    fill_in_for_browsers(&mut head.headers);
    head.headers.remove(CONTENT_LENGTH);
    if let Some(length) = length.filter(|_| has_body_of_its_own(head.status)) {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_whoami_says_and_what_it_does_not() {
        let bad = |locked, soft_logout| Ok(TokenVerdict::Bad(BadToken { locked, soft_logout }));
        for (status, body, verdict) in [
            (200, r#"{"user_id":"@a:us.example","is_guest":true}"#, Ok(TokenVerdict::Good("@a:us.example".into()))),
            (200, r#"{"user_id":"a"}"#, Err(NoVerdict)),
            (200, r#"{"user_id":3}"#, Err(NoVerdict)),
            (200, "<html>", Err(NoVerdict)),
            (401, r#"{"errcode":"M_UNKNOWN_TOKEN","error":"x"}"#, bad(false, false)),
            (401, r#"{"errcode":"M_UNKNOWN_TOKEN","soft_logout":true}"#, bad(false, true)),
            (401, r#"{"errcode":"M_USER_LOCKED","soft_logout":true}"#, bad(true, true)),
            (401, r#"{"errcode":"M_FORBIDDEN"}"#, Err(NoVerdict)),
            (401, "Authorization required", Err(NoVerdict)),
            (403, r#"{"errcode":"M_UNKNOWN_TOKEN"}"#, Err(NoVerdict)),
            (404, r#"{"errcode":"M_UNRECOGNIZED"}"#, Err(NoVerdict)),
            (429, r#"{"errcode":"M_LIMIT_EXCEEDED"}"#, Err(NoVerdict)),
            (500, "", Err(NoVerdict)),
            (502, "", Err(NoVerdict)),
            (302, "", Err(NoVerdict)),
        ] {
            assert_eq!(
                judge_whoami(StatusCode::from_u16(status).unwrap(), body.as_bytes()),
                verdict,
                "{status} {body}"
            );
        }
        let long = format!(r#"{{"user_id":"@{}:us.example"}}"#, "a".repeat(MAX_USER_ID_BYTES));
        assert_eq!(judge_whoami(StatusCode::OK, long.as_bytes()), Err(NoVerdict));
    }

    #[test]
    fn a_client_is_told_whether_its_session_is_still_there() {
        for (bad, body) in [
            (
                BadToken { locked: false, soft_logout: false },
                r#"{"errcode":"M_UNKNOWN_TOKEN","error":"The access token is not known here"}"#,
            ),
            (
                BadToken { locked: false, soft_logout: true },
                r#"{"errcode":"M_UNKNOWN_TOKEN","error":"The access token is not known here","soft_logout":true}"#,
            ),
            (
                BadToken { locked: true, soft_logout: true },
                r#"{"errcode":"M_USER_LOCKED","error":"This account is locked","soft_logout":true}"#,
            ),
        ] {
            let answer = bad.into_response();
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
            assert_eq!(answer.into_body().into_bytes().unwrap(), body);
        }
    }
}
