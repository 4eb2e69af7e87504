//! What is remembered of files that there are not.
//!
//! *Attack:* ask for ten thousand files that do not exist, of one server and of ten thousand; whatever is remembered of each
//! adds up. *Control:* refusals are remembered up to `limits::MEDIA_REFUSALS` (`src/proxy/media/refused.rs`), standings up to
//! `limits::STANDINGS` (`src/proxy/media/standing.rs`), turns and flights while they last (`src/proxy/media/turns.rs`,
//! `src/proxy/media/flights.rs`). *Unplug:* a hundred times as many of either: memory goes on growing once they should be
//! full.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};
use portcullis::outbound::{Attempt, BoxFuture, RemoteBody, Transport, TransportError, TransportPhase};
use portcullis::{OutboundDeadline, Portcullis, RemoteTimeout};

use super::bounded_memory::{assert_grown_by_at_most, resident_bytes};
use crate::loopback::client;
use crate::loopback::media::download;
use crate::rig::{Home, Names, PUBLIC, allowing, in_a_process_of_its_own, portcullis};

/// As many as are remembered, and some more.
const FULL: usize = 10_000;
/// As many again as tell what is full from what grows.
const MORE: usize = 10_000;
const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_files_that_do_not_exist_cost_a_bounded_part_of_memory() {
    in_a_process_of_its_own("media_state::asks_for_files_that_do_not_exist", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_origins_that_answer_or_fail_cost_a_bounded_part_of_memory() {
    in_a_process_of_its_own("media_state::asks_origins_that_answer_or_fail", &[]).await;
}

/// Has no file; every tenth server is not even there.
struct NoFile;

impl Transport for NoFile {
    fn send(
        &self,
        attempt: Attempt,
        _: OutboundDeadline,
    ) -> BoxFuture<'_, Result<Response<RemoteBody>, TransportError>> {
        let host = attempt.request.headers()["host"].to_str().unwrap().to_owned();
        Box::pin(async move {
            if host.starts_with("dead") {
                return Err(TransportError { phase: TransportPhase::Connect, timed_out: false });
            }
            let body = Full::new(Bytes::from_static(br#"{"errcode":"M_NOT_FOUND"}"#));
            Ok(Response::builder().status(404).body(RemoteBody::new(body.map_err(|never| match never {}))).unwrap())
        })
    }
}

fn without_files(folder: &tempfile::TempDir) -> Portcullis {
    portcullis(8, Names::all_at(PUBLIC.parse().unwrap()), Arc::new(NoFile), allowing(&[]))
        .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true })
        .media_store(MediaStoreConfig::in_dir(folder.path().join("store")))
        .remote_timeout(RemoteTimeout::new(Duration::from_secs(10)).unwrap())
        .build()
        .unwrap()
}

async fn status_of(portcullis: &Portcullis, server: &str, media_id: &str) -> u16 {
    let request = Request::get(download(server, media_id)).header("authorization", "Bearer secret-token");
    let request = request.body(Bytes::new()).unwrap();
    portcullis.handle(&Home, client(1), &request).await.unwrap().status().as_u16()
}

async fn grows_until_it_is_full(folder: &tempfile::TempDir, portcullis: &Portcullis, ask: impl AsyncFn(usize)) {
    for n in 0..200 {
        ask(n).await;
    }
    let before = resident_bytes();
    for n in 200..FULL {
        ask(n).await;
    }
    assert_grown_by_at_most(24 * MIB, before);
    let full = resident_bytes();
    for n in FULL..FULL + MORE {
        ask(n).await;
    }
    assert_grown_by_at_most(4 * MIB, full);
    let status = portcullis.status();
    assert_eq!((status.budgets.media.in_flight, status.media.running, status.media.waiting), (0, 0, 0));
    // Its empty folders were there before.
    let entries = std::fs::read_dir(folder.path().join("store")).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file() || std::fs::read_dir(path).unwrap().next().is_some());
    assert_eq!(files.count(), 1, "the lock alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by ten_thousand_files_that_do_not_exist_cost_a_bounded_part_of_memory"]
async fn asks_for_files_that_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let portcullis = without_files(&folder);
    let ask = async |n: usize| assert_eq!(status_of(&portcullis, "them.example:1", &format!("f{n}")).await, 404);
    grows_until_it_is_full(&folder, &portcullis, ask).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by ten_thousand_origins_that_answer_or_fail_cost_a_bounded_part_of_memory"]
async fn asks_origins_that_answer_or_fail() {
    let folder = tempfile::tempdir().unwrap();
    let portcullis = without_files(&folder);
    let ask = async |n: usize| {
        let (name, status) = if n.is_multiple_of(10) { ("dead", 502) } else { ("them", 404) };
        assert_eq!(status_of(&portcullis, &format!("{name}{n}.example:1"), "a").await, status);
    };
    grows_until_it_is_full(&folder, &portcullis, ask).await;
}
