//! What was sampled over a soak, and the rule that says whether it grows.

use std::fmt::Write as _;
use std::time::Duration;

use crate::rig::Footprint;

/// So much of the time, from the beginning, warms up: caches fill, pools grow to their size.
const WARM_UP: (usize, usize) = (1, 4);
/// What may be more in the last third than in the first: this share, or so much where that is little.
const SHARE_PERCENT: u64 = 10;
const MEMORY_KIB: u64 = 16 * 1024;
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
    /// Resident memory of the homeserver behind, if there is one.
    pub(crate) behind_kib: Option<u64>,
}

/// One quantity over the time, for the eye and for the verdict.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) of: fn(&Sample) -> u64,
    /// How a third is summed up: memory by its median, what comes in waves by its peak.
    summary: fn(Vec<u64>) -> u64,
    /// What it may grow by, however little it is; `None`: bounded by a cap and not by this rule.
    slack: Option<u64>,
}

pub(crate) const SERIES: [Series; 5] = [
    Series {
        name: "resident memory",
        unit: "KiB",
        of: |sample| sample.footprint.resident_kib,
        summary: median,
        slack: Some(MEMORY_KIB),
    },
    Series {
        name: "descriptors",
        unit: "",
        of: |sample| u64::try_from(sample.footprint.descriptors).unwrap(),
        summary: peak,
        slack: Some(DESCRIPTORS),
    },
    Series { name: "threads", unit: "", of: |sample| sample.footprint.threads, summary: peak, slack: Some(THREADS) },
    Series { name: "directory slots", unit: "", of: |sample| sample.directory, summary: peak, slack: None },
    Series { name: "media slots", unit: "", of: |sample| sample.media, summary: peak, slack: None },
];

/// The rule, for the reader.
pub(crate) const RULE: &str = "\
The first quarter of the time warms up. Of the rest, the last third may exceed the first by 10 %, or by 16 MiB, 32 descriptors or
2 threads where that is more: memory by the medians of the thirds, descriptors and threads, which come in waves, by their peaks. Slots
have caps, and all of them have to be free within a minute after the load. Whatever needs no other server has to be answered.";

/// What became of one series.
pub(crate) struct Trend {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) most: u64,
    pub(crate) verdict: &'static str,
}

impl Series {
    pub(crate) fn trend(&self, samples: &[Sample]) -> Trend {
        let values: Vec<u64> = samples.iter().map(self.of).collect();
        let counted = &values[values.len() * WARM_UP.0 / WARM_UP.1..];
        let third = counted.len() / 3;
        let first = (self.summary)(counted[..third].to_vec());
        let last = (self.summary)(counted[counted.len() - third..].to_vec());
        let verdict = match self.slack {
            None => "capped",
            Some(slack) if last > first + slack.max(first * SHARE_PERCENT / 100) => GROWS,
            Some(_) => "flat",
        };
        Trend { first, last, most: peak(values), verdict }
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn peak(values: Vec<u64>) -> u64 {
    values.into_iter().max().unwrap_or_default()
}

/// All samples, for other tools.
pub(crate) fn csv(samples: &[Sample]) -> String {
    let mut text =
        "seconds,resident_kib,descriptors,threads,directory_slots,media_slots,behind_resident_kib\n".to_owned();
    for sample in samples {
        let values = SERIES.iter().map(|series| (series.of)(sample).to_string()).collect::<Vec<_>>().join(",");
        let behind = sample.behind_kib.map(|kib| kib.to_string()).unwrap_or_default();
        writeln!(text, "{},{values},{behind}", sample.at.as_secs()).unwrap();
    }
    text
}
