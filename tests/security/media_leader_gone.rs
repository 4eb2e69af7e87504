//! Whoever asked first hangs up.
//!
//! *Attack:* ask for a file that others will want, and leave as soon as the call is out: either the others' fetch ends with
//! it, or the slot is free while the call goes on, and the caps count nothing. *Control:* a fetch is a task of its own that
//! owns the pass (`src/proxy/media/fetch.rs`), and every answer reads behind the store (`src/proxy/media/flights.rs`). *Unplug:*
//! abort the task when its leader's future is dropped: both tests fail.

use std::sync::Arc;
use std::time::Duration;

use portcullis::RemoteTimeout;
use portcullis::media::{MediaCaps, MediaLimits};
use tokio::task::JoinSet;

use crate::loopback::media::{ask, download};
use crate::loopback::{World, client};
use crate::support::{Behaviour, SeenRequest, SentFile, until};

/// Half a file, and after a while the rest.
fn in_two(bytes: &[u8], pause: Duration) -> Behaviour {
    let answer = SentFile::png(bytes).answer();
    let half = answer.len() / 2;
    let pieces = move |_: &SeenRequest| vec![answer[..half].to_vec(), answer[half..].to_vec()];
    Behaviour::Pieces { pieces: Arc::new(pieces), pause }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_others_get_the_file_that_the_first_did_not_wait_for() {
    let world = World::new().await;
    let picture = vec![b'x'; 300 * 1024];
    let (peer, server) = world.peer("r.example", in_two(&picture, Duration::from_secs(1))).await;
    let home = world.media(None);
    let asks = |number| {
        let (portcullis, path) = (home.portcullis.clone(), download(&server, "a"));
        async move { ask(&portcullis, client(number), &path).await }
    };
    let leader = tokio::spawn(asks(1));
    peer.asked().await;
    let mut followers = JoinSet::new();
    for number in 2..=8 {
        followers.spawn(asks(number));
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    leader.abort();
    assert!(leader.await.unwrap_err().is_cancelled(), "the file came before the first could leave");
    for answer in followers.join_all().await {
        answer.assert_file(&picture);
    }
    assert_eq!(peer.requests().len(), 1);
    home.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_back_when_the_call_has_ended_and_not_when_its_client_has_gone() {
    let world = World::new().await;
    let (peer, server) = world.peer("r.example", Behaviour::TlsSilent).await;
    let allowed = Duration::from_secs(4);
    let two_each =
        MediaLimits::new(MediaCaps { max_in_flight: 8, max_per_client: 2, max_running: 8, max_running_per_origin: 8 })
            .unwrap();
    let home =
        world.media_with(|builder| builder.remote_timeout(RemoteTimeout::new(allowed).unwrap()).media_limits(two_each));
    for media_id in ["a", "b"] {
        let (portcullis, path) = (home.portcullis.clone(), download(&server, media_id));
        let gone = tokio::spawn(async move { ask(&portcullis, client(1), &path).await });
        until("calls", 1, || {
            peer.requests().iter().filter(|seen| seen.target().contains(&format!("/{media_id}?"))).count()
        })
        .await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    // Nobody waits any more, and both slots are held: so hanging up does not get anybody more than the caps.
    assert_eq!(home.portcullis.status().budgets.media.in_flight, 2);
    assert_eq!(home.ask(client(1), &download(&server, "c")).await.error().0, 429);
    assert_eq!(peer.requests().len(), 2);
    home.at_rest().await;
    peer.all_closed().await;
    assert_eq!(home.ask(client(1), &download(&server, "c")).await.error().0, 504);
    home.at_rest().await;
}
