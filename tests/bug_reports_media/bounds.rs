//! How large, how long, and under which name: checked before it costs anything.

use std::time::Duration;

use portcullis::limits;
use tokio::task::JoinSet;

use crate::loopback::media::{ask, download, thumbnail};
use crate::loopback::{World, client};
use crate::support::media::{answer_head, chunked, multipart_head};
use crate::support::{Behaviour, Says, SentFile, descriptors, until};

const MIB: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_32_a_file_over_the_limit_is_asked_for_a_few_times_and_read_not_at_all() {
    let world = World::new().await;
    let announced = answer_head(100 * MIB);
    let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| announced.clone())).await;
    let home = world.media_storing(|builder| builder, |store| store.max_file = 10 * 1024 * 1024);
    for _ in 0..50 {
        let answer = home.ask(client(1), &download(&server, "large")).await;
        assert_eq!(answer.error(), (502, "M_TOO_LARGE".to_owned()));
    }
    assert_eq!(peer.requests().len(), 1, "it is remembered");
    peer.all_closed().await;
    home.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_52_a_file_that_grows_over_the_limit_is_cut_and_never_a_short_success() {
    let world = World::new().await;
    let envelope = SentFile::png(&vec![b'x'; 2 * MIB]).envelope();
    let sent = [multipart_head("Transfer-Encoding: chunked"), chunked(&envelope, 16 * 1024)].concat();
    let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| sent.clone())).await;
    let home = world.media_storing(|builder| builder, |store| store.max_file = 1024 * 1024);
    let answer = home.ask(client(1), &download(&server, "large")).await;
    if answer.status == 200 {
        assert!(!answer.whole && answer.bytes.len() <= MIB, "a short file ended cleanly");
    } else {
        assert_eq!(answer.error(), (502, "M_TOO_LARGE".to_owned()));
    }
    home.at_rest().await;
    // Whoever asks then is told so in a complete answer.
    let answer = home.ask(client(2), &download(&server, "large")).await;
    assert_eq!(answer.error(), (502, "M_TOO_LARGE".to_owned()));
    assert!(home.stored_files().is_empty());
    peer.all_closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_34_one_clock_runs_to_the_last_byte() {
    let world = World::new().await;
    let allowed = Duration::from_secs(3);
    let mut stalls = answer_head(1000);
    stalls.extend_from_slice(&SentFile::png(b"0123456789").envelope()[..110]);
    let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| stalls.clone())).await;
    let home = world.media(Some(allowed));
    let answer = home.ask(client(1), &download(&server, "a")).await;
    assert!(!answer.whole || answer.error().0 == 504, "{answer:?}");
    assert!(answer.took <= allowed + limits::WORKER_MARGIN, "{answer:?}");
    home.at_rest().await;
    peer.all_closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_36_a_file_of_our_own_that_is_not_there_is_looked_for_nowhere() {
    let world = World::new().await;
    let home = world.media(None);
    for own in ["hs.self.example", "HS.self.example", "hs.self.example:8448"] {
        for path in [
            download(own, "missing"),
            thumbnail(own, "missing"),
            format!("/_matrix/media/v3/download/{own}/missing"),
            format!("/_matrix/media/v3/download/{own}/missing?allow_remote=true"),
            format!("/_matrix/media/r0/thumbnail/{own}/missing?width=1&height=1"),
        ] {
            assert_eq!(home.ask(client(1), &path).await.error(), (404, "M_NOT_FOUND".to_owned()), "{path}");
        }
    }
    assert_eq!(world.dns.asked().len(), 0, "the name was looked up");
    assert_eq!(home.portcullis.status().calls.media.failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_38_a_hundred_requests_to_a_silent_server_are_a_hundred_answers_and_nothing_is_left() {
    let world = World::new().await;
    let (peer, server) = world.peer("r.example", Behaviour::TlsSilent).await;
    let allowed = Duration::from_secs(2);
    let home = world.media(Some(allowed));
    let mut asking = JoinSet::new();
    for number in 0..100 {
        let (portcullis, path) = (home.portcullis.clone(), download(&server, &format!("f{number}")));
        asking.spawn(async move { ask(&portcullis, client(number), &path).await });
    }
    let answers = asking.join_all().await;
    assert_eq!(answers.len(), 100);
    for answer in &answers {
        assert!(matches!(answer.error().0, 429 | 504), "{answer:?}");
        assert!(answer.took <= allowed + limits::WORKER_MARGIN, "{answer:?}");
    }
    home.at_rest().await;
    peer.all_closed().await;
    until("sockets", 0, || descriptors::towards(peer.address().port()).len()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_44_an_id_that_could_leave_the_folder_is_refused_before_anything() {
    let world = World::new().await;
    let home = world.media(None);
    world.dns.say("them.example", Says::At(vec![[127, 0, 0, 1].into()]));
    let before = home.stored_files();
    let long = "a".repeat(10_000);
    for media_id in ["..%2f..%2fx", "%2e%2e", "a%00", "a.b", "a%2fb", &long] {
        let answer = home.ask(client(1), &download("them.example", media_id)).await;
        assert_eq!(answer.error(), (400, "M_INVALID_PARAM".to_owned()), "{media_id}");
    }
    let answer = home.ask(client(1), "/_matrix/client/v1/media/download/%2e%2e/a").await;
    assert_eq!(answer.error(), (400, "M_INVALID_PARAM".to_owned()));
    assert_eq!(world.dns.asked().len(), 0, "a name was looked up");
    assert_eq!(home.stored_files(), before);
    assert_eq!(std::fs::read_dir(home.folder()).unwrap().count(), 1, "something lies beside the store");
}
