//! One bad server, or many requests to it: nobody else waits, and nothing is left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis::limits;
use tokio::task::JoinSet;

use crate::loopback::{World, ask, ask_from_a_thread, assert_at_rest, client, get};
use crate::support::{Behaviour, SeenRequest, descriptors, json_answer, until};

const ROOM: &str = r#"{"room_id":"!r:r.example","servers":["r.example"]}"#;

fn alias_at(name: &str, server: &str) -> String {
    format!("/_matrix/client/v3/directory/room/%23{name}:{server}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_87_one_silent_alias_does_not_hold_up_the_others_of_its_server() {
    let world = World::new().await;
    let answers = |request: &SeenRequest| {
        if request.target().contains("silent") { Vec::new() } else { json_answer(200, ROOM) }
    };
    let (peer, server) = world.peer("r.example", Behaviour::answers(answers)).await;
    let portcullis = world.portcullis(None);
    let silent = {
        let (portcullis, request) = (portcullis.clone(), get(&alias_at("silent", &server)));
        tokio::spawn(async move { ask_from_a_thread(&portcullis, client(1), request).await })
    };
    peer.asked().await;
    for number in 2..12 {
        let request = get(&alias_at(&format!("a{number}"), &server));
        assert_eq!(ask_from_a_thread(&portcullis, client(number), request.clone()).await.status, 200);
        assert_eq!(ask(&portcullis, client(number), &get(&alias_at(&format!("b{number}"), &server))).await.status, 200);
    }
    assert!(!silent.is_finished(), "the others waited for the silent one");
    assert_eq!(portcullis.admission().budget().in_flight(), 1);
    assert_eq!(silent.await.unwrap().outcome(), (504, "M_UNKNOWN".to_owned()));
    assert_at_rest(&portcullis);
    peer.all_closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_89_a_hundred_requests_to_a_silent_server_are_a_hundred_answers_and_nothing_is_left() {
    let world = World::new().await;
    let (peer, server) = world.peer("r.example", Behaviour::TlsSilent).await;
    let allowed = Duration::from_secs(2);
    let portcullis = world.portcullis(Some(allowed));
    let mut asking = JoinSet::new();
    for number in 0..100 {
        let (portcullis, request) = (portcullis.clone(), get(&alias_at(&format!("a{number}"), &server)));
        asking.spawn(async move { ask_from_a_thread(&portcullis, client(number), request).await });
    }
    let mut outcomes = BTreeMap::<_, usize>::new();
    while let Some(answer) = asking.join_next().await {
        let answer = answer.unwrap();
        answer.assert_headers();
        assert!(answer.took <= allowed + limits::WORKER_MARGIN, "{answer:?}");
        *outcomes.entry(answer.status).or_default() += 1;
    }
    assert_eq!(outcomes.keys().copied().collect::<Vec<_>>(), [429, 504], "{outcomes:?}");
    assert_eq!(outcomes.values().sum::<usize>(), 100);
    assert_at_rest(&portcullis);
    peer.all_closed().await;
    until("sockets", 0, || descriptors::towards(peer.address().port()).len()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_89_a_server_killed_in_the_middle_leaves_neither_slots_nor_sockets() {
    for (behaviour, seen_by_then) in [
        (Behaviour::TcpSilent, false),
        (Behaviour::TlsSilent, true),
        (Behaviour::HeaderDrip, true),
        (Behaviour::BodyDrip, true),
    ] {
        let world = World::new().await;
        let (peer, server) = world.peer("r.example", behaviour).await;
        let port = peer.address().port();
        let portcullis = world.portcullis(None);
        let mut asking = JoinSet::new();
        for number in 0..4 {
            let (portcullis, request) = (portcullis.clone(), get(&alias_at(&format!("a{number}"), &server)));
            asking.spawn(async move { ask_from_a_thread(&portcullis, client(number), request).await });
        }
        until("calls under way", 4, || if seen_by_then { peer.requests().len() } else { peer.open() }).await;
        assert_eq!(portcullis.admission().budget().in_flight(), 4);
        drop(peer);
        while let Some(answer) = asking.join_next().await {
            let answer = answer.unwrap();
            assert_eq!(answer.outcome(), (502, "M_UNKNOWN".to_owned()), "{answer:?}");
            answer.assert_headers();
        }
        assert_at_rest(&portcullis);
        until("sockets", 0, || descriptors::towards(port).len()).await;
        // The next one is not held up by what was.
        let next = ask_from_a_thread(&portcullis, client(1), get(&alias_at("next", &server))).await;
        assert_eq!(next.outcome(), (502, "M_UNKNOWN".to_owned()));
    }
}
