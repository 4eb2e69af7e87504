//! A homeserver that hangs: it takes connections and never says a word, as a process that was stopped does.
//!
//! *Attack:* stop it, or wait until it is slow by itself, and ask with made-up tokens, each of which has to be asked about.
//! *Control:* questions wait as tasks under caps of their own and a request gets its thread afterwards
//! (`HomeserverRuntime::before`, `PooledHomeserver::handle`). *Unplug:* wait for the question on the pool
//! (`Handle::block_on` in `on_the_pool`): no thread is idle and `/versions` is not answered. Without the caps of
//! `TokenDesk::new`, `a_flood_…` counts 200 questions.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::rig::{Behind, Front, LIST, REMOTE_FILE, Says, THREADS, config};
use crate::support::{Behaviour, PrivateCa, TlsPeer, json_answer, until};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_requests_wait_without_a_thread_and_under_caps_of_their_own() {
    let behind = Behind::saying(|_| Says::Nothing).await;
    let front = Arc::new(Front::of(&behind));
    let mut flood = JoinSet::new();
    // 65 of one client, the last of which is one too many, and as many of others as fill the whole.
    for number in 0..65 {
        let front = Arc::clone(&front);
        flood.spawn(async move { front.ask(client(1), &format!("GET {LIST}?limit={number}"), "").await.status });
    }
    until("requests of one client", 64, || front.status().passed_on.in_flight).await;
    until("refused", 1, || usize::try_from(front.status().passed_on.refused).unwrap()).await;
    for number in 2..5 {
        for _ in 0..64 {
            let front = Arc::clone(&front);
            flood.spawn(async move { front.ask(client(number), &format!("GET {LIST}"), "").await.status });
        }
    }
    until("requests of all", 256, || front.status().passed_on.in_flight).await;
    let one_more = front.ask(client(9), &format!("GET {LIST}"), "").await;
    assert_eq!((one_more.status, one_more.header("retry-after")), (503, Some("1")));
    assert!(one_more.text().contains("M_UNKNOWN"), "{one_more:?}");
    assert_eq!(front.idle_threads(), THREADS);
    assert_eq!(front.get("/_matrix/key/v2/server").await.status, 200);
    let statuses = flood.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 256);
    front.comes_to_rest().await;
    until("connections behind", 0, || behind.open()).await;
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
