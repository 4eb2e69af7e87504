//! What was sampled over a soak, and the rule that says whether it grows.

use std::fmt::Write as _;
use std::time::Duration;

use crate::rig::Footprint;

/// The parts of a soak: the first warms up (caches fill, pools grow to their size), the others are compared.
const QUARTERS: usize = 4;
/// What may be more in the last quarter than in the second, and at the end of another soak as long as this one if it grows on
/// as from the third quarter to the last: this share, or so much where that is little.
const SHARE_PERCENT: u64 = 10;
const MEMORY_KIB: u64 = 8 * 1024;
const DESCRIPTORS: u64 = 32;
const THREADS: u64 = 2;

/// The verdict that fails a run.
pub(crate) const GROWS: &str = "grows";

/// One moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) footprint: Footprint,
    /// Slots held, by class.
    pub(crate) directory: u64,
    pub(crate) media: u64,
    /// Files in the media store.
    pub(crate) stored: u64,
    /// Resident memory of the homeserver behind, if there is one.
    pub(crate) behind_kib: Option<u64>,
}

/// One quantity over the time, for the eye and for the verdict.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) of: fn(&Sample) -> u64,
    /// What it may grow by, however little it is; `None`: bounded by a cap and not by this rule.
    slack: Option<u64>,
}

pub(crate) const SERIES: [Series; 7] = [
    Series {
        name: "resident memory",
        unit: "KiB",
        of: |sample| sample.footprint.resident_kib,
        slack: Some(MEMORY_KIB),
    },
    Series {
        name: "of it anonymous",
        unit: "KiB",
        of: |sample| sample.footprint.anonymous_kib,
        slack: Some(MEMORY_KIB),
    },
    Series { name: "stored files", unit: "", of: |sample| sample.stored, slack: None },
    Series {
        name: "descriptors",
        unit: "",
        of: |sample| u64::try_from(sample.footprint.descriptors).unwrap(),
        slack: Some(DESCRIPTORS),
    },
    Series { name: "threads", unit: "", of: |sample| sample.footprint.threads, slack: Some(THREADS) },
    Series { name: "directory slots", unit: "", of: |sample| sample.directory, slack: None },
    Series { name: "media slots", unit: "", of: |sample| sample.media, slack: None },
];

/// The rule, for the reader.
pub(crate) const RULE: &str = "\
The first quarter of the time warms up; the others are summed up by their medians. The last may exceed the second by 10 %, or by
8 MiB, 32 descriptors or 2 threads where that is more. Nor may four times the step from the third to the last be more than that:
what climbs at the end would climb on, in as much time again by so much. Slots and stored files have caps, and all slots have to be
free within a minute after the load. Whatever needs no other server has to be answered.";

/// What became of one series.
pub(crate) struct Trend {
    /// The medians of the second, the third and the last quarter.
    pub(crate) quarters: [u64; QUARTERS - 1],
    pub(crate) most: u64,
    pub(crate) verdict: &'static str,
}

impl Series {
    pub(crate) fn trend(&self, samples: &[Sample]) -> Trend {
        let values: Vec<u64> = samples.iter().map(self.of).collect();
        let at = |quarter| values.len() * quarter / QUARTERS;
        let quarters = [1, 2, 3].map(|quarter| median(values[at(quarter)..at(quarter + 1)].to_vec()));
        let [second, third, last] = quarters;
        let verdict = match self.slack.map(|slack| slack.max(second * SHARE_PERCENT / 100)) {
            None => "capped",
            Some(slack) if last.saturating_sub(second) > slack => GROWS,
            Some(slack) if last.saturating_sub(third) * 4 > slack => GROWS,
            Some(_) => "flat",
        };
        Trend { quarters, most: values.into_iter().max().unwrap_or_default(), verdict }
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// All samples, for other tools.
pub(crate) fn csv(samples: &[Sample]) -> String {
    let mut text =
        "seconds,resident_kib,anonymous_kib,stored_files,descriptors,threads,directory_slots,media_slots,behind_resident_kib\n".to_owned();
    for sample in samples {
        let values = SERIES.iter().map(|series| (series.of)(sample).to_string()).collect::<Vec<_>>().join(",");
        let behind = sample.behind_kib.map(|kib| kib.to_string()).unwrap_or_default();
        writeln!(text, "{},{values},{behind}", sample.at.as_secs()).unwrap();
    }
    text
}
