//! Many clients, many files, at once: each file is asked for once, and nobody who loads a page is refused.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::loopback::media::{ask, download, thumbnail};
use crate::loopback::{World, client};
use crate::support::{Behaviour, SeenRequest, SentFile};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_46_sixty_thumbnails_of_six_servers_at_once_are_sixty_pictures() {
    let world = World::new().await;
    let picture = vec![7; 5 * 1024];
    let answer = SentFile { headers: &["Content-Type: image/jpeg"], bytes: &picture }.answer();
    let (mut peers, mut paths) = (Vec::new(), Vec::new());
    for number in 0..6 {
        let answer = answer.clone();
        let behaviour = Behaviour::answers(move |_| answer.clone());
        let (peer, server) = world.peer(&format!("r{number}.example"), behaviour).await;
        paths.extend((0..10).map(|file| thumbnail(&server, &format!("t{file}"))));
        peers.push(peer);
    }
    let home = world.media(None);
    let mut page = JoinSet::new();
    for path in paths {
        let portcullis = home.portcullis.clone();
        page.spawn(async move { ask(&portcullis, client(1), &path).await });
    }
    let answers = page.join_all().await;
    assert_eq!(answers.len(), 60);
    for answer in answers {
        answer.assert_file(&picture);
        assert!(answer.headers["content-disposition"].to_str().unwrap().starts_with("inline"));
    }
    assert_eq!(peers.iter().map(|peer| peer.requests().len()).sum::<usize>(), 60);
    home.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_48_fifty_viewers_of_one_picture_are_one_request() {
    let world = World::new().await;
    let picture = vec![9; 200 * 1024];
    let answer = SentFile::png(&picture).answer();
    let pieces = std::sync::Arc::new(move |_: &SeenRequest| {
        // Half a second between the head and the rest.
        vec![answer[..100].to_vec(), answer[100..].to_vec()]
    });
    let (peer, server) = world.peer("r.example", Behaviour::Pieces { pieces, pause: Duration::from_millis(500) }).await;
    let home = world.media(None);
    let mut viewers = JoinSet::new();
    for number in 0..50 {
        // The same file under every spelling of its server.
        let server = if number % 2 == 0 { server.to_uppercase() } else { server.clone() };
        let (portcullis, path) = (home.portcullis.clone(), download(&server, "one"));
        viewers.spawn(async move { ask(&portcullis, client(number), &path).await });
    }
    for answer in viewers.join_all().await {
        answer.assert_file(&picture);
    }
    assert_eq!(peer.requests().len(), 1);
    home.at_rest().await;
    home.ask(client(99), &download(&server, "one")).await.assert_file(&picture);
    assert_eq!(peer.requests().len(), 1, "it was stored");
}
