//! What comes piece by piece: to whom, how it ends, and who holds what until then.

use super::*;

/// Two pieces, two seconds apart, and an end two seconds later.
fn in_pieces() -> FakeOrigin {
    FakeOrigin::new(|_| {
        let second = Duration::from_secs(1);
        Does::Drip(
            vec![Piece::After(second, b"one "), Piece::After(2 * second, b"two "), Piece::After(2 * second, b"three")],
            None,
        )
    })
}

const PIECES: &[u8] = b"one two three";

async fn answer(portcullis: &Portcullis, peer: u8, request: &Request<Bytes>) -> Response<ResponseBody> {
    portcullis.handle(&Gallery, address(peer), request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_bytes_are_passed_on_before_the_last_have_come() {
    let rig = Rig::new(in_pieces());
    let portcullis = rig.portcullis();
    let began = Instant::now();
    let first = answer(&portcullis, 1, &file("them.example", "abc")).await;
    assert_eq!((first.status().as_u16(), began.elapsed()), (200, Duration::from_secs(1)));
    assert!(!first.headers().contains_key("content-length"), "it is not known yet");
    let mut body = first.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one ");
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    // One that comes now reads from the beginning, at once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = answer(&portcullis, 2, &file("them.example", "abc")).await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert!(got(late).await.is(PIECES));
    assert_eq!((began.elapsed(), rig.origin.calls()), (Duration::from_secs(5), 1));
    assert_eq!(body.collect().await.unwrap().to_bytes(), "two three");
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn the_slots_are_free_before_the_end_is_seen() {
    let rig = Rig::new(in_pieces());
    let portcullis = rig.portcullis();
    let asked: Vec<_> = (0..3).map(|n| start(&portcullis, n, &file("them.example", "abc"))).collect();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(portcullis.status().budgets.media.in_flight, 3, "those who read hold theirs too");
    for one in asked {
        assert!(one.await.unwrap().is(PIECES));
        assert_eq!(portcullis.status().budgets.media.in_flight, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn m12_a_client_that_leaves_changes_nothing_and_its_slot_is_free_when_the_call_has_ended() {
    for leaves_after in [0, 500, 2000] {
        let rig = Rig::new(in_pieces());
        let portcullis = rig.portcullis();
        let client = tokio::spawn({
            let answer = portcullis.handle(&Gallery, address(1), &file("them.example", "abc"));
            async move { got(answer.await.unwrap()).await }
        });
        tokio::time::sleep(Duration::from_millis(leaves_after)).await;
        tokio::task::yield_now().await;
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
        settle().await;
        assert_eq!(portcullis.status().budgets.media.in_flight, 1, "left after {leaves_after} ms");
        tokio::time::sleep(Duration::from_secs(6)).await;
        at_rest(&portcullis).await;
        assert!(fetch(&portcullis, 1, &file("them.example", "abc")).await.is(PIECES));
        assert_eq!(rig.origin.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_leaves_while_it_waits_gives_its_slot_back_at_once_and_one_that_reads_at_the_end_of_the_call() {
    let rig = Rig::new(in_pieces());
    let portcullis = rig.portcullis();
    let leader = start(&portcullis, 1, &file("them.example", "abc"));
    let waits = start(&portcullis, 2, &file("them.example", "abc"));
    settle().await;
    waits.abort();
    settle().await;
    assert_eq!(portcullis.status().budgets.media.in_flight, 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reads = answer(&portcullis, 3, &file("them.example", "abc")).await;
    drop(reads);
    assert_eq!(portcullis.status().budgets.media.in_flight, 2);
    assert!(leader.await.unwrap().is(PIECES));
    assert_eq!(portcullis.status().budgets.media.in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_off_is_cut_for_everybody_who_reads_it_and_never_stored() {
    let second = Duration::from_secs(1);
    for (end, length, status) in [
        (Piece::Break(BROKEN), None, 502),
        (Piece::Break(MediaCallError::Malformed), None, 502),
        (Piece::Stall, None, 504),
        (Piece::Panic, None, 502),
        // As a body ends that is longer or shorter than announced.
        (Piece::Break(MediaCallError::Malformed), Some(100), 502),
        (Piece::Break(MediaCallError::TooLarge), None, 502),
        // The store's own bound.
        (Piece::Zeros(256 * 1024), None, 502),
    ] {
        let calls = AtomicUsize::new(0);
        let rig = Rig::new(FakeOrigin::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Does::Drip(vec![Piece::After(second, b"one "), Piece::After(second, b""), end.clone()], length),
            _ => Does::Give(CAT),
        }));
        let portcullis = rig.portcullis();
        let asked = (0..3).map(|n| start(&portcullis, n, &file("them.example", "abc"))).collect();
        for got in all(asked).await {
            assert_eq!((got.status, got.body), (200, Err(BodyCut)), "{status}");
        }
        at_rest(&portcullis).await;
        assert_eq!((rig.origin.calls(), portcullis.status().media.store.unwrap().files), (1, 0));
        let counts = portcullis.status().calls.media;
        assert_eq!(counts.timed_out, u64::from(status == 504));
        assert_eq!(counts.answered + counts.failed, u64::from(status == 502));
    }
}

#[tokio::test(start_paused = true)]
async fn br32_a_file_that_is_too_large_is_asked_for_once_in_half_a_minute() {
    for (does, first) in [
        (Does::SayAfter(Duration::ZERO, MediaCallError::TooLarge), Ok(502)),
        // Seen to begin, and then to be too large.
        (
            Does::Drip(
                vec![
                    Piece::Zeros(256 * 1024),
                    Piece::After(Duration::from_secs(1), b""),
                    Piece::Break(MediaCallError::TooLarge),
                ],
                None,
            ),
            Err(BodyCut),
        ),
        // Found out before anybody was told that it comes.
        (Does::Drip(vec![Piece::Break(MediaCallError::TooLarge)], None), Ok(502)),
        // The store's own bound.
        (Does::Drip(vec![Piece::Zeros(256 * 1024), Piece::After(Duration::from_secs(1), b"x")], None), Err(BodyCut)),
    ] {
        let rig = Rig::new(FakeOrigin::new(move |_| does.clone()));
        let portcullis = rig.portcullis();
        let got = fetch(&portcullis, 1, &file("them.example", "abc")).await;
        assert_eq!(got.body.map(|_| got.status), first);
        for _ in 0..50 {
            assert_eq!(fetch(&portcullis, 1, &file("them.example", "abc")).await.outcome(), (502, "M_TOO_LARGE"));
        }
        assert_eq!(rig.origin.calls(), 1);
        at_rest(&portcullis).await;
    }
    // The largest there may be.
    let rig = Rig::new(FakeOrigin::new(|_| Does::Drip(vec![Piece::Zeros(256 * 1024)], None)));
    assert!(fetch(&rig.portcullis(), 1, &file("them.example", "abc")).await.is(&vec![0; 256 * 1024]));
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_is_a_file() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::Give(b"")));
    let portcullis = rig.portcullis();
    for _ in 0..2 {
        assert!(fetch(&portcullis, 1, &file("them.example", "abc")).await.is(b""));
        settle().await;
    }
    assert_eq!(rig.origin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn ranges_and_conditions_are_for_what_is_stored_and_a_head_is_that_of_the_whole() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::Give(PIECES)));
    let portcullis = rig.portcullis();
    let part = with(file("them.example", "abc"), "range", "bytes=4-6");
    assert!(fetch(&portcullis, 1, &part).await.is(PIECES), "on its way: the whole");
    settle().await;
    let stored = answer(&portcullis, 1, &part).await;
    assert_eq!((stored.status().as_u16(), &stored.headers()["content-range"]), (206, &"bytes 4-6/13".parse().unwrap()));
    let etag = stored.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(got(stored).await.body.unwrap(), b"two");
    assert_eq!(got(answer(&portcullis, 1, &with(part.clone(), "if-range", &etag)).await).await.status, 206);
    assert!(fetch(&portcullis, 1, &with(part.clone(), "if-range", "\"other\"")).await.is(PIECES));
    assert_eq!(fetch(&portcullis, 1, &with(part.clone(), "range", "bytes=13-")).await.status, 416);
    let mut head = part;
    *head.method_mut() = Method::HEAD;
    let head = answer(&portcullis, 1, &head).await;
    assert_eq!((head.status().as_u16(), &head.headers()["content-length"]), (200, &"13".parse().unwrap()));
    for (held, status) in [(etag.as_str(), 304), ("*", 304), ("\"other\"", 200)] {
        let conditional = with(file("them.example", "abc"), "if-none-match", held);
        assert_eq!(fetch(&portcullis, 1, &conditional).await.status, status, "{held}");
    }
    assert_eq!(rig.origin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thumbnail_that_is_no_picture_is_no_answer() {
    for (content_type, status) in [("image/webp", 200), ("text/html", 502), ("image/svg+xml", 502), ("", 502)] {
        let rig = Rig::new(FakeOrigin::of_type(content_type, |_| Does::Give(CAT)));
        let [download, thumbnail, ..] = paths("them.example");
        let portcullis = rig.portcullis();
        assert_eq!(fetch(&portcullis, 1, &request(&thumbnail)).await.status, status, "{content_type}");
        assert_eq!(fetch(&portcullis, 1, &request(&download)).await.status, 200, "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_file_that_made_room_between_the_halves_is_fetched_if_there_is_a_slot() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::Give(CAT)));
    let portcullis = rig
        .builder()
        .media_limits(
            MediaLimits::new(MediaCaps {
                max_in_flight: 1,
                max_per_client: 1,
                max_running: 1,
                max_running_per_origin: 1,
            })
            .unwrap(),
        )
        .build()
        .unwrap();
    for full in [false, true] {
        assert!(fetch(&portcullis, 1, &file("them.example", "abc")).await.is(CAT));
        settle().await;
        let Err(stored) = begun(&portcullis, 1, &file("them.example", "abc")).await else { panic!() };
        delete_files(rig.dir.path());
        let other =
            if full { Some(begun(&portcullis, 2, &file("them.example", "other")).await.unwrap_err()) } else { None };
        let calls = rig.origin.calls();
        let answer = got(portcullis.finish_media(stored).await).await;
        if full {
            assert_eq!((answer.outcome(), rig.origin.calls()), ((429, "M_LIMIT_EXCEEDED"), calls));
        } else {
            assert!(answer.is(CAT));
            assert_eq!(rig.origin.calls(), calls + 1);
        }
        drop(other);
        at_rest(&portcullis).await;
    }
}

/// Deletes every stored file below a folder.
fn delete_files(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            delete_files(&path);
        } else if path.extension().is_some_and(|extension| extension == "media") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_without_room_is_503_and_the_server_goes_on() {
    let rig = Rig::new(FakeOrigin::new(|_| {
        Does::Drip(vec![Piece::Zeros(200 * 1024), Piece::After(Duration::from_secs(1), b"x")], None)
    }));
    let store = MediaStoreConfig { bytes: 400 * 1024, ..rig.store() };
    let portcullis = rig.builder().media_store(store).build().unwrap();
    let asked = (0..4).map(|n| start(&portcullis, n, &file("them.example", &n.to_string()))).collect();
    let got = all(asked).await;
    assert!(
        got.iter().any(|got| got.status == 200 && got.body.is_ok()),
        "{:?}",
        got.iter().map(Got::outcome).collect::<Vec<_>>()
    );
    assert!(got.iter().any(|got| got.status == 503 || got.body.is_err()));
    at_rest(&portcullis).await;
    assert_eq!(fetch(&portcullis, 1, &file("them.example", "later")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stop_makes_no_new_fetches_waits_for_those_under_way_and_then_cuts_them() {
    let rig = Rig::new(in_pieces());
    let portcullis = Arc::new(rig.portcullis());
    assert!(fetch(&portcullis, 1, &file("them.example", "stored")).await.is(PIECES));
    settle().await;
    let reads = start(&portcullis, 1, &file("them.example", "reads"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let waits = start(&portcullis, 2, &file("them.example", "waits"));
    let Err(begun_before) = begun(&portcullis, 3, &file("them.example", "begun")).await else { panic!() };
    let stop = tokio::spawn({
        let portcullis = Arc::clone(&portcullis);
        async move { portcullis.drain(Duration::from_millis(500)).await }
    });
    settle().await;
    assert_eq!(begun(&portcullis, 4, &file("them.example", "new")).await.unwrap().outcome(), (503, "M_UNKNOWN"));
    assert!(fetch(&portcullis, 4, &file("them.example", "stored")).await.is(PIECES), "what is stored goes on");
    assert_eq!(stop.await.unwrap(), 3);
    assert_eq!(reads.await.unwrap().body, Err(BodyCut));
    assert_eq!(waits.await.unwrap().outcome(), (503, "M_UNKNOWN"));
    assert_eq!(got(portcullis.finish_media(begun_before).await).await.outcome(), (503, "M_UNKNOWN"));
    assert_eq!(rig.origin.calls(), 3);
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_patience_lets_fetches_end() {
    let rig = Rig::new(in_pieces());
    let portcullis = rig.portcullis();
    let reads = start(&portcullis, 1, &file("them.example", "abc"));
    settle().await;
    let began = Instant::now();
    assert_eq!(portcullis.drain(Duration::from_secs(60)).await, 0);
    assert!(began.elapsed() < Duration::from_secs(6));
    assert!(reads.await.unwrap().is(PIECES));
}

#[tokio::test(start_paused = true)]
async fn without_a_portcullis_there_is_no_fetch() {
    let rig = Rig::new(in_pieces());
    let portcullis = rig.portcullis();
    let reads = start(&portcullis, 1, &file("them.example", "reads"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(portcullis);
    assert_eq!(reads.await.unwrap().body, Err(BodyCut));
    settle().await;
    assert_eq!(rig.origin.open_calls(), 0);
}
