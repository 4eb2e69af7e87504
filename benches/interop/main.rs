//! Load on `portcullis serve` beside real peers: a soak, a comparison with Synapse alone, and figures of attacks.
//!
//! ```text
//! cargo bench --bench interop -- soak 30         # thirty minutes of mixed load in front of Synapse: flat, or growing?
//! cargo bench --bench interop -- compare         # the same honest load on Synapse alone and through us; some five minutes
//! cargo bench --bench interop -- attack          # ours alone under silent, dripping and huge answers; ten minutes
//! cargo bench --bench interop -- attack lists    # of the two kinds of lookup, lists or files, one
//! ```
//!
//! Each prints Markdown for `BENCHMARKS.md` and leaves it, with its pictures and tables, in `target/interop/`. The first two
//! need Python 3.11 and openssl, and install Synapse with pip where it is missing. Everything stays on loopback. What
//! does not hold (a soak that grows, a request that fails) ends the run with status 1.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot be set up has nothing to say"
)]

mod attack;
mod compare;
mod mix;
mod plot;
mod report;
#[path = "../../tests/interop/rig/mod.rs"]
mod rig;
mod samples;
mod soak;

use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Builder;

const USAGE: &str = "\
usage: cargo bench --bench interop -- soak [MINUTES]     (30)
       cargo bench --bench interop -- compare
       cargo bench --bench interop -- attack [lists|files]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // `cargo bench` and `cargo test` start every benchmark without a word; this one would take an hour.
    let Some((&part, more)) = words.split_first() else {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let minutes = more.first().map_or(Some(30), |word| word.parse::<u32>().ok().filter(|minutes| *minutes > 0));
    let held = match (part, more, minutes) {
        ("soak", [] | [_], Some(minutes)) => runtime.block_on(soak::run(Duration::from_secs(60) * minutes)),
        ("compare", [], _) => runtime.block_on(compare::run()),
        ("attack", [], _) => runtime.block_on(attack::run(&attack::Lookup::ALL)),
        ("attack", ["lists"], _) => runtime.block_on(attack::run(&[attack::Lookup::Lists])),
        ("attack", ["files"], _) => runtime.block_on(attack::run(&[attack::Lookup::Files])),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
