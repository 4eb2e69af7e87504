//! Honest requests that need no other server, and how long they took.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Client, Latencies};

/// A page of the room list of the server itself.
pub(crate) const LOCAL_LIST: &str = "/_matrix/client/v3/publicRooms?limit=10";

/// Between two requests of one client: what is measured is how long an answer takes, not how many fit into a second.
const PAUSE: Duration = Duration::from_millis(10);

/// What came of many requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalLoad {
    pub(crate) latencies: Latencies,
    /// Requests that were not answered with 200.
    pub(crate) failed: usize,
}

/// Asks `server` for its own room list, `requests` times in all, by `callers` side by side.
pub(crate) async fn ask_locally(server: SocketAddr, requests: usize, callers: usize) -> LocalLoad {
    let mut asking = JoinSet::new();
    for number in 0..callers {
        asking.spawn(async move {
            // Addresses of their own, far from those of any attackers.
            let mut client = Client::numbered(server, 100_000 + number);
            let mut load = LocalLoad::default();
            for _ in 0..requests.div_ceil(callers) {
                match client.try_ask(Method::GET, LOCAL_LIST, "").await {
                    Ok(answer) if answer.status == 200 => load.latencies.add(answer.took),
                    _ => load.failed += 1,
                }
                sleep(PAUSE).await;
            }
            load
        });
    }
    let mut whole = LocalLoad::default();
    for load in asking.join_all().await {
        whole.failed += load.failed;
        whole.latencies.extend([load.latencies]);
    }
    whole
}
