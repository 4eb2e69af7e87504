//! `portcullis.example.toml` before the reader that `serve` uses: every key is in it, and every default it states is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use portcullis::homeserver::config::{Config, ConfigProblem};

use super::contrib;

const LEAST: &str = "server_name = \"example.org\"\nsigning_key = \"signing.key\"\n";
/// Without a default, or with one that is not to be relied on.
const SAID: [&str; 3] = ["server_name", "signing_key", "media.remote_fetch_enabled"];

fn example() -> String {
    fs::read_to_string(contrib("portcullis.example.toml")).unwrap()
}

/// Read as the file of that name in the same directory, whatever is in it.
fn read(text: &str) -> Result<Config, ConfigProblem> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("portcullis.toml");
    fs::write(&path, text).unwrap();
    Config::read(&path)
}

/// What a configuration says, without where it says it.
fn said(text: &str) -> String {
    let config = format!("{:#?}", read(text).unwrap());
    let (said, _) = config.split_once("\n    origin:").unwrap();
    // Paths start at the file.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).display().to_string();
    said.split('"').filter(|part| !part.starts_with(&directory)).collect::<Vec<_>>().join("\"")
        + &said.matches("/media-cache\"").count().to_string()
        + &said.matches("/signing.key\"").count().to_string()
}

/// A `#` right before a key or a table is the key or the table, unset.
fn with_everything_set(text: &str) -> String {
    let is_setting = |rest: &str| rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(key, _)| is_key(key));
    text.lines()
        .map(|line| line.strip_prefix('#').filter(|rest| is_setting(rest)).unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
}

/// The keys of a text, by table; of `[[rooms]]` the table is `rooms`.
fn keys(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut tables = BTreeMap::<String, BTreeSet<String>>::new();
    let mut table = String::new();
    for line in text.lines() {
        if line.starts_with('[') {
            line.trim_matches(['[', ']']).clone_into(&mut table);
        } else if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| is_key(key)) {
            tables.entry(table.clone()).or_default().insert(key.to_owned());
        }
    }
    tables
}

/// The keys that the reader knows in a table, out of its own mouth.
fn known_in(table: &str, header: &str) -> BTreeSet<String> {
    let text = if table.is_empty() {
        format!("xxxxxxxxxxxxxxxx = 1\n{LEAST}")
    } else {
        format!("{LEAST}{header}\nxxxxxxxxxxxxxxxx = 1\n")
    };
    let told = read(&text).unwrap_err().to_string();
    let line = told.lines().find(|line| line.contains("xxxxxxxxxxxxxxxx")).unwrap();
    let known = line.split_once("known here: ").unwrap_or_else(|| panic!("{line}")).1;
    known.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_that_the_reader_knows_is_in_the_example() {
    let mut in_example = keys(&with_everything_set(&example()));
    let tables = ["media", "federation", "log", "rooms", "aliases", "tokens"];
    let headers = ["[media]", "[federation]", "[log]", "[[rooms]]", "[[aliases]]", "[[tokens]]"];
    for (table, header) in tables.into_iter().zip(headers) {
        assert_eq!(in_example.remove(table).unwrap_or_default(), known_in(table, header), "[{table}]");
    }
    let mut root = in_example.remove("").unwrap();
    root.extend(tables.map(str::to_owned));
    let mut known = known_in("", "");
    known.remove("homeserver");
    assert_eq!(root, known);
    assert_eq!(in_example.keys().collect::<Vec<_>>(), ["homeserver"], "no other tables");
}

#[test]
fn every_default_it_states_is_the_default() {
    let example = example();
    let whole = said(&example);
    let mut checked = 0;
    let mut table = String::new();
    for (at, line) in example.lines().enumerate() {
        if line.starts_with('[') {
            table = format!("{}.", line.trim_matches(['[', ']']));
        }
        let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| is_key(key)) else { continue };
        if SAID.contains(&&*format!("{table}{key}")) {
            continue;
        }
        let without: Vec<&str> = example.lines().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| line).collect();
        assert_eq!(said(&without.join("\n")), whole, "{table}{key}");
        checked += 1;
    }
    assert!(checked >= 25, "only {checked} defaults: are they read at all?");
    assert_eq!(said(&format!("{LEAST}media.remote_fetch_enabled = false\n")), whole);
}

#[test]
fn it_is_accepted_without_a_word_and_so_is_every_line_that_may_be_uncommented() {
    let example = example();
    let warnings = read(&example).unwrap().warnings();
    assert!(warnings.is_empty(), "{warnings:?}");
    // One or the other: the homeserver behind has rooms of its own.
    let is_behind = |line: &&str| ["#[homeserver]", "#upstream = "].iter().any(|start| line.starts_with(start));
    let embedded: Vec<&str> = example.lines().filter(|line| !is_behind(line)).collect();
    let in_front: Vec<&str> = example.lines().map(|line| if is_behind(&line) { &line[1..] } else { line }).collect();
    assert_eq!(example.lines().filter(is_behind).count(), 2);
    assert!(read(&in_front.join("\n")).unwrap().warnings().is_empty());
    read(&with_everything_set(&embedded.join("\n"))).unwrap();
    let both = read(&with_everything_set(&example)).unwrap_err().to_string();
    assert!(both.lines().count() == 3 && both.lines().all(|line| line.ends_with("or homeserver.upstream")), "{both}");
}
