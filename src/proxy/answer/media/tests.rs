//! The shape of every answer about a file.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;

use super::*;
use crate::admission::MediaRoute;
use crate::proxy::answer::stopping;
use crate::proxy::denied::Denied;

pub(super) fn route(uri: &str) -> MediaRoute {
    MediaRoute::classify(&Method::GET, &uri.parse().unwrap()).unwrap().unwrap()
}

const DOWNLOAD: &str = "/_matrix/client/v1/media/download/them.example/abc";
const LEGACY: &str = "/_matrix/media/v3/download/them.example/abc";

fn head(route: &MediaRoute) -> MediaHead<'_> {
    let disposition = Some("attachment; filename=cat.png");
    MediaHead { route, content_type: Some("image/png"), content_disposition: disposition, etag: "\"e\"" }
}

fn bytes(length: usize) -> ResponseBody {
    ResponseBody::from(Bytes::from(vec![7; length]))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn assert_cached_and_open(headers: &HeaderMap) {
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, POST, PUT, DELETE, OPTIONS"),
        ("access-control-allow-headers", "X-Requested-With, Content-Type, Authorization, Range, If-Range"),
        ("access-control-expose-headers", "Retry-After, Accept-Ranges, Content-Disposition, Content-Range, ETag"),
        ("cross-origin-resource-policy", "cross-origin"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, max-age=86400"),
        ("etag", "\"e\""),
    ] {
        assert_eq!(header(headers, name), Some(value), "{name}");
    }
}

#[test]
fn w02_every_answer_that_is_a_file_has_all_headers() {
    let route = route(DOWNLOAD);
    for (answer, status) in [
        (head(&route).growing(None, bytes(10)), 200),
        (head(&route).whole(10, bytes(10)), 200),
        (head(&route).part(&(2..5), 10, bytes(3)), 206),
    ] {
        assert_eq!(answer.status(), status);
        assert_cached_and_open(answer.headers());
        for (name, value) in [
            ("content-type", "image/png"),
            ("content-disposition", "inline; filename=\"cat.png\""),
            (
                "content-security-policy",
                "sandbox; default-src 'none'; script-src 'none'; plugin-types application/pdf; style-src \
                 'unsafe-inline'; object-src 'self';",
            ),
            ("referrer-policy", "no-referrer"),
            ("x-robots-tag", "noindex, nofollow, noarchive, noimageindex"),
        ] {
            assert_eq!(header(answer.headers(), name), Some(value), "{status} {name}");
        }
    }
}

#[test]
fn a_length_is_said_where_it_is_known_and_ranges_are_offered_of_what_is_stored() {
    let route = route(DOWNLOAD);
    for (answer, length, ranges, place) in [
        (head(&route).growing(None, bytes(10)), None, None, None),
        (head(&route).growing(Some(10), bytes(10)), Some("10"), None, None),
        (head(&route).whole(10, bytes(10)), Some("10"), Some("bytes"), None),
        (head(&route).whole(0, bytes(0)), Some("0"), Some("bytes"), None),
        (head(&route).part(&(2..5), 10, bytes(3)), Some("3"), Some("bytes"), Some("bytes 2-4/10")),
        (head(&route).part(&(9..10), 10, bytes(1)), Some("1"), Some("bytes"), Some("bytes 9-9/10")),
    ] {
        let headers = answer.headers();
        assert_eq!(header(headers, "content-length"), length);
        assert_eq!(header(headers, "accept-ranges"), ranges);
        assert_eq!(header(headers, "content-range"), place);
    }
}

#[test]
fn a_client_that_has_the_file_is_told_how_long_to_keep_it_and_nothing_of_its_content() {
    let route = route(DOWNLOAD);
    let answer = head(&route).not_modified();
    assert_eq!(answer.status(), 304);
    assert_cached_and_open(answer.headers());
    for absent in ["content-type", "content-length", "content-disposition", "content-range"] {
        assert!(!answer.headers().contains_key(absent), "{absent}");
    }
    assert!(answer.into_body().into_bytes().unwrap().is_empty());
}

#[test]
fn what_needed_no_token_may_be_kept_by_anybody() {
    let route = route(LEGACY);
    for answer in [head(&route).whole(10, bytes(10)), head(&route).not_modified()] {
        assert_eq!(header(answer.headers(), "cache-control"), Some("public, max-age=86400, proxy-revalidate"));
    }
}

#[test]
fn a_range_past_the_end_is_told_where_the_end_is() {
    let answer = range_not_satisfiable(10);
    assert_eq!(answer.status(), 416);
    assert_eq!(header(answer.headers(), "content-range"), Some("bytes */10"));
    assert!(header(answer.headers(), "access-control-expose-headers").unwrap().contains("Content-Range"));
}

#[test]
fn br40_a_file_of_no_known_type_is_bytes_to_be_saved() {
    let route = route(DOWNLOAD);
    for content_type in [None, Some(""), Some("garbage")] {
        let answer = MediaHead { content_type, content_disposition: None, ..head(&route) }.whole(1, bytes(1));
        assert_eq!(answer.status(), 200);
        assert_eq!(header(answer.headers(), "content-type"), Some("application/octet-stream"));
        assert_eq!(header(answer.headers(), "content-disposition"), Some("attachment"));
    }
}

#[test]
fn br52_br54_every_failure_has_its_answer_and_no_word_of_another_server() {
    let hint = Duration::from_millis(1500);
    for (answer, status, errcode, retry_after) in [
        (not_found(), 404, "M_NOT_FOUND", None),
        (legacy_is_off(), 404, "M_NOT_FOUND", None),
        (not_yet_uploaded(), 504, "M_NOT_YET_UPLOADED", None),
        (too_large(), 502, "M_TOO_LARGE", None),
        (no_thumbnail(), 400, "M_UNKNOWN", None),
        (timed_out(), 504, "M_UNKNOWN", None),
        (failed(), 502, "M_UNKNOWN", None),
        (no_room(), 503, "M_UNKNOWN", Some("10")),
        (stopping(), 503, "M_UNKNOWN", None),
        (range_not_satisfiable(1), 416, "M_UNKNOWN", None),
        (media_refused(Refusal::GlobalCap { retry_after: hint }), 429, "M_LIMIT_EXCEEDED", Some("2")),
        (media_refused(Refusal::ClientCap { retry_after: hint }), 429, "M_LIMIT_EXCEEDED", Some("2")),
        (media_refused(Refusal::OwnServer), 404, "M_NOT_FOUND", None),
        (media_refused(Refusal::RemoteFetchOff), 404, "M_NOT_FOUND", None),
        (media_refused(Refusal::Hidden), 404, "M_NOT_FOUND", None),
        (media_refused(Refusal::Forbidden), 403, "M_FORBIDDEN", None),
    ] {
        assert_eq!(answer.status(), status);
        assert_eq!(header(answer.headers(), "retry-after"), retry_after, "{status}");
        assert_eq!(header(answer.headers(), "content-type"), Some("application/json"));
        assert_eq!(header(answer.headers(), "access-control-allow-origin"), Some("*"));
        assert!(!answer.headers().contains_key("cache-control"), "{status}: a failure is not kept");
        let content: Value = serde_json::from_slice(&answer.into_body().into_bytes().unwrap()).unwrap();
        assert_eq!(content["errcode"], errcode);
        assert!(content["error"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

/// All of an answer that a client sees.
fn seen(answer: Response<ResponseBody>) -> (u16, HeaderMap, Bytes) {
    let (head, body) = answer.into_parts();
    (head.status.as_u16(), head.headers, body.into_bytes().unwrap())
}

fn text(answer: Response<ResponseBody>) -> Value {
    serde_json::from_slice::<Value>(&answer.into_body().into_bytes().unwrap()).unwrap()["error"].clone()
}

#[test]
fn a_silent_server_and_a_refused_address_have_one_text() {
    assert_eq!(text(failed()), text(timed_out()));
}

#[test]
fn what_is_missing_switched_off_or_hidden_is_one_answer() {
    for hidden in [Refusal::OwnServer, Refusal::RemoteFetchOff, Refusal::Hidden] {
        assert_eq!(seen(media_refused(hidden)), seen(not_found()), "{hidden}");
    }
}

#[test]
fn the_caps_of_files_are_told_apart_and_from_those_of_lookups() {
    let retry_after = Duration::from_secs(1);
    let (global, client) = (Refusal::GlobalCap { retry_after }, Refusal::ClientCap { retry_after });
    let mut texts: Vec<_> = [
        media_refused(global),
        media_refused(client),
        Denied::Refused(global).into_response(),
        Denied::Refused(client).into_response(),
    ]
    .map(|answer| text(answer).to_string())
    .into();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 4);
}
