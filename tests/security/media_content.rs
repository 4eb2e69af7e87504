//! A stranger's page, script or header line, sent as a file.
//!
//! *Attack:* send HTML, SVG or XML as a file, so that a browser runs it with our name; claim that it be shown in place; call
//! a page a thumbnail; hide header lines, quotes or a false ending in the file's name. *Control:* `MediaHead`
//! (`src/proxy/answer/media/head.rs`) writes every header anew, what is shown in place is a list
//! (`src/proxy/answer/media/content_type.rs`), names are made harmless (`src/proxy/answer/media/file_name.rs`), and a thumbnail
//! is a picture (`thumbnail_type_is_one`). *Unplug:* let `is_safe_inline` say yes: the first test fails. Let
//! `thumbnail_type_is_one` say yes: the second. Pass the origin's disposition on: the third.

use http::HeaderMap;

use crate::loopback::media::{MediaAnswer, MediaHome, download, request, thumbnail};
use crate::loopback::{World, client};
use crate::support::{Behaviour, SentFile};

const PAGE: &[u8] = b"<html><script>alert(1)</script></html>";

/// Types a browser runs, or might.
const RUNS: [&str; 12] = [
    "text/html",
    "TEXT/HTML; charset=utf-8",
    "image/svg+xml",
    "application/xhtml+xml",
    "application/xml",
    "text/xml",
    "text/javascript",
    "application/javascript",
    "application/pdf",
    "multipart/mixed; boundary=x",
    "image/png, text/html",
    "text/html\timage/png",
];

fn is_boxed_in(headers: &HeaderMap) {
    assert_eq!(headers["x-content-type-options"], "nosniff");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("sandbox;") && policy.contains("script-src 'none'"), "{policy}");
}

fn disposition(answer: &MediaAnswer) -> String {
    answer.headers["content-disposition"].to_str().unwrap().to_owned()
}

async fn home_of(world: &World, lines: &[&str]) -> (MediaHome, crate::support::TlsPeer, String) {
    let answer = SentFile { headers: lines, bytes: PAGE }.answer();
    let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await;
    (world.media(None), peer, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_browser_would_run_is_saved_and_boxed_in_fresh_stored_or_in_part() {
    let world = World::new().await;
    for kind in RUNS {
        let lines = [format!("Content-Type: {kind}"), "Content-Disposition: inline; filename=a.png".to_owned()];
        let (home, _peer, server) = home_of(&world, &[&lines[0], &lines[1]]).await;
        for path in [download(&server, "a"), download(&server, "a"), format!("{}/a.png", download(&server, "a"))] {
            let answer = home.ask(client(1), &path).await;
            answer.assert_file(PAGE);
            is_boxed_in(&answer.headers);
            assert!(disposition(&answer).starts_with("attachment"), "{kind}: {answer:?}");
        }
        home.at_rest().await;
        let mut part = request(&download(&server, "a"));
        part.headers_mut().insert("range", "bytes=0-3".parse().unwrap());
        let answer = home.portcullis.handle(&super::media_order::TheirTokens, client(1), &part).await.unwrap();
        assert_eq!(answer.status(), 206);
        is_boxed_in(answer.headers());
        assert!(answer.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"), "{kind}");
    }
    // No type at all is no invitation to guess one.
    let (home, _peer, server) = home_of(&world, &["X-Nothing: 1"]).await;
    let answer = home.ask(client(1), &download(&server, "a")).await;
    assert_eq!(answer.headers["content-type"], "application/octet-stream");
    assert!(disposition(&answer).starts_with("attachment"));
    is_boxed_in(&answer.headers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_called_a_thumbnail_is_no_thumbnail() {
    let world = World::new().await;
    for kind in RUNS {
        let line = format!("Content-Type: {kind}");
        let (home, _peer, server) = home_of(&world, &[&line]).await;
        let answer = home.ask(client(1), &thumbnail(&server, "a")).await;
        assert_eq!(answer.error().0, 502, "{kind}");
        assert!(!answer.bytes.windows(6).any(|window| window == b"script"));
        home.at_rest().await;
        assert!(home.stored_files().is_empty(), "{kind} is stored");
    }
}

/// Names that try to be something else, as a `Content-Disposition` carries them.
const NAMES: [&str; 10] = [
    r#"inline; filename="a\"; filename=\"b.html""#,
    r"attachment; filename*=utf-8''a%0d%0aX-Evil:%201%0d%0a%0d%0a<script>",
    r"attachment; filename*=utf-8''a%00b%1b%5b31m%7f",
    r"attachment; filename*=utf-8''invoice%e2%80%aefdp.exe",
    r"attachment; filename*=utf-8''%e2%81%a6x%e2%80%8f",
    r"attachment; filename*=utf-8''..%2f..%5cetc%2fpasswd",
    "attachment; filename=\"\u{202e}gnp.exe\"",
    "attachment; filename=a; x-evil=1; filename=b",
    "attachment\tfilename=\"a\tb\"",
    r#"form-data; name="x"; filename="a;b,c""#,
];

fn is_harmless(headers: &HeaderMap, name: &str) {
    let value = headers["content-disposition"].as_bytes();
    assert!(value.iter().all(|byte| (b' '..=b'~').contains(byte)), "{name}: {value:?}");
    let value = String::from_utf8(value.to_vec()).unwrap();
    for piece in ["%0D", "%0A", "%00", "%1B", "%7F", "%E2%80%AE", "%E2%81%A6", "%E2%80%8F", "%2F", "%5C", "/", "\\\\"] {
        assert!(!value.to_uppercase().contains(piece), "{name}: {value}");
    }
    // Quotes in pairs, nothing between parameters but what we wrote.
    assert!(value.matches('"').count().is_multiple_of(2) && value.starts_with("attachment"), "{name}: {value}");
    assert!(!headers.keys().any(|name| name.as_str().contains("evil")), "{headers:?}");
    // What stands in quotes is the name and nothing else: the rest is two parameters at most.
    let outside: String = value.split('"').step_by(2).collect();
    assert!(
        outside.matches("filename=").count() <= 1
            && outside.matches("filename*=").count() <= 1
            && !outside.contains("evil"),
        "{name}: {value}"
    );
    assert!(outside.matches(';').count() <= 2 && outside.matches('=').count() <= 2, "{name}: {value}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_name_of_a_file_writes_a_header_line_or_hides_its_ending() {
    let world = World::new().await;
    for name in NAMES {
        let line = format!("Content-Disposition: {name}");
        let (home, _peer, server) = home_of(&world, &["Content-Type: application/x-thing", &line]).await;
        let answer = home.ask(client(1), &download(&server, "a")).await;
        answer.assert_file(PAGE);
        is_harmless(&answer.headers, name);
    }
    let (home, _peer, server) = home_of(&world, &["Content-Type: application/x-thing"]).await;
    for name in ["a%0d%0aX-Evil:%201", "%e2%80%aegnp.exe", "a%22;%20filename=b", "..%2f..%2fa", "%00", "a%5cb"] {
        let answer = home.ask(client(1), &format!("{}/{name}", download(&server, "a"))).await;
        is_harmless(&answer.headers, name);
    }
}
