//! A homeserver that hangs: it takes connections and never says a word, as a process that was stopped does.
//!
//! *Attack:* stop it, or wait until it is slow by itself, and ask with made-up tokens, each of which has to be asked about.
//! *Control:* questions wait as tasks under caps of their own and a request gets its thread afterwards
//! (`HomeserverRuntime::before`, `PooledHomeserver::handle`). *Unplug:* wait for the question on the pool
//! (`Handle::block_on` in `on_the_pool`): no thread is idle and `/versions` is not answered. Without the caps of
//! `TokenDesk::new`, `a_flood_…` counts 200 questions; without the place of who waits for another's answer
//! (`Step::Follow` in `TokenDesk::verdict`) `one_made_up_token_…` finds nobody refused for it. One budget for lists and files
//! (`Upstream::pass_on`), or the cap alone (`FairBudget::take`): `four_clients_…` fails. As many places as connections
//! (`LongAnswers::within`): `what_may_take_long_…` gets no connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::rig::{Behind, Front, LIST, REMOTE_FILE, Says, THREADS, config, json};
use crate::support::{Behaviour, PrivateCa, TlsPeer, json_answer, until};

const OWN_FILE: &str = "/_matrix/client/v1/media/download/us.example/abc";
const OWN_ALIAS: &str = "/_matrix/client/v3/directory/room/%23a:us.example";

/// One client of many.
fn client(number: u8) -> [u8; 4] {
    [127, 7, 0, number]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_made_up_tokens_leaves_every_request_thread_free() {
    // The system takes the connections; nobody ever reads.
    let stopped = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = Arc::new(Front::start(&config(stopped.local_addr().unwrap()), &PrivateCa::new()));
    let mut flood = JoinSet::new();
    for number in 0..200_u8 {
        let front = Arc::clone(&front);
        flood.spawn(async move {
            let token = format!("Authorization: Bearer made-up-{number}\r\n");
            front.ask(client(number % 40), &format!("GET {REMOTE_FILE}"), &token).await.status
        });
    }
    until("questions out", 64, || front.status().token_questions.in_flight).await;
    let refused = || usize::try_from(front.status().token_questions.refused).unwrap();
    until("refused at once", 136, refused).await;
    until("idle threads", THREADS, || front.idle_threads()).await;
    // While all of that waits.
    let versions = tokio::time::timeout(Duration::from_secs(5), front.get("/_matrix/client/versions")).await;
    assert_eq!(versions.expect("not answered while questions are out").status, 200);
    assert_eq!(front.status().token_questions.in_flight, 64, "they are still out");
    let mut statuses = flood.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![502; 64], vec![503; 136]].concat());
    front.comes_to_rest().await;
}

/// So many requests of `number`, each a task.
fn ask_often(flood: &mut JoinSet<u16>, front: &Arc<Front>, number: u8, path: &'static str, often: usize) {
    for _ in 0..often {
        let front = Arc::clone(front);
        flood.spawn(async move { front.ask(client(number), &format!("GET {path}"), "").await.status });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_clients_that_hold_files_leave_room_for_a_fifth_and_are_in_the_way_of_no_list() {
    let behind =
        Behind::saying(
            |arrived| {
                if arrived.target().contains("/media/") { Says::Nothing } else { json(200, r#"{"chunk":[]}"#) }
            },
        )
        .await;
    let front = Arc::new(Front::of(&behind));
    let files = || front.status().passed_on.files;
    let mut flood = JoinSet::new();
    for (number, held) in [(1, 64), (2, 96), (3, 112), (4, 120)] {
        ask_often(&mut flood, &front, number, OWN_FILE, 65);
        until("files on their way", held, || files().in_flight).await;
    }
    until("refused", 4 * 65 - 120, || usize::try_from(files().refused).unwrap()).await;
    let one_more = front.ask(client(1), &format!("GET {OWN_FILE}"), "").await;
    assert_eq!((one_more.status, one_more.header("retry-after")), (503, Some("1")));
    assert!(one_more.text().contains("M_UNKNOWN"), "{one_more:?}");
    for path in [LIST, OWN_ALIAS, "/_matrix/key/v2/server"] {
        assert_eq!(front.ask(client(5), &format!("GET {path}"), "").await.status, 200, "{path}");
    }
    assert_eq!((files().in_flight, front.idle_threads()), (120, THREADS), "they are still out");
    ask_often(&mut flood, &front, 5, OWN_FILE, 1);
    until("files with the fifth's", 121, || files().in_flight).await;
    let statuses = flood.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 121);
    front.comes_to_rest().await;
    until("connections behind", 0, || behind.open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_aliases_wait_without_a_thread_and_under_caps_of_their_own() {
    let behind = Behind::saying(|_| Says::Nothing).await;
    let front = Arc::new(Front::of(&behind));
    let small = || front.status().passed_on.small;
    let mut flood = JoinSet::new();
    ask_often(&mut flood, &front, 1, LIST, 9);
    ask_often(&mut flood, &front, 1, OWN_ALIAS, 8);
    until("of one client", 16, || small().in_flight).await;
    until("refused", 1, || usize::try_from(small().refused).unwrap()).await;
    for (number, held) in [(2, 32), (3, 48), (4, 56), (5, 60)] {
        ask_often(&mut flood, &front, number, LIST, 16);
        until("of all", held, || small().in_flight).await;
    }
    assert_eq!((small().cap, front.idle_threads()), (64, THREADS));
    let statuses = flood.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 60);
    front.comes_to_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_made_up_token_does_not_shut_the_listener() {
    let behind = Behind::saying(|_| Says::Nothing).await;
    let mut config = config(behind.address);
    config.trusted_proxies = vec!["127.7.0.1/32".parse().unwrap()];
    let front = Arc::new(Front::start_with_connections(256, &config, &PrivateCa::new()));
    let mut flood = JoinSet::new();
    for _ in 0..128 {
        let front = Arc::clone(&front);
        flood.spawn(async move {
            let stranger = "X-Forwarded-For: 203.0.113.7\r\nAuthorization: Bearer made-up\r\n";
            front.ask(client(1), &format!("GET {REMOTE_FILE}"), stranger).await.status
        });
    }
    let waiters = || front.status().token_waiters;
    let refused = || usize::try_from(waiters().refused + front.long_answers.status().refused).unwrap();
    until("refused at once", 128 - 1 - 64, refused).await;
    assert_eq!((waiters().in_flight, front.status().token_questions.in_flight), (64, 1));
    let versions = tokio::time::timeout(Duration::from_secs(5), front.get("/_matrix/client/versions")).await;
    assert_eq!(versions.expect("not answered while others wait").status, 200);
    assert_eq!(waiters().in_flight, 64, "they still wait");
    let mut statuses = flood.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![502; 65], vec![503; 63]].concat());
    front.comes_to_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_take_long_leaves_connections_to_lookups_and_lists() {
    let ca = PrivateCa::new();
    let peer =
        TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::answers(|_| json_answer(200, r#"{"chunk":[]}"#)))
            .await;
    let behind = Behind::saying(|arrived| if arrived.target() == LIST { json(200, "{}") } else { Says::Nothing }).await;
    // An eighth of them is not for what takes long, and an eighth of the rest is for lists alone.
    let front = Arc::new(Front::start_with_connections(32, &config(behind.address), &ca));
    let long = || front.long_answers.status();
    let mut flood = JoinSet::new();
    for number in 1..=25 {
        if number % 2 == 0 {
            ask_often(&mut flood, &front, number, OWN_FILE, 1);
        } else {
            let front = Arc::clone(&front);
            flood.spawn(async move {
                let token = format!("Authorization: Bearer made-up-{number}\r\n");
                front.ask(client(number), &format!("GET {REMOTE_FILE}"), &token).await.status
            });
        }
    }
    until("long answers", 25, || long().in_flight).await;
    for number in 26..=60 {
        let refused = front.ask(client(number), &format!("GET {OWN_FILE}"), "").await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    }
    let lookup = front.get(&format!("{LIST}?server={}", peer.address())).await;
    assert_eq!((lookup.status, lookup.text()), (200, r#"{"chunk":[]}"#));
    assert_eq!(front.get(LIST).await.status, 200, "nor is the own list in the way of files");
    assert_eq!((long().cap, long().in_flight, long().refused), (28, 25, 35));
    assert_eq!(flood.join_all().await, [502; 25]);
    front.comes_to_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_that_need_no_token_go_on() {
    let ca = PrivateCa::new();
    let peer =
        TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::answers(|_| json_answer(200, r#"{"chunk":[]}"#)))
            .await;
    let behind = Behind::saying(|_| Says::Nothing).await;
    let front = Front::start(&config(behind.address), &ca);
    let answer = front.get_as(&format!("{LIST}?server={}", peer.address()), "made-up").await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"chunk":[]}"#));
    assert_eq!(behind.seen().len(), 0);
}
