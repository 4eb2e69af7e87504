//! The roads a file may take: its own server's envelope, the older endpoint, and where a `Location` leads.

use http::header::AUTHORIZATION;

use super::*;
use crate::outbound::discover::DiscoveryError;
use crate::outbound::error::{CallFailure, CallPhase};
use crate::outbound::transport::{TransportError, TransportPhase};

#[tokio::test(start_paused = true)]
async fn x08_the_signed_request_gets_the_file_out_of_its_envelope() {
    let part = "Content-Type: image/png\r\nContent-Disposition: inline; filename=a.png\r\n\r\n\r\nPNG\r\n";
    let world = world_with(SIGNED, envelope(part));
    let came = fetch(&world, &download()).await.unwrap();
    let disposition = Some("inline; filename=a.png".to_owned());
    assert_eq!(came, Came { content_disposition: disposition, ..png(None, b"\r\nPNG\r\n") });

    let [request] = <[_; 1]>::try_from(world.dialled()).unwrap();
    assert_eq!(request.address, "44.128.10.1:8448".parse().unwrap());
    assert!(request.headers[AUTHORIZATION].to_str().unwrap().contains(r#"destination="alpha.example:8448""#));
    assert_eq!(request.headers["accept-encoding"], "identity");
}

#[tokio::test(start_paused = true)]
async fn a_name_in_iso_8859_1_is_read_on_the_older_road_too() {
    let world = world_with(SIGNED, unrecognized());
    let page = Page::answer(200, "PNG").with("content-type", "image/png");
    world.page(LEGACY, page.with("content-disposition", b"inline; filename=\"caf\xe9.png\""));
    let came = fetch(&world, &download()).await.unwrap();
    assert_eq!(came.content_disposition.as_deref(), Some("inline; filename=\"caf\u{e9}.png\""));
}

#[tokio::test(start_paused = true)]
async fn a_thumbnail_is_asked_for_by_its_size_on_both_roads() {
    let parameters = "width=96&height=96&method=crop&animated=false&timeout_ms=20000";
    let signed = format!("https://alpha.example:8448/_matrix/federation/v1/media/thumbnail/abc?{parameters}");
    let legacy = format!(
        "https://alpha.example:8448/_matrix/media/v3/thumbnail/alpha.example%3A8448/abc?allow_remote=false&{parameters}"
    );
    let world = world_with(&signed, unrecognized());
    world.page(&legacy, Page::answer(200, "PNG").with("content-type", "image/png"));
    assert_eq!(fetch(&world, &thumbnail()).await, Ok(png(None, b"PNG")));
    assert_eq!(urls(&world), [signed, legacy]);
}

#[tokio::test(start_paused = true)]
async fn x05_the_older_endpoint_is_asked_unsigned_and_only_where_the_newer_one_is_unknown() {
    let world = world_with(SIGNED, unrecognized());
    let page = Page::answer(200, "PNG").with("content-type", "image/png").with("content-length", "3");
    world.page(LEGACY, page.with("content-disposition", "attachment; filename=\"a\""));
    let came = fetch(&world, &download()).await.unwrap();
    let disposition = Some("attachment; filename=\"a\"".to_owned());
    assert_eq!(came, Came { content_disposition: disposition, ..png(Some(3), b"PNG") });
    let [signed, unsigned] = <[_; 2]>::try_from(world.dialled()).unwrap();
    assert_eq!((signed.url.as_str(), unsigned.url.as_str()), (SIGNED, LEGACY));
    assert!(signed.headers.contains_key(AUTHORIZATION) && !unsigned.headers.contains_key(AUTHORIZATION));
    assert_eq!(signed.address, unsigned.address);
    assert_eq!(world.asked(), ["alpha.example a"], "looked up once");

    // BR-56: only a 404 that says so.
    for (page, expected) in [
        (error(404, "M_NOT_FOUND"), MediaCallError::NotFound),
        (Page::answer(404, ""), MediaCallError::NotFound),
        (Page::answer(404, "404 page not found"), MediaCallError::NotFound),
        (Page::answer(404, "[\"M_UNRECOGNIZED\"]"), MediaCallError::NotFound),
        (error(400, "M_UNRECOGNIZED"), MediaCallError::Status(400)),
        (error(405, "M_UNRECOGNIZED"), MediaCallError::Status(405)),
        (error(401, "M_UNRECOGNIZED"), MediaCallError::Status(401)),
        (error(500, "M_UNRECOGNIZED"), MediaCallError::Status(500)),
    ] {
        let world = world_with(SIGNED, page);
        assert_eq!(fetch(&world, &download()).await, Err(expected));
        assert_eq!(urls(&world), [SIGNED]);
    }
}

#[tokio::test(start_paused = true)]
async fn br54_every_status_has_one_meaning_on_either_endpoint() {
    let long = format!("{{\"errcode\": \"M_UNRECOGNIZED\", \"x\": \"{}\"}}", "x".repeat(MAX_ERROR_BODY_BYTES));
    for (page, expected) in [
        (error(404, "M_NOT_FOUND"), MediaCallError::NotFound),
        (Page::answer(404, &long), MediaCallError::NotFound),
        (error(504, "M_NOT_YET_UPLOADED"), MediaCallError::NotYetUploaded),
        (error(504, "M_UNKNOWN"), MediaCallError::Status(504)),
        (error(502, "M_TOO_LARGE"), MediaCallError::TooLarge),
        (error(502, "M_UNKNOWN"), MediaCallError::Status(502)),
        (error(413, "M_TOO_LARGE"), MediaCallError::TooLarge),
        (error(400, "M_UNKNOWN"), MediaCallError::Status(400)),
        (error(403, "M_FORBIDDEN"), MediaCallError::Status(403)),
        (error(429, "M_LIMIT_EXCEEDED"), MediaCallError::Status(429)),
        (error(500, "M_UNKNOWN"), MediaCallError::Status(500)),
        (Page::answer(206, "x"), MediaCallError::Status(206)),
        (Page::answer(304, ""), MediaCallError::Status(304)),
        // X20: no redirect is followed, wherever it leads.
        (Page::redirect(302, "https://169.254.169.254/"), MediaCallError::Status(302)),
        (Page::redirect(307, ELSEWHERE), MediaCallError::Status(307)),
    ] {
        let world = world_with(SIGNED, page.clone());
        assert_eq!(fetch(&world, &download()).await, Err(expected));
        world.page(SIGNED, unrecognized());
        world.page(LEGACY, page);
        assert_eq!(fetch(&world, &download()).await, Err(expected));
        assert_eq!(urls(&world), [SIGNED, SIGNED, LEGACY]);
    }
    let world = world_with(SIGNED, unrecognized());
    world.page(LEGACY, unrecognized());
    assert_eq!(fetch(&world, &download()).await, Err(MediaCallError::NotFound), "and nothing else is tried");
    assert_eq!(urls(&world), [SIGNED, LEGACY]);
}

#[tokio::test(start_paused = true)]
async fn only_a_thumbnail_can_be_impossible() {
    let world = world();
    let url = "https://alpha.example:8448/_matrix/federation/v1/media/thumbnail/abc\
               ?width=96&height=96&method=crop&animated=false&timeout_ms=20000";
    for (status, expected) in [(400, MediaCallError::NoThumbnail), (413, MediaCallError::TooLarge)] {
        world.page(url, error(status, "M_UNKNOWN"));
        assert_eq!(fetch(&world, &thumbnail()).await, Err(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn x15_a_location_is_followed_once_unsigned_and_wins_over_bytes() {
    let part = format!("Content-Type: text/html\r\nLocation: {ELSEWHERE}\r\n\r\nbytes");
    let world = world_with(SIGNED, envelope(&part));
    let page = Page::answer(200, "PNG").with("content-type", "image/png").with("content-length", "3");
    world.page(ELSEWHERE, page);
    assert_eq!(fetch(&world, &download()).await, Ok(png(Some(3), b"PNG")));
    let [_, file] = <[_; 2]>::try_from(world.dialled()).unwrap();
    assert_eq!((file.url.as_str(), file.address), (ELSEWHERE, "44.128.10.8:443".parse().unwrap()));
    let mut names: Vec<_> = file.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "host", "user-agent"]);
}

#[tokio::test(start_paused = true)]
async fn x16_a_location_that_is_no_https_url_of_a_stranger_leads_nowhere_and_looks_nothing_up() {
    for location in [
        "",
        "/f",
        "//cdn.gamma.example/f",
        "http://cdn.gamma.example/f",
        "http://169.254.169.254/latest/meta-data/iam/",
        "ftp://cdn.gamma.example/f",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_x",
        "unix:/var/run/docker.sock",
        "https://",
        "https://user:pw@cdn.gamma.example/f",
        "https://cdn.gamma.example/f#",
        "https://cdn.gamma.example/f#x",
        "https://127.0.0.1\\@cdn.gamma.example/f",
        "https://cdn.gamma.example:99999/f",
        "https://2130706433/f",
        "https://%6c%6f%63%61%6c%68%6f%73%74/f",
        "https://alpha.example:8448/_matrix/federation/v1/media/download/abc",
    ] {
        let world = world_with(SIGNED, envelope(&format!("Location: {location}\r\n\r\nbytes")));
        assert_eq!(fetch(&world, &download()).await, Err(MediaCallError::Malformed), "{location}");
        assert_eq!((urls(&world), world.asked()), (vec![SIGNED.to_owned()], vec!["alpha.example a".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn x16_a_location_leads_neither_inside_nor_back_here() {
    let refused = |why| {
        let (phase, failure) = (CallPhase::Discover, CallFailure::Discovery(why));
        Err(CallError { phase, failure, timed_out: false }.into())
    };
    for (location, expected) in [
        ("https://127.0.0.1/f", refused(DiscoveryError::AddressRefused)),
        ("https://[::1]/f", refused(DiscoveryError::AddressRefused)),
        ("https://[::ffff:10.0.0.1]/f", refused(DiscoveryError::AddressRefused)),
        ("https://inner.corp.example/f", refused(DiscoveryError::AddressRefused)),
        ("https://nowhere.example/f", refused(DiscoveryError::NoAddresses)),
        ("https://hs.self.example/f", refused(DiscoveryError::OwnServer)),
        ("https://HS.Self.example:8448/f", refused(DiscoveryError::OwnServer)),
    ] {
        let world = world_with(SIGNED, envelope(&format!("Location: {location}\r\n\r\n")));
        world.name("inner.corp.example", &["44.128.10.2", "172.20.0.5"]);
        world.name("hs.self.example", &["44.128.10.99"]);
        assert_eq!(fetch(&world, &download()).await, expected, "{location}");
        assert_eq!(urls(&world), [SIGNED], "{location}");
    }
}

#[tokio::test(start_paused = true)]
async fn x19_behind_a_location_only_200_is_a_file() {
    let world = world_with(SIGNED, envelope(&format!("Location: {ELSEWHERE}\r\n\r\n")));
    for status in [201, 204, 206, 302, 304, 404, 413, 500, 504] {
        let page = error(status, "M_UNRECOGNIZED").with("location", "https://127.0.0.1/g");
        world.page(ELSEWHERE, page);
        assert_eq!(fetch(&world, &download()).await, Err(MediaCallError::Status(status)));
    }
    world.page(ELSEWHERE, Page::Refused);
    let refused = CallError::from(TransportError { phase: TransportPhase::Connect, timed_out: false });
    assert_eq!(fetch(&world, &download()).await, Err(refused.into()));
    assert!(urls(&world).iter().all(|url| url == SIGNED || url == ELSEWHERE));
}

#[tokio::test(start_paused = true)]
async fn br26_a_location_arrives_whole_wherever_the_network_cuts_it() {
    let location = "https://cdn.gamma.example/a/rather/long/path?with=a&signature=0123456789abcdef";
    let body = format!("--b\r\n\r\n{{}}\r\n--b\r\nContent-Type: image/png\r\nLocation: {location}\r\n\r\n\r\n--b--");
    for at in 0..=body.len() {
        let (one, two) = body.split_at(at);
        let pieces = [one, two].map(|piece| Bytes::copy_from_slice(piece.as_bytes())).to_vec();
        let page = Page::answer(200, "").with("content-type", MULTIPART);
        let world = world_with(SIGNED, page.in_pieces(pieces, Duration::from_micros(200)));
        world.page(location, Page::answer(200, "PNG").with("content-type", "image/png"));
        assert_eq!(fetch(&world, &download()).await, Ok(png(None, b"PNG")), "cut at {at}");
        assert_eq!(urls(&world), [SIGNED, location]);
    }
}

#[tokio::test(start_paused = true)]
async fn br40_a_type_is_passed_on_as_it_came_or_not_at_all() {
    for (part, content_type) in [
        ("X: y\r\n\r\nf", None),
        ("Content-Type:\r\n\r\nf", None),
        ("Content-Type: garbage\r\n\r\nf", Some("garbage")),
        ("Content-Type: text/plain; charset=UTF-8\r\n\r\nf", Some("text/plain; charset=UTF-8")),
    ] {
        let came = fetch(&world_with(SIGNED, envelope(part)), &download()).await.unwrap();
        assert_eq!((came.content_type.as_deref(), came.file), (content_type, Ok("f".into())));
    }
    let world = world_with(SIGNED, unrecognized());
    world.page(LEGACY, Page::answer(200, "f").with("content-type", "a/b").with("content-type", "c/d"));
    assert_eq!(fetch(&world, &download()).await.unwrap().content_type, None, "two are none");
}

#[tokio::test(start_paused = true)]
async fn br42_x09_x10_an_answer_that_is_no_envelope_is_refused_at_once() {
    let whole = "--b\r\n\r\n{}\r\n--b\r\n\r\nf\r\n--b--";
    let start = Instant::now();
    for page in [
        Page::answer(200, whole),
        Page::answer(200, whole).with("content-type", "multipart/mixed"),
        Page::answer(200, whole).with("content-type", "multipart/form-data; boundary=b"),
        Page::answer(200, whole).with("content-type", "image/png"),
        Page::answer(200, whole).with("content-type", MULTIPART).with("content-type", MULTIPART),
        Page::answer(200, whole).with("content-type", MULTIPART).with("content-encoding", "gzip"),
        Page::answer(200, "--b\r\n\r\n{}\r\n--b--").with("content-type", MULTIPART),
        Page::answer(200, "").with("content-type", MULTIPART),
        Page::answer(200, "no boundary").with("content-type", MULTIPART),
        Page::answer(200, "--b\r\n\r\n{}\r\n--b\r\nno header\r\n\r\nf\r\n--b--").with("content-type", MULTIPART),
    ] {
        let world = world_with(SIGNED, page);
        assert_eq!(fetch(&world, &download()).await, Err(MediaCallError::Malformed));
        assert_eq!(urls(&world), [SIGNED]);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let world = world_with(SIGNED, unrecognized());
    world.page(LEGACY, Page::answer(200, "f").with("content-encoding", "br"));
    assert_eq!(fetch(&world, &download()).await, Err(MediaCallError::Malformed));
}
