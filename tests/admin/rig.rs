//! An operator's socket over a homeserver in a world of its own: the library as an integrator builds it, with gates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portcullis::RemoteTimeout;
use portcullis::gate::{GateConstants, GateKey, GateRegistry, HomeserverGate};
use portcullis::homeserver::admin::{Admin, RequestPoolStatus};
use portcullis::homeserver::fair_budget::FairBudgetStatus;
use portcullis::homeserver::listener::{Listener, ListenerLimits};
use portcullis::homeserver::upstream::{UpstreamState, UpstreamStatus};
use portcullis::limits::{COOLDOWN, GATES};
use portcullis::status::Status;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::loopback::World;
use crate::loopback::media::MediaHome;
use crate::support::patience::PATIENCE;

/// How long lookups and files may take here.
pub(crate) const REMOTE_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) home: MediaHome,
    pub(crate) gates: GateRegistry,
    pub(crate) admin: Arc<Admin>,
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

/// What the operator's socket answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::showing(|status| status).await
    }

    /// One whose operator is shown what `edit` makes of the status.
    pub(crate) async fn showing(edit: impl Fn(Status) -> Status + Send + Sync + 'static) -> Self {
        let world = World::new().await;
        // A breaker that opens stays open for the length of a test, however slow the machine.
        let gates = GateRegistry::with_dangerous_constants(
            GATES,
            GateConstants { cooldown: 10 * COOLDOWN, ..GateConstants::default() },
        );
        let home = world.media_with(|builder| {
            builder.gates(gates.clone()).remote_timeout(RemoteTimeout::new(REMOTE_TIMEOUT).unwrap())
        });
        let portcullis = Arc::clone(&home.portcullis);
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr();
        let mut pool = RequestPoolStatus::default();
        (pool.threads, pool.idle) = (8, 7);
        let admin = Admin::new(address, move || edit(portcullis.status())).with_request_pool(move || pool);
        let mut long_answers = FairBudgetStatus::default();
        (long_answers.cap, long_answers.per_client) = (448, 72);
        let admin = admin.with_long_answers(move || long_answers);
        let admin = Arc::new(admin.with_upstream(|| Some(behind())));
        let handler = Arc::<Admin>::clone(&admin);
        let serving = tokio::spawn(async move {
            listener.serve(handler, ListenerLimits::default(), std::future::pending()).await.unwrap();
        });
        Self { world, home, gates, admin, address, serving }
    }

    pub(crate) fn gate(&self, base_url: &str) -> HomeserverGate {
        self.gates.gate(&GateKey::from_base_url(base_url).unwrap()).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.address, path).await
    }

    /// Nobody is answered any more, nor let in.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }
}

/// A homeserver behind that is well.
fn behind() -> UpstreamStatus {
    let mut behind = UpstreamStatus::default();
    behind.origin = "http://127.0.0.1:8008".to_owned();
    behind.state = UpstreamState::Answers;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    behind.last_answer_at_ms = Some(u64::try_from(since.as_millis()).unwrap());
    (behind.token_waiters.cap, behind.token_waiters.per_client) = (128, 64);
    for (asked, cap, per_client, answered) in [
        (&mut behind.token_questions, 64, 4, 118),
        (&mut behind.passed_on.small, 64, 16, 311),
        (&mut behind.passed_on.files, 128, 64, 1993),
    ] {
        (asked.cap, asked.per_client, asked.answered) = (cap, per_client, answered);
    }
    behind
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}
