//! The caps: how many are in flight, how many run, and who is kept from crowding out whom.

use super::*;

fn silent_but(healthy: &'static str) -> FakeOrigin {
    FakeOrigin::new(move |file| {
        let answers = file.server.as_str() == healthy;
        if answers { Does::GiveAfter(Duration::from_millis(100), CAT) } else { Does::StaySilent }
    })
}

#[tokio::test(start_paused = true)]
async fn m05_m08_m16_over_a_cap_is_429_at_once_and_takes_no_slot_of_the_pool_s_budget() {
    let told = Arc::new(Semaphore::new(0));
    let origin = FakeOrigin::new({
        let told = Arc::clone(&told);
        move |_| Does::GiveWhenTold(Arc::clone(&told), CAT)
    });
    let rig = Rig::new(origin);
    let limits = MediaLimits::new(MediaCaps {
        max_in_flight: 16,
        max_per_client: 2,
        max_running: 16,
        max_running_per_origin: 16,
    })
    .unwrap();
    let portcullis = rig.builder().media_limits(limits).build().unwrap();
    let held: Vec<_> = (0..2).map(|n| start(&portcullis, 1, &file("a.example", &n.to_string()))).collect();
    settle().await;
    let Begun::Answer(refused) = portcullis.begin(&Gallery, address(1), &file("a.example", "2")).unwrap() else {
        panic!("the client has its share")
    };
    assert_eq!(refused.headers()["retry-after"], "1");
    let refused = got(refused).await;
    assert_eq!(refused.outcome(), (429, "M_LIMIT_EXCEEDED"));
    let content: Value = serde_json::from_slice(&refused.body.unwrap()).unwrap();
    assert_eq!(content["retry_after_ms"], 1000);
    assert!(content["error"].as_str().unwrap().contains("files"), "{content}");
    // An origin without standing has a quarter, all of those together half.
    let of_origin: Vec<_> = (2..5).map(|n| start(&portcullis, n, &file("a.example", &n.to_string()))).collect();
    let others: Vec<_> = (5..11).map(|n| start(&portcullis, n, &file("b.example", &n.to_string()))).collect();
    settle().await;
    let status = portcullis.status();
    assert_eq!((status.budgets.media.in_flight, status.budgets.directory.in_flight), (8, 0));
    assert_eq!((status.budgets.media.refused.client, status.budgets.media.refused.global), (1, 3));
    assert_eq!((status.budgets.media.cap, status.budgets.media.per_client), (16, 2));
    // Directory lookups go on beside them.
    let lookup = portcullis.begin(&Gallery, address(1), &list_of("r.example")).unwrap();
    assert!(matches!(lookup, Begun::Call(_)));
    drop(lookup);
    told.add_permits(8);
    let got: Vec<_> = all(held.into_iter().chain(of_origin).chain(others).collect()).await;
    assert_eq!(got.iter().filter(|got| got.is(CAT)).count(), 8);
    assert_eq!(got.iter().filter(|got| got.status == 429).count(), 3);
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn m06_m07_the_first_half_never_waits_and_three_files_of_one_client_come_side_by_side() {
    let rig = Rig::new(silent_but("healthy.example"));
    let portcullis = rig.portcullis();
    let began = Instant::now();
    let lookups: Vec<_> = (0..3)
        .map(|n| match portcullis.begin(&Gallery, address(1), &file("healthy.example", &n.to_string())).unwrap() {
            Begun::Media(lookup) => lookup,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((rig.origin.calls(), portcullis.status().budgets.media.in_flight), (0, 3));
    let answers = lookups.into_iter().map(|lookup| portcullis.finish_media(lookup));
    for answer in futures_util::future::join_all(answers).await {
        assert!(got(answer).await.is(CAT));
    }
    assert_eq!(began.elapsed(), Duration::from_millis(100));
    // Dropped between the halves: the slot is back, and nothing was asked.
    let Err(lookup) = begun(&portcullis, 1, &file("healthy.example", "9")).await else { panic!() };
    drop(lookup);
    settle().await;
    assert_eq!(rig.origin.calls(), 3);
    at_rest(&portcullis).await;
}

/// Strangers ask silent servers for as many files as they may; a server that has answered before keeps its room.
#[tokio::test(start_paused = true)]
async fn silent_origins_do_not_crowd_out_one_that_answers() {
    let rig = Rig::new(silent_but("healthy.example"));
    let portcullis = rig.portcullis();
    assert!(fetch(&portcullis, 200, &file("healthy.example", "before")).await.is(CAT));
    let mut attack = Vec::new();
    for n in 0..100_u8 {
        attack.push(start(&portcullis, n, &file("silent0.example", &n.to_string())));
    }
    settle().await;
    let status = portcullis.status();
    assert_eq!((status.budgets.media.in_flight, status.media.running), (64, 4), "one silent origin");
    for origin in 1..6_usize {
        for n in 0..60_u8 {
            let server = format!("silent{origin}.example");
            // A client of its own for each that finds room.
            let client = 100 + u8::try_from((60 * origin + usize::from(n)) % 100).unwrap();
            attack.push(start(&portcullis, client, &file(&server, &format!("{origin}-{n}"))));
        }
    }
    settle().await;
    let status = portcullis.status();
    assert_eq!(status.budgets.media.in_flight, 128, "all of them together");
    assert_eq!(status.media.running, 12, "four at each of the three that have places in flight");

    let began = Instant::now();
    let images = (0..20).map(|n| start(&portcullis, 200, &file("healthy.example", &n.to_string()))).collect();
    assert!(all(images).await.iter().all(|got| got.is(CAT)));
    assert_eq!(began.elapsed(), Duration::from_millis(200), "sixteen, then the other four");

    let got = all(attack).await;
    assert_eq!(got.iter().filter(|got| got.status == 504).count(), 128);
    assert_eq!(got.iter().filter(|got| got.status == 429).count(), 272);
    assert_eq!(rig.origin.open_calls(), 0);
    at_rest(&portcullis).await;
}

/// Twenty-four names of strangers that answer `first` as it says, and are silent after that; a healthy server; and four
/// clients that ask the strangers' for all they may have.
async fn four_clients_after(first: Does) -> (Rig, Portcullis, Vec<JoinHandle<Got>>) {
    let rig = Rig::new(FakeOrigin::new(move |file| match (file.server.as_str(), file.media_id.as_str()) {
        ("healthy.example", _) => Does::GiveAfter(Duration::from_millis(100), CAT),
        (_, "first") => first.clone(),
        _ => Does::StaySilent,
    }));
    let portcullis = rig.portcullis();
    assert!(fetch(&portcullis, 200, &file("healthy.example", "before")).await.is(CAT));
    for name in 0..24 {
        let _ = fetch(&portcullis, 1, &file(&format!("s{name}.example"), "first")).await;
    }
    // A turn lasts until its file is on the disk.
    at_rest(&portcullis).await;
    let mut attack = Vec::new();
    for client in 1..5 {
        for n in 0..64 {
            let server = format!("s{}.example", n % 24);
            attack.push(start(&portcullis, client, &file(&server, &format!("{client}-{n}"))));
        }
    }
    settle().await;
    (rig, portcullis, attack)
}

#[tokio::test(start_paused = true)]
async fn servers_that_said_once_that_there_is_no_file_cannot_crowd_out_one_that_gives_files() {
    let (rig, portcullis, attack) = four_clients_after(Does::SayAfter(Duration::ZERO, MediaCallError::NotFound)).await;
    let status = portcullis.status();
    // Each of them finds half of what the last one left: of 128 in flight, and of 32 that run.
    assert_eq!((status.budgets.media.in_flight, status.media.running), (64 + 32 + 16 + 8, 16 + 8 + 4 + 2));
    let began = Instant::now();
    let images = (0..60).map(|n| start(&portcullis, 200, &file("healthy.example", &n.to_string()))).collect();
    assert!(all(images).await.iter().all(|got| got.is(CAT)));
    assert_eq!(began.elapsed(), Duration::from_millis(400), "sixteen at a time, as on any other day");
    assert_eq!(all(attack).await.iter().filter(|got| got.status == 504).count(), 120);
    at_rest(&portcullis).await;
    drop(rig);
}

#[tokio::test(start_paused = true)]
async fn servers_that_gave_one_file_and_four_clients_leave_room_for_a_fifth() {
    let (rig, portcullis, attack) = four_clients_after(Does::Give(CAT)).await;
    let status = portcullis.status();
    assert_eq!((status.budgets.media.in_flight, status.media.running), (64 + 64 + 64 + 32, 32 + 16 + 8 + 4));
    // As a browser asks that opens six connections: all come, and without waiting for the attack to end.
    let began = Instant::now();
    for n in 0..10 {
        let images = (0..6).map(|i| start(&portcullis, 200, &file("healthy.example", &format!("{n}-{i}")))).collect();
        assert!(all(images).await.iter().all(|got| got.is(CAT)));
    }
    assert_eq!(began.elapsed(), Duration::from_secs(3), "two at a time");
    // All at once: half of what is left.
    let images = (0..60).map(|n| start(&portcullis, 200, &file("healthy.example", &n.to_string()))).collect();
    let got = all(images).await;
    assert_eq!(got.iter().filter(|got| got.is(CAT)).count(), 16);
    assert_eq!(got.iter().filter(|got| got.status == 429).count(), 44);
    assert_eq!(all(attack).await.iter().filter(|got| got.status == 504).count(), 224);
    // All of them have lost their standing by that.
    let again = (0..64).map(|n| start(&portcullis, 1, &file("s0.example", &format!("again{n}")))).collect::<Vec<_>>();
    settle().await;
    assert_eq!(portcullis.status().media.running, 4);
    assert_eq!(all(again).await.len(), 64);
    at_rest(&portcullis).await;
    drop(rig);
}

#[tokio::test(start_paused = true)]
async fn who_gets_no_turn_in_time_is_told_so_at_its_deadline_and_nobody_is_asked() {
    let rig = Rig::new(silent_but("healthy.example"));
    let limits =
        MediaLimits::new(MediaCaps { max_in_flight: 8, max_per_client: 8, max_running: 4, max_running_per_origin: 4 })
            .unwrap();
    let portcullis = rig.builder().media_limits(limits).build().unwrap();
    let began = Instant::now();
    let started = (0..2).map(|n| start(&portcullis, 1, &file("silent.example", &n.to_string()))).collect();
    settle().await;
    assert_eq!((portcullis.status().media.running, portcullis.status().media.waiting), (1, 1));
    assert!(all(started).await.iter().all(|got| got.outcome() == (504, "M_UNKNOWN")));
    assert_eq!((began.elapsed(), rig.origin.calls()), (Duration::from_secs(30), 1));
    // Nor does it count as a call.
    assert_eq!(portcullis.status().calls.media.timed_out, 1);
    at_rest(&portcullis).await;
}

#[tokio::test(start_paused = true)]
async fn a_whole_file_gives_standing_to_say_no_does_not_and_a_time_out_takes_it() {
    let rig = Rig::new(FakeOrigin::new(|file| match file.media_id.as_str() {
        "none" => Does::SayAfter(Duration::ZERO, MediaCallError::NotFound),
        "broken" => Does::SayAfter(Duration::ZERO, BROKEN),
        "whole" | "another" => Does::Give(CAT),
        _ => Does::StaySilent,
    }));
    let limits = MediaLimits::new(MediaCaps {
        max_in_flight: 16,
        max_per_client: 16,
        max_running: 16,
        max_running_per_origin: 16,
    })
    .unwrap(); // four without standing
    let portcullis = rig.builder().media_limits(limits).build().unwrap();
    for (first, room) in
        [("broken", 4), ("none", 4), ("whole", 16), ("none", 16), ("slow", 4), ("none", 4), ("another", 16)]
    {
        let _ = fetch(&portcullis, 1, &file("them.example", first)).await;
        let mut held = Vec::new();
        for n in 0..20 {
            // A client of its own for each: none has more than its share.
            held.extend(begun(&portcullis, n, &file("them.example", &format!("{first}{n}"))).await.err());
        }
        assert_eq!(held.len(), room, "after {first}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_whose_turn_came_late_proves_nothing_against_the_origin() {
    // The first takes 25 s of the 30, so that the second has 5 s left, and runs out of time.
    let rig = Rig::new(FakeOrigin::new(|file| match file.media_id.as_str() {
        "first" => Does::GiveAfter(Duration::from_secs(25), CAT),
        _ => Does::GiveAfter(Duration::from_secs(20), CAT),
    }));
    let limits = MediaLimits::new(MediaCaps {
        max_in_flight: 16,
        max_per_client: 16,
        max_running: 1,
        max_running_per_origin: 1,
    })
    .unwrap();
    let portcullis = rig.builder().media_limits(limits).build().unwrap();
    let first = start(&portcullis, 1, &file("them.example", "first"));
    let second = start(&portcullis, 1, &file("them.example", "second"));
    assert!(first.await.unwrap().is(CAT));
    assert_eq!((second.await.unwrap().status, rig.origin.calls()), (504, 2));
    let lookups: Vec<_> = (0..16)
        .filter_map(|n| match portcullis.begin(&Gallery, address(n), &file("them.example", &n.to_string())).unwrap() {
            Begun::Media(lookup) => Some(lookup),
            _ => None,
        })
        .collect();
    assert_eq!(lookups.len(), 16, "it still has its standing");
}

#[tokio::test(start_paused = true)]
async fn a_shorter_remote_timeout_is_the_whole_time_of_a_fetch() {
    let rig = Rig::new(silent_but("healthy.example"));
    let portcullis = rig.builder().remote_timeout(RemoteTimeout::new(Duration::from_secs(3)).unwrap()).build().unwrap();
    let began = Instant::now();
    assert_eq!(fetch(&portcullis, 1, &file("silent.example", "a")).await.outcome(), (504, "M_UNKNOWN"));
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_page_of_images_goes_out_at_once_and_past_the_rate_a_client_is_told_when() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::Give(CAT)));
    let limit = RateLimit::new(RateCaps { per_minute: 1, burst: 60 }).unwrap();
    let portcullis = rig.builder().client_rate(RouteClass::Media, limit).build().unwrap();
    let page: Vec<_> = (0..60).map(|n| start(&portcullis, 1, &file("good.example", &format!("image{n}")))).collect();
    let mut got = all(page).await;
    // Those that found the part of an origin without standing full have asked all the same.
    got.retain(|got| got.is(CAT));
    assert!(!got.is_empty());
    let refused = begun(&portcullis, 1, &file("good.example", "another")).await.unwrap();
    assert_eq!(refused.outcome(), (429, "M_LIMIT_EXCEEDED"));
    let content: Value = serde_json::from_slice(&refused.body.unwrap()).unwrap();
    assert!((1..=60_000).contains(&content["retry_after_ms"].as_u64().unwrap()), "{content}");
    assert!(content["error"].as_str().unwrap().contains("Too many files"), "{content}");
    // What is stored, or ours, is not counted.
    assert!(fetch(&portcullis, 1, &file("good.example", "image0")).await.is(CAT));
    assert!(fetch(&portcullis, 1, &file("us.example", "ours")).await.is(CAT));
    assert_eq!(portcullis.status().budgets.media.refused.rate, 1);
    at_rest(&portcullis).await;
}
