//! The order in which a request for a file is looked at.
//!
//! *Attack:* let the server do the dear before the cheap: look a name up for somebody without a token, run the rules while
//! the switch is off, take a slot for what lies in the store, or find out from an answer that a hidden server's file is
//! stored. *Control:* `decide_media` (`src/portcullis/media.rs`): names, token, own server, switch, rules, store, slot.
//! *Unplug:* judge before the switch is asked: the rules are counted where they must not be. Admit before the store is
//! looked at: a stored file is 429. Look at the store before the rules: a forbidden file is handed out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use portcullis::media::{MediaCaps, MediaLimits, RemoteFetchPolicy};
use portcullis::{Begun, DestinationRules, DestinationVerdict, ServerName};

use crate::loopback::media::{MediaHome, download};
use crate::loopback::{World, client};
use crate::rig::Home;
use crate::support::{Behaviour, SeenRequest, SentFile, until};

/// Counts what it is asked, and forbids everything once it is told to.
#[derive(Default)]
struct Counting {
    asked: AtomicUsize,
    forbids: AtomicBool,
}

impl DestinationRules for Counting {
    fn judge(&self, _: &ServerName) -> DestinationVerdict {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let forbids = self.forbids.load(Ordering::SeqCst);
        if forbids { DestinationVerdict::Forbidden } else { DestinationVerdict::Allowed }
    }
}

/// What has been spent: questions to the rules, to the DNS, refusals by the switch, refusals by a cap.
fn spent(home: &MediaHome, rules: &Counting, world: &World) -> (usize, usize, u64, u64) {
    let status = home.portcullis.status();
    let refused = status.budgets.media.refused;
    let caps = refused.client + refused.global;
    (rules.asked.load(Ordering::SeqCst), world.dns.asked().len(), status.media.refused_by_switch, caps)
}

/// Without a token.
async fn ask_bare(home: &MediaHome, path: &str) -> u16 {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    home.portcullis.handle(&Home, client(1), &request).await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_come_before_the_token_before_our_own_before_the_switch_before_the_rules() {
    let (world, rules) = (World::new().await, Arc::<Counting>::default());
    let given = Arc::clone(&rules);
    let off = RemoteFetchPolicy { remote_fetch_enabled: false };
    let home = world.media_with(|builder| builder.remote_fetch(off).destination_rules(given));
    for bad in ["/_matrix/client/v1/media/download/127.1/a", "/_matrix/client/v1/media/download/them.example/a.b"] {
        assert_eq!(ask_bare(&home, bad).await, 400, "{bad}");
    }
    for server in ["them.example", "hs.self.example"] {
        assert_eq!(ask_bare(&home, &download(server, "a")).await, 401, "{server}");
    }
    assert_eq!(spent(&home, &rules, &world), (0, 0, 0, 0));
    // Our own: the switch is not even asked.
    assert_eq!(home.ask(client(1), &download("hs.self.example", "a")).await.status, 404);
    assert_eq!(spent(&home, &rules, &world), (0, 0, 0, 0));
    assert_eq!(home.ask(client(1), &download("them.example", "a")).await.status, 404);
    assert_eq!(spent(&home, &rules, &world), (0, 0, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_come_before_the_store_before_the_slot_before_the_first_question() {
    let (world, rules) = (World::new().await, Arc::<Counting>::default());
    let answer = SentFile::png(b"a picture").answer();
    let silent_but_one =
        move |request: &SeenRequest| if request.target().contains("stored") { answer.clone() } else { Vec::new() };
    let (peer, server) = world.peer("r.example", Behaviour::answers(silent_but_one)).await;
    let (given, one_each) = (
        Arc::clone(&rules),
        MediaLimits::new(MediaCaps { max_in_flight: 8, max_per_client: 1, max_running: 8, max_running_per_origin: 8 })
            .unwrap(),
    );
    let home = world.media_with(|builder| builder.media_limits(one_each).destination_rules(given));
    home.ask(client(1), &download(&server, "stored")).await.assert_file(b"a picture");
    home.at_rest().await;
    let (_, questions, _, _) = spent(&home, &rules, &world);
    assert_eq!((rules.asked.swap(0, Ordering::SeqCst), peer.accepted()), (1, 1));

    let request = crate::loopback::media::request(&download(&server, "silent"));
    let token_of = TheirTokens;
    let Some(Begun::Media(held)) = home.portcullis.begin(&token_of, client(1), &request) else { panic!("no slot") };
    until("slots", 1, || home.portcullis.status().budgets.media.in_flight).await;
    // A slot was taken, and nobody was asked yet.
    assert_eq!((spent(&home, &rules, &world), peer.accepted()), ((1, questions, 0, 0), 1));
    // The client has its share in flight: what is stored needs none, what is not does.
    home.ask(client(1), &download(&server, "stored")).await.assert_file(b"a picture");
    assert_eq!((spent(&home, &rules, &world), peer.accepted()), ((2, questions, 0, 0), 1));
    assert_eq!(home.ask(client(1), &download("them.example", "a")).await.status, 429);
    assert_eq!((spent(&home, &rules, &world), peer.accepted()), ((3, questions, 0, 1), 1));
    // What is forbidden is forbidden, stored or not, slot or not.
    rules.forbids.store(true, Ordering::SeqCst);
    for (server, media_id) in [(server.as_str(), "stored"), ("them.example", "a")] {
        assert_eq!(home.ask(client(1), &download(server, media_id)).await.error().0, 403);
    }
    assert_eq!((spent(&home, &rules, &world), peer.accepted()), ((5, questions, 0, 1), 1));
    drop(held);
    home.at_rest().await;
}

/// A homeserver that knows the token which requests for files carry.
pub(crate) struct TheirTokens;

impl portcullis::local_view::LocalView for TheirTokens {
    fn user_of_token(&self, token: &str) -> portcullis::local_view::TokenAnswer {
        (token == "good").then(|| "@user:hs.self.example".to_owned()).into()
    }

    fn room_alias(&self, _: &portcullis::RoomAlias) -> Option<portcullis::local_view::AliasAnswer> {
        None
    }

    fn public_rooms(
        &self,
        _: &portcullis::RoomListQuery,
    ) -> Result<portcullis::local_view::RoomListPage, portcullis::local_view::InvalidPageToken> {
        Ok(portcullis::local_view::RoomListPage::default())
    }
}
