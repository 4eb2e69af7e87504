//! The dashboard and the alert rules in `contrib/`: they parse, and every metric and label value they name is one of ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use portcullis::homeserver::admin::metric_names::{ALL, Metric, MetricKind};
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

/// Metrics of Prometheus' own, and labels that it adds.
const OF_PROMETHEUS: &[&str] = &["up"];
const ADDED_LABELS: &[&str] = &["job", "instance", "le"];
const KEYWORDS: &[&str] = &["and", "or", "unless", "bool", "sum", "min", "max"];

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(name)).unwrap()
}

/// A metric as an expression names it, with what it says in braces.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    series: String,
    /// Label, operator, value.
    matchers: Vec<(String, String, String)>,
}

/// Every metric of an expression of Prometheus' query language.
fn named(expression: &str) -> Vec<Named> {
    let mut found: Vec<Named> = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '{' {
            let (inside, after) = rest[1..].split_once('}').unwrap_or_else(|| panic!("{expression}"));
            found.last_mut().unwrap_or_else(|| panic!("{expression}")).matchers = matchers(inside);
            rest = after;
        } else if first == '[' {
            rest = rest.split_once(']').unwrap_or_else(|| panic!("{expression}")).1;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|other: char| !other.is_ascii_alphanumeric() && other != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let is_call = after.trim_start().starts_with('(');
            rest = after;
            if ["by", "on", "without", "ignoring"].contains(&word) {
                rest = rest.split_once(')').unwrap_or_else(|| panic!("{expression}")).1;
            } else if !is_call && !KEYWORDS.contains(&word) {
                found.push(Named { series: word.to_owned(), matchers: Vec::new() });
            }
        } else if first.is_ascii_digit() {
            rest = rest.trim_start_matches(|digit: char| digit.is_ascii_alphanumeric() || digit == '.');
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

fn matchers(inside: &str) -> Vec<(String, String, String)> {
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let at = part.find(['=', '!']).unwrap_or_else(|| panic!("{part}"));
            let (label, rest) = part.split_at(at);
            let (operator, value) = rest.split_once('"').unwrap_or_else(|| panic!("{part}"));
            (label.to_owned(), operator.to_owned(), value.strip_suffix('"').unwrap().to_owned())
        })
        .collect()
}

fn metric_of(series: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| match metric.kind {
        MetricKind::Histogram => {
            ["_bucket", "_sum", "_count"].iter().any(|end| series == format!("{}{end}", metric.name))
        }
        _ => series == metric.name,
    })
}

/// Which of our metrics are named.
///
/// # Panics
/// If one is named that is not ours, or with a label value that it never has.
fn checked(expressions: &[String]) -> BTreeSet<&'static str> {
    let mut metrics = BTreeSet::new();
    for expression in expressions {
        for Named { series, matchers } in named(expression) {
            let Some(metric) = metric_of(&series) else {
                assert!(OF_PROMETHEUS.contains(&series.as_str()), "no metric {series}: {expression}");
                continue;
            };
            metrics.insert(metric.name);
            for (label, _, value) in matchers.iter().filter(|(label, ..)| !ADDED_LABELS.contains(&label.as_str())) {
                let values = metric.labels.iter().find(|known| known.name == label).map(|known| known.values);
                assert!(values.is_some_and(|values| values.contains(&value.as_str())), "{label}={value}: {expression}");
            }
        }
    }
    metrics
}

fn alert_rules() -> Vec<Yaml> {
    let documents = YamlLoader::load_from_str(&read("prometheus-alerts.yml")).unwrap();
    assert_eq!(documents.len(), 1);
    let groups = documents[0]["groups"].as_vec().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_vec().unwrap().clone()).collect()
}

#[test]
fn every_metric_of_the_alert_rules_is_ours() {
    let rules = alert_rules();
    let expressions: Vec<_> = rules.iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect();
    assert!(expressions.len() >= 4);
    assert!(checked(&expressions).contains("portcullis_refused_total"));
}

#[test]
fn every_alert_says_what_is_wrong_how_urgent_it_is_and_what_to_look_at() {
    let mut seen = BTreeSet::new();
    for rule in alert_rules() {
        let name = rule["alert"].as_str().unwrap().to_owned();
        assert!(name.starts_with("Portcullis"), "{name}");
        assert!(["page", "ticket"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        let annotations = &rule["annotations"];
        assert!(annotations["summary"].as_str().unwrap().contains("$labels.instance"), "{name}");
        assert!(annotations["description"].as_str().unwrap().len() > 20, "{name}");
        assert!(seen.insert(name.clone()), "{name} twice");
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut expressions = Vec::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
    }
    let shown = checked(&expressions);
    let all: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(shown, all);
}

#[test]
fn panels_do_not_lie_on_each_other() {
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let mut cells = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{}", panel["title"]);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{}", panel["title"]);
        }
    }
}

#[test]
fn the_reader_of_expressions_sees_every_metric() {
    let of = |series: &str, matchers: &[(&str, &str, &str)]| Named {
        series: series.into(),
        matchers: matchers.iter().map(|(label, is, value)| ((*label).into(), (*is).into(), (*value).into())).collect(),
    };
    assert_eq!(
        named(
            "sum by (le, class) (rate(a_bucket{job=~\"$job\", b!=\"c\"}[5m])) / 1e3 > 0.5 and on (job) (d) unless e{}"
        ),
        [of("a_bucket", &[("job", "=~", "$job"), ("b", "!=", "c")]), of("d", &[]), of("e", &[])]
    );
    assert!(std::panic::catch_unwind(|| checked(&["portcullis_in_fligth".into()])).is_err());
    assert!(std::panic::catch_unwind(|| checked(&["portcullis_in_flight{class=\"lookups\"}".into()])).is_err());
    assert!(std::panic::catch_unwind(|| checked(&["portcullis_in_flight{colour=\"red\"}".into()])).is_err());
    assert!(std::panic::catch_unwind(|| checked(&["portcullis_call_seconds".into()])).is_err());
}
