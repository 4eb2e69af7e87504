//! `serve` in front of a real Synapse, under its name and with its key.

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::files::{assert_has_the_bytes_of, assert_is};
use crate::lists::encoded;
use crate::rig::{Client, Serve, Setup};
use crate::world::World;

const LIST: &str = "/_matrix/client/v3/publicRooms";
const ALIAS: &str = "/_matrix/client/v3/directory/room/";
const DOWNLOAD: &str = "/_matrix/client/v1/media/download/";
const VERSIONS: &str = "/_matrix/client/versions";
/// More than there are threads, and than may ask about their token at once.
const FORGED_TOKENS: usize = 200;

fn in_front(world: &World) -> Serve {
    Serve::start(&Setup::in_front_of(&world.home))
}

fn stranger(serve: &Serve) -> Client {
    Client::of(serve.address())
}

fn user(world: &World, serve: &Serve) -> Client {
    stranger(serve).with_token(&world.home.access_token)
}

pub(crate) async fn local_lists_come_from_behind(world: &World) {
    let serve = in_front(world);
    let rooms = |list: &Value| list["chunk"].as_array().unwrap().len();
    let direct = Client::of(world.home.address()).get(LIST).await.json();
    assert_eq!(rooms(&direct), world.home.page_room_ids.len() + 1);
    assert_eq!(stranger(&serve).get(LIST).await.json(), direct);
    // Our own name is no other server.
    let path = format!("{LIST}?server={}", world.home.server_name);
    assert_eq!(stranger(&serve).get(&path).await.json()["chunk"], direct["chunk"]);
    let content = json!({"filter": {"generic_search_term": "gatehouse"}});
    let found = user(world, &serve).post(LIST, &content).await;
    assert_eq!((found.status, rooms(&found.json())), (200, 1));
}

pub(crate) async fn local_aliases_come_from_behind(world: &World) {
    let serve = in_front(world);
    let answer = stranger(&serve).get(&format!("{ALIAS}{}", encoded(&world.home.alias))).await;
    assert_eq!((answer.status, &answer.json()["room_id"]), (200, &json!(world.home.room_id)));
    let unknown = format!("{ALIAS}{}", encoded(&format!("#nobody:{}", world.home.server_name)));
    assert_eq!(stranger(&serve).get(&unknown).await.verdict(), (404, "M_NOT_FOUND".into()));
}

pub(crate) async fn own_files_come_from_behind(world: &World) {
    let serve = in_front(world);
    for kind in ["png", "binary"] {
        let file = &world.home.media[kind];
        // With its own headers.
        assert_has_the_bytes_of(&user(world, &serve).get(&format!("{DOWNLOAD}{}", file.path())).await, file);
    }
    let path = format!("{DOWNLOAD}{}", world.home.media["png"].path());
    assert_eq!(stranger(&serve).get(&path).await.status, 401);
}

pub(crate) async fn a_token_is_known_behind(world: &World) {
    let serve = in_front(world);
    let path = format!("{LIST}?server={}", world.away.server_name);
    let content = json!({"limit": 61, "filter": {"generic_search_term": "gatehouse"}});
    let answer = user(world, &serve).post(&path, &content).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["chunk"][0]["room_id"], world.away.room_id);
    for _ in 0..2 {
        let answer = stranger(&serve).with_token("syt_forged").post(&path, &content).await;
        assert_eq!(answer.verdict(), (401, "M_UNKNOWN_TOKEN".into()));
    }
    assert_eq!(stranger(&serve).post(&path, &content).await.verdict(), (401, "M_MISSING_TOKEN".into()));
}

pub(crate) async fn an_alias_is_made_and_removed_through_us(world: &World) {
    let serve = in_front(world);
    let path = format!("{ALIAS}{}", encoded(&format!("#through-us:{}", world.home.server_name)));
    let mut client = user(world, &serve);
    // One of a run that was cut short.
    client.ask(Method::DELETE, &path, "").await;
    let content = json!({"room_id": world.home.room_id}).to_string();
    assert_eq!(stranger(&serve).ask(Method::PUT, &path, &content).await.verdict(), (401, "M_MISSING_TOKEN".into()));
    let made = client.ask(Method::PUT, &path, &content).await;
    assert_eq!((made.status, made.json()), (200, json!({})));
    assert_eq!(client.get(&path).await.json()["room_id"], world.home.room_id);
    assert_eq!(client.ask(Method::DELETE, &path, "").await.status, 200);
    assert_eq!(client.get(&path).await.verdict(), (404, "M_NOT_FOUND".into()));
}

/// The Synapse that is asked fetches the key from the Synapse behind us: the key is that one's.
pub(crate) async fn other_servers_are_asked_with_its_key(world: &World) {
    let serve = in_front(world);
    let list = stranger(&serve).get(&format!("{LIST}?server={}&limit=62", world.away.server_name)).await;
    assert_eq!((list.status, list.json()["chunk"].as_array().unwrap().len()), (200, 62));
    let alias = stranger(&serve).get(&format!("{ALIAS}{}", encoded(&world.away.alias))).await;
    assert_eq!((alias.status, &alias.json()["room_id"]), (200, &json!(world.away.room_id)));
    for kind in ["png", "binary"] {
        let file = &world.away.media[kind];
        assert_is(&user(world, &serve).get(&format!("{DOWNLOAD}{}", file.path())).await, file);
    }
    let document = stranger(&serve).get("/_matrix/key/v2/server").await.json();
    let direct = Client::of(world.home.address()).get("/_matrix/key/v2/server").await.json();
    assert_eq!(document["verify_keys"], direct["verify_keys"]);
}

pub(crate) async fn while_it_is_stopped_the_rest_works(world: &World) {
    let serve = in_front(world);
    // Its key is known where it is asked for.
    let path = |limit| format!("{LIST}?server={}&limit={limit}", world.away.server_name);
    assert_eq!(stranger(&serve).get(&path(63)).await.status, 200);
    let stopped = world.home.stopped();
    assert_eq!(stranger(&serve).get(VERSIONS).await.status, 200);
    let list = stranger(&serve).get(&path(64)).await;
    let alias = stranger(&serve).get(&format!("{ALIAS}{}", encoded(&world.away.alias))).await;
    let local = stranger(&serve).get(LIST).await;
    drop(stopped);
    assert_eq!(list.json()["chunk"].as_array().unwrap().len(), 64);
    assert_eq!(alias.json()["room_id"], world.away.room_id);
    assert_eq!(local.verdict(), (502, "M_UNKNOWN".into()));
    assert_eq!(stranger(&serve).get(LIST).await.status, 200, "it goes on as soon as the homeserver does");
}

pub(crate) async fn forged_tokens_take_no_thread(world: &World) {
    let serve = in_front(world);
    let stopped = world.home.stopped();
    let mut forged = JoinSet::new();
    for number in 0..FORGED_TOKENS {
        let mut client = Client::numbered(serve.address(), number).with_token(&format!("syt_forged{number}"));
        let path = format!("{LIST}?server={}", world.away.server_name);
        forged.spawn(async move { client.post(&path, &json!({})).await.status });
    }
    // While they are out, and after they were refused or given up.
    for _ in 0..50 {
        assert_eq!(stranger(&serve).get(VERSIONS).await.status, 200);
    }
    let answers = forged.join_all().await;
    drop(stopped);
    assert!(answers.iter().all(|status| [502, 503].contains(status)), "{answers:?}");
    assert_eq!(stranger(&serve).get(VERSIONS).await.status, 200);
}
