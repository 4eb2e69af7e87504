//! The same honest load on Synapse alone and through us, in one run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::report::{Report, mib, ms};
use crate::rig::{Client, Latencies, MIB, Process, RunLock, Serve, Setup, Stall, Synapse};

/// Side by side: below our cap, so that nobody is refused.
const CALLERS: usize = 4;
/// Requests of a row, by what is asked for. A file weighs 20 MiB.
const LOOKUPS: usize = 400;
const COLD_FILES: usize = 16;
const CACHED_FILES: usize = 80;
/// As many aliases as the Synapse that is asked has; each is asked for once.
const ROOMS: usize = 120;
const FILE_BYTES: u64 = 20 * MIB;

/// A way to the answer.
struct Road {
    name: &'static str,
    server: SocketAddr,
    token: String,
    /// Whose memory it takes.
    processes: Vec<Process>,
}

/// A remote and what is known of it.
struct Remote {
    name: &'static str,
    server_name: String,
    /// Files that nobody has asked for yet; empty where any id leads to one.
    files: Vec<String>,
    aliases: usize,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    List,
    Alias,
    File,
}

/// Whether every request was answered.
pub(crate) async fn run() -> bool {
    let _lock = RunLock::take();
    let away = Synapse::up("load-away", ROOMS).wiped_at_the_end();
    let home = Synapse::up("load-home", 20).wiped_at_the_end();
    let fast = Stall::start("ok", away.tls(), &["--file-bytes", &FILE_BYTES.to_string()]);
    let setup = Setup::in_front_of(&home).quiet().media("cache_size = \"4 GiB\"");
    let serve = Serve::start(&setup);
    let token = home.access_token.clone();
    let roads = [
        Road {
            name: "Synapse alone",
            server: home.address(),
            token: home.access_token.clone(),
            processes: vec![home.process()],
        },
        Road { name: "through us", server: serve.address(), token, processes: vec![serve.process(), home.process()] },
    ];
    let remotes = [
        Remote {
            name: "a Synapse",
            server_name: away.server_name.clone(),
            files: upload_files(&away).await,
            aliases: ROOMS,
        },
        Remote { name: "a fast fake", server_name: fast.server_name(), files: Vec::new(), aliases: LOOKUPS },
    ];

    let mut report = Report::begin("compare", "Honest load: Synapse alone, and through us");
    report.line(&format!(
        "{CALLERS} callers side by side. Cold: each request asks for something new; cached: all ask for the same, which was asked for"
    ));
    report.line("before. Both roads take turns, half of a row's requests at a time. A file has 20 MiB; its rate is whole files a second. The");
    report.line("peak of memory is that of all processes on the road.");
    report.heads(&[
        "what",
        "remote",
        "road",
        "requests",
        "failed",
        "p50, ms",
        "p99, ms",
        "a second",
        "peak memory, MiB",
    ]);
    let mut failed = 0;
    for remote in &remotes {
        for (asked, cold) in
            [Asked::List, Asked::Alias, Asked::File].into_iter().flat_map(|asked| [(asked, true), (asked, false)])
        {
            for (road, measured) in roads.iter().zip(row(&roads, remote, asked, cold).await) {
                failed += measured.failed;
                report.row(&measured.columns(asked, cold, remote, road));
            }
        }
    }
    report.line(&format!("\n{failed} requests failed."));
    report.end();
    failed == 0
}

/// New files of 20 MiB, each with bytes of its own, as `SERVER/ID`.
async fn upload_files(away: &Synapse) -> Vec<String> {
    let mut client = Client::of(away.address()).with_token(&away.access_token);
    let mut files = Vec::new();
    for number in 0..COLD_FILES {
        let content = format!("{number:020}").repeat(usize::try_from(FILE_BYTES).unwrap() / 20 + 1);
        let content = &content[..usize::try_from(FILE_BYTES).unwrap()];
        let answer = client.ask(Method::POST, "/_matrix/media/v3/upload?filename=load.bin", content).await;
        let mxc = answer.json()["content_uri"].as_str().unwrap().to_owned();
        files.push(mxc.strip_prefix("mxc://").unwrap().to_owned());
    }
    files
}

/// What came of one row on one road.
#[derive(Default)]
struct Measured {
    latencies: Latencies,
    failed: usize,
    took: Duration,
    peak_kib: u64,
}

/// Both roads, in the order there, back, back, there.
async fn row(roads: &[Road; 2], remote: &Remote, asked: Asked, cold: bool) -> [Measured; 2] {
    let mut measured = <[Measured; 2]>::default();
    if !cold {
        for road in roads {
            // Whatever the number, it is the same thing.
            load(road, remote, asked, false, 0..1).await;
        }
    }
    let requests = asked.requests(remote, cold);
    let halves = [(0..requests / 2, [0, 1]), (requests / 2..requests, [1, 0])];
    for (numbers, order) in halves {
        for which in order {
            let (road, into) = (&roads[which], &mut measured[which]);
            road.processes.iter().for_each(Process::forget_peak);
            let half = load(road, remote, asked, cold, numbers.clone()).await;
            let peak = road.processes.iter().filter_map(Process::peak_kib).sum();
            into.latencies.extend([half.latencies]);
            into.failed += half.failed;
            into.took += half.took;
            into.peak_kib = into.peak_kib.max(peak);
        }
    }
    measured
}

/// Requests with these numbers, by all callers together.
async fn load(road: &Road, remote: &Remote, asked: Asked, cold: bool, numbers: std::ops::Range<usize>) -> Measured {
    let paths: Arc<[String]> = numbers.map(|number| asked.path(remote, cold.then_some(number))).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (paths, next) = (Arc::clone(&paths), Arc::clone(&next));
        let mut client = Client::numbered(road.server, caller).with_token(&road.token);
        callers.spawn(async move {
            let mut measured = Measured::default();
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                let Some(path) = paths.get(number) else { return measured };
                // Nobody asks for much; many ask.
                client.become_number(1_000 * (caller + 1) + number % 1_000);
                match client.drain(path).await {
                    Ok(answer) if asked.is_answered_by(answer.status, answer.bytes, answer.whole) => {
                        measured.latencies.add(answer.took);
                    }
                    _ => measured.failed += 1,
                }
            }
        });
    }
    let mut whole = Measured::default();
    for measured in callers.join_all().await {
        whole.failed += measured.failed;
        whole.latencies.extend([measured.latencies]);
    }
    whole.took = began.elapsed();
    whole
}

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Self::List => "room list",
            Self::Alias => "alias",
            Self::File => "file of 20 MiB",
        }
    }

    fn requests(self, remote: &Remote, cold: bool) -> usize {
        match (self, cold) {
            (Self::Alias, true) => remote.aliases,
            (Self::List | Self::Alias, _) => LOOKUPS,
            (Self::File, true) => COLD_FILES,
            (Self::File, false) => CACHED_FILES,
        }
    }

    /// The path of something new, or of what all ask for.
    fn path(self, remote: &Remote, new: Option<usize>) -> String {
        let server = &remote.server_name;
        match self {
            // A page size nobody else asks for makes it another question; a server caps it anyway.
            Self::List => {
                format!(
                    "/_matrix/client/v3/publicRooms?server={server}&limit={}",
                    new.map_or(100, |number| 1_000 + number)
                )
            }
            Self::Alias => {
                let number = new.unwrap_or_default();
                format!("/_matrix/client/v3/directory/room/%23page-{number:03}:{server}")
            }
            Self::File => {
                let number = new.unwrap_or_default();
                let id = remote.files.get(number).cloned().unwrap_or_else(|| format!("{server}/file{number}"));
                format!("/_matrix/client/v1/media/download/{id}")
            }
        }
    }

    fn is_answered_by(self, status: u16, bytes: u64, whole: bool) -> bool {
        status == 200 && whole && (self != Self::File || bytes == FILE_BYTES)
    }
}

impl Measured {
    fn columns(&self, asked: Asked, cold: bool, remote: &Remote, road: &Road) -> Vec<String> {
        let answered = self.latencies.count();
        #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a few hundred")]
        let rate = answered as f64 / self.took.as_secs_f64();
        vec![
            format!("{}, {}", asked.name(), if cold { "cold" } else { "cached" }),
            remote.name.to_owned(),
            road.name.to_owned(),
            (answered + self.failed).to_string(),
            self.failed.to_string(),
            ms(self.latencies.percentile(50)),
            ms(self.latencies.percentile(99)),
            if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") },
            mib(self.peak_kib),
        ]
    }
}
