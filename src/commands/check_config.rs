//! `portcullis check-config`: everything that would stop `serve`, at once.

use std::path::Path;
use std::process::ExitCode;

use portcullis::homeserver::assemble::start_errors;
use portcullis::homeserver::config::Config;

use super::{DONE, Trouble, USAGE, say, status, tell};

pub(crate) fn run(file: &Path) -> ExitCode {
    status(check(file))
}

fn check(file: &Path) -> Result<u8, Trouble> {
    let config = Config::read(file)?;
    for warning in config.warnings() {
        tell(&format!("{}: warning: {warning}", file.display()));
    }
    let errors = start_errors(&config);
    for error in &errors {
        tell(&format!("{}: {error}", file.display()));
    }
    if errors.is_empty() {
        say(&format!("{}: ok", file.display()));
        Ok(DONE)
    } else {
        Ok(USAGE)
    }
}
