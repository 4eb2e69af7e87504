//! The commands of the binary. Each ends with a status: 0 done, 1 a promise or a lookup failed, 2 usage or configuration.

pub(crate) mod check_config;
pub(crate) mod demo;
pub(crate) mod keygen;
pub(crate) mod resolve;
pub(crate) mod serve;
mod service_manager;
pub(crate) mod simulate;

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use portcullis::homeserver::assemble;
use portcullis::homeserver::config::Config;
use portcullis::{ClientOutboundProxyPolicy, OutboundDeadline, RouteClass};
use tokio::time::Instant;

pub(crate) const DONE: u8 = 0;
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;

/// Why a command ends: what to tell on standard error.
pub(crate) struct Trouble(String);

impl<T: Display> From<T> for Trouble {
    fn from(told: T) -> Self {
        Self(told.to_string())
    }
}

/// The status of a command that may end because of its usage or configuration.
pub(crate) fn status(outcome: Result<u8, Trouble>) -> ExitCode {
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(Trouble(told)) => {
            tell(&told);
            ExitCode::from(USAGE)
        }
    }
}

/// A line on standard output. A reader that went away is no error.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Lines on standard error, each saying who speaks: other programs' lines stand around them.
pub(crate) fn tell(lines: &str) {
    let mut out = std::io::stderr().lock();
    for line in lines.lines() {
        drop(writeln!(out, "portcullis: {line}"));
    }
}

/// Everything that is wrong outside the configuration's own text and would stop `serve`, one per line; `None`: nothing.
pub(crate) fn start_trouble(config: &Config) -> Option<Trouble> {
    let errors = assemble::start_errors(config);
    let lines: Vec<_> = errors.iter().map(|error| error.located(config)).collect();
    (!lines.is_empty()).then(|| Trouble(lines.join("\n")))
}

/// The configuration in `file`, or the one that serves without a file; the files it names are not looked at.
pub(crate) fn configuration(file: Option<&Path>) -> Result<Config, Trouble> {
    match file {
        Some(file) => Ok(Config::read(file)?),
        None => Ok(Config::without_file()),
    }
}

/// `portcullis resolve`.
pub(crate) fn resolve_name(name: &str, json: bool, config: Option<&Path>) -> ExitCode {
    status(resolve_to_status(name, json, config))
}

fn resolve_to_status(name: &str, json: bool, config: Option<&Path>) -> Result<u8, Trouble> {
    let config = configuration(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let _entered = runtime.enter();
    let discovery = assemble::discovery(&config).map_err(|error| error.located(&config))?;
    let limit = config.federation.remote_timeout;
    let allowed = ClientOutboundProxyPolicy::for_pool(config.request_threads).deadline(RouteClass::Directory, limit);
    if std::io::stderr().is_terminal() {
        tell(&format!("asking for {}, for {} s at most", name.escape_debug(), allowed.as_secs_f64()));
    }
    let explanation =
        runtime.block_on(resolve::explain(&discovery, name, OutboundDeadline::after(allowed, Instant::now())));
    say(if json { explanation.to_json() } else { explanation.render() }.trim_end());
    Ok(if explanation.error.is_some() { FAILED } else { DONE })
}
