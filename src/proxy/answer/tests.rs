//! The shape of every answer.

use serde_json::Value;

use super::*;
use crate::admission::{InvalidRoomAlias, OutboundRoute};

/// The content of an answer, as JSON.
fn content(response: Response<Bytes>) -> Value {
    serde_json::from_slice(&response.into_body()).unwrap()
}

fn assert_readable_in_a_browser<B>(response: &Response<B>) {
    let headers = response.headers();
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert_eq!(headers["access-control-allow-methods"], "GET, POST, PUT, DELETE, OPTIONS");
    let allowed = "X-Requested-With, Content-Type, Authorization, Range, If-Range";
    assert_eq!(headers["access-control-allow-headers"], allowed);
    assert_eq!(headers["access-control-expose-headers"], "Retry-After");
    assert_eq!(headers["x-content-type-options"], "nosniff");
}

#[test]
fn w01_every_answer_is_json_and_readable_in_a_browser() {
    let hint = Duration::from_secs(1);
    #[cfg(feature = "outbound")]
    assert_readable_in_a_browser(&preflight());
    for response in [
        json(StatusCode::OK, &7),
        error(StatusCode::NOT_FOUND, "M_UNRECOGNIZED", "no"),
        Refusal::GlobalCap { retry_after: hint }.into_response(),
        Refusal::Hidden.into_response(),
        InvalidRoute::RepeatedServer.into_response(),
    ] {
        assert_readable_in_a_browser(&response);
        serde_json::from_slice::<Value>(response.body()).unwrap();
    }
}

#[test]
fn f01_both_retry_fields_come_from_one_duration_and_are_never_zero() {
    for (wait, milliseconds, seconds) in [
        (Duration::from_millis(1000), 1000, "1"),
        (Duration::from_millis(1001), 1001, "2"),
        (Duration::from_millis(2500), 2500, "3"),
        (Duration::from_micros(10), 1, "1"),
        (Duration::ZERO, 1, "1"),
    ] {
        let response = Refusal::ClientCap { retry_after: wait }.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], seconds);
        let content = content(response);
        assert_eq!(content["errcode"], "M_LIMIT_EXCEEDED");
        assert_eq!(content["retry_after_ms"], milliseconds);
    }
    assert_eq!(Refusal::GlobalCap { retry_after: Duration::MAX }.into_response().status(), 429);
}

#[test]
fn the_two_caps_are_told_apart_in_words() {
    let hint = Duration::from_secs(1);
    let global = content(Refusal::GlobalCap { retry_after: hint }.into_response());
    let client = content(Refusal::ClientCap { retry_after: hint }.into_response());
    assert!(global["error"].is_string() && client["error"].is_string());
    assert_ne!(global["error"], client["error"]);
}

#[test]
fn every_other_refusal_has_its_status_and_no_retry_fields() {
    for (refusal, status, errcode) in [
        (Refusal::OwnServer, 404, "M_NOT_FOUND"),
        (Refusal::Hidden, 404, "M_NOT_FOUND"),
        (Refusal::Forbidden, 403, "M_FORBIDDEN"),
    ] {
        let response = refusal.into_response();
        assert_eq!(response.status(), status);
        assert!(!response.headers().contains_key("retry-after"));
        let content = content(response);
        assert_eq!(content["errcode"], errcode);
        assert_eq!(content.get("retry_after_ms"), None);
    }
}

#[test]
fn an_invalid_route_is_an_invalid_parameter_and_not_echoed() {
    let uri = "/_matrix/client/v3/publicRooms?server=evil%23name".parse().unwrap();
    let invalid = OutboundRoute::classify(&http::Method::GET, &uri).unwrap_err();
    for invalid in [invalid, InvalidRoute::RoomAlias(InvalidRoomAlias::Form), InvalidRoute::Encoding] {
        let response = invalid.into_response();
        assert_eq!(response.status(), 400);
        let content = content(response);
        assert_eq!(content["errcode"], "M_INVALID_PARAM");
        assert!(!content["error"].as_str().unwrap().contains("evil"));
    }
}

#[cfg(feature = "outbound")]
mod of_lookups {
    use super::super::*;
    use crate::proxy::directory::{LookupFailure, LookupKind};

    fn content(response: Response<ResponseBody>) -> serde_json::Value {
        super::content(response.map(|body| body.into_bytes().unwrap()))
    }

    #[test]
    fn a_failure_has_one_text_per_route() {
        for (kind, other) in [(LookupKind::RoomList, LookupKind::Alias), (LookupKind::Alias, LookupKind::RoomList)] {
            let failed = lookup(kind, Err(LookupFailure::Failed));
            let timed_out = lookup(kind, Err(LookupFailure::TimedOut));
            let overloaded = lookup(kind, Err(LookupFailure::Overloaded));
            let statuses = [&failed, &timed_out, &overloaded].map(|answer| answer.status().as_u16());
            assert_eq!(statuses, [502, 504, 502]);
            let [failed, timed_out, overloaded] = [failed, timed_out, overloaded].map(content);
            assert_eq!((&failed, &failed), (&timed_out, &overloaded));
            assert_eq!(failed["errcode"], "M_UNKNOWN");
            assert_ne!(failed["error"], content(lookup(other, Err(LookupFailure::Failed)))["error"]);
        }
    }

    #[test]
    fn a_peer_s_status_is_never_passed_through() {
        for status in 100..1000 {
            let status = StatusCode::from_u16(status).unwrap();
            let list = judge_room_list(status);
            let alias = judge_alias(status);
            match status.as_u16() {
                200 => assert_eq!((list, alias), (Ok(()), Ok(true))),
                403 => assert_eq!((list, alias), (Err(LookupFailure::Forbidden), Err(LookupFailure::Failed))),
                404 => assert_eq!((list, alias), (Err(LookupFailure::Failed), Ok(false))),
                429 | 500..=599 => {
                    assert_eq!((list, alias), (Err(LookupFailure::Overloaded), Err(LookupFailure::Overloaded)));
                }
                _ => assert_eq!((list, alias), (Err(LookupFailure::Failed), Err(LookupFailure::Failed))),
            }
        }
    }

    #[test]
    fn br56_every_way_of_not_knowing_post_is_recognised_and_no_other() {
        let knows_none = |status: u16, body: &str| {
            knows_no_post(StatusCode::from_u16(status).unwrap(), &Bytes::copy_from_slice(body.as_bytes()))
        };
        for (status, body) in [
            (404, r#"{"errcode":"M_UNRECOGNIZED"}"#),
            (405, r#"{"errcode":"M_UNRECOGNIZED"}"#),
            (405, ""),
            (400, r#"{"errcode":"M_UNRECOGNIZED"}"#),
            (404, ""),
            (404, "404 page not found"),
            (404, r#"{"errcode":"M_NOT_FOUND"}"#),
            (404, "<html><h1>Not Found</h1></html>"),
        ] {
            assert!(knows_none(status, body), "{status} {body}");
        }
        for (status, body) in [
            (200, r#"{"errcode":"M_UNRECOGNIZED"}"#),
            (400, ""),
            (400, r#"{"errcode":"M_BAD_JSON"}"#),
            (401, r#"{"errcode":"M_UNAUTHORIZED"}"#),
            (403, r#"{"errcode":"M_FORBIDDEN"}"#),
            (404, r#"{"errcode":"M_FORBIDDEN"}"#),
            (500, r#"{"errcode":"M_UNRECOGNIZED"}"#),
            (502, ""),
        ] {
            assert!(!knows_none(status, body), "{status} {body}");
        }
    }
}
