//! What the homeserver behind is sent, for each way of writing a request that two readers may read in two ways.
//!
//! Synapse answers `HEAD` as `GET`, splits a query at `;`, takes a form in a body for parameters, and dials whoever is not
//! called exactly as itself: each of these, passed on as it was written, would be a room list of a stranger's server that
//! the homeserver fetches for anybody, past every cap. *Unplug:* take `path_and_query` of the request as it came
//! (`src/homeserver/upstream/rebuild.rs`): those on escapes, `;`, dot segments, our own name and other methods fail. Take any
//! server for our own in `Portcullis::sort` (`src/portcullis/sorted.rs`): those on `HEAD`, escapes and other methods. Let the
//! first of two servers count in `public_rooms` (`src/admission/route.rs`): that on a server named twice. Copy
//! `Content-Type`: that on forms.

use crate::rig::{Behind, Front, LIST, json};

/// What arrives of a request; the answer's status.
async fn arrives(line: &str) -> (u16, Vec<String>) {
    arrives_with(line, "", "").await
}

async fn arrives_with(line: &str, more: &str, body: &str) -> (u16, Vec<String>) {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let answer = front.ask([127, 0, 0, 1], line, &format!("{length}{more}\r\n{body}")).await;
    front.comes_to_rest().await;
    (answer.status, behind.lines())
}

fn sent(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn head_is_passed_on_for_our_own_list_alone() {
    assert_eq!(arrives(&format!("HEAD {LIST}")).await, (200, sent(&[&format!("HEAD {LIST}")])));
    let (status, lines) = arrives(&format!("HEAD {LIST}?server=127.0.0.1:1")).await;
    assert_eq!((status, lines), (502, sent(&[])), "a lookup of ours, under our own caps");
}

#[tokio::test]
async fn two_slashes_are_another_path() {
    for path in [
        "//_matrix/client/v3/publicRooms?server=127.0.0.1:1",
        "/_matrix//client/v3/publicRooms",
        "/_matrix/client/v3//publicRooms",
        "/_matrix/client/v3/publicRooms//",
    ] {
        assert_eq!(arrives(&format!("GET {path}")).await, (404, sent(&[])), "{path}");
    }
}

#[tokio::test]
async fn escaped_letters_are_read_and_written_out() {
    let (status, lines) = arrives("GET /_matrix/client/%76%33/%70ublicRooms?%6cimit=%33").await;
    assert_eq!((status, lines), (200, sent(&["GET /_matrix/client/v3/publicRooms?limit=3"])));
    let (status, lines) = arrives("GET /_matrix/client/v3/%70ublicRooms?s%65rver=127.0.0.1%3a1").await;
    assert_eq!((status, lines), (502, sent(&[])), "a lookup of ours");
}

#[tokio::test]
async fn a_server_named_twice_is_named_in_no_way() {
    for query in [
        "server=us.example&server=127.0.0.1:1",
        "server=127.0.0.1:1&server=us.example",
        "server=us.example&s%65rver=us.example",
        "server&server=127.0.0.1:1",
    ] {
        assert_eq!(arrives(&format!("GET {LIST}?{query}")).await, (400, sent(&[])), "{query}");
    }
}

#[tokio::test]
async fn dot_segments_are_another_path_or_refused() {
    for (path, status) in [
        ("/_matrix/client/v3/x/../publicRooms", 404),
        ("/_matrix/client/v3/./publicRooms", 404),
        ("/_matrix/client/v3/%2e%2e/v3/publicRooms", 404),
        ("/_matrix/client/v3/directory/room/..", 400),
        ("/_matrix/client/v3/directory/room/%2e%2e", 400),
        ("/_matrix/client/v1/media/download/us.example/..", 400),
        ("/_matrix/client/v1/media/download/us.example/%2e%2e%2fconfig", 400),
        ("/_matrix/client/v1/media/download/us.example/abc/..", 400),
        ("/_matrix/client/v1/media/download/us.example/abc/%2E%2e", 400),
    ] {
        assert_eq!(arrives(&format!("GET {path}")).await, (status, sent(&[])), "{path}");
    }
    let (_, lines) = arrives("GET /_matrix/client/v1/media/download/us.example/abc/a%2f..%2fb").await;
    assert_eq!(lines, ["GET /_matrix/client/v1/media/download/us.example/abc/a%2F..%2Fb"]);
}

#[tokio::test]
async fn a_semicolon_begins_no_other_parameter() {
    let (_, lines) = arrives(&format!("GET {LIST}?limit=3;server=127.0.0.1:1")).await;
    assert_eq!(lines, [format!("GET {LIST}?limit=3%3Bserver%3D127.0.0.1%3A1")]);
}

#[tokio::test]
async fn a_form_in_a_body_is_no_parameter() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    let body = r#"{"a":"&server=127.0.0.1:1&"}"#;
    let more =
        format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let request = format!("POST {LIST} HTTP/1.1\r\nHost: us.example\r\nConnection: close\r\n{more}");
    assert_eq!(front.send([127, 0, 0, 1], &request).await.status, 200);
    let arrived = behind.seen().pop().unwrap();
    assert_eq!(arrived.values("content-type"), ["application/json"]);
    assert_eq!((arrived.line, arrived.body), (format!("POST {LIST}"), body.as_bytes().to_vec()));
}

#[tokio::test]
async fn our_own_name_is_written_as_the_homeserver_writes_it() {
    for (path, line) in [
        (format!("{LIST}?server=US.example:8448"), format!("GET {LIST}")),
        (
            "/_matrix/client/v3/directory/room/%23a:US.EXAMPLE:8448".to_owned(),
            "GET /_matrix/client/v3/directory/room/%23a%3Aus.example".to_owned(),
        ),
        (
            "/_matrix/media/r0/download/Us.Example:8448/abc".to_owned(),
            "GET /_matrix/media/r0/download/us.example/abc".to_owned(),
        ),
    ] {
        assert_eq!(arrives(&format!("GET {path}")).await, (200, vec![line]), "{path}");
    }
}

#[tokio::test]
async fn under_other_methods_our_own_names_alone_are_passed_on() {
    const OWN: &str = "/_matrix/client/v3/directory/room/%23a:us.example";
    for method in ["PUT", "DELETE", "POST", "PATCH"] {
        let (status, lines) = arrives_with(&format!("{method} {OWN}"), "", "").await;
        let line = format!("{method} /_matrix/client/v3/directory/room/%23a%3Aus.example");
        assert_eq!((status, lines), (200, vec![line]));
    }
    // One that somebody might read as GET, and those on a stranger's name.
    for line in [
        format!("get {OWN}"),
        format!("TRACE {OWN}"),
        "PUT /_matrix/client/v3/directory/room/%23a:127.0.0.1:1".to_owned(),
        "DELETE /_matrix/client/v3/directory/room/%23a:127.0.0.1:1".to_owned(),
        format!("PUT {LIST}?server=127.0.0.1:1"),
        "POST /_matrix/client/v1/media/download/127.0.0.1:1/abc".to_owned(),
    ] {
        assert_eq!(arrives(&line).await, (405, sent(&[])), "{line}");
    }
}

#[tokio::test]
async fn paths_that_are_not_ours_stay_here_and_ours_are_answered_here() {
    for (path, status) in [
        ("/", 404),
        ("/_matrix/client/v3/sync", 404),
        ("/_matrix/client/v3/account/whoami", 404),
        ("/_matrix/client/v3/directory/room/%23a:us.example/more", 404),
        ("/_synapse/admin/v1/users", 404),
        ("/_matrix/client/versions", 200),
        ("/_matrix/key/v2/server", 200),
    ] {
        assert_eq!(arrives(&format!("GET {path}")).await, (status, sent(&[])), "{path}");
    }
}
