//! Room lists and aliases of a real Synapse.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::World;

/// The paths of clients; `server` and the alias are still to come.
const LIST: &str = "/_matrix/client/v3/publicRooms?server=";
const ALIAS: &str = "/_matrix/client/v3/directory/room/";

pub(crate) async fn pages_lead_to_the_end(world: &World) {
    let mut client = world.us().stranger();
    let mut pages = Vec::new();
    let mut since = String::new();
    loop {
        let path = format!("{LIST}{}&limit=50{since}", world.away.server_name);
        let answer = client.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let page = answer.json();
        let next = page["next_batch"].as_str().map(|token| format!("&since={}", encoded(token)));
        pages.push(page);
        let Some(next) = next else { break };
        since = next;
    }
    assert_every_room_in(&pages, world);
}

pub(crate) async fn posted_pages_lead_to_the_end(world: &World) {
    let mut client = world.us().user();
    let mut pages = Vec::new();
    let mut since = None;
    loop {
        // A filter, or it would be asked with GET.
        let content = json!({"limit": 50, "since": since, "filter": {"room_types": [null]}});
        let answer = client.post(&format!("{LIST}{}", world.away.server_name), &content).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        pages.push(answer.json());
        since = pages.last().unwrap()["next_batch"].as_str().map(str::to_owned);
        if since.is_none() {
            break;
        }
    }
    assert_every_room_in(&pages, world);
}

fn assert_every_room_in(pages: &[Value], world: &World) {
    let sizes: Vec<_> = pages.iter().map(|page| page["chunk"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [50, 50, 21]);
    let has = |token| pages.iter().map(|page| page[token].is_string()).collect::<Vec<_>>();
    assert_eq!((has("next_batch"), has("prev_batch")), (vec![true, true, false], vec![false, true, true]));
    let rooms: BTreeSet<_> = pages.iter().flat_map(ids).collect();
    let expected = world.away.page_room_ids.iter().chain([&world.away.room_id]).cloned().collect();
    assert_eq!(rooms, expected);
}

fn ids(page: &Value) -> Vec<String> {
    page["chunk"].as_array().unwrap().iter().map(|room| room["room_id"].as_str().unwrap().to_owned()).collect()
}

pub(crate) async fn a_search_finds_its_room(world: &World) {
    let content = json!({"limit": 10, "filter": {"generic_search_term": "gatehouse"}});
    let answer = world.us().user().post(&format!("{LIST}{}", world.away.server_name), &content).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(ids(&answer.json()), [world.away.room_id.as_str()]);
    let room = &answer.json()["chunk"][0];
    assert_eq!(room["canonical_alias"], world.away.alias);
    assert_eq!((&room["name"], &room["num_joined_members"]), (&json!("Gatehouse"), &json!(1)));
    // Strangers may not post.
    let answer = world.us().stranger().post(&format!("{LIST}{}", world.away.server_name), &content).await;
    assert_eq!(answer.verdict(), (401, "M_MISSING_TOKEN".into()));
}

pub(crate) async fn a_room_type_is_passed_on(world: &World) {
    let content = json!({"filter": {"room_types": ["m.space"]}});
    let answer = world.us().user().post(&format!("{LIST}{}", world.away.server_name), &content).await;
    assert_eq!((answer.status, ids(&answer.json())), (200, Vec::new()));
}

pub(crate) async fn a_broken_page_token_is_the_remotes_failure(world: &World) {
    // A Synapse answers 500 to it.
    let answer = world.us().stranger().get(&format!("{LIST}{}&since=nonsense", world.away.server_name)).await;
    assert_eq!(answer.verdict(), (502, "M_UNKNOWN".into()));
    assert!(!answer.json()["error"].as_str().unwrap().contains("Internal"), "{answer:?}");
}

pub(crate) async fn an_alias_is_found(world: &World) {
    let answer = world.us().stranger().get(&format!("{ALIAS}{}", encoded(&world.away.alias))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json(), json!({"room_id": world.away.room_id, "servers": [world.away.server_name]}));
}

pub(crate) async fn an_unknown_alias_is_not_found(world: &World) {
    let alias = format!("#nobody:{}", world.away.server_name);
    let answer = world.us().stranger().get(&format!("{ALIAS}{}", encoded(&alias))).await;
    assert_eq!(answer.verdict(), (404, "M_NOT_FOUND".into()));
}

pub(crate) async fn an_answer_is_remembered(world: &World) {
    let path = format!("{ALIAS}{}", encoded(&format!("#page-007:{}", world.away.server_name)));
    let mut client = world.us().stranger();
    let first = client.get(&path).await;
    assert_eq!(first.json()["room_id"], world.away.page_room_ids[7]);
    let stopped = world.away.stopped();
    let second = client.get(&path).await;
    drop(stopped);
    assert_eq!((second.status, second.body), (200, first.body));
}

/// Percent-encoded whole, for a path or for a query.
pub(crate) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
