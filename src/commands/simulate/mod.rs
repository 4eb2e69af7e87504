//! `portcullis simulate`: what the load gate does in an incident and in an outage, under virtual time.

mod figures;
mod incident;
mod outage;
mod plot;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use portcullis::simulation::{Incident, Outage, OutageKind, Overloaded};
use serde::Serialize;

use super::{DONE, FAILED, Trouble, say, status, tell};
use plot::{Format, Picture};

/// What to do with what was seen.
#[derive(Debug)]
pub(crate) struct Show {
    pub(crate) json: bool,
    pub(crate) plot: Option<PathBuf>,
}

/// `portcullis simulate incident`.
pub(crate) fn incident(show: &Show) -> ExitCode {
    status(format_of(show).map(|format| {
        let incident = Incident::replay();
        let report = incident::Report::of(&incident, &Overloaded::rehearse());
        told(show, &report, || report.render(), || plot::of_incident(&incident), format)
    }))
}

/// `portcullis simulate outage`.
pub(crate) fn outage(show: &Show, minutes: u16, refusing: bool) -> ExitCode {
    let kind = if refusing { OutageKind::Refusing } else { OutageKind::Silent };
    let well_from = Duration::from_secs(60 * u64::from(minutes));
    status(format_of(show).map(|format| {
        let outage = Outage::rehearse(kind, well_from);
        let report = outage::Report::of(&outage);
        told(show, &report, || report.render(), || plot::of_outage(&outage), format)
    }))
}

/// Judged before anything is rehearsed: a wrong file name is a usage error.
fn format_of(show: &Show) -> Result<Option<Format>, Trouble> {
    show.plot.as_deref().map(Format::of_path).transpose().map_err(Trouble::from)
}

fn told(
    show: &Show,
    report: &impl Serialize,
    render: impl FnOnce() -> String,
    picture: impl FnOnce() -> Picture,
    format: Option<Format>,
) -> u8 {
    let text = if show.json {
        match serde_json::to_string_pretty(report) {
            Ok(json) => json,
            Err(error) => {
                tell(&error.to_string());
                return FAILED;
            }
        }
    } else {
        render()
    };
    say(text.trim_end());
    match (show.plot.as_deref(), format) {
        (Some(file), Some(format)) => drawn(file, &picture(), format),
        _ => DONE,
    }
}

fn drawn(file: &Path, picture: &Picture, format: Format) -> u8 {
    let written = picture.bytes(format).and_then(|bytes| {
        std::fs::write(file, bytes).map_err(|error| format!("{} cannot be written: {error}", file.display()))
    });
    match written {
        Ok(()) => DONE,
        Err(error) => {
            tell(&error);
            FAILED
        }
    }
}
