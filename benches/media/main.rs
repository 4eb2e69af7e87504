//! What a file of another server costs on its way through `portcullis serve`, beside asking that server directly.
//!
//! ```text
//! cargo bench --bench media               # everything, two minutes
//! cargo bench --bench media -- memory     # one part of it: times or memory
//! ```
//!
//! `serve` is a process of its own. The origin sends 10 MiB a second on each connection, so that both ways wait for the
//! same thing and the ratio shows what is added. Every run asks for a file nobody has asked for before. A bar that is missed
//! is said so, and ends the run with status 1.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to say")]

mod client;
mod origin;
mod serve;

use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use client::{Download, directly, through_serve};
use origin::Origin;
use serve::Serve;

const MIB: usize = 1024 * 1024;
/// Alternating runs; odd, so that the median is one of them.
const RUNS: usize = 15;
/// The file whose time is taken.
const TIMED_FILE: usize = 20 * MIB;
/// The file many of which are fetched at once.
const LARGE_FILE: usize = 50 * MIB;
/// First byte, and whole, through `serve` against directly.
const FIRST_BYTE_BAR: f64 = 1.5;
const WHOLE_BAR: f64 = 1.2;
/// Downloads at once, and by how many bytes they may raise the peak of resident memory.
const MEMORY_BARS: [(usize, usize); 2] = [(8, 32 * MIB), (64, 64 * MIB)];
/// Servers that the downloads are spread over: at most 16 run at one.
const ORIGINS: usize = 4;

fn main() -> ExitCode {
    // `cargo test` runs benches too, to see that they start; this one would take minutes.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let wanted = |part: &str| {
        let mut named = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
        named.peek().is_none() || named.any(|name| name == part)
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let kept = runtime.block_on(async {
        let mut kept = true;
        if wanted("times") {
            kept &= times().await;
        }
        if wanted("memory") {
            for (downloads, bar) in MEMORY_BARS {
                kept &= memory(downloads, bar).await;
            }
        }
        kept
    });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// First byte and whole time of one file at a time, medians of alternating runs.
async fn times() -> bool {
    let origin = Origin::start(TIMED_FILE).await;
    let serve = Serve::start(&[&origin]);
    assert_eq!(through_serve(serve.address(), &origin.download_path("warm")).await.bytes, TIMED_FILE);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        for first in [run % 2 == 0, run % 2 != 0] {
            if first {
                direct.push(directly(&origin, &format!("direct{run}")).await);
            } else {
                through.push(through_serve(serve.address(), &origin.download_path(&format!("run{run}"))).await);
            }
        }
    }
    assert!(through.iter().all(|download| download.bytes == TIMED_FILE), "a download was cut short");
    println!("one file of {} MiB, medians of {RUNS} alternating runs", TIMED_FILE / MIB);
    let first = |download: &Download| download.first_byte;
    let whole = |download: &Download| download.whole;
    let added = median(through.iter().map(first)).saturating_sub(median(direct.iter().map(first)));
    println!("  before the first byte {added:.1?} are added, however fast the origin is");
    let first = ratio("first byte", &through, &direct, first, FIRST_BYTE_BAR);
    let whole = ratio("whole file", &through, &direct, whole, WHOLE_BAR);
    first && whole
}

fn ratio(what: &str, through: &[Download], direct: &[Download], of: fn(&Download) -> Duration, bar: f64) -> bool {
    let (through, direct) = (median(through.iter().map(of)), median(direct.iter().map(of)));
    let ratio = through.as_secs_f64() / direct.as_secs_f64();
    println!("  {what:<12} through serve {through:>10.1?}   directly {direct:>10.1?}   ratio {ratio:.2} (bar {bar})");
    keep(ratio <= bar)
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// By how much `downloads` at once raise the peak of resident memory of a `serve` that has done a few already.
async fn memory(downloads: usize, bar: usize) -> bool {
    let mut origins = Vec::new();
    for _ in 0..ORIGINS {
        origins.push(Origin::start(LARGE_FILE).await);
    }
    let serve = Serve::start(&origins.iter().collect::<Vec<_>>());
    for origin in &origins {
        through_serve(serve.address(), &origin.download_path("warm")).await;
    }
    let before = serve.peak_memory();
    let mut running = JoinSet::new();
    for (number, origin) in (0..downloads).zip(origins.iter().cycle()) {
        let path = origin.download_path(&format!("file{number}"));
        let address = serve.address();
        running.spawn(async move { through_serve(address, &path).await });
    }
    let whole = running.join_all().await.iter().filter(|download| download.bytes == LARGE_FILE).count();
    let raised = serve.peak_memory().saturating_sub(before);
    let (raised_mib, bar_mib) = (raised / MIB, bar / MIB);
    println!(
        "{downloads} files of {} MiB at once: {whole} came whole, peak memory {} MiB before, raised by {raised_mib} MiB (bar {bar_mib})",
        LARGE_FILE / MIB,
        before / MIB,
    );
    keep(whole == downloads && raised <= bar)
}

fn keep(kept: bool) -> bool {
    if !kept {
        println!("  MISSED");
    }
    kept
}
