//! Servers of strangers that take every call and answer none.
//!
//! *Attack:* from many addresses, ask for files of a silent server, and of several, until all slots are held: nobody's
//! pictures load any more; or of servers that answered once, for that. *Control:* an origin that gave no file lately gets a
//! part of the slots, and all of them together get half (`src/proxy/media/standing.rs`), as of the turns; a client that
//! holds as much as is left gets no more (`src/proxy/media/turns/census.rs`), and has a share (`src/admission/budget.rs`).
//! *Unplug:* let every origin have standing: the first test counts all slots held, and the second finds the good origin
//! refused. Let a 404 give standing: the third fails. Let clients take the last of it: the third and the fourth fail.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use portcullis::media::{MediaCaps, MediaLimits};
use portcullis::{Begun, MediaLookup, RemoteTimeout};
use tokio::task::JoinSet;

use super::media_order::TheirTokens;
use crate::loopback::media::{MediaHome, ask, download, request};
use crate::loopback::{World, client};
use crate::support::{Behaviour, SeenRequest, SentFile, TlsPeer, json_answer, until};

/// Of 32 in flight an unproven origin may have 8 and all of them 16; of 16 that run, 2 and 8. A client: 8.
fn limits() -> MediaLimits {
    MediaLimits::new(MediaCaps { max_in_flight: 32, max_per_client: 8, max_running: 16, max_running_per_origin: 8 })
        .unwrap()
}

/// The `n`th subscriber, each of a /64 of its own and at another address in it each time.
fn subscriber(n: u64, host: u64) -> IpAddr {
    Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | (u128::from(n) << 64) | u128::from(host)).into()
}

fn try_begin(home: &MediaHome, from: IpAddr, server: &str, media_id: &str) -> Option<MediaLookup> {
    match home.portcullis.begin(&TheirTokens, from, &request(&download(server, media_id))).unwrap() {
        Begun::Media(lookup) => Some(lookup),
        Begun::Answer(answer) => {
            assert_eq!(answer.status(), 429);
            None
        }
        other @ Begun::Call(_) => panic!("{other:?}"),
    }
}

fn in_flight(home: &MediaHome) -> usize {
    home.portcullis.status().budgets.media.in_flight
}

/// Answers whoever does not ask for silence.
async fn answering(world: &World, name: &str, answer: Vec<u8>) -> (TlsPeer, String) {
    let behaviour =
        move |request: &SeenRequest| if request.target().contains("silent") { Vec::new() } else { answer.clone() };
    world.peer(name, Behaviour::answers(behaviour)).await
}

async fn good(world: &World) -> (TlsPeer, String) {
    answering(world, "good.example", SentFile::png(b"a picture").answer()).await
}

async fn silent(world: &World, count: usize) -> Vec<(TlsPeer, String)> {
    let mut silent = Vec::new();
    for number in 0..count {
        silent.push(world.peer(&format!("s{number}.example"), Behaviour::TlsSilent).await);
    }
    silent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_silent_origins_and_one_client_may_have_is_exact_and_comes_back() {
    let world = World::new().await;
    let (_good, proven) = good(&world).await;
    let silent = silent(&world, 4).await;
    let home = world.media_with(|builder| builder.media_limits(limits()));
    home.ask(client(1), &download(&proven, "a")).await.assert_file(b"a picture");
    home.at_rest().await;
    let mut held = Vec::new();
    for (number, (_, server)) in (0..).zip(&silent) {
        // Fifty subscribers; each of them under two addresses.
        let tries = (0..100).map(|n| (subscriber(1000 * number + n / 2, n), format!("f{n}")));
        let got: Vec<_> = tries.filter_map(|(from, id)| try_begin(&home, from, server, &id)).collect();
        let expected = if number < 2 { 8 } else { 0 };
        assert_eq!(got.len(), expected, "{server}");
        held.extend(got);
    }
    assert_eq!(in_flight(&home), 16, "half of all");
    // One client has its share and no more, whoever is asked; the proven origin gives it.
    let one: Vec<_> =
        (0..40).filter_map(|n| try_begin(&home, subscriber(9, n), &proven, &format!("silent{n}"))).collect();
    assert_eq!((one.len(), in_flight(&home)), (8, 24));
    // And the rest is free for others.
    let rest: Vec<_> =
        (0..40).filter_map(|n| try_begin(&home, subscriber(100 + n, 0), &proven, &format!("silent{n}"))).collect();
    assert_eq!((rest.len(), in_flight(&home)), (8, 32));
    let refused = home.portcullis.status().budgets.media.refused;
    assert_eq!(refused.client, 32);
    assert_eq!(refused.global, 384 + 32);
    drop((held, one));
    assert_eq!(in_flight(&home), 8);
    drop(rest);
    assert_eq!(in_flight(&home), 0);
    assert!(silent.iter().all(|(peer, _)| peer.accepted() == 0), "a slot alone calls nobody");
    home.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_silent_origins_have_all_they_may_a_proven_one_is_read_from_at_once() {
    let world = World::new().await;
    let (origin, proven) = good(&world).await;
    let silent = silent(&world, 4).await;
    let home = world.media_with(|builder| {
        builder.media_limits(limits()).remote_timeout(RemoteTimeout::new(Duration::from_secs(6)).unwrap())
    });
    home.ask(client(1), &download(&proven, "a")).await.assert_file(b"a picture");
    home.at_rest().await;
    let mut asking = JoinSet::new();
    let mut count = 0;
    for (number, (_, server)) in (0..).zip(&silent) {
        for n in 0..20 {
            let Some(lookup) = try_begin(&home, subscriber(1000 * number + n, 0), server, &format!("f{n}")) else {
                continue;
            };
            count += 1;
            asking.spawn(home.portcullis.finish_media(lookup));
        }
    }
    assert_eq!(count, 16);
    for n in 0..20 {
        let (portcullis, path) = (home.portcullis.clone(), download(&proven, &format!("p{n}")));
        ask(&portcullis, client(1), &path).await.assert_file(b"a picture");
    }
    // The silent ones had everything they may have all the while.
    // What was read last may still be on its way to the disk.
    until("fetches that run", 4, || home.portcullis.status().media.running).await;
    assert_eq!((in_flight(&home), home.portcullis.status().media.waiting), (16, 12));
    assert_eq!(silent.iter().map(|(peer, _)| peer.requests().len().min(2)).collect::<Vec<_>>(), [2, 2, 0, 0]);
    for answer in asking.join_all().await {
        assert!(matches!(answer.status().as_u16(), 504), "{answer:?}");
    }
    home.at_rest().await;
    for (peer, _) in &silent {
        peer.all_closed().await;
    }
    assert_eq!(origin.requests().len(), 21);
}

/// Six names answer one question each with `answer`, and nothing more; four clients ask them for all they may have, and a
/// fifth loads twenty pictures of a server that is well. How much the four held meanwhile.
async fn four_clients_and_names_that_answered_once(answer: Vec<u8>, status: u16) -> usize {
    let world = World::new().await;
    let (_good, proven) = good(&world).await;
    let home = world.media_with(|builder| {
        builder.media_limits(limits()).remote_timeout(RemoteTimeout::new(Duration::from_secs(6)).unwrap())
    });
    home.ask(client(1), &download(&proven, "a")).await.assert_file(b"a picture");
    let mut names = Vec::new();
    for number in 0..6 {
        let name = answering(&world, &format!("t{number}.example"), answer.clone()).await;
        assert_eq!(home.ask(client(1), &download(&name.1, "once")).await.status, status);
        names.push(name);
    }
    home.at_rest().await;
    let mut asking = JoinSet::new();
    for attacker in 0..4 {
        for (n, (_, server)) in (0..24).zip(names.iter().cycle()) {
            if let Some(lookup) = try_begin(&home, subscriber(attacker, n), server, &format!("silent{attacker}-{n}")) {
                asking.spawn(home.portcullis.finish_media(lookup));
            }
        }
    }
    let held = in_flight(&home);
    assert_eq!(asking.len(), held);
    for n in 0..20 {
        ask(&home.portcullis, client(1), &download(&proven, &format!("p{n}"))).await.assert_file(b"a picture");
    }
    for answer in asking.join_all().await {
        assert_eq!(answer.status().as_u16(), 504, "{answer:?}");
    }
    home.at_rest().await;
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_once_that_there_is_no_file_counts_as_one_that_never_answered() {
    let no_file = json_answer(404, r#"{"errcode":"M_NOT_FOUND","error":"none"}"#);
    // Of the half, 16, each client leaves half of what it finds.
    assert_eq!(four_clients_and_names_that_answered_once(no_file, 404).await, 8 + 4 + 2 + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_clients_and_servers_that_gave_one_file_leave_room_for_a_fifth_client() {
    let file = SentFile::png(b"a picture").answer();
    assert_eq!(four_clients_and_names_that_answered_once(file, 200).await, 8 + 8 + 8 + 4);
}
