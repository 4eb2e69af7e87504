//! The files' part of the table: what is sent of a file, and what where there is none.
//!
//! | outcome | status | errcode |
//! |---|---|---|
//! | the file; a part of it; the client has it | 200; 206; 304 | |
//! | the part lies past its end | 416 | `M_UNKNOWN` |
//! | its server has no such file, or it is not to be fetched | 404 | `M_NOT_FOUND` |
//! | its id is reserved, and nothing is uploaded yet | 504 | `M_NOT_YET_UPLOADED` |
//! | larger than is taken | 502 | `M_TOO_LARGE` |
//! | its server can make no thumbnail of it | 400 | `M_UNKNOWN` |
//! | time ended the fetch | 504 | `M_UNKNOWN` |
//! | the other server, or the way to it, failed | 502 | `M_UNKNOWN` |
//! | over a cap, or too often | 429 | `M_LIMIT_EXCEEDED`, `retry_after_ms`, `Retry-After` |
//! | there is no room for it here | 503 | `M_UNKNOWN`, `Retry-After` |
//! | this server is stopping | 503 | `M_UNKNOWN` |
//!
//! A file is a stranger's: nothing of what its origin says about it is passed on but a media type that is one and a name
//! that is harmless, and a page made of it can run nothing.

mod conditional;
mod content_type;
mod disposition;
mod file_name;
mod head;
mod range;

#[cfg(test)]
mod tests;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};

pub(crate) use self::conditional::is_unchanged;
pub(crate) use self::content_type::thumbnail_type_is_one;
pub(crate) use self::head::{MediaHead, range_not_satisfiable};
pub(crate) use self::range::RangeDecision;
use super::{NO_SUCH_FILE, ResponseBody, error, limit_exceeded, stopping};
use crate::admission::Refusal;
use crate::limits::MEDIA_NO_ROOM_RETRY;
use crate::proxy::media::failure::MediaFailure;

/// There is no file.
pub(crate) fn failure(failure: MediaFailure) -> Response<ResponseBody> {
    match failure {
        MediaFailure::NotFound => not_found(),
        MediaFailure::NotYetUploaded => not_yet_uploaded(),
        MediaFailure::TooLarge => too_large(),
        MediaFailure::NoThumbnail => no_thumbnail(),
        MediaFailure::TimedOut => timed_out(),
        MediaFailure::Failed => failed(),
        MediaFailure::NoRoom => no_room(),
        MediaFailure::Stopping => stopping(),
    }
}

/// The file's server has no such file, or it is not to be fetched: the one is not told from the other.
pub(crate) fn not_found() -> Response<ResponseBody> {
    super::not_found(NO_SUCH_FILE)
}

/// The paths without a token are off.
pub(crate) fn legacy_is_off() -> Response<ResponseBody> {
    super::not_found("Files are served under /_matrix/client/v1/media alone")
}

/// The file's server knows the id and waits for the upload.
pub(crate) fn not_yet_uploaded() -> Response<ResponseBody> {
    error(StatusCode::GATEWAY_TIMEOUT, "M_NOT_YET_UPLOADED", "The file has not been uploaded yet")
}

/// The file is larger than this server takes.
pub(crate) fn too_large() -> Response<ResponseBody> {
    error(StatusCode::BAD_GATEWAY, "M_TOO_LARGE", "The file is larger than this server fetches")
}

/// The file's server can make no thumbnail of it.
pub(crate) fn no_thumbnail() -> Response<ResponseBody> {
    error(StatusCode::BAD_REQUEST, "M_UNKNOWN", "There can be no thumbnail of this file")
}

/// One text, whatever failed: it must not tell a refused address from a dead one.
const FAILED: &str = "The file could not be fetched from its server";

/// Time ended the fetch.
pub(crate) fn timed_out() -> Response<ResponseBody> {
    error(StatusCode::GATEWAY_TIMEOUT, "M_UNKNOWN", FAILED)
}

/// The file's server, or the way to it, failed.
pub(crate) fn failed() -> Response<ResponseBody> {
    error(StatusCode::BAD_GATEWAY, "M_UNKNOWN", FAILED)
}

/// The store or the disk under it is full.
pub(crate) fn no_room() -> Response<ResponseBody> {
    let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "This server has no room for the file now");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(MEDIA_NO_ROOM_RETRY.as_secs()));
    answer
}

/// A refused fetch. The caps have words of their own: a client may have many fetches in flight, unlike lookups.
pub(crate) fn media_refused(refusal: Refusal) -> Response<ResponseBody> {
    match refusal {
        Refusal::GlobalCap { retry_after } => {
            limit_exceeded("This server is fetching as many files as it may, try again soon", retry_after)
        }
        Refusal::ClientCap { retry_after } => {
            limit_exceeded("As many files as may be are being fetched for this address, wait for some", retry_after)
        }
        Refusal::Rate { retry_after } => limit_exceeded(
            "Too many files of other servers were asked for from this address, wait a while",
            retry_after,
        ),
        // Word for word as a file that is not there: otherwise the text would tell what is hidden.
        Refusal::OwnServer | Refusal::RemoteFetchOff | Refusal::Hidden => not_found(),
        Refusal::Forbidden => refusal.into_response().map(ResponseBody::from),
    }
}
