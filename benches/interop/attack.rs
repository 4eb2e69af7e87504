//! Ours alone under attack: what callers of silent, dripping and huge remotes cost, and whether anybody else notices.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::mix::summed;
use crate::report::{Report, mib, ms};
use crate::rig::{Attackers, LocalLoad, Serve, Setup, Stall, ask_locally};

const MODES: [(&str, &str); 3] = [("silent", "never-answer"), ("dripping", "body-drip"), ("huge", "huge-body")];
const CALLERS: [usize; 3] = [8, 32, 200];
/// Local requests before the attack, and as many at a time while it is on.
const LOCAL_REQUESTS: usize = 400;
const LOCAL_CALLERS: usize = 4;
/// Until the attack is in full swing.
const SETTLING: Duration = Duration::from_secs(1);

/// What the attackers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Lists,
    Files,
}

impl Lookup {
    pub(crate) const ALL: [Self; 2] = [Self::Lists, Self::Files];

    fn title(self) -> &'static str {
        match self {
            Self::Lists => "Room lists (deadline 10 s, half of 16 threads)",
            Self::Files => "Files (deadline 30 s, no thread, a quarter of the places for servers that never answered)",
        }
    }

    /// Longer than its deadline and margin.
    fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::Lists => 15,
            Self::Files => 38,
        })
    }

    /// Another one each time, so that no two share a call.
    fn path(self, server: &str, number: usize, round: usize) -> String {
        match self {
            Self::Lists => format!("/_matrix/client/v3/publicRooms?server={server}&since={number}x{round}"),
            Self::Files => format!("/_matrix/media/v3/download/{server}/{number}x{round}"),
        }
    }
}

/// Whether no local request failed.
pub(crate) async fn run(lookups: &[Lookup]) -> bool {
    let mut report = Report::begin("attack", "Ours alone under attack");
    report.line("Each row has a new `serve` with its own homeserver and a new remote. Every caller has an address of its own, one request");
    report.line("at a time, and comes back 250 ms after each answer. A hold lasts from the request to the end of an answer that is no 429. Local");
    report.line("requests are pages of the own room list. A huge answer goes on for 1 GiB.");
    let mut failed = 0;
    for &lookup in lookups {
        report.line(&format!("\n### {}", lookup.title()));
        report.heads(&[
            "remote",
            "callers",
            "sockets out, most",
            "longest hold, s",
            "memory before, MiB",
            "peak, MiB",
            "p50 before, ms",
            "during",
            "p99 before, ms",
            "during",
            "local requests during, failed",
            "callers were told",
        ]);
        for (name, mode) in MODES {
            for callers in CALLERS {
                let cell = cell(lookup, mode, callers).await;
                failed += cell.before.failed + cell.during.failed;
                report.row(&cell.columns(name, callers));
            }
        }
    }
    report.line(&format!("\n{failed} local requests failed."));
    report.end();
    failed == 0
}

struct Cell {
    before: LocalLoad,
    during: LocalLoad,
    sockets: u64,
    longest: Duration,
    told: String,
    memory_before_kib: u64,
    peak_kib: u64,
}

async fn cell(lookup: Lookup, mode: &str, callers: usize) -> Cell {
    let tls = tempfile::tempdir().unwrap();
    let remote = Stall::start(mode, tls.path(), &[]);
    let setup = Setup::embedded("load.example", &tls.path().join("ca.crt")).quiet().media("legacy_endpoints = true");
    let serve = Serve::start(&setup);
    ask_locally(serve.address(), LOCAL_REQUESTS / 4, LOCAL_CALLERS).await;
    let before = ask_locally(serve.address(), LOCAL_REQUESTS, LOCAL_CALLERS).await;
    let memory_before_kib = serve.process().footprint().unwrap().resident_kib;
    serve.process().forget_peak();
    let server = remote.server_name();
    let attack = Attackers::begin(serve.address(), callers, move |number, round| lookup.path(&server, number, round));
    let end = Instant::now() + lookup.lasts();
    sleep(SETTLING).await;
    let mut during = LocalLoad::default();
    while Instant::now() < end {
        let load = ask_locally(serve.address(), LOCAL_REQUESTS, LOCAL_CALLERS).await;
        during.failed += load.failed;
        during.latencies.extend([load.latencies]);
    }
    let tally = attack.tally();
    let told = summed(&tally.statuses);
    Cell {
        before,
        during,
        sockets: remote.counters().max_open,
        longest: tally.longest,
        told,
        memory_before_kib,
        peak_kib: serve.process().peak_kib().unwrap(),
    }
}

impl Cell {
    fn columns(&self, name: &str, callers: usize) -> Vec<String> {
        let [before, during] = [&self.before, &self.during];
        vec![
            name.to_owned(),
            callers.to_string(),
            self.sockets.to_string(),
            format!("{:.1}", self.longest.as_secs_f64()),
            mib(self.memory_before_kib),
            mib(self.peak_kib),
            ms(before.latencies.percentile(50)),
            ms(during.latencies.percentile(50)),
            ms(before.latencies.percentile(99)),
            ms(during.latencies.percentile(99)),
            format!("{}, {}", during.latencies.count() + during.failed, during.failed),
            self.told.clone(),
        ]
    }
}
