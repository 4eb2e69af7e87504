//! `/metrics`: well-formed, complete, moved by real requests, and never in a stranger's words.

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis::Outcome;
use portcullis::homeserver::admin::metric_names::{ALL, Metric, MetricKind};

use crate::exposition::Exposition;
use crate::loopback::{ask, client, get};
use crate::rig::Rig;
use crate::support::{Behaviour, SentFile, json_answer, until};

async fn scrape(rig: &Rig) -> Exposition {
    Exposition::read(&rig.get("/metrics").await.body)
}

/// A count, or a gauge of whole things.
fn whole(seen: &Exposition, name: &str, labels: &[(&str, &str)]) -> u64 {
    format!("{}", seen.value(name, labels)).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_move_with_real_requests() {
    let rig = Rig::start().await;
    let rooms = |server: &str| format!("/_matrix/client/v3/publicRooms?server={server}");
    let (_peer, good) =
        rig.world.peer("good.example", Behaviour::answers(|_| json_answer(200, r#"{"chunk":[]}"#))).await;
    let (_peer, silent) = rig.world.peer("silent.example", Behaviour::TlsSilent).await;
    let (_peer, files) =
        rig.world.peer("files.example", Behaviour::answers(|_| SentFile::png(b"picture").answer())).await;

    let before = scrape(&rig).await;
    assert_eq!(whole(&before, "portcullis_in_flight_cap", &[("class", "directory")]), 4);
    assert_eq!(whole(&before, "portcullis_call_seconds_count", &[("class", "directory")]), 0);

    assert_eq!(ask(&rig.home.portcullis, client(1), &get(&rooms(&good))).await.status, 200);
    assert_eq!(ask(&rig.home.portcullis, client(2), &get(&rooms("nowhere.example"))).await.status, 502);
    let (portcullis, path) = (Arc::clone(&rig.home.portcullis), rooms(&silent));
    let hangs = tokio::spawn(async move { ask(&portcullis, client(3), &get(&path)).await.status });
    until("lookups in flight", 1, || rig.home.portcullis.status().budgets.directory.in_flight).await;
    let during = scrape(&rig).await;
    assert_eq!(whole(&during, "portcullis_in_flight", &[("class", "directory")]), 1);
    assert_eq!(whole(&during, "portcullis_in_flight", &[("class", "media")]), 0);
    assert_eq!(ask(&rig.home.portcullis, client(3), &get(&rooms(&silent))).await.status, 429);
    assert_eq!(hangs.await.unwrap(), 504);

    let file = format!("/_matrix/client/v1/media/download/{files}/abc");
    assert_eq!(rig.home.ask(client(4), &file).await.status, 200);
    let unwanted = format!("/_matrix/media/v3/download/{files}/def?allow_remote=false");
    assert_eq!(rig.home.ask(client(4), &unwanted).await.status, 404);
    rig.home.at_rest().await;

    let gate = rig.gate("https://hs.example");
    gate.acquire().await.finish(Outcome::timeout());

    let after = scrape(&rig).await;
    for (outcome, count) in [("answered", 1), ("timed_out", 1), ("failed", 1)] {
        let labels = [("class", "directory"), ("outcome", outcome)];
        assert_eq!(whole(&after, "portcullis_calls_total", &labels), count, "{outcome}");
    }
    assert_eq!(whole(&after, "portcullis_calls_total", &[("class", "media"), ("outcome", "answered")]), 1);
    for (class, reason, count) in [
        ("directory", "client", 1),
        ("directory", "global", 0),
        ("directory", "rate", 0),
        ("media", "remote_fetch_off", 1),
        ("media", "client", 0),
    ] {
        let labels = [("class", class), ("reason", reason)];
        assert_eq!(whole(&after, "portcullis_refused_total", &labels), count, "{class} {reason}");
    }
    let seconds =
        |suffix: &str, labels: &[(&str, &str)]| after.value(&format!("portcullis_call_seconds{suffix}"), labels);
    let directory = ("class", "directory");
    assert_eq!(format!("{}", seconds("_count", &[directory])), "3");
    assert!(seconds("_sum", &[directory]) >= 3.0, "one of them took three seconds");
    let longer = seconds("_bucket", &[directory, ("le", "+Inf")]) - seconds("_bucket", &[directory, ("le", "2.5")]);
    assert!(longer >= 1.0, "and is in none of the shorter steps");
    assert_eq!(whole(&after, "portcullis_in_flight", &[directory]), 0);
    assert_eq!(whole(&after, "portcullis_media_store_files", &[]), 1);
    assert!(after.value("portcullis_media_store_bytes", &[]) >= 7.0);
    assert_eq!(whole(&after, "portcullis_gate_held", &[]), 1);
    assert_eq!(whole(&after, "portcullis_gate_load_total", &[("signal", "timed_out")]), 1);
    assert_eq!(whole(&after, "portcullis_gate_admitted_total", &[("kind", "call")]), 1);
    assert_eq!(whole(&after, "portcullis_gate_breakers", &[("state", "closed")]), 1);
    let text = rig.get("/metrics").await.body;
    for name in ["good.example", "silent.example", "nowhere.example", "files.example", "hs.example", "198.51.100"] {
        assert!(!text.contains(name), "{name} is on /metrics");
    }
}

#[tokio::test]
async fn every_series_is_one_of_those_listed_and_each_of_those_is_there() {
    let rig = Rig::start().await;
    let seen = scrape(&rig).await;
    let expected: BTreeSet<_> = ALL.iter().flat_map(series).collect();
    let found: BTreeSet<_> = seen
        .families
        .values()
        .flat_map(|family| &family.samples)
        .map(|sample| {
            let labels = sample.labels.iter().filter(|(name, _)| *name != "le");
            (sample.name.clone(), labels.map(|(name, value)| format!("{name}={value}")).collect::<BTreeSet<_>>())
        })
        .collect();
    assert_eq!(found, expected);
    for metric in ALL {
        let family = &seen.families[metric.name];
        assert_eq!(
            (family.kind.as_str(), family.help.as_str()),
            (metric.kind.as_str(), metric.help),
            "{}",
            metric.name
        );
    }
}

/// Every series a metric may have.
fn series(metric: &Metric) -> Vec<(String, BTreeSet<String>)> {
    let mut all = vec![BTreeSet::new()];
    for label in metric.labels {
        let with = |labels: &BTreeSet<String>| {
            let labels = labels.clone();
            label.values.iter().map(move |value| &labels | &BTreeSet::from([format!("{}={value}", label.name)]))
        };
        all = all.iter().flat_map(with).collect();
    }
    let suffixes: &[&str] = if metric.kind == MetricKind::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
    let named =
        |labels: BTreeSet<String>| suffixes.iter().map(move |end| (format!("{}{end}", metric.name), labels.clone()));
    all.into_iter().flat_map(named).collect()
}

#[tokio::test]
async fn a_scraper_is_told_the_exact_format() {
    let answer = Rig::start().await.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{}", answer.head);
}
