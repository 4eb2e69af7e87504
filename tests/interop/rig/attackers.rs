//! Strangers who ask, again and again, for what will never come: each at an address of its own, with one request at a time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Client;

/// How long an attacker waits after an answer. Without it this would be a flood of requests, which is another attack.
const PAUSE: Duration = Duration::from_millis(250);

/// Attackers at work. Dropping it sends them home: their connections close.
pub(crate) struct Attackers {
    tally: Arc<Mutex<Tally>>,
    _at_work: JoinSet<()>,
}

/// What the attackers were told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// How often each status was answered; 0 stands for a connection that ended.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// The longest time to the end of an answer that was no refusal.
    pub(crate) longest: Duration,
}

impl Attackers {
    /// So many of them ask `server`. Each takes its next path from `path`, by its own number and that of the round: answers
    /// to equal questions would be shared.
    pub(crate) fn begin(
        server: SocketAddr,
        count: usize,
        path: impl Fn(usize, usize) -> String + Clone + Send + 'static,
    ) -> Self {
        let tally = Arc::<Mutex<Tally>>::default();
        let mut at_work = JoinSet::new();
        for number in 0..count {
            let (path, tally) = (path.clone(), Arc::clone(&tally));
            at_work.spawn(async move {
                let mut client = Client::numbered(server, number);
                for round in 0.. {
                    let began = Instant::now();
                    let status = match client.try_ask(Method::GET, &path(number, round), "").await {
                        Ok(answer) => answer.status,
                        Err(_) => 0,
                    };
                    tally.lock().count(status, began.elapsed());
                    sleep(PAUSE).await;
                }
            });
        }
        Self { tally, _at_work: at_work }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }
}

impl Tally {
    fn count(&mut self, status: u16, took: Duration) {
        *self.statuses.entry(status).or_default() += 1;
        if status != 429 {
            self.longest = self.longest.max(took);
        }
    }
}
