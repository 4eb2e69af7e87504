//! `portcullis check-config`: everything that would stop `serve`, at once.

use std::path::Path;
use std::process::ExitCode;

use portcullis::homeserver::config::Config;

use super::{DONE, Trouble, say, start_trouble, status, tell};

pub(crate) fn run(file: &Path) -> ExitCode {
    status(check(file))
}

fn check(file: &Path) -> Result<u8, Trouble> {
    let config = Config::read_with_files(file)?;
    for warning in config.warnings() {
        tell(&format!("warning: {warning}"));
    }
    if let Some(trouble) = start_trouble(&config) {
        return Err(trouble);
    }
    say(&format!("{}: ok", file.display()));
    Ok(DONE)
}
