//! `--plot`: the two runs over time, and what the gate did, in one picture that needs no text beside it.

mod chart;
#[cfg(feature = "png")]
mod raster;
mod scale;

use std::path::Path;
use std::time::Duration;

use portcullis::limits::INITIAL_LIMIT;
use portcullis::simulation::{BreakerSpan, Curve, Incident, Outage, OutageKind, Recording};

use super::figures::{Figures, clock};

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Svg,
    #[cfg(feature = "png")]
    Png,
}

/// What a picture shows.
#[derive(Debug)]
pub(super) struct Picture {
    title: String,
    subtitle: String,
    length: Duration,
    without: Run,
    with: Run,
    gate: Gate,
    /// How far the axis of counts goes, in percent of the most there are: above it stand the names.
    headroom_percent: usize,
    /// A moment worth a line from top to bottom.
    mark: Option<(Duration, String)>,
}

/// One curve with its label.
#[derive(Debug)]
struct Run {
    at_work: Curve,
    label: String,
    detail: String,
}

#[derive(Debug)]
struct Gate {
    limit: Curve,
    held: Curve,
    breaker: Vec<BreakerSpan>,
    admissions: Vec<Duration>,
}

impl Format {
    /// By the end of the file's name.
    pub(super) fn of_path(path: &Path) -> Result<Self, String> {
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("svg") => Ok(Self::Svg),
            #[cfg(feature = "png")]
            Some("png") => Ok(Self::Png),
            #[cfg(not(feature = "png"))]
            Some("png") => {
                Err(format!("{}: this build draws .svg alone; .png needs the feature `png`", path.display()))
            }
            _ => Err(format!("{}: a picture is a file that ends in .svg or .png", path.display())),
        }
    }
}

impl Picture {
    #[cfg_attr(
        not(feature = "png"),
        expect(clippy::unnecessary_wraps, reason = "an SVG cannot fail to be drawn; a PNG can")
    )]
    pub(super) fn bytes(&self, format: Format) -> Result<Vec<u8>, String> {
        let svg = chart::draw(self).to_string();
        match format {
            Format::Svg => Ok((svg + "\n").into_bytes()),
            #[cfg(feature = "png")]
            Format::Png => raster::png(&svg),
        }
    }
}

impl Gate {
    fn of(run: &Recording) -> Self {
        Self {
            limit: run.limit(0, INITIAL_LIMIT),
            held: Curve::of_spans(run.holds(0)),
            breaker: run.breaker_spans(0),
            admissions: run.admissions(0),
        }
    }
}

/// The incident, with and without the gate.
pub(super) fn of_incident(incident: &Incident) -> Picture {
    let run = |run: &Recording, label: &str| {
        let Figures { calls, abandoned, in_flight_mean, in_flight_peak, .. } = Figures::of(run);
        let given_up = match abandoned {
            all if all == calls => "all taken to time out".to_owned(),
            some => format!("{} given up", thousands(some)),
        };
        Run {
            at_work: run.at_work(),
            label: label.to_owned(),
            detail: format!(
                "{} pages asked for, {given_up}; mean {in_flight_mean:.1}, peak {in_flight_peak}",
                thousands(calls),
            ),
        }
    };
    Picture {
        title: "An incident, without the load gate and with it".to_owned(),
        subtitle: "Two clients fetch the history of a large room. A page that takes over 30 s is given up, and the homeserver goes on working on it."
            .to_owned(),
        length: incident.length(),
        without: run(&incident.ungoverned, "Without the gate"),
        with: run(&incident.gate, "With the gate"),
        gate: Gate::of(&incident.gate),
        headroom_percent: 108,
        mark: None,
    }
}

/// An outage and its recovery.
pub(super) fn of_outage(outage: &Outage) -> Picture {
    let down = match outage.kind {
        OutageKind::Silent => "does not answer",
        OutageKind::Refusing => "answers 503",
    };
    let well_from = clock(outage.well_from);
    let run = |run: &Recording, label: &str| Run {
        at_work: run.at_work(),
        label: label.to_owned(),
        detail: format!(
            "{} pages asked for while it is down",
            thousands(run.calls_between(Duration::ZERO, outage.well_from))
        ),
    };
    Picture {
        title: "An outage and the recovery, without the load gate and with it".to_owned(),
        subtitle: format!(
            "Four callers always want a page, and ask for the next at once. The homeserver {down} until {well_from}."
        ),
        length: outage.gate.until,
        without: run(&outage.ungoverned, "Without the gate"),
        with: run(&outage.gate, "With the gate"),
        gate: Gate::of(&outage.gate),
        headroom_percent: 160,
        mark: Some((outage.well_from, "well again".to_owned())),
    }
}

/// With a comma before each group of three digits.
fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_the_name_chooses_the_format() {
        assert_eq!(Format::of_path(Path::new("a.svg")), Ok(Format::Svg));
        assert_eq!(Format::of_path(Path::new("a.b/c.PNG")).is_ok(), cfg!(feature = "png"));
        for other in ["a.jpg", "svg", "a", ".png", "a.svg/"] {
            let judged = Format::of_path(Path::new(other));
            assert_eq!(judged.is_err(), other != "a.svg/", "{other}");
        }
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(
            [0, 44, 999, 2111, 18_184, 1_234_567].map(thousands),
            ["0", "44", "999", "2,111", "18,184", "1,234,567"]
        );
    }
}
