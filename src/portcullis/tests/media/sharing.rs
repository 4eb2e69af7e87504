//! One fetch per file, whoever leads it and however that ends.

use super::*;

fn giving_after(delay: Duration) -> FakeOrigin {
    FakeOrigin::new(move |_| Does::GiveAfter(delay, CAT))
}

#[tokio::test(start_paused = true)]
async fn br48_fifty_at_once_are_one_call() {
    let rig = Rig::new(giving_after(Duration::from_millis(500)));
    let portcullis = rig.portcullis();
    let started = (0..50).map(|n| {
        // C08: every spelling of the server is the same file.
        let server = ["them.example", "THEM.example", "them.example:8448"][n % 3];
        start(&portcullis, u8::try_from(n).unwrap(), &file(server, "abc"))
    });
    let started = started.collect();
    settle().await;
    assert_eq!(portcullis.status().budgets.media.in_flight, 50, "each in a slot of its own");
    assert!(all(started).await.iter().all(|got| got.is(CAT)));
    assert_eq!(rig.origin.calls(), 1);
    at_rest(&portcullis).await;
    assert_eq!(portcullis.status().calls.media.answered, 1);
}

#[tokio::test(start_paused = true)]
async fn br46_two_waves_of_sixty_from_one_client_are_served_and_fetched_once() {
    let rig = Rig::new(giving_after(Duration::from_millis(20)));
    let portcullis = rig.portcullis();
    let wave = || {
        let images = (0..30).flat_map(|n| {
            let server = format!("origin{}.example", n % 6);
            [
                file(&server, &n.to_string()),
                request(&format!("/_matrix/client/v1/media/thumbnail/{server}/{n}?width=32&height=32&method=crop")),
            ]
        });
        images.map(|image| start(&portcullis, 1, &image)).collect()
    };
    for calls in [60, 60] {
        let got = all(wave()).await;
        assert_eq!(got.iter().filter(|got| got.is(CAT)).count(), 60);
        assert_eq!(rig.origin.calls(), calls);
    }
    let refused = portcullis.status().budgets.media.refused;
    assert_eq!((refused.client, refused.global), (0, 0));
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn h01_h03_h12_a_stored_file_is_not_asked_for_again_until_its_time_is_over() {
    let rig = Rig::new(giving_after(Duration::ZERO));
    let store = MediaStoreConfig { time_to_live: Duration::from_secs(60), ..rig.store() };
    let portcullis = rig.builder().media_store(store).build().unwrap();
    for _ in 0..1000 {
        assert!(fetch(&portcullis, 1, &file("them.example", "abc")).await.is(CAT));
    }
    assert_eq!(rig.origin.calls(), 1);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(fetch(&portcullis, 1, &file("them.example", "abc")).await.is(CAT));
    settle().await;
    assert_eq!((rig.origin.calls(), portcullis.status().media.store.unwrap().files), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn c10_followers_of_one_that_fails_ask_once_more_and_share_what_comes_of_it() {
    for (second_time, expected) in [(None, 502), (Some(CAT), 200)] {
        let calls = AtomicUsize::new(0);
        let rig = Rig::new(FakeOrigin::new(move |_| match (calls.fetch_add(1, Ordering::SeqCst), second_time) {
            (1, Some(bytes)) => Does::GiveAfter(Duration::from_secs(1), bytes),
            _ => Does::SayAfter(Duration::from_secs(1), BROKEN),
        }));
        let portcullis = rig.portcullis();
        let started = (0..40).map(|n| start(&portcullis, n, &file("them.example", "abc"))).collect();
        let got = all(started).await;
        assert_eq!(got[0].outcome(), (502, "M_UNKNOWN"), "the leader has only its own call");
        assert!(got[1..].iter().all(|got| got.status == expected), "{got:?}");
        assert_eq!(rig.origin.calls(), 2);
        at_rest(&portcullis).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_follows_one_that_runs_out_of_time_leads_with_its_own() {
    let calls = AtomicUsize::new(0);
    let rig = Rig::new(FakeOrigin::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Does::StaySilent,
        _ => Does::GiveAfter(Duration::from_secs(10), CAT),
    }));
    let portcullis = rig.portcullis();
    let began = Instant::now();
    let leader = start(&portcullis, 1, &file("them.example", "abc"));
    tokio::time::sleep(Duration::from_secs(15)).await;
    let followers =
        vec![start(&portcullis, 2, &file("them.example", "abc")), start(&portcullis, 3, &file("them.example", "abc"))];
    assert_eq!(leader.await.unwrap().outcome(), (504, "M_UNKNOWN"));
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    assert!(all(followers).await.iter().all(|got| got.is(CAT)));
    assert_eq!((began.elapsed().as_secs(), rig.origin.calls()), (40, 2));
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_silent_origin_with_next_to_no_time_left_does_not_ask_it_again() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::StaySilent));
    let portcullis = rig.portcullis();
    let began = Instant::now();
    let mut started = Vec::new();
    for n in 0..40 {
        started.push(start(&portcullis, n, &file("them.example", "abc")));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(all(started).await.iter().all(|got| got.outcome() == (504, "M_UNKNOWN")));
    assert_eq!(rig.origin.calls(), 1);
    assert!(began.elapsed() <= Duration::from_secs(31));
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_s_own_deadline_ends_its_waiting_to_the_millisecond() {
    let calls = AtomicUsize::new(0);
    let rig = Rig::new(FakeOrigin::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Does::StaySilent,
        _ => Does::GiveAfter(Duration::from_secs(29), CAT),
    }));
    let portcullis = rig.portcullis();
    let began = Instant::now();
    let first = start(&portcullis, 1, &file("them.example", "abc"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let second = start(&portcullis, 2, &file("them.example", "abc"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let third = start(&portcullis, 3, &file("them.example", "abc"));
    assert_eq!(first.await.unwrap().status, 504);
    // One of the two leads from 30 s on; the older has time until 35 s, the other until 40 s.
    assert_eq!(second.await.unwrap().status, 504);
    assert_eq!(began.elapsed(), Duration::from_secs(35));
    assert_eq!(third.await.unwrap().status, 504);
    assert_eq!(began.elapsed(), Duration::from_secs(40));
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_frees_the_slot_and_a_follower_leads() {
    let calls = AtomicUsize::new(0);
    let rig = Rig::new(FakeOrigin::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Does::Drip(vec![Piece::Panic], None),
        1 => Does::Panic,
        _ => Does::Give(CAT),
    }));
    let portcullis = rig.portcullis();
    let started = (0..3).map(|n| start(&portcullis, n, &file("them.example", "abc"))).collect();
    assert!(all(started).await.iter().all(|got| got.outcome() == (502, "M_UNKNOWN")));
    assert_eq!(rig.origin.calls(), 2);
    at_rest(&portcullis).await;
    assert_eq!(portcullis.status().calls.media.failed, 2);
    assert!(fetch(&portcullis, 1, &file("them.example", "abc")).await.is(CAT));
}

#[tokio::test(start_paused = true)]
async fn what_the_origin_says_for_certain_is_shared_at_once_and_remembered_where_that_is_fair() {
    for (error, outcome, remembered) in [
        (MediaCallError::NotFound, (404, "M_NOT_FOUND"), true),
        (MediaCallError::TooLarge, (502, "M_TOO_LARGE"), true),
        (MediaCallError::NoThumbnail, (400, "M_UNKNOWN"), true),
        (MediaCallError::NotYetUploaded, (504, "M_NOT_YET_UPLOADED"), false),
    ] {
        let rig = Rig::new(FakeOrigin::new(move |_| Does::SayAfter(Duration::from_secs(1), error)));
        let portcullis = rig.portcullis();
        let started = (0..10).map(|n| start(&portcullis, n, &file("them.example", "abc"))).collect();
        assert!(all(started).await.iter().all(|got| got.outcome() == outcome), "{error}");
        assert_eq!(rig.origin.calls(), 1, "{error}");
        for _ in 0..50 {
            let again = fetch(&portcullis, 1, &file("them.example", "abc")).await;
            assert_eq!(again.outcome(), outcome, "{error}");
        }
        assert_eq!(rig.origin.calls(), if remembered { 1 } else { 51 }, "{error}");
        tokio::time::sleep(Duration::from_secs(30)).await;
        let _ = fetch(&portcullis, 1, &file("them.example", "abc")).await;
        assert_eq!(rig.origin.calls(), if remembered { 2 } else { 52 }, "{error}");
        at_rest(&portcullis).await;
    }
}

/// The other server is asked to wait no longer than the leader's client wants to.
#[tokio::test(start_paused = true)]
async fn not_yet_uploaded_is_shared_with_those_alone_who_would_not_have_waited_longer() {
    let impatient = || request("/_matrix/client/v1/media/download/them.example/abc?timeout_ms=0");
    let patient = || file("them.example", "abc");
    for (leader, follower, outcome, calls) in
        [(impatient(), patient(), 200, 2), (patient(), impatient(), 504, 1), (impatient(), impatient(), 504, 1)]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let rig = Rig::new(FakeOrigin::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Does::SayAfter(Duration::from_secs(2), MediaCallError::NotYetUploaded),
            _ => Does::GiveAfter(Duration::from_secs(2), CAT),
        }));
        let portcullis = rig.portcullis();
        let leads = start(&portcullis, 1, &leader);
        settle().await;
        let follow = (2..12).map(|n| start(&portcullis, n, &follower)).collect();
        assert_eq!(leads.await.unwrap().outcome(), (504, "M_NOT_YET_UPLOADED"));
        assert!(all(follow).await.iter().all(|got| got.status == outcome));
        assert_eq!(rig.origin.calls(), calls);
        at_rest(&portcullis).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_no_time_left_to_wait_for_an_upload_does_not_ask_again() {
    let rig =
        Rig::new(FakeOrigin::new(|_| Does::SayAfter(Duration::from_millis(9_500), MediaCallError::NotYetUploaded)));
    let portcullis =
        rig.builder().remote_timeout(RemoteTimeout::new(Duration::from_secs(10)).unwrap()).build().unwrap();
    let leads = start(&portcullis, 1, &request("/_matrix/client/v1/media/download/them.example/abc?timeout_ms=0"));
    settle().await;
    let follows = start(&portcullis, 2, &file("them.example", "abc"));
    for got in all(vec![leads, follows]).await {
        assert_eq!(got.outcome(), (504, "M_NOT_YET_UPLOADED"));
    }
    assert_eq!(rig.origin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_origin_is_not_remembered() {
    for error in [BROKEN, MediaCallError::Status(500), MediaCallError::Malformed] {
        let rig = Rig::new(FakeOrigin::new(move |_| Does::SayAfter(Duration::ZERO, error)));
        let portcullis = rig.portcullis();
        for calls in [1, 2] {
            assert_eq!(fetch(&portcullis, 1, &file("them.example", "abc")).await.outcome(), (502, "M_UNKNOWN"));
            assert_eq!(rig.origin.calls(), calls, "{error}");
        }
    }
}
