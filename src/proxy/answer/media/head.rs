//! [`MediaHead`]: the head of every answer that is a file, or a part of one, or "you have it already".

use std::ops::Range;

use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::content_type::content_type;
use super::disposition::content_disposition;
use crate::admission::{MediaGeneration, MediaRoute};
use crate::limits::MEDIA_BROWSER_CACHE;
use crate::proxy::answer::{ResponseBody, error, open_to_browsers};

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// What a page may do that is made of a file, opened on its own. *Source: Matrix v1.19, content repository.*
const SANDBOX: &str = "sandbox; default-src 'none'; script-src 'none'; plugin-types application/pdf; style-src \
                       'unsafe-inline'; object-src 'self';";

/// What a web client may see besides what every answer shows.
const EXPOSED: &str = "Retry-After, Accept-Ranges, Content-Disposition, Content-Range, ETag";

/// What is known of a file before its first byte is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediaHead<'a> {
    /// What was asked for.
    pub(crate) route: &'a MediaRoute,
    /// The type its origin claims, as it was sent.
    pub(crate) content_type: Option<&'a str>,
    /// The origin's `Content-Disposition`, as it was sent.
    pub(crate) content_disposition: Option<&'a str>,
    /// Its entity tag, quotes and all.
    pub(crate) etag: &'a str,
}

impl MediaHead<'_> {
    /// 200 for a file that is still on its way; `announced` is its length, where that is known before the end.
    pub(crate) fn growing(&self, announced: Option<u64>, body: ResponseBody) -> Response<ResponseBody> {
        let mut response = self.answer(StatusCode::OK, body);
        if let Some(length) = announced {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        response
    }

    /// 200 for a stored file, of which a client may ask for parts too. `body` is all of its `length` bytes.
    pub(crate) fn whole(&self, length: u64, body: ResponseBody) -> Response<ResponseBody> {
        let mut response = self.answer(StatusCode::OK, body);
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        response
    }

    /// 206 for the bytes `part` of a stored file of `length` bytes. `body` is those alone.
    pub(crate) fn part(&self, part: &Range<u64>, length: u64, body: ResponseBody) -> Response<ResponseBody> {
        let mut response = self.whole(part.end.saturating_sub(part.start), body);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let place = format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1));
        insert(response.headers_mut(), CONTENT_RANGE, place);
        response
    }

    /// 304: the client holds the file.
    pub(crate) fn not_modified(&self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        self.put_cache_headers(response.headers_mut());
        response
    }

    fn answer(&self, status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        self.put_cache_headers(headers);
        headers.insert(CONTENT_TYPE, content_type(self.content_type));
        let disposition = content_disposition(self.route, self.content_type, self.content_disposition);
        headers.insert(CONTENT_DISPOSITION, disposition);
        for (name, value) in [
            (CONTENT_SECURITY_POLICY, SANDBOX),
            (REFERRER_POLICY, "no-referrer"),
            (X_ROBOTS_TAG, "noindex, nofollow, noarchive, noimageindex"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    /// What says for how long, and for whom, a copy is good; a 304 says it again.
    fn put_cache_headers(&self, headers: &mut HeaderMap) {
        open_to_browsers(headers);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
        let seconds = MEDIA_BROWSER_CACHE.as_secs();
        let kept = match self.route.generation {
            // Only whoever showed a token has seen it.
            MediaGeneration::Authenticated => format!("private, max-age={seconds}"),
            MediaGeneration::Legacy => format!("public, max-age={seconds}, proxy-revalidate"),
        };
        insert(headers, CACHE_CONTROL, kept);
        insert(headers, ETAG, self.etag.to_owned());
    }
}

/// 416: the range lies past the end of the file, which has `length` bytes.
pub(crate) fn range_not_satisfiable(length: u64) -> Response<ResponseBody> {
    let text = "The range lies past the end of the file";
    let mut response = error(StatusCode::RANGE_NOT_SATISFIABLE, "M_UNKNOWN", text);
    insert(response.headers_mut(), CONTENT_RANGE, format!("bytes */{length}"));
    response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    response
}

/// All values here are ours and visible ASCII; one that was not would be left out.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}
