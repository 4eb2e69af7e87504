//! [`Exposition`]: the text format of Prometheus, version 0.0.4.
//!
//! Written by hand: every figure is already an atomic behind a snapshot, so that a registry of a library would keep each of
//! them twice, and the format is four kinds of line. What comes out is read by a strict parser in `tests/metrics.rs`.

use std::fmt::{self, Write as _};

use super::metric_names::Metric;
use crate::proxy::watch::CallTimes;

/// What the text is, for whoever scrapes it.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

/// The series of one metric, which stand together.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    metric: &'a Metric,
}

/// A number as the text has it. Never a float: no figure of ours is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Whole(u64),
    /// Shown in seconds.
    Ms(u64),
}

impl Exposition {
    /// The series of `metric`. It has to be asked for once.
    pub(super) fn family<'a>(&'a mut self, metric: &'a Metric) -> Family<'a> {
        let Metric { name, kind, help, .. } = metric;
        self.line(format_args!("# HELP {name} {}", escaped_help(help)));
        self.line(format_args!("# TYPE {name} {}", kind.as_str()));
        Family { text: &mut self.text, metric }
    }

    /// A metric of one series.
    pub(super) fn single(&mut self, metric: &Metric, number: impl Into<Number>) {
        self.family(metric).sample(&[], number);
    }

    /// The whole text.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        push(&mut self.text, line);
    }
}

impl Family<'_> {
    /// A series with these values of the metric's labels, in their order.
    pub(super) fn sample(&mut self, values: &[&'static str], number: impl Into<Number>) {
        let labels = self.labels(values, None);
        push(self.text, format_args!("{}{labels} {}", self.metric.name, number.into()));
    }

    /// The series of a histogram: its steps, the whole, the sum.
    pub(super) fn histogram(&mut self, values: &[&'static str], times: &CallTimes) {
        let name = self.metric.name;
        for step in &times.at_most {
            let labels = self.labels(values, Some(Number::Ms(step.ms)));
            push(self.text, format_args!("{name}_bucket{labels} {}", step.calls));
        }
        let all = self.labels(values, None);
        let within = all.strip_suffix('}').map_or_else(|| "{".to_owned(), |labels| format!("{labels},"));
        push(self.text, format_args!("{name}_bucket{within}le=\"+Inf\"}} {}", times.calls));
        push(self.text, format_args!("{name}_sum{all} {}", Number::Ms(times.total_ms)));
        push(self.text, format_args!("{name}_count{all} {}", times.calls));
    }

    /// `{name="value",…}`; nothing without labels. The values are constants, and none has to be escaped.
    fn labels(&self, values: &[&'static str], at_most: Option<Number>) -> String {
        let given = self.metric.labels.iter().zip(values);
        let mut labels: Vec<_> = given.map(|(label, value)| format!("{}=\"{value}\"", label.name)).collect();
        labels.extend(at_most.map(|step| format!("le=\"{step}\"")));
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(out, "{number}"),
            Self::Ms(ms) if ms % 1000 == 0 => write!(out, "{}", ms / 1000),
            Self::Ms(ms) => {
                let thousandths = format!("{:03}", ms % 1000);
                write!(out, "{}.{}", ms / 1000, thousandths.trim_end_matches('0'))
            }
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Self::Whole(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

fn escaped_help(help: &str) -> String {
    help.replace('\\', "\\\\").replace('\n', "\\n")
}

fn push(text: &mut String, line: fmt::Arguments<'_>) {
    // A string takes whatever is written to it.
    let _ = text.write_fmt(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_shown_in_seconds() {
        for (ms, text) in
            [(0, "0"), (50, "0.05"), (100, "0.1"), (2_500, "2.5"), (10_000, "10"), (12_345, "12.345"), (1_001, "1.001")]
        {
            assert_eq!(Number::Ms(ms).to_string(), text);
        }
    }
}
