//! A filter that costs more than the deadline.
//!
//! *Attack:* a peer that answers POST with 405 is asked again with GET, and its list is filtered here. The list is the
//! peer's, the filter the client's, and both are the attacker's: a search term of 40 KB, looked for in 46,000 rooms, kept
//! both threads of the federation worker busy for a minute, and no deadline can cut what does not yield. *Control:* a
//! filter has a size (`limits::MAX_SEARCH_TERM_BYTES`, `limits::MAX_ROOM_TYPES`, looked at in
//! `src/proxy/public_rooms.rs`), it is prepared once, and what a large body is for is done off the worker's threads
//! (`src/outbound/body.rs`). *Unplug:* take the two bounds out of `checked`: the first test fails.

use bytes::Bytes;
use http::Request;
use portcullis::Portcullis;
use portcullis::limits::{MAX_ROOM_LIST_BYTES, MAX_ROOM_TYPES, MAX_SEARCH_TERM_BYTES};

use crate::rig::{
    Does, Home, NO_ROOMS, Names, Outside, PUBLIC, assert_at_rest, client, get, list_of, portcullis_of_eight, read,
};

/// As many of the smallest rooms as the largest list holds.
fn largest_list() -> &'static str {
    let room =
        r#"{"room_id":"!r","name":"xxxxxxxx","num_joined_members":1,"world_readable":true,"guest_can_join":false}"#;
    let rooms = vec![room; (MAX_ROOM_LIST_BYTES - 100) / (room.len() + 1)];
    format!(r#"{{"chunk":[{}]}}"#, rooms.join(",")).leak()
}

/// Two bytes that become three when they are made small letters.
fn term(bytes: usize) -> String {
    "\u{23a}".repeat(bytes / 2)
}

async fn post(portcullis: &Portcullis, n: u8, page: usize, filter: serde_json::Value) -> (u16, String) {
    let body = serde_json::json!({ "filter": filter, "limit": page }).to_string();
    let request = Request::post(list_of("costly.example:8448", page))
        .header("authorization", "Bearer secret-token")
        .body(Bytes::from(body))
        .unwrap();
    read(portcullis.handle(&Home, client(n), &request).await.unwrap()).await
}

#[tokio::test]
async fn a_filter_that_costs_too_much_is_refused_and_nobody_is_asked() {
    let names = Names::all_at(PUBLIC.parse().unwrap());
    let outside = Outside::that(Does::KnowsNoPost(NO_ROOMS));
    let portcullis = portcullis_of_eight(&names, &outside);
    for filter in [
        serde_json::json!({ "generic_search_term": term(40_000) }),
        serde_json::json!({ "room_types": vec!["x"; MAX_ROOM_TYPES + 1] }),
    ] {
        let (status, body) = post(&portcullis, 1, 1, filter).await;
        assert!(status == 400 && body.contains("M_INVALID_PARAM"), "{status} {body}");
    }
    assert_eq!((names.asked(), outside.dialled().len()), (0, 0));
    assert_at_rest(&portcullis);
}

#[test]
fn the_costliest_filter_that_is_allowed_holds_up_nobody() {
    let list = largest_list();
    let outside = Outside::by(move |attempt| match attempt.request.headers()["host"].to_str().unwrap() {
        "costly.example:8448" => Does::KnowsNoPost(list),
        _ => Does::Answers(NO_ROOMS),
    });
    let portcullis = portcullis_of_eight(&Names::all_at(PUBLIC.parse().unwrap()), &outside);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| {
        for n in 1..=2 {
            let (portcullis, runtime) = (&portcullis, runtime.handle().clone());
            scope.spawn(move || {
                let types = vec!["m.space"; MAX_ROOM_TYPES - 1].into_iter().map(Some).chain([None]);
                let filter = serde_json::json!({
                    "generic_search_term": term(MAX_SEARCH_TERM_BYTES), "room_types": types.collect::<Vec<_>>(),
                });
                let body = serde_json::json!({ "filter": filter }).to_string();
                let request = Request::post(list_of("costly.example:8448", usize::from(n)))
                    .header("authorization", "Bearer secret-token")
                    .body(Bytes::from(body))
                    .unwrap();
                let answer = portcullis.handle_blocking(&Home, client(n), &request).unwrap();
                assert_eq!(runtime.block_on(read(answer)).0, 200);
            });
        }
        for page in 1..=20 {
            let answer = portcullis.handle_blocking(&Home, client(9), &get(&list_of("other.example:8448", page)));
            assert_eq!(answer.unwrap().status(), 200);
        }
    });
    assert_eq!(portcullis.status().federation_worker.overruns, 0);
    assert_at_rest(&portcullis);
}
