//! What comes of asking another server.

use super::*;

const THREE_ROOMS: &str = r##"{"chunk":[
    {"room_id":"!1","num_joined_members":3,"world_readable":true,"guest_can_join":false,"name":"Tea House","x":1},
    {"room_id":"!2","num_joined_members":9,"world_readable":false,"guest_can_join":false,"topic":"coffee"},
    {"room_id":"!3","num_joined_members":1,"world_readable":false,"guest_can_join":true,"canonical_alias":"#c:r.example"}
],"next_batch":"n/1","total_room_count_estimate":3,"secret":"x"}"##;

fn filtered(server: &str) -> Request<Bytes> {
    post(&format!("{LIST}?server={server}"), r#"{"filter":{"generic_search_term":"tea"}}"#)
}

#[tokio::test(start_paused = true)]
async fn f01_f02_f19_over_a_cap_the_answer_is_immediate_and_nobody_is_asked() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = portcullis(2, &remote);
    let Some(Begun::Call(held)) = portcullis.begin(&Home, address(1), &list_of("r.example")) else { panic!() };
    for peer in [1, 2] {
        for request in [list_of("a.example"), alias("%23a:r.example"), filtered("b.example")] {
            let seen = answered_at_once(&portcullis, peer, &request).await.unwrap();
            assert_eq!(seen.outcome(), (429, "M_LIMIT_EXCEEDED"));
            assert_eq!(seen.content["retry_after_ms"], 1000);
            assert_eq!(seen.retry_after.as_deref(), Some("1"));
        }
    }
    assert_eq!(remote.opened(), 0);
    let status = serde_json::to_value(portcullis.status()).unwrap();
    // With every slot taken the client's own cap is not looked at.
    let counted = serde_json::json!({"in_flight":1,"cap":1,"per_client":1,"refused":{"global":6,"client":0,"rate":0}});
    assert_eq!(status["budgets"]["directory"], counted);
    drop(held);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn f03_f05_four_silent_lookups_hold_four_slots_and_the_rest_is_refused() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = builder(8, &remote).remote_timeout(RemoteTimeout::new(3 * SECOND).unwrap()).build().unwrap();
    let start = Instant::now();
    let calls: Vec<_> = (0..20)
        .map(|client| tokio::spawn(portcullis.handle(&Home, address(client), &list_of(&format!("r{client}.example")))))
        .collect();
    let (mut refused, mut timed_out) = (0, 0);
    for call in calls {
        let seen = seen(call.await.unwrap().unwrap()).await;
        match seen.outcome() {
            (429, "M_LIMIT_EXCEEDED") => refused += 1,
            (504, "M_UNKNOWN") => timed_out += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((refused, timed_out, remote.opened()), (16, 4, 4));
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn f06_one_lookup_per_address_and_both_admitted_end_in_time() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = portcullis(8, &remote);
    let start = Instant::now();
    let first = tokio::spawn(portcullis.handle(&Home, address(1), &list_of("r.example")));
    let again = ask(&portcullis, 1, &alias("%23a:other.example")).await;
    assert_eq!(again.outcome(), (429, "M_LIMIT_EXCEEDED"));
    let second = tokio::spawn(portcullis.handle(&Home, address(2), &list_of("r.example")));
    for call in [first, second] {
        assert_eq!(seen(call.await.unwrap().unwrap()).await.outcome(), (504, "M_UNKNOWN"));
    }
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn f07_f08_an_account_buys_no_exemption() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = portcullis(2, &remote);
    let held = tokio::spawn(portcullis.handle(&Home, address(1), &list_of("r.example")));
    for request in [list_of("r.example"), filtered("r.example")] {
        let seen = ask(&portcullis, 2, &request).await;
        assert_eq!((seen.outcome(), seen.retry_after.as_deref()), ((429, "M_LIMIT_EXCEEDED"), Some("1")));
    }
    held.abort();
    let _ = held.await;
    assert_at_rest(&portcullis);
    assert!(answered_at_once(&portcullis, 2, &list_of("r.example")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn f18_br03_the_remote_s_status_and_words_stay_away_from_the_client() {
    const BAD: (u16, &str) = (502, "M_UNKNOWN");
    for (says, list, of_alias) in [
        ((502, "<html>nginx</html>"), BAD, BAD),
        ((500, r#"{"errcode":"M_UNKNOWN","error":"nginx"}"#), BAD, BAD),
        ((401, r#"{"errcode":"M_UNKNOWN_TOKEN","error":"nginx"}"#), BAD, BAD),
        ((429, r#"{"errcode":"M_LIMIT_EXCEEDED","error":"nginx"}"#), BAD, BAD),
        ((301, "nginx"), BAD, BAD),
        ((403, r#"{"errcode":"M_FORBIDDEN","error":"nginx"}"#), (403, "M_FORBIDDEN"), BAD),
        ((404, r#"{"errcode":"M_UNRECOGNIZED","error":"nginx"}"#), BAD, (404, "M_NOT_FOUND")),
        ((200, "nginx"), BAD, BAD),
        ((200, ""), BAD, BAD),
        ((200, "{}"), BAD, BAD),
        ((200, r"[[]]"), BAD, BAD),
        ((200, r#"["!nginx",["nginx"]]"#), BAD, BAD),
        ((200, r#"{"room_id":"!nginx"}"#), BAD, BAD),
        ((200, r#"{"servers":["nginx"]}"#), BAD, BAD),
        ((200, r#"{"chunk":[{"room_id":"!nginx"}]}"#), BAD, BAD),
        ((200, r#"{"chunk":[["!nginx",1,true,true]]}"#), BAD, BAD),
    ] {
        let remote = FakeRemote::saying(says.0, says.1);
        let portcullis = portcullis(2, &remote);
        for (request, expected) in [(list_of("r.example"), list), (alias("%23a:r.example"), of_alias)] {
            let seen = ask(&portcullis, 1, &request).await;
            assert_eq!(seen.outcome(), expected, "{says:?}");
            assert!(!seen.text.contains("nginx"), "{}", seen.text);
            assert_at_rest(&portcullis);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_a_bad_gateway_and_a_panic_frees_the_slot() {
    let unreachable = FakeRemote::new(|_| Does::Fail);
    let to_the_unreachable = portcullis(2, &unreachable);
    for request in [list_of("r.example"), filtered("r.example"), alias("%23a:r.example")] {
        assert_eq!(ask(&to_the_unreachable, 1, &request).await.outcome(), (502, "M_UNKNOWN"));
    }
    assert_at_rest(&to_the_unreachable);

    let panics = FakeRemote::new(|_| Does::Panic);
    let to_the_panicking = portcullis(2, &panics);
    let call = tokio::spawn(to_the_panicking.handle(&Home, address(1), &list_of("r.example")));
    assert!(call.await.unwrap_err().is_panic());
    assert_at_rest(&to_the_panicking);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_passed_on_with_known_fields_alone_and_in_its_order() {
    let remote = FakeRemote::saying(200, THREE_ROOMS);
    let portcullis = portcullis(2, &remote);
    let seen = ask(&portcullis, 1, &list_of("r.example")).await;
    assert_eq!(seen.status, 200);
    let ids: Vec<_> = seen.content["chunk"].as_array().unwrap().iter().map(|room| &room["room_id"]).collect();
    assert_eq!(ids, ["!1", "!2", "!3"]);
    assert_eq!(seen.content["next_batch"], "n/1");
    assert_eq!(seen.content["total_room_count_estimate"], 3);
    assert!(!seen.text.contains("secret") && !seen.text.contains(r#""x""#) && !seen.text.contains("null"));
    assert_eq!(remote.lines(), ["GET /_matrix/federation/v1/publicRooms"]);
}

#[tokio::test(start_paused = true)]
async fn br07_what_the_client_asks_is_sent_with_its_types() {
    let remote = FakeRemote::saying(200, NO_ROOMS);
    let portcullis = portcullis(2, &remote);
    let body = r#"{"limit":20,"include_all_networks":true,"filter":{"room_types":[null,"m.space"]}}"#;
    assert_eq!(ask(&portcullis, 1, &post(&format!("{LIST}?server=r.example:8448"), body)).await.status, 200);
    let sent = remote.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].method, "POST");
    let content: Value = serde_json::from_slice(sent[0].content.as_ref().unwrap()).unwrap();
    assert_eq!(content, serde_json::from_str::<Value>(body).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_post_without_a_filter_is_sent_as_get() {
    let remote = FakeRemote::saying(200, NO_ROOMS);
    let portcullis = portcullis(2, &remote);
    for body in ["{}", r#"{"filter":{},"limit":7,"since":"a/b c"}"#] {
        assert_eq!(ask(&portcullis, 1, &post(&format!("{LIST}?server=r.example"), body)).await.status, 200);
    }
    // The same question by GET is answered from memory.
    assert_eq!(
        ask(&portcullis, 1, &get(&format!("{LIST}?server=R.example&limit=7&since=a%2Fb%20c"))).await.status,
        200
    );
    let lines = remote.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], "GET /_matrix/federation/v1/publicRooms");
    assert!(lines[1].starts_with("GET ") && lines[1].contains("limit=7") && lines[1].contains("a%2Fb"), "{}", lines[1]);
}

#[tokio::test(start_paused = true)]
async fn br13_br56_a_server_that_knows_no_post_is_asked_by_get_and_filtered_here() {
    for (status, body) in [
        (404, r#"{"errcode":"M_UNRECOGNIZED"}"#),
        (405, r#"{"errcode":"M_UNRECOGNIZED"}"#),
        (400, r#"{"errcode":"M_UNRECOGNIZED"}"#),
        (404, ""),
        (404, "404 page not found"),
        (404, r#"{"errcode":"M_NOT_FOUND"}"#),
        (404, "<html>Not Found</html>"),
    ] {
        let remote = FakeRemote::new(move |endpoint| match endpoint.method.as_str() {
            "POST" => Does::Say(status, body.to_owned()),
            _ => Does::Say(200, THREE_ROOMS.to_owned()),
        });
        let portcullis = portcullis(2, &remote);
        let seen = ask(&portcullis, 1, &filtered("r.example")).await;
        assert_eq!(seen.status, 200, "{status} {body}");
        assert_eq!(seen.content["chunk"].as_array().unwrap().len(), 1);
        assert_eq!(seen.content["chunk"][0]["room_id"], "!1");
        assert_eq!(
            remote.lines(),
            ["POST /_matrix/federation/v1/publicRooms", "GET /_matrix/federation/v1/publicRooms"]
        );
        assert_eq!(remote.opened(), 1, "both requests belong to one call");
        // Another filter is another question.
        assert!(answered_at_once(&portcullis, 1, &list_of("r.example")).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_post_has_filtered_already_and_an_error_is_no_reason_to_ask_twice() {
    let filters = FakeRemote::saying(200, THREE_ROOMS);
    let seen = ask(&portcullis(2, &filters), 1, &filtered("r.example")).await;
    assert_eq!(seen.content["chunk"].as_array().unwrap().len(), 3);
    for (status, expected) in [(403, 403), (500, 502), (502, 502)] {
        let remote = FakeRemote::saying(status, "");
        assert_eq!(ask(&portcullis(2, &remote), 1, &filtered("r.example")).await.status, expected);
        assert_eq!(remote.sent().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_request_draws_from_the_same_deadline() {
    let remote = FakeRemote::new(|endpoint| match endpoint.method.as_str() {
        "POST" => Does::SayAfter(6 * SECOND, 404, String::new()),
        _ => Does::StaySilent,
    });
    let portcullis = portcullis(2, &remote);
    let start = Instant::now();
    assert_eq!(ask(&portcullis, 1, &filtered("r.example")).await.outcome(), (504, "M_UNKNOWN"));
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn br25_any_alias_arrives_as_it_was_written() {
    let answer = r#"{"room_id":"!r","servers":["r.example:8448"],"more":1}"#;
    for (encoded, text) in [
        ("%23%C3%B6ffi:r.example:8448", "#öffi:r.example:8448"),
        ("%23%F0%9F%98%80:r.example:8448", "#\u{1f600}:r.example:8448"),
        ("%23a%2Fb:r.example:8448", "#a/b:r.example:8448"),
        ("%23a%25b:r.example:8448", "#a%b:r.example:8448"),
        ("%23a%20b:r.example:8448", "#a b:r.example:8448"),
        ("%23a+b:r.example:8448", "#a+b:r.example:8448"),
    ] {
        let remote = FakeRemote::saying(200, answer);
        let seen = ask(&portcullis(2, &remote), 1, &alias(encoded)).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, r#"{"room_id":"!r","servers":["r.example:8448"]}"#));
        let lines = remote.lines();
        let sent = lines[0].strip_prefix("GET /_matrix/federation/v1/query/directory?room_alias=").unwrap();
        assert!(!sent.contains('+'), "a plus sign would be read as a blank: {sent}");
        assert_eq!(percent_encoding::percent_decode_str(sent).decode_utf8().unwrap(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_remembered_answer_takes_no_slot_and_failures_are_asked_again() {
    let remote = FakeRemote::new(|endpoint| match endpoint.path_and_query.as_str() {
        path if path.contains("query/directory") => Does::Say(404, String::new()),
        path if path.contains("limit") => Does::Fail,
        _ => Does::Say(200, NO_ROOMS.to_owned()),
    });
    let portcullis = portcullis(2, &remote);
    assert_eq!(ask(&portcullis, 1, &list_of("r.example")).await.status, 200);
    assert_eq!(ask(&portcullis, 1, &alias("%23a:r.example")).await.outcome(), (404, "M_NOT_FOUND"));
    let Some(Begun::Call(held)) = portcullis.begin(&Home, address(1), &list_of("s.example")) else { panic!() };
    assert_eq!(answered_at_once(&portcullis, 1, &list_of("R.example")).await.unwrap().status, 200);
    assert_eq!(answered_at_once(&portcullis, 1, &alias("%23a:r.example")).await.unwrap().status, 404);
    drop(held);
    tokio::time::advance(60 * SECOND).await;
    assert!(answered_at_once(&portcullis, 1, &list_of("r.example")).await.is_none());

    let before = remote.opened();
    for _ in 0..2 {
        assert_eq!(ask(&portcullis, 1, &get(&format!("{LIST}?limit=1&server=r.example"))).await.status, 502);
    }
    assert_eq!(remote.opened(), before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_list_is_read_too() {
    let room = r#"{"room_id":"!1","num_joined_members":3,"world_readable":true,"guest_can_join":false,"name":"n"}"#;
    let list = format!(r#"{{"chunk":[{}]}}"#, vec![room; 5000].join(","));
    assert!(list.len() > crate::limits::PARSE_ELSEWHERE_BYTES);
    let remote = FakeRemote::saying(200, &list);
    let seen = ask(&portcullis(2, &remote), 1, &list_of("r.example")).await;
    assert_eq!(seen.content["chunk"].as_array().unwrap().len(), 5000);
}

#[tokio::test(start_paused = true)]
async fn draining_refuses_new_calls_waits_and_then_cuts_the_rest_short() {
    let remote = FakeRemote::new(|endpoint| match endpoint.path_and_query.as_str() {
        path if path.contains("limit=1") => Does::SayAfter(SECOND, 200, NO_ROOMS.to_owned()),
        _ => Does::StaySilent,
    });
    let portcullis = portcullis(8, &remote);
    let start = Instant::now();
    let quick = tokio::spawn(portcullis.handle(&Home, address(1), &get(&format!("{LIST}?limit=1&server=r.example"))));
    let silent = tokio::spawn(portcullis.handle(&Home, address(2), &list_of("r.example")));
    let Some(Begun::Call(late)) = portcullis.begin(&Home, address(3), &list_of("late.example")) else { panic!() };
    tokio::task::yield_now().await;
    let cut_short = {
        let mut drain = Box::pin(portcullis.drain(3 * SECOND));
        assert!(tokio::time::timeout(SECOND, &mut drain).await.is_err());
        let refused = answered_at_once(&portcullis, 4, &list_of("s.example")).await.unwrap();
        assert_eq!(refused.outcome(), (503, "M_UNKNOWN"));
        drain.await
    };
    assert_eq!((cut_short, start.elapsed()), (2, 3 * SECOND));
    assert_eq!(seen(quick.await.unwrap().unwrap()).await.status, 200);
    assert_eq!(seen(silent.await.unwrap().unwrap()).await.outcome(), (503, "M_UNKNOWN"));
    assert_eq!(seen(portcullis.finish(late).await).await.outcome(), (503, "M_UNKNOWN"));
    assert_eq!(remote.opened(), 2, "nothing is started once the stop has come");
    assert_eq!(ask(&portcullis, 3, &get(LIST)).await.status, 200);
    assert_at_rest(&portcullis);
}

#[test]
fn draining_without_a_runtime_is_the_same() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = portcullis(8, &remote);
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| portcullis.handle_blocking(&Home, address(1), &list_of("r.example")).unwrap());
        while remote.opened() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(portcullis.drain_blocking(Duration::from_millis(20)), 1);
        assert_eq!(silent.join().unwrap().status(), 503);
    });
    let refused = portcullis.handle_blocking(&Home, address(2), &list_of("s.example")).unwrap();
    assert_eq!((refused.status().as_u16(), remote.opened()), (503, 1));
    assert_eq!(portcullis.drain_blocking(Duration::MAX), 0);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_portcullis_ends_its_calls_and_frees_their_slots() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = portcullis(8, &remote);
    let budget = portcullis.admission().budget().clone();
    let start = Instant::now();
    let call = tokio::spawn(portcullis.handle(&Home, address(1), &list_of("r.example")));
    tokio::task::yield_now().await;
    assert_eq!(budget.in_flight(), 1);
    drop(portcullis);
    assert_eq!(seen(call.await.unwrap().unwrap()).await.status, 503);
    assert_eq!((budget.in_flight(), start.elapsed()), (0, Duration::ZERO));
}

#[test]
fn d13_a_call_that_never_yields_is_a_timeout_for_the_client_and_keeps_its_slot() {
    let let_go = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&let_go);
    let remote = FakeRemote::new(move |_| Does::BlockUntil(Arc::clone(&held)));
    let portcullis =
        builder(2, &remote).remote_timeout(RemoteTimeout::new(Duration::from_millis(500)).unwrap()).build().unwrap();
    let response = portcullis.handle_blocking(&Home, address(1), &list_of("r.example")).unwrap();
    assert_eq!(response.status(), 504);
    let status = portcullis.status();
    assert_eq!((status.budgets.directory.in_flight, status.federation_worker.overruns), (1, 1));
    let_go.store(true, Ordering::SeqCst);
    while portcullis.admission().budget().in_flight() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_pool_thread_is_served_by_the_worker_and_a_slot_is_free_before_the_answer() {
    let remote = FakeRemote::new(|endpoint| match endpoint.path_and_query.as_str() {
        path if path.contains("limit=1") => Does::Panic,
        path if path.contains("limit=2") => Does::StaySilent,
        _ => Does::Fail,
    });
    let portcullis = builder(2, &remote).build().unwrap();
    let status_from = |portcullis: &Portcullis, request: &Request<Bytes>| {
        portcullis.handle_blocking(&Home, address(1), request).map(|response| response.status().as_u16())
    };
    let status = |request: &Request<Bytes>| status_from(&portcullis, request);
    // The same address at once again, many times: its own slot must never be in the way.
    for _ in 0..200 {
        assert_eq!(status(&list_of("r.example")), Some(502));
    }
    assert_eq!(status(&get(&format!("{LIST}?limit=1&server=r.example"))), Some(502));
    while portcullis.admission().budget().in_flight() > 0 {
        std::thread::yield_now(); // a panic's answer may be seen before its slot
    }
    let hasty =
        builder(2, &remote).remote_timeout(RemoteTimeout::new(Duration::from_millis(500)).unwrap()).build().unwrap();
    assert_eq!(status_from(&hasty, &get(&format!("{LIST}?limit=2&server=r.example"))), Some(504));
    assert_eq!(status(&get(LIST)), Some(200));
    assert_eq!(status(&get("/")), None);
    for portcullis in [&portcullis, &hasty] {
        assert_at_rest(portcullis);
        assert_eq!(portcullis.status().federation_worker.overruns, 0);
    }
}
