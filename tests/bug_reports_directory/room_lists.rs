//! Remote room lists: what is asked, of whom, and what becomes of the answer.

use std::sync::Arc;

use parking_lot::Mutex;
use portcullis::{ClientKey, OutboundRoute};
use serde_json::{Value, json};

use crate::loopback::{ClientAnswer, OWN_ROOM, POOL, World, ask, assert_at_rest, client, get, post};
use crate::support::{Behaviour, SeenRequest, json_answer};

const LIST: &str = "/_matrix/client/v3/publicRooms";
const NO_ROOMS: &str = r#"{"chunk":[]}"#;

fn list_of(server: &str) -> String {
    format!("{LIST}?server={server}")
}

fn assert_error(answer: &ClientAnswer, status: u16, errcode: &str) {
    assert_eq!(answer.outcome(), (status, errcode.to_owned()), "{answer:?}");
    answer.assert_headers();
    assert!(answer.content().get("chunk").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_01_the_own_name_is_answered_from_the_local_list_and_nothing_is_dialled() {
    let world = World::new().await;
    let portcullis = world.portcullis(None);
    // No slot is free: an answer that needs one is refused.
    let route = OutboundRoute::PublicRooms { server: "elsewhere.example".parse().unwrap() };
    let admit =
        |number| portcullis.admission().admit(&ClientKey::vouched(client(number), Default::default()), route.clone());
    let _held: Vec<_> = (0..4).map(|number| admit(number).unwrap()).collect();
    for server in ["hs.self.example", "HS.Self.Example", "hs.self.example:8448", "hs.SELF.example%3A8448"] {
        for request in [post(&list_of(server), "{}"), get(&list_of(server))] {
            let answer = ask(&portcullis, client(1), &request).await;
            assert_eq!(answer.status, 200, "{server}: {answer:?}");
            answer.assert_headers();
            assert_eq!(answer.content()["chunk"][0]["room_id"], OWN_ROOM);
        }
    }
    let alias = get("/_matrix/client/v3/directory/room/%23here:HS.self.example:8448");
    assert_eq!(ask(&portcullis, client(1), &alias).await.content()["room_id"], OWN_ROOM);
    assert_eq!(portcullis.admission().budget().in_flight(), POOL / 2);
    assert_eq!(world.dns.asked(), Vec::<String>::new());
    // A near miss is another server, and wants a slot.
    let near_miss = ask(&portcullis, client(9), &get(&list_of("hs.self.example:8449"))).await;
    assert_error(&near_miss, 429, "M_LIMIT_EXCEEDED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_03_a_front_proxy_s_page_is_a_502_in_json_for_any_page_to_read() {
    let world = World::new().await;
    for status in [500, 502, 503, 504] {
        let page = "<html><h1>Bad gateway</h1></html>";
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", page.len());
        let answer = [head.as_bytes(), page.as_bytes()].concat();
        let (_peer, server) = world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await;
        let portcullis = world.portcullis(None);
        for request in [post(&list_of(&server), "{}"), get(&list_of(&server))] {
            // Four times, for the report was about some of several calls.
            for _ in 0..4 {
                let answer = ask(&portcullis, client(1), &request).await;
                assert_error(&answer, 502, "M_UNKNOWN");
                assert!(!answer.text.contains('<'), "{answer:?}");
                assert_at_rest(&portcullis);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_07_numbers_booleans_and_nulls_arrive_as_what_they_are() {
    let world = World::new().await;
    let (peer, server) = world.peer("r.example", Behaviour::answers(|_| json_answer(200, NO_ROOMS))).await;
    let portcullis = world.portcullis(None);
    let asked = json!({"limit": 20, "include_all_networks": true, "filter": {"room_types": [null, "m.space"]}});
    assert_eq!(ask(&portcullis, client(1), &post(&list_of(&server), &asked.to_string())).await.status, 200);
    let more = json!({
        "limit": 1, "since": "7", "third_party_instance_id": "true", "filter": {"generic_search_term": "null"}
    });
    assert_eq!(ask(&portcullis, client(1), &post(&list_of(&server), &more.to_string())).await.status, 200);
    for (request, expected) in peer.requests().iter().zip([asked, more]) {
        assert!(request.line.starts_with("POST /_matrix/federation/v1/publicRooms "), "{request:?}");
        assert_eq!(request.only("content-type"), "application/json");
        // A value of another type is not equal.
        assert_eq!(serde_json::from_slice::<Value>(&request.body).unwrap(), expected);
    }
    assert_eq!(peer.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_07_a_client_s_value_of_the_wrong_type_is_refused_and_not_passed_on() {
    let world = World::new().await;
    let (peer, server) = world.peer("r.example", Behaviour::answers(|_| json_answer(200, NO_ROOMS))).await;
    let portcullis = world.portcullis(None);
    for body in [
        r#"{"limit":"20"}"#,
        r#"{"limit":2.5}"#,
        r#"{"limit":1e2}"#,
        r#"{"limit":true}"#,
        r#"{"limit":[20]}"#,
        r#"{"include_all_networks":"true"}"#,
        r#"{"include_all_networks":1}"#,
        r#"{"since":7}"#,
        r#"{"third_party_instance_id":7}"#,
        r#"{"filter":"a"}"#,
        r#"{"filter":[]}"#,
        r#"{"filter":{"generic_search_term":7}}"#,
        r#"{"filter":{"room_types":"m.space"}}"#,
        r#"{"filter":{"room_types":[7]}}"#,
        "[]",
        "7",
    ] {
        let answer = ask(&portcullis, client(1), &post(&list_of(&server), body)).await;
        assert_error(&answer, 400, "M_BAD_JSON");
    }
    assert_error(
        &ask(&portcullis, client(1), &post(&list_of(&server), r#"{"limit":-1}"#)).await,
        400,
        "M_INVALID_PARAM",
    );
    assert_error(&ask(&portcullis, client(1), &post(&list_of(&server), "{")).await, 400, "M_NOT_JSON");
    assert_eq!(world.dns.asked(), Vec::<String>::new());
    assert_eq!(peer.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_09_a_malformed_server_is_a_400_and_nothing_is_looked_up() {
    let world = World::new().await;
    let portcullis = world.portcullis(None);
    let long = "a".repeat(300);
    for server in [
        "%5B",
        "a%20b",
        "a+b",
        "a:b:c",
        "%23x",
        "%C3%A9.example",
        "\u{e9}.example",
        &long,
        "a%00b",
        "",
        "%20",
        "%5D",
        "%5B::1",
        "%5B127.0.0.1%5D",
        "a..b",
        ".a",
        "-a",
        "a.",
        "a_b",
        "a%2Fb",
        "a%5Cb",
        "u%40a",
        "a%3Fb",
        "a%25b",
        "a%0Ab",
        "a:",
        "a:0",
        "a:080",
        "a:%2B80",
        "a:99999",
        "127.1",
        "0x7f.1",
        "010.0.0.1",
        "256.1.1.1",
        "2130706433",
        "%FF",
        "r.example&server=r.example",
    ] {
        for request in [get(&list_of(server)), post(&list_of(server), "{}")] {
            let answer = ask(&portcullis, client(1), &request).await;
            assert_error(&answer, 400, "M_INVALID_PARAM");
        }
    }
    assert_eq!(world.dns.asked(), Vec::<String>::new());
    assert_at_rest(&portcullis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_11_a_parameter_that_does_not_parse_is_m_invalid_param() {
    let world = World::new().await;
    let portcullis = world.portcullis(None);
    for parameter in [
        "limit=NOT_INTEGER",
        "limit=",
        "limit",
        "limit=-1",
        "limit=%2B1",
        "limit=1.0",
        "limit=1e2",
        "limit=0x10",
        "limit=%201",
        "limit=99999999999999999999",
        "limit=1&limit=2",
        "include_all_networks=yes",
        "include_all_networks=1",
        "since=a&since=b",
        "since=%FF",
    ] {
        for of_whom in ["", "&server=r.example"] {
            let answer = ask(&portcullis, client(1), &get(&format!("{LIST}?{parameter}{of_whom}"))).await;
            assert_error(&answer, 400, "M_INVALID_PARAM");
        }
    }
    assert_eq!(world.dns.asked(), Vec::<String>::new());
}

/// All the ways in which servers say that they do not know POST.
const KNOWS_NO_POST: [(u16, &str); 8] = [
    (404, r#"{"errcode":"M_UNRECOGNIZED","error":"Unrecognized request"}"#),
    (405, r#"{"errcode":"M_UNRECOGNIZED","error":"Unrecognized request"}"#),
    (405, ""),
    (404, r#"{"errcode":"M_NOT_FOUND","error":"No resource was found"}"#),
    (404, "<html><h1>Not Found</h1></html>"),
    (404, "404 page not found"),
    (404, ""),
    (400, r#"{"errcode":"M_UNRECOGNIZED","error":"Unrecognized request"}"#),
];

const THREE_ROOMS: &str = r#"{"next_batch":"n","chunk":[
    {"room_id":"!1:r.example","num_joined_members":3,"world_readable":true,"guest_can_join":false,"name":"Gardens"},
    {"room_id":"!2:r.example","num_joined_members":2,"world_readable":true,"guest_can_join":false,"name":"Chess club"},
    {"room_id":"!3:r.example","num_joined_members":1,"world_readable":true,"guest_can_join":false,"name":"Gardens",
     "room_type":"m.space"}]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_13_a_server_without_post_is_asked_with_get_and_filtered_here_in_one_slot() {
    for (status, says) in KNOWS_NO_POST {
        let world = World::new().await;
        let portcullis = world.portcullis(None);
        let slots = Arc::new(Mutex::new(Vec::new()));
        let held = (Arc::clone(&slots), Arc::clone(&portcullis));
        let answers = move |request: &SeenRequest| {
            held.0.lock().push(held.1.admission().budget().in_flight());
            if request.line.starts_with("POST") { json_answer(status, says) } else { json_answer(200, THREE_ROOMS) }
        };
        let (peer, server) = world.peer("r.example", Behaviour::answers(answers)).await;
        let body = r#"{"limit":7,"since":"s","filter":{"generic_search_term":"garden","room_types":[null]}}"#;
        let answer = ask(&portcullis, client(1), &post(&list_of(&server), body)).await;
        assert_eq!(answer.status, 200, "{status} {says}: {answer:?}");
        let content = answer.content();
        assert_eq!(content["chunk"].as_array().unwrap().len(), 1, "{content}");
        assert_eq!((&content["chunk"][0]["room_id"], &content["next_batch"]), (&json!("!1:r.example"), &json!("n")));
        let seen: Vec<_> = peer.requests().into_iter().map(|request| request.line).collect();
        assert_eq!(
            seen,
            [
                "POST /_matrix/federation/v1/publicRooms HTTP/1.1",
                "GET /_matrix/federation/v1/publicRooms?limit=7&since=s HTTP/1.1",
            ]
        );
        assert_eq!(*slots.lock(), [1, 1]);
        assert_at_rest(&portcullis);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_13_another_refusal_of_post_is_the_answer_and_get_is_not_tried() {
    let world = World::new().await;
    for (status, says, expected) in [
        (403, r#"{"errcode":"M_FORBIDDEN","error":""}"#, (403, "M_FORBIDDEN")),
        (404, r#"{"errcode":"M_LIMIT_EXCEEDED","error":""}"#, (502, "M_UNKNOWN")),
        (400, r#"{"errcode":"M_BAD_JSON","error":""}"#, (502, "M_UNKNOWN")),
        (400, "", (502, "M_UNKNOWN")),
        (500, r#"{"errcode":"M_UNRECOGNIZED","error":""}"#, (502, "M_UNKNOWN")),
    ] {
        let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| json_answer(status, says))).await;
        let portcullis = world.portcullis(None);
        let request = post(&list_of(&server), r#"{"filter":{"generic_search_term":"a"}}"#);
        assert_error(&ask(&portcullis, client(1), &request).await, expected.0, expected.1);
        assert!(peer.only_request().line.starts_with("POST"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_13_the_second_request_draws_from_what_the_first_left_of_the_deadline() {
    let world = World::new().await;
    let allowed = std::time::Duration::from_secs(3);
    // To GET it says nothing at all.
    let answers = |request: &SeenRequest| {
        if request.line.starts_with("POST") { json_answer(404, KNOWS_NO_POST[0].1) } else { Vec::new() }
    };
    let (peer, server) = world.peer("r.example", Behaviour::answers(answers)).await;
    let portcullis = world.portcullis(Some(allowed));
    let request = post(&list_of(&server), r#"{"filter":{"generic_search_term":"a"}}"#);
    let answer = ask(&portcullis, client(1), &request).await;
    assert_error(&answer, 504, "M_UNKNOWN");
    assert!(answer.took <= allowed + portcullis::limits::WORKER_MARGIN, "{answer:?}");
    assert_eq!(peer.requests().len(), 2);
    assert_at_rest(&portcullis);
    peer.all_closed().await;
}
