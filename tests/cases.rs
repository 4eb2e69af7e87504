//! The case files `discovery.json` and `ssrf.json`, driven through the real code in a private network: one test per case.
//!
//! See `cases/README.md` for what a case says and how each open choice is settled, and `world` for the network.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "cases/bug_reports.rs"]
mod bug_reports;
#[path = "cases/discovery.rs"]
mod discovery;
#[path = "cases/ssrf.rs"]
mod ssrf;
#[path = "cases/ssrf_file.rs"]
mod ssrf_file;
#[path = "cases/ssrf_media.rs"]
mod ssrf_media;
#[path = "cases/traps.rs"]
mod traps;
#[path = "cases/well_known.rs"]
mod well_known;
mod world;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use world::namespace::{self, Entered};

fn main() -> ExitCode {
    let unavailable = match namespace::enter() {
        Entered::Inside => None,
        Entered::Ran(status) => return status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(101).into(),
        Entered::Unavailable(reason) => Some(reason),
    };
    let mut trials = trials();
    if let Some(reason) = &unavailable {
        eprintln!("!!! No private network on this machine: {reason}");
        eprintln!("!!! The {} tests of this file CANNOT RUN; nothing they prove is proved here.", trials.len());
        eprintln!("!!! They need unshare (util-linux), ip (iproute2), mount, and user namespaces or root.");
        if env::var_os("CI").is_some() {
            eprintln!("!!! CI is set, so this is a failure.");
            return ExitCode::FAILURE;
        }
        trials =
            trials.into_iter().map(|trial| trial.with_ignored_flag(true).with_kind("no private network")).collect();
    }
    let mut arguments = Arguments::from_args();
    // There is one port 53.
    arguments.test_threads = Some(1);
    if unavailable.is_some() {
        arguments.ignored = false;
        arguments.include_ignored = false;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in discovery::cases() {
        trials.push(trial(case.id.clone(), move || case.run()));
    }
    for case in ssrf::cases() {
        trials.push(trial(case.id.clone(), move || case.run()));
    }
    for (name, run) in ssrf::TESTS.iter().chain(traps::TESTS).chain(bug_reports::TESTS) {
        trials.push(trial((*name).to_owned(), *run));
    }
    trials
}

fn trial(name: String, run: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}
