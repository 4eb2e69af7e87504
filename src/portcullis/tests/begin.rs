//! What is decided before anything leaves the server.

use super::*;

fn untouched() -> FakeRemote {
    FakeRemote::new(|_| panic!("nothing may be asked"))
}

#[tokio::test(start_paused = true)]
async fn f11_f16_the_local_list_needs_neither_slot_nor_token() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let portcullis = portcullis(2, &remote);
    let Some(Begun::Call(held)) = portcullis.begin(&Home, address(1), &list_of("r.example")) else { panic!() };
    for request in
        [get(LIST), get("/_matrix/client/r0/publicRooms?limit=3"), post(LIST, "{}"), alias("%23here:us.example")]
    {
        assert_eq!(answered_at_once(&portcullis, 1, &request).await.unwrap().status, 200, "{request:?}");
    }
    assert_eq!(portcullis.admission().budget().in_flight(), 1);
    drop(held);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn br01_own_name_is_answered_here_under_every_spelling() {
    let remote = untouched();
    let portcullis = portcullis(2, &remote);
    for name in ["us.example", "US.example", "us.example:8448", "us.example%3A8448"] {
        for request in [list_of(name), post(&format!("{LIST}?server={name}"), "{}")] {
            let seen = answered_at_once(&portcullis, 1, &request).await.unwrap();
            assert_eq!((seen.status, &seen.content["chunk"][0]["room_id"]), (200, &"!here".into()));
        }
        let found = answered_at_once(&portcullis, 1, &alias(&format!("%23here:{name}"))).await.unwrap();
        assert_eq!(found.text, r#"{"room_id":"!here","servers":["us.example"]}"#);
    }
    assert!(answered_at_once(&portcullis, 1, &list_of("us.example:8449")).await.is_none());
    assert_eq!(remote.opened(), 0);
}

#[tokio::test(start_paused = true)]
async fn f15_post_needs_a_token_wherever_it_leads() {
    let remote = untouched();
    let portcullis = portcullis(2, &remote);
    for query in ["", "?server=r.example", "?server=us.example", "?server=r.example&access_token=good"] {
        let bare = Request::post(format!("{LIST}{query}"));
        let with = |value: &str| Request::post(format!("{LIST}{query}")).header("authorization", value.to_owned());
        for (request, errcode) in [
            (bare, "M_MISSING_TOKEN"),
            (with("Basic good"), "M_MISSING_TOKEN"),
            (with("Bearer"), "M_MISSING_TOKEN"),
            (with("Bearer  "), "M_MISSING_TOKEN"),
            (with("Bearer bad"), "M_UNKNOWN_TOKEN"),
            (with("bearer bad"), "M_UNKNOWN_TOKEN"),
        ] {
            // The body is not even looked at.
            let request = request.body(Bytes::from_static(b"nonsense")).unwrap();
            let seen = answered_at_once(&portcullis, 1, &request).await.unwrap();
            assert_eq!(seen.outcome(), (401, errcode), "{request:?}");
        }
    }
    let lower_case =
        Request::post(LIST).header("authorization", "bearer good").body(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(answered_at_once(&portcullis, 1, &lower_case).await.unwrap().status, 200);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn what_is_claimed_is_what_is_begun() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let (mut claimed, mut others) = (0, 0);
    for legacy in [false, true] {
        let portcullis = builder(8, &remote).legacy_media(legacy).build().unwrap();
        for path in [
            LIST,
            "/_matrix/client/r0/publicRooms?server=r.example",
            "/_matrix/client/v3/%70ublicRooms?server=127.1",
            "/_matrix/client/v3/publicRooms/",
            "/_matrix/client/v2/publicRooms",
            "/_matrix/client/v3/directory/room/%23a:r.example",
            "/_matrix/client/v3/directory/room/nonsense",
            "/_matrix/client/v3/directory/room/",
            "/_matrix/client/v3/directory/list/room/!a",
            "/_matrix/client/v1/media/download/r.example/a",
            "/_matrix/client/v1/media/thumbnail/127.1/a",
            "/_matrix/client/v1/media/config",
            "/_matrix/media/v3/download/r.example/a/b.png",
            "/_matrix/media/v3/upload",
            "/_matrix/client/v3/sync",
            "/",
        ] {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"] {
                let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
                let begun = portcullis.begin(&Home, address(1), &request).is_some();
                assert_eq!(Portcullis::claims(request.method(), request.uri()), begun, "{method} {path}");
                *if begun { &mut claimed } else { &mut others } += 1;
            }
        }
    }
    // 3 lists under 4 methods, 2 aliases and 3 files under 3.
    assert_eq!((claimed, others), (2 * (3 * 4 + 5 * 3), 2 * (16 * 8 - 27)));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_looked_up_logs_nobody_out() {
    let remote = untouched();
    let portcullis = builder(2, &remote).require_token_for_remote(true).build().unwrap();
    for (token, outcome, soft_logout, retry_after) in [
        ("bad", (401, "M_UNKNOWN_TOKEN"), false, None),
        ("soft", (401, "M_UNKNOWN_TOKEN"), true, None),
        ("locked", (401, "M_USER_LOCKED"), true, None),
        ("down", (503, "M_UNKNOWN"), false, Some("5")),
    ] {
        let file = get("/_matrix/client/v1/media/download/r.example/a");
        for mut request in [post(LIST, "{}"), list_of("r.example"), alias("%23a:r.example"), file] {
            request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            let seen = answered_at_once(&portcullis, 1, &request).await.unwrap();
            assert_eq!((seen.outcome(), seen.retry_after.as_deref()), (outcome, retry_after), "{token}");
            assert_eq!(seen.content.get("soft_logout").is_some_and(|said| said == true), soft_logout, "{token}");
        }
    }
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn anonymous_gets_can_be_closed_and_local_answers_stay_open() {
    let remote = FakeRemote::saying(200, NO_ROOMS);
    let closed = builder(4, &remote).require_token_for_remote(true).build().unwrap();
    let with_token = |mut request: Request<Bytes>| {
        request.headers_mut().insert(AUTHORIZATION, "Bearer good".parse().unwrap());
        request
    };
    for request in [list_of("r.example"), alias("%23a:r.example")] {
        let seen = answered_at_once(&closed, 1, &request).await.unwrap();
        assert_eq!(seen.outcome(), (401, "M_MISSING_TOKEN"));
        assert!(answered_at_once(&closed, 1, &with_token(request)).await.is_none());
    }
    assert_eq!(answered_at_once(&closed, 1, &get(LIST)).await.unwrap().status, 200);
    assert_eq!(answered_at_once(&closed, 1, &list_of("us.example")).await.unwrap().status, 200);
    // What is remembered is not open to those who may not ask.
    assert_eq!(ask(&closed, 1, &with_token(list_of("r.example"))).await.status, 200);
    assert_eq!(ask(&closed, 1, &list_of("r.example")).await.errcode(), "M_MISSING_TOKEN");
}

#[tokio::test(start_paused = true)]
async fn br09_a_malformed_server_is_a_bad_parameter_and_asks_nobody() {
    let remote = untouched();
    let portcullis = portcullis(2, &remote);
    let long = "a".repeat(300);
    for server in
        ["", "[", "a%20b", "a:b:c", "%23x", "%C3%A9.example", &long, "a%00b", "127.1", "r.example:0", "a&server=b"]
    {
        for request in [list_of(server), post(&format!("{LIST}?server={server}"), "{}")] {
            let seen = answered_at_once(&portcullis, 1, &request).await.unwrap();
            assert_eq!(seen.outcome(), (400, "M_INVALID_PARAM"), "{server}");
        }
    }
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn br11_br07_bad_list_parameters_are_refused_before_a_slot() {
    let remote = untouched();
    let portcullis = portcullis(2, &remote);
    for query in ["limit=NOT_INTEGER", "limit=-1", "include_all_networks=true&third_party_instance_id=x"] {
        for request in [get(&format!("{LIST}?{query}&server=r.example")), get(&format!("{LIST}?{query}"))] {
            let seen = answered_at_once(&portcullis, 1, &request).await.unwrap();
            assert_eq!(seen.outcome(), (400, "M_INVALID_PARAM"), "{query}");
        }
    }
    for (body, errcode) in [
        (r#"{"limit":"20"}"#, "M_BAD_JSON"),
        (r#"{"limit":-1}"#, "M_INVALID_PARAM"),
        ("[]", "M_BAD_JSON"),
        ("", "M_NOT_JSON"),
        ("{", "M_NOT_JSON"),
    ] {
        for path in [format!("{LIST}?server=r.example"), LIST.to_owned()] {
            let seen = answered_at_once(&portcullis, 1, &post(&path, body)).await.unwrap();
            assert_eq!(seen.outcome(), (400, errcode), "{body}");
        }
    }
    let bad_token = answered_at_once(&portcullis, 1, &get(&format!("{LIST}?since=x"))).await.unwrap();
    assert_eq!(bad_token.outcome(), (400, "M_INVALID_PARAM"));
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn br21_what_is_no_alias_is_a_bad_parameter_and_asks_nobody() {
    let remote = untouched();
    let portcullis = portcullis(2, &remote);
    let long = format!("%23{}:r.example", "a".repeat(245));
    for text in ["foo", "%23", "%23a", "%23a:", "!a:b", &long, "%23a%00:r.example", "%23a:127.1", "%ff"] {
        let seen = answered_at_once(&portcullis, 1, &alias(text)).await.unwrap();
        assert_eq!(seen.outcome(), (400, "M_INVALID_PARAM"), "{text}");
    }
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn f18_an_unknown_local_alias_is_not_found() {
    let portcullis = portcullis(2, &untouched());
    let seen = answered_at_once(&portcullis, 1, &alias("%23gone:us.example")).await.unwrap();
    assert_eq!(seen.outcome(), (404, "M_NOT_FOUND"));
}

#[tokio::test(start_paused = true)]
async fn other_requests_are_not_ours_and_a_preflight_does_no_work() {
    let portcullis = portcullis(2, &untouched());
    for (method, path) in [
        ("GET", "/_matrix/client/versions"),
        ("GET", "/"),
        ("PUT", "/_matrix/client/v3/directory/room/%23a:r.example"),
        ("POST", "/_matrix/client/v3/directory/room/%23a:r.example"),
        ("DELETE", "/_matrix/client/v3/publicRooms?server=r.example"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
        assert!(portcullis.begin(&Home, address(1), &request).is_none(), "{method} {path}");
        assert!(portcullis.handle(&Home, address(1), &request).await.is_none());
    }
    for path in [format!("{LIST}?server=["), format!("{ALIAS}foo"), LIST.to_owned()] {
        let request = Request::options(path).body(Bytes::new()).unwrap();
        assert_eq!(answered_at_once(&portcullis, 1, &request).await.unwrap().status, 200);
    }
    let head = Request::head(LIST).body(Bytes::new()).unwrap();
    assert_eq!(answered_at_once(&portcullis, 1, &head).await.unwrap().status, 200);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_address_counts_only_from_a_listed_proxy() {
    let remote = FakeRemote::new(|_| Does::StaySilent);
    let listed = TrustedProxies::new(["198.51.100.1/32".parse().unwrap()]);
    let portcullis = builder(16, &remote).trusted_proxies(listed).build().unwrap();
    let begin = |peer, client: &str| {
        let request = Request::get(format!("{LIST}?server=r.example")).header("x-forwarded-for", client);
        portcullis.begin(&Home, address(peer), &request.body(Bytes::new()).unwrap()).unwrap()
    };
    let first = begin(1, "203.0.113.1");
    let second = begin(1, "203.0.113.2");
    let unlisted = begin(2, "203.0.113.3");
    assert!(matches!((&first, &second, &unlisted), (Begun::Call(_), Begun::Call(_), Begun::Call(_))));
    assert!(matches!(begin(1, "203.0.113.2"), Begun::Answer(_)));
    assert!(matches!(begin(2, "203.0.113.4"), Begun::Answer(_)));
}

#[tokio::test(start_paused = true)]
async fn destination_rules_come_before_the_slot_and_before_a_remembered_answer() {
    struct Rules(AtomicBool);
    impl DestinationRules for Rules {
        fn judge(&self, destination: &ServerName) -> DestinationVerdict {
            match destination.as_str() {
                "hidden.example" => DestinationVerdict::Hidden,
                _ if self.0.load(Ordering::Relaxed) => DestinationVerdict::Forbidden,
                _ => DestinationVerdict::Allowed,
            }
        }
    }
    let rules = Arc::new(Rules(AtomicBool::new(false)));
    let hook: Arc<dyn DestinationRules> = Arc::<Rules>::clone(&rules);
    let remote = FakeRemote::saying(200, NO_ROOMS);
    let portcullis = builder(4, &remote).destination_rules(hook).build().unwrap();
    assert_eq!(ask(&portcullis, 1, &list_of("hidden.example")).await.outcome(), (404, "M_NOT_FOUND"));
    assert_eq!(ask(&portcullis, 1, &list_of("r.example")).await.status, 200);
    assert_eq!(ask(&portcullis, 1, &list_of("r.example")).await.status, 200);
    rules.0.store(true, Ordering::Relaxed);
    assert_eq!(ask(&portcullis, 1, &list_of("r.example")).await.outcome(), (403, "M_FORBIDDEN"));
    assert_eq!(remote.opened(), 1);
}

#[test]
fn a_portcullis_and_its_halves_cross_threads() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    shared::<Portcullis>();
    sent::<Begun>();
    sent::<RemoteLookup>();
}
