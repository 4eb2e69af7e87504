//! What ends a fetch: the deadline, the cap, a broken end, and whoever drops it.

use super::*;
use crate::outbound::error::CallPhase;
use crate::outbound::fake_world::Zone;
use crate::outbound::transport::{TransportError, TransportPhase};

const BEFORE: &str = "--b\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\n\r\n";

fn enveloped(pieces: &[&[u8]], pause: Duration) -> Page {
    let pieces = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
    Page::answer(200, "").with("content-type", MULTIPART).in_pieces(pieces, pause)
}

fn cut(phase: TransportPhase, timed_out: bool) -> MediaCallError {
    CallError::from(TransportError { phase, timed_out }).into()
}

/// A file on each of the three roads, in an envelope on the first and bare on the others.
fn on_every_road(bare: &Page, enveloped: Page) -> [Arc<World>; 3] {
    let older = world_with(SIGNED, unrecognized());
    older.page(LEGACY, bare.clone());
    let elsewhere = world_with(SIGNED, envelope(&format!("Location: {ELSEWHERE}\r\n\r\n")));
    elsewhere.page(ELSEWHERE, bare.clone());
    [world_with(SIGNED, enveloped), older, elsewhere]
}

#[tokio::test(start_paused = true)]
async fn l01_the_cap_holds_for_the_files_own_bytes_to_the_byte_on_every_road() {
    let most = usize::try_from(MOST).unwrap();
    for (bytes, fits) in [(most, true), (most + 1, false)] {
        let file = vec![b'x'; bytes];
        let envelope = enveloped(&[BEFORE.as_bytes(), &file, b"\r\n--b--"], Duration::ZERO);
        let bare = Page::answer(200, "").in_pieces(vec![Bytes::from(file.clone())], Duration::ZERO);
        for world in on_every_road(&bare, envelope) {
            let came = fetch(&world, &download()).await.unwrap();
            assert_eq!(came.file, if fits { Ok(file.clone().into()) } else { Err(MediaCallError::TooLarge) });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn br32_a_file_announced_too_large_is_refused_unread() {
    let slack = u64::try_from(MEDIA_ENVELOPE_SLACK_BYTES).unwrap();
    for (over, is_read) in [(0, true), (1, false)] {
        let bare = Page::answer(200, "").with("content-length", (MOST + over).to_string());
        let bare = bare.in_pieces(vec![Bytes::from(vec![b'x'; 1000])], Duration::ZERO);
        let envelope = enveloped(&[BEFORE.as_bytes(), b"f\r\n--b--"], Duration::ZERO);
        let envelope = envelope.with("content-length", (MOST + slack + over).to_string());
        for (world, of_the_way) in on_every_road(&bare, envelope).into_iter().zip([0, 200, 200]) {
            let came = fetch(&world, &download()).await;
            if is_read {
                assert!(came.unwrap().file.is_ok());
            } else {
                assert_eq!(came, Err(MediaCallError::TooLarge));
                assert!(world.body_bytes() <= of_the_way, "{} bytes", world.body_bytes());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_envelope_is_bounded_and_an_endless_file_is_left_where_it_gets_too_large() {
    for before in [b"".as_slice(), b"--b\r\n", b"--b\r\n\r\n{}\r\n--b\r\nX: "] {
        let mut pieces = vec![Bytes::copy_from_slice(before)];
        pieces.resize(1000, Bytes::from(vec![b'x'; 4096]));
        let page = Page::answer(200, "").with("content-type", MULTIPART).in_pieces(pieces, Duration::ZERO);
        let world = world_with(SIGNED, page);
        assert_eq!(fetch(&world, &download()).await, Err(MediaCallError::Malformed));
        assert!(world.body_bytes() < 70 * 1024, "{} bytes", world.body_bytes());
    }
    let mut pieces = vec![Bytes::from_static(BEFORE.as_bytes())];
    pieces.resize(1000, Bytes::from(vec![b'x'; 600]));
    let page = Page::answer(200, "").with("content-type", MULTIPART).in_pieces(pieces, Duration::ZERO);
    let world = world_with(SIGNED, page);
    assert_eq!(fetch(&world, &download()).await.unwrap().file, Err(MediaCallError::TooLarge));
    assert_eq!(world.body_bytes(), BEFORE.len() + 2 * 600);
}

#[tokio::test(start_paused = true)]
async fn r12_br28_an_end_is_clean_only_where_the_file_ends() {
    let broken = cut(TransportPhase::Body, false);
    for (end, cleanly, expected) in [
        ("f\r\n--b--\r\n", true, Ok("f")),
        ("f\r\n--b--\r\n", false, Ok("f")),
        ("f\r\n--b", true, Ok("f")),
        ("f\r\n--b", false, Err(broken)),
        ("f\r\n--b\r\n", true, Ok("f")),
        ("f\r\n--b\r\n", false, Err(broken)),
        ("f\r\n--", true, Err(MediaCallError::Malformed)),
        ("f\r\n--b-", true, Err(MediaCallError::Malformed)),
        ("f", true, Err(MediaCallError::Malformed)),
        ("f", false, Err(broken)),
        ("f\r\n--b\r\n\r\nthird\r\n--b--", true, Err(MediaCallError::Malformed)),
        ("\r\n--b--", true, Ok("")),
    ] {
        let page = enveloped(&[BEFORE.as_bytes(), end.as_bytes()], Duration::ZERO);
        let world = world_with(SIGNED, if cleanly { page } else { page.cut() });
        let came = fetch(&world, &download()).await.unwrap();
        assert_eq!(came.file, expected.map(Bytes::from), "{end:?} {cleanly}");
    }
}

#[tokio::test(start_paused = true)]
async fn br28_what_follows_the_last_boundary_is_not_waited_for() {
    let start = Instant::now();
    let mut pieces = vec![BEFORE.as_bytes(), b"f\r\n--b--"];
    pieces.extend([b" ".as_slice(); 100]);
    let world = world_with(SIGNED, enveloped(&pieces, SECOND).with("content-length", "150"));
    assert_eq!(fetch(&world, &download()).await, Ok(png(None, b"f")));
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn br30_a_bare_file_is_as_long_as_announced_or_as_it_is() {
    let page = |announced: &str, body: &str| {
        let page = Page::answer(200, body).with("content-type", "image/png");
        if announced.is_empty() { page } else { page.with("content-length", announced) }
    };
    let malformed = Err(MediaCallError::Malformed);
    for (page, length, file) in [
        (page("", "PNG"), None, Ok("PNG")),
        (page("", ""), None, Ok("")),
        (page("0", ""), Some(0), Ok("")),
        (page("3", "PNG"), Some(3), Ok("PNG")),
        (page("3", "PNG").with("transfer-encoding", "chunked"), None, Ok("PNG")),
        (page("x", "PNG"), None, Ok("PNG")),
        (page("4", "PNG"), Some(4), malformed),
        (page("2", "PNG"), Some(2), malformed),
        (page("4", "PNG").cut(), Some(4), Err(cut(TransportPhase::Body, false))),
        (page("", "PNG").cut(), None, Err(cut(TransportPhase::Body, false))),
    ] {
        let [_, older, elsewhere] = on_every_road(&page, Page::Refused);
        for world in [older, elsewhere] {
            let came = fetch(&world, &download()).await.unwrap();
            assert_eq!((came.length, came.file), (length, file.map(Bytes::from)), "{page:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn br34_the_whole_has_thirty_seconds_however_they_are_spent() {
    let drip: Vec<&[u8]> = [BEFORE.as_bytes()].into_iter().chain([b"x".as_slice(); 100]).collect();
    let bare_drip = Page::answer(200, "").in_pieces(vec![Bytes::from_static(b"x"); 100], SECOND);
    let slowly = |page: Page| page.after(8 * SECOND);
    let older = world_with(SIGNED, slowly(unrecognized()));
    older.page(LEGACY, slowly(bare_drip.clone()));
    let elsewhere = world_with(SIGNED, slowly(envelope(&format!("Location: {ELSEWHERE}\r\n\r\n"))));
    elsewhere.page(ELSEWHERE, slowly(bare_drip));
    let mute = |url: &str| {
        let world = world_with(SIGNED, envelope(&format!("Location: {ELSEWHERE}\r\n\r\n")));
        world.page(url, Page::Mute);
        world
    };
    let dripping_error = unrecognized().in_pieces(vec![Bytes::from_static(b" "); 100], SECOND);
    for (world, phase) in [
        (world_with(SIGNED, slowly(enveloped(&drip, SECOND))), CallPhase::Body),
        (older, CallPhase::Body),
        (elsewhere, CallPhase::Body),
        (world_with(SIGNED, slowly(dripping_error)), CallPhase::Body),
        (mute(SIGNED), CallPhase::Send),
        (mute(ELSEWHERE), CallPhase::Send),
    ] {
        let start = Instant::now();
        let error = match fetch(&world, &download()).await {
            Ok(came) => came.file.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(start.elapsed(), MEDIA_DEADLINE, "{:?}", urls(&world));
        assert!(matches!(error, MediaCallError::Call(call) if call.phase == phase), "{error:?}");
        assert!(error.timed_out());
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_draws_from_the_same_thirty_seconds_and_shortens_the_wait_for_an_upload() {
    let world = world();
    world.name("slow.example", &["44.128.10.7"]);
    world.well_known("slow.example", Page::delegates_to("slow.example:8448").after(9 * SECOND));
    // 30 s without the 9 s, and without the second that the answer needs to arrive.
    let url = "https://slow.example:8448/_matrix/federation/v1/media/download/abc?timeout_ms=20000";
    world.page(url, envelope("\r\nf").after(20 * SECOND));
    let wanted = MediaWanted { patience: 60 * SECOND, ..download() };
    let start = Instant::now();
    let mut call = open(&world, "slow.example");
    let media = call.fetch(&wanted).await.unwrap();
    assert_eq!(start.elapsed(), 29 * SECOND);
    assert_eq!(came(media).await.file, Ok("f".into()));

    let silent = World::new();
    silent.zone("alpha.example A", Zone::Silence);
    let start = Instant::now();
    let error = open(&silent, "alpha.example:8448").fetch(&download()).await.unwrap_err();
    assert!(error.timed_out());
    assert_eq!(start.elapsed(), MEDIA_DEADLINE / 4, "a question's share, and nowhere left to go");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_says_how_long_there_is_left() {
    let world = world_with(&SIGNED.replace("20000", "29000"), Page::BlackHole);
    world.name("alpha.example", &["44.128.10.1", "44.128.10.2"]);
    // A third of 30 s was spent on the first address.
    let second = SIGNED.replace("20000", "19000");
    world.page(&second, envelope("\r\nf"));
    let wanted = MediaWanted { patience: 60 * SECOND, ..download() };
    let media = open(&world, "alpha.example:8448").fetch(&wanted).await.unwrap();
    assert_eq!(came(media).await.file, Ok("f".into()));
    let [first, again] = <[_; 2]>::try_from(world.dialled()).unwrap();
    assert_eq!(again.url, second);
    assert_ne!(first.headers["authorization"], again.headers["authorization"], "signed anew");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_reads_is_closed_with_whoever_holds_it() {
    let world = world_with(SIGNED, enveloped(&[BEFORE.as_bytes(), b"f\r\n--b--"], SECOND));
    let mut call = open(&world, "alpha.example:8448");
    let wanted = download();
    let media = call.fetch(&wanted).await.unwrap();
    assert_eq!(world.open_bodies(), 1);
    drop(media);
    assert_eq!(world.open_bodies(), 0);

    let cut_off = tokio::time::timeout(SECOND / 2, call.fetch(&wanted)).await;
    assert!(cut_off.is_err());
    assert_eq!(world.open_bodies(), 0, "cut while the head was awaited");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_always_has_something_ready_is_cut_all_the_same() {
    let world = world_with(SIGNED, enveloped(&[BEFORE.as_bytes(), b"f", b"g", b"\r\n--b--"], Duration::ZERO));
    let mut call = open(&world, "alpha.example:8448");
    let mut media = call.fetch(&download()).await.unwrap();
    assert!(media.body.frame().await.unwrap().is_ok());
    tokio::time::advance(MEDIA_DEADLINE).await;
    let late = media.body.frame().await.unwrap().unwrap_err();
    assert_eq!(late, cut(TransportPhase::Body, true));
    assert_eq!(world.open_bodies(), 0);
}
