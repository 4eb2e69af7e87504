//! A stranger's file while the switch is off, or the request says not to fetch it.
//!
//! *Attack:* ask for a file of another server under one of eight routes, with the switch off or with `allow_remote=false`
//! in some spelling; if that is looked at late, or on most routes, the fetch is made and thrown away, or what a fetch left
//! is handed out. *Control:* `ask_the_switch` (`src/portcullis/media.rs`) asks `RemoteFetchPolicy::check`
//! (`src/admission/remote_fetch.rs`) before the rules, the store and the slot; only `true` reads as true
//! (`src/admission/media_route.rs`). *Unplug:* look at `files.known` before the switch: a copy is handed out. Read any value
//! of `allow_remote` but `false` as leave: the spellings are fetched.

use portcullis::media::RemoteFetchPolicy;

use crate::loopback::{World, client, media::MediaHome};
use crate::rig::media::{below, let_go, routes, with};
use crate::support::{Behaviour, SentFile};

/// None of them is `true`.
const REFUSES: [&str; 12] = [
    "allow_remote=false",
    "allow_remote=False",
    "allow_remote=FALSE",
    "allow_remote=fals%65",
    "%61llow_remote=false",
    "allow_remote=0",
    "allow_remote=no",
    "allow_remote=TRUE",
    "allow_remote=",
    "allow_remote",
    "allow_remote=%ff",
    "allow_remote=true&allow_remote=false",
];

async fn is_refused(home: &MediaHome, path: &str) {
    let before = home.portcullis.status().media.refused_by_switch;
    assert_eq!(home.ask(client(1), path).await.error(), (404, "M_NOT_FOUND".to_owned()), "{path}");
    assert_eq!(home.portcullis.status().media.refused_by_switch, before + 1, "{path} was not counted");
    assert_eq!(home.portcullis.status().budgets.media.in_flight, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out7_on_eight_routes_nobody_is_asked_and_nothing_is_written_even_with_a_copy_in_the_store() {
    let world = World::new().await;
    let answer = SentFile::png(b"a picture").answer();
    let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await;
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let home = world.media_storing(|builder| builder, |stored| stored.dir.clone_from(&store));
    let stored = routes(&server, "stored");
    assert_eq!(stored.len(), 8);
    for path in &stored {
        home.ask(client(1), path).await.assert_file(b"a picture");
    }
    assert_eq!(peer.accepted(), 2, "a file and a thumbnail");
    home.at_rest().await;

    let asked = world.dns.asked().len();
    let written = below(folder.path());
    let all: Vec<_> = stored.into_iter().chain(routes(&server, "another")).chain(routes("them.example", "a")).collect();
    // With the switch on: what the request says counts, copy or not.
    for path in &all {
        for refuses in REFUSES {
            is_refused(&home, &with(path, refuses)).await;
        }
    }
    assert_eq!((world.dns.asked().len(), peer.accepted()), (asked, 2));
    assert_eq!(below(folder.path()), written);
    drop(home);
    let_go(&store).await;

    // With the switch off: whatever the request says.
    let off = |builder: portcullis::PortcullisBuilder| {
        builder.remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: false })
    };
    let home = world.media_storing(off, |stored| stored.dir.clone_from(&store));
    for path in &all {
        is_refused(&home, path).await;
        is_refused(&home, &with(path, "allow_remote=true")).await;
        is_refused(&home, &with(path, "allow_remote=false")).await;
    }
    assert_eq!((world.dns.asked().len(), peer.accepted()), (asked, 2));
    assert_eq!(below(folder.path()), written);
    assert_eq!(home.portcullis.status().media.refused_by_switch, 72);
}
