//! One cell of the files' columns: one request off the pool, over real sockets, and everything that is promised about it.

use std::sync::Arc;
use std::time::Duration;

use portcullis::{RemoteTimeout, limits};

use super::cell::{NEVER_TOLD, SHORT, Told};
use super::file_stage::{BEGINNING, FILE};
use super::file_table::{Ending, Files};
use super::route::FILE_ROUTES;
use super::stage::{PEER_WORD, Scene, Stage};
use crate::loopback::media::{MediaAnswer, MediaHome};
use crate::loopback::{World, assert_json_headers, client};
use crate::support::{PrivateCa, TlsPeer, descriptors, until};

/// Largest file taken here. One without end is over it in a moment.
const MAX_FILE: u64 = 256 * 1024;

/// Runs the cell of `stage` and the route at `column`. What was told, if it was an error.
///
/// # Panics
/// If a promise is broken.
pub(crate) async fn run(stage: Stage, files: Files, column: usize, ca: Arc<PrivateCa>) -> Option<Told> {
    let (route, ending) = (FILE_ROUTES[column], files.endings[column]);
    let world = World::under(ca).await;
    let scene = stage.set_up(&world).await;
    let allowed = if ending.is_by_time() { SHORT } else { limits::DIRECTORY_DEADLINE };
    let home = home(&world, &scene, allowed);
    let ports: Vec<_> =
        [Some(scene.port), scene.second.as_ref().map(|peer| peer.address().port())].into_iter().flatten().collect();
    let sockets_before: Vec<_> = ports.iter().map(|port| descriptors::towards(*port)).collect();

    let answer = home.ask(client(1), &route.path(&scene.server)).await;

    let bound = allowed + limits::WORKER_MARGIN;
    assert!(answer.took <= bound, "took {:?} of {bound:?}", answer.took);
    assert_ending(&answer, ending);
    assert_nothing_told(&answer, &scene);
    home.at_rest().await;
    let status = home.portcullis.status();
    assert_eq!(status.federation_worker.overruns, 0);
    // What was cut or is none is not kept, and nothing unfinished lies about.
    let kept = usize::from(matches!(ending, Ending::Whole));
    assert_eq!(home.stored_files().len(), kept, "{:?}", home.stored_files());
    assert_eq!(status.media.store.unwrap().files, u64::try_from(kept).unwrap());

    if let Some(peer) = &scene.peer {
        peer.all_closed().await;
        let requests = peer.requests();
        assert_eq!((peer.accepted(), requests.len()), (files.requests.max(1), files.requests));
        let signed = requests.iter().map(|request| request.values("authorization").len());
        assert!(signed.enumerate().all(|(place, signed)| signed == usize::from(place == 0)), "{requests:?}");
    }
    if let Some(second) = &scene.second {
        second.all_closed().await;
        let request = second.only_request();
        assert_eq!(request.values("authorization"), [""; 0], "it was signed");
    }
    assert_eq!(scene.bystander.as_ref().map_or(0, TlsPeer::accepted), 0, "somebody else was dialled");
    // Those from before belong to the scene, or to an earlier user of the port.
    let left = || {
        let now = ports.iter().map(|port| descriptors::towards(*port));
        now.zip(&sockets_before).map(|(now, before)| now.difference(before).count()).sum()
    };
    until("sockets towards the peers", 0, left).await;
    (answer.status != 200).then(|| Told { status: answer.status, text: text(&answer) })
}

fn home(world: &World, scene: &Scene, allowed: Duration) -> MediaHome {
    let dns = scene.dns.unwrap_or_else(|| world.dns.address());
    world.media_asking(
        dns,
        |builder| builder.remote_timeout(RemoteTimeout::new(allowed).unwrap()),
        |store| store.max_file = MAX_FILE,
    )
}

fn assert_ending(answer: &MediaAnswer, ending: Ending) {
    match ending {
        Ending::Whole => answer.assert_file(FILE),
        Ending::CutByTime => {
            assert_cut(answer);
            assert!(answer.bytes.len() >= BEGINNING, "{answer:?}");
        }
        Ending::CutOr(..) if answer.status == 200 => assert_cut(answer),
        Ending::CutOr(status, errcode) | Ending::Error(status, errcode) => {
            assert_eq!(answer.error(), (status, errcode.to_owned()));
        }
    }
}

/// A file that had begun, as its origin sent it, and did not end.
fn assert_cut(answer: &MediaAnswer) {
    assert!(answer.status == 200 && !answer.whole, "a file that was cut ended cleanly: {answer:?}");
    let endless = answer.bytes.iter().all(|byte| *byte == b'x');
    assert!(FILE.starts_with(&answer.bytes) || endless, "{answer:?}");
}

fn assert_nothing_told(answer: &MediaAnswer, scene: &Scene) {
    let ports = [Some(scene.port), scene.second.as_ref().map(|peer| peer.address().port())];
    for (name, value) in &answer.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        assert!(!value.contains(PEER_WORD) && !value.contains("127."), "{name}: {value}");
    }
    if answer.status == 200 {
        return;
    }
    assert_json_headers(answer.status, &answer.headers);
    let text = text(answer).to_ascii_lowercase();
    for word in NEVER_TOLD {
        assert!(!text.contains(word), "{word:?} in {text}");
    }
    for port in ports.into_iter().flatten() {
        assert!(!text.contains(&port.to_string()), "the port in {text}");
    }
}

fn text(answer: &MediaAnswer) -> String {
    String::from_utf8(answer.bytes.clone()).unwrap()
}
