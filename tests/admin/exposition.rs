//! A strict reader of Prometheus' text format, version 0.0.4: it fails on whatever a scraper or `promtool check metrics` would
//! frown at.

use std::collections::{BTreeMap, BTreeSet};

/// What was read, by name of the metric.
#[derive(Debug)]
pub(crate) struct Exposition {
    pub(crate) families: BTreeMap<String, Family>,
}

#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Exposition {
    /// # Panics
    /// On every line that is not as it should be.
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        assert!(!text.contains('\r') && !text.contains("\n\n"), "an empty line, or a carriage return");
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut series = BTreeSet::new();
        let mut open: Option<String> = None;
        let mut helped: Option<(String, String)> = None;
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(is_name(name) && !help.trim().is_empty() && help.trim() == help, "{line}");
                assert!(!families.contains_key(name), "told twice: {line}");
                assert!(helped.replace((name.to_owned(), help.to_owned())).is_none(), "help without a type: {line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                let (helped, help) = helped.take().unwrap_or_else(|| panic!("no help: {line}"));
                assert_eq!(helped, name, "{line}");
                check_name(name, kind);
                let family = Family { kind: kind.to_owned(), help, samples: Vec::new() };
                assert!(families.insert(name.to_owned(), family).is_none(), "{line}");
                open = Some(name.to_owned());
            } else {
                assert!(!line.starts_with('#') && helped.is_none(), "{line}");
                let sample = Sample::read(line);
                assert!(series.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
                let name = open.as_ref().unwrap_or_else(|| panic!("no type: {line}"));
                let family = families.get_mut(name).unwrap();
                let suffixes: &[&str] = if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                let belongs = suffixes.iter().any(|suffix| sample.name == format!("{name}{suffix}"));
                assert!(belongs, "{line} does not belong to {name}");
                family.samples.push(sample);
            }
        }
        assert!(helped.is_none(), "help without a type");
        for (name, family) in &families {
            assert!(!family.samples.is_empty(), "{name} has no series");
            family.check_values(name);
        }
        Self { families }
    }

    /// The value of the one series with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: BTreeMap<_, _> = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let samples = self.families.values().flat_map(|family| &family.samples);
        let found = samples.into_iter().find(|sample| sample.name == name && sample.labels == labels);
        found.unwrap_or_else(|| panic!("no {name} with {labels:?}")).value
    }
}

impl Family {
    fn check_values(&self, name: &str) {
        for sample in &self.samples {
            assert!(sample.value.is_finite(), "{sample:?}");
            assert!(self.kind == "gauge" || sample.value >= 0.0, "{sample:?}");
            assert_eq!(sample.labels.contains_key("le"), sample.name.ends_with("_bucket"), "{sample:?}");
        }
        if self.kind != "histogram" {
            return;
        }
        let without_step = |sample: &Sample| {
            let mut labels = sample.labels.clone();
            labels.remove("le");
            labels
        };
        for labels in self.samples.iter().map(without_step).collect::<BTreeSet<_>>() {
            let of = |suffix: &str| -> Vec<&Sample> {
                let named = format!("{name}{suffix}");
                self.samples.iter().filter(|one| one.name == named && without_step(one) == labels).collect()
            };
            let steps: Vec<_> = of("_bucket").iter().map(|step| (bound(&step.labels["le"]), step.value)).collect();
            let rising = |(one, other): (&(f64, f64), &(f64, f64))| one.0 < other.0 && one.1 <= other.1;
            assert!(steps.iter().zip(steps.iter().skip(1)).all(rising), "{name} {labels:?}: {steps:?}");
            let (last, count) = (steps.last().unwrap(), of("_count"));
            assert!(last.0.is_infinite() && count.len() == 1 && of("_sum").len() == 1, "{name} {labels:?}");
            assert!((last.1 - count[0].value).abs() < f64::EPSILON, "{name} {labels:?}");
        }
    }
}

impl Sample {
    fn read(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = match series.split_once('{') {
            None => (series, BTreeMap::new()),
            Some((name, labels)) => (name, read_labels(labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))),
        };
        assert!(is_name(name), "{line}");
        let plain = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        assert!(plain, "{line}");
        Self { name: name.to_owned(), labels, value: value.parse().unwrap_or_else(|_| panic!("{line}")) }
    }
}

fn read_labels(mut rest: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{rest}"));
        assert!(is_name(name) && !name.contains(':') && !name.starts_with("__"), "{rest}");
        // No value of ours has to be escaped, so that the next quote is its end.
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{rest}"));
        assert!(!value.contains('\\') && !value.is_empty(), "{rest}");
        assert!(labels.insert(name.to_owned(), value.to_owned()).is_none(), "{rest}");
        rest = if let Some(more) = after.strip_prefix(',') {
            assert!(!more.is_empty(), "a comma too many");
            more
        } else {
            assert!(after.is_empty(), "{after}");
            after
        };
    }
    labels
}

fn bound(le: &str) -> f64 {
    if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() }
}

fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':')
}

fn check_name(name: &str, kind: &str) {
    assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} is a {kind}");
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
    assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
    for suffix in ["_count", "_sum", "_bucket"] {
        assert!(!name.ends_with(suffix), "{name} is a histogram's series");
    }
    // Base units alone.
    for unit in ["_ms", "_milliseconds", "_minutes", "_kilobytes", "_megabytes", "_percent"] {
        assert!(!name.contains(unit), "{name}: seconds and bytes are wanted");
    }
}

#[test]
fn the_reader_of_metrics_sees_every_fault() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c\",d=\"e\"} 1\na_total{b=\"d\",d=\"e\"} 2.5\n";
    let read = Exposition::read(good);
    assert!((read.value("a_total", &[("b", "d"), ("d", "e")]) - 2.5).abs() < f64::EPSILON);
    let histogram =
        "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n";
    Exposition::read(histogram);
    let faults = [
        good.trim_end().to_owned(),
        good.replace("# HELP a_total A.\n", ""),
        good.replace("# TYPE a_total counter\n", ""),
        good.replace("counter", "gauge"),
        good.replace("a_total{b=\"d\"", "a_total{b=\"c\""),
        good.replace("b=\"d\",", "b=\"d\",b=\"e\","),
        good.replace("e\"}", "e\",}"),
        good.replace(" 2.5", " NaN"),
        good.replace("a_total", "a"),
        format!("{good}{good}"),
        format!("{good}b 1\n"),
        histogram.replace("h_bucket{le=\"1\"} 1", "h_bucket{le=\"1\"} 3"),
        histogram.replace("h_bucket{le=\"+Inf\"} 2\n", ""),
        histogram.replace("h_count 2", "h_count 3"),
        histogram.replace("h_sum 3\n", ""),
    ];
    for fault in faults {
        assert!(std::panic::catch_unwind(|| Exposition::read(&fault)).is_err(), "{fault}");
    }
}
