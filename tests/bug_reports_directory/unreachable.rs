//! Servers that are not there: a definite error in time, never a spinner, never an empty list.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use portcullis::limits;

use crate::loopback::{ClientAnswer, World, ask, ask_from_a_thread, assert_at_rest, client, get, post};
use crate::support::{Behaviour, BlackHole, Says, tls_peer::refusing_address};

/// A client that was told nothing by then tells its user itself.
const CLIENT_GIVES_UP: Duration = Duration::from_secs(10);
/// A common front proxy that waited longer answers by itself, and a browser cannot read that.
const FRONT_PROXY_GIVES_UP: Duration = Duration::from_secs(30);

fn alias_at(server: &str) -> String {
    format!("/_matrix/client/v3/directory/room/%23a:{server}")
}

fn assert_timed_out(answer: &ClientAnswer, by: Duration) {
    assert_eq!(answer.outcome(), (504, "M_UNKNOWN".to_owned()), "{answer:?}");
    answer.assert_headers();
    assert!(answer.content().get("chunk").is_none());
    assert!(answer.took < by, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_05_a_dead_server_s_list_is_an_error_in_time_and_no_empty_list() {
    let world = World::new().await;
    let black_hole = BlackHole::new().await;
    let server = world.name("r.example", black_hole.address());
    let portcullis = world.portcullis(Some(Duration::from_secs(5)));
    let list = format!("/_matrix/client/v3/publicRooms?server={server}");
    for request in [get(&list), post(&list, r#"{"filter":{"generic_search_term":"a"}}"#)] {
        let answer = ask_from_a_thread(&portcullis, client(1), request).await;
        assert_at_rest(&portcullis);
        assert_timed_out(&answer, Duration::from_millis(5500));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_15_an_alias_at_a_silent_server_is_a_504_in_time() {
    let world = World::new().await;
    let allowed = Duration::from_secs(3);
    for silent in [Behaviour::TcpSilent, Behaviour::TlsSilent] {
        let (peer, server) = world.peer("r.example", silent).await;
        let portcullis = world.portcullis(Some(allowed));
        let answer = ask_from_a_thread(&portcullis, client(1), get(&alias_at(&server.replace(':', "%3A")))).await;
        assert_at_rest(&portcullis);
        assert_timed_out(&answer, allowed + limits::WORKER_MARGIN);
        assert_eq!(peer.accepted(), 1);
        peer.all_closed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_17_every_error_is_readable_across_origins_and_comes_before_a_front_proxy_s_own() {
    let world = World::new().await;
    let (_silent, silent) = world.peer("silent.example", Behaviour::TlsSilent).await;
    let (_drip, drip) = world.peer("drip.example", Behaviour::BodyDrip).await;
    let (_reset, reset) = world.peer("reset.example", Behaviour::Reset).await;
    let black_hole = BlackHole::new().await;
    let dead = world.name("dead.example", black_hole.address());
    let closed = world.name("closed.example", refusing_address());
    world.dns.say("quiet.example", Says::Nothing);
    world.at("inside.example", &[[10, 0, 0, 1].into()]);
    let servers =
        [&silent, &drip, &reset, &dead, &closed, "quiet.example", "inside.example:1", "nowhere.example", "127.1"];
    // Each with a budget of its own, all at once.
    let asking = servers.map(|server| {
        let (portcullis, request) = (world.portcullis(None), get(&alias_at(server)));
        tokio::spawn(async move { ask(&portcullis, client(1), &request).await })
    });
    for (server, answer) in servers.iter().zip(asking) {
        let answer = answer.await.unwrap();
        assert!(answer.status >= 400, "{server}: {answer:?}");
        assert!(!answer.content()["errcode"].as_str().unwrap().is_empty());
        answer.assert_headers();
        assert!(answer.took < FRONT_PROXY_GIVES_UP, "{server}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_23_an_unreachable_server_is_an_error_before_the_client_gives_up_with_default_settings() {
    let world = World::new().await;
    // Nobody gives their well-known files: nothing listens there.
    let nobody = IpAddr::from(Ipv4Addr::new(127, 83, 82, 86));
    let holes = [BlackHole::new().await, BlackHole::new().await, BlackHole::new().await];
    let port = |index: usize| holes[index].address().port();
    world.at("target.example", &[holes[0].address().ip()]);
    for (name, service, targets) in [
        ("one.example", "_matrix-fed._tcp.one.example", vec![("target.example", port(0))]),
        ("old.example", "_matrix._tcp.old.example", vec![("target.example", port(0))]),
        (
            "three.example",
            "_matrix-fed._tcp.three.example",
            vec![("target.example", port(0)), ("target.example", port(1)), ("target.example", port(2))],
        ),
    ] {
        world.at(name, &[nobody]);
        world.dns.say(service, Says::Served(targets));
    }
    // Nor is their zone answered at all.
    for name in ["quiet.example", "_matrix-fed._tcp.quiet.example", "_matrix._tcp.quiet.example"] {
        world.dns.say(name, Says::Nothing);
    }
    let (_tls_silent, tls_silent) = world.peer("tls.example", Behaviour::TcpSilent).await;

    let servers = ["one.example", "old.example", "three.example", "quiet.example", &tls_silent];
    let asking = servers.map(|server| {
        let (portcullis, request) = (world.portcullis(None), get(&alias_at(server)));
        tokio::spawn(async move { ask_from_a_thread(&portcullis, client(1), request).await })
    });
    for (server, answer) in servers.iter().zip(asking) {
        let answer = answer.await.unwrap();
        println!("{server}: {:?}", answer.took);
        assert_timed_out(&answer, CLIENT_GIVES_UP);
    }
}
