//! Every key of `/v1/status` is described in the README, and every key that is described there is one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::loopback::{ask, client, get};
use crate::rig::Rig;

/// Every value that has no keys inside, as `destinations.directory[].last.reason`.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inside) in fields {
                let separator = if path.is_empty() { "" } else { "." };
                keys(inside, &format!("{path}{separator}{key}"), found);
            }
        }
        Value::Array(elements) if elements.iter().any(Value::is_object) => {
            for element in elements {
                keys(element, &format!("{path}[]"), found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// What stands in backticks in the first column of the section's table. `.cap` after `budgets.*.in_flight` is its
/// neighbour, `budgets.*.cap`.
fn described() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let section = readme.split_once("### `/v1/status`").unwrap().1.split("\n#").next().unwrap();
    let mut paths: Vec<String> = Vec::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
        let column = row.split(" |").next().unwrap();
        let mut parent = String::new();
        for name in column.split('`').step_by(2) {
            let path = name.strip_prefix('.').map_or_else(|| name.to_owned(), |name| format!("{parent}.{name}"));
            parent = path.rsplit_once('.').map(|(parent, _)| parent.to_owned()).unwrap_or_default();
            paths.push(path);
        }
    }
    paths
}

fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('.');
    let every = pattern.split('.').all(|wanted| {
        parts.next().is_some_and(|part| match wanted.strip_prefix('*') {
            Some(suffix) => part.ends_with(']') == (suffix == "[]"),
            None => part == wanted,
        })
    });
    every && parts.next().is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_the_status_is_in_the_readme_and_every_key_there_is_one() {
    let rig = Rig::start().await;
    let _gate = rig.gate("https://hs.example");
    let shown = |status: &Value| {
        let mut found = BTreeSet::new();
        keys(status, "", &mut found);
        found
    };
    assert_eq!(
        ask(&rig.home.portcullis, client(1), &get("/_matrix/client/v3/publicRooms?server=gone.example")).await.status,
        502
    );
    rig.home.ask(client(2), "/_matrix/client/v1/media/download/gone.example/abc").await;
    rig.home.at_rest().await;
    let real = shown(&serde_json::from_str(&rig.get("/v1/status").await.body).unwrap());
    assert!(
        real.contains("destinations.media[].last.status") && real.contains("upstream.passed_on.files.silent"),
        "{real:?}"
    );
    let described = described();
    let unknown: Vec<_> = real.iter().filter(|path| !described.iter().any(|pattern| matches(pattern, path))).collect();
    assert!(unknown.is_empty(), "not in the README: {unknown:?}");
    // A key may be described as a whole too, for what it means that it is null.
    let is_one = |pattern: &str, path: &str| {
        matches(pattern, path) || path.match_indices('.').any(|(end, _)| matches(pattern, &path[..end]))
    };
    let made_up: Vec<_> = described.iter().filter(|pattern| !real.iter().any(|path| is_one(pattern, path))).collect();
    assert!(made_up.is_empty(), "not in the status: {made_up:?}");
}
