//! One cell: one request over real sockets, and everything that is promised about it.

use std::sync::Arc;
use std::time::Duration;

use portcullis::limits;

use super::route::ROUTES;
use super::stage::{PEER_WORD, Scene};
use super::table::Row;

use crate::loopback::{ClientAnswer, World, ask_from_a_thread, assert_at_rest, client};
use crate::support::{PrivateCa, TlsPeer, descriptors, until};

/// Where time is to end the call. Long enough that connecting, with a third of it, succeeds on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(6);

/// What must not be told: where the peer is, how far the call got, and who says so.
pub(crate) const NEVER_TOLD: &[&str] = &[
    PEER_WORD,
    "127.",
    "10.0.",
    "stage.",
    "example",
    "dns",
    "resol",
    "address",
    "record",
    "connect",
    "socket",
    "tcp",
    "tls",
    "certificate",
    "handshake",
    "header",
    "body",
    "json",
    "redirect",
    "eof",
    "os error",
    "refused",
    "reset",
    "closed",
    "time",
    "deadline",
    "hyper",
    "reqwest",
    "rustls",
    "hickory",
    "html",
    "77000",
];

/// What a client was told, for comparison with other cells of its column.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Told {
    pub(crate) fn errcode(&self) -> String {
        let content: serde_json::Value = serde_json::from_str(&self.text).unwrap();
        content["errcode"].as_str().unwrap().to_owned()
    }
}

/// Runs the cell of `row` and the route at `column`.
///
/// # Panics
/// If a promise is broken.
pub(crate) async fn run(row: &Row, column: usize, ca: Arc<PrivateCa>) -> Told {
    let (route, expected) = (ROUTES[column], row.answers[column]);
    let world = World::under(ca).await;
    let scene = row.stage.set_up(&world).await;
    let ended_by_time = expected.0 == 504;
    let allowed = if ended_by_time { SHORT } else { limits::DIRECTORY_DEADLINE };
    let dns = scene.dns.unwrap_or_else(|| world.dns.address());
    let portcullis = world.portcullis_asking(dns, ended_by_time.then_some(SHORT));
    let sockets_before = descriptors::towards(scene.port);

    let answer = ask_from_a_thread(&portcullis, client(1), route.request(&scene.server)).await;

    assert_at_rest(&portcullis);
    assert_eq!(answer.outcome(), (expected.0, expected.1.to_owned()), "{answer:?}");
    answer.assert_headers();
    assert_nothing_told(&answer, &scene);
    let bound = allowed + limits::WORKER_MARGIN;
    assert!(answer.took <= bound, "took {:?} of {bound:?}", answer.took);
    assert_eq!(portcullis.status().federation_worker.overruns, 0);

    if let Some(peer) = &scene.peer {
        peer.all_closed().await;
        assert_eq!((peer.accepted(), peer.requests().len()), (connections(row, column), row.requests[column]));
    }
    assert_eq!(scene.bystander.as_ref().map_or(0, TlsPeer::accepted), 0, "somebody else was dialled");
    // Those from before belong to the scene, or to an earlier user of the port.
    let left = || descriptors::towards(scene.port).difference(&sockets_before).count();
    until("sockets towards the peer", 0, left).await;
    Told { status: answer.status, text: answer.text }
}

/// One for each request, and one where it ended before that.
fn connections(row: &Row, column: usize) -> usize {
    row.requests[column].max(1)
}

fn assert_nothing_told(answer: &ClientAnswer, scene: &Scene) {
    if answer.status == 200 {
        return;
    }
    let text = answer.text.to_ascii_lowercase();
    for word in NEVER_TOLD {
        assert!(!text.contains(word), "{word:?} in {text}");
    }
    assert!(!text.contains(&scene.port.to_string()), "the port in {text}");
}
