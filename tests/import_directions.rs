//! Lower floors never import higher ones: this reads every `crate::` path of the sources and fails on any other arrow.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources has to fail")]

use std::fs;
use std::path::{Path, PathBuf};

/// What each top-level module may name of its own crate. A module missing here fails the test: say where it belongs.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    // ground: no siblings, but for the numbers
    ("limits", &[]),
    ("deadline", &[]),
    ("server_name", &["limits"]),
    ("sync", &[]),
    ("outcome", &["limits"]),
    // floor 1: the two entrances know nothing of each other
    ("admission", &["limits", "deadline", "server_name", "sync"]),
    ("gate", &["limits", "outcome", "sync"]),
    // floor 2
    ("outbound", &["limits", "deadline", "outcome", "server_name", "sync", "admission"]),
    // floor 3
    ("proxy", &["limits", "deadline", "outcome", "server_name", "sync", "admission", "gate", "outbound"]),
    // floor 4
    ("federation_worker", &["limits", "deadline", "sync", "admission"]),
    ("status", &["limits", "admission", "gate", "proxy"]),
    ("layer", &["server_name", "sync", "admission"]),
    (
        "portcullis",
        &[
            "limits",
            "deadline",
            "outcome",
            "server_name",
            "sync",
            "admission",
            "gate",
            "outbound",
            "proxy",
            "federation_worker",
            "status",
        ],
    ),
    // edge
    (
        "homeserver",
        &[
            "limits",
            "deadline",
            "outcome",
            "server_name",
            "sync",
            "admission",
            "gate",
            "outbound",
            "proxy",
            "federation_worker",
            "status",
            "portcullis",
        ],
    ),
    // rehearses the gate; nobody imports it
    ("simulation", &["limits", "outcome", "gate"]),
    // looks into every floor; nobody imports it
    (
        "fuzzing",
        &[
            "limits",
            "deadline",
            "server_name",
            "sync",
            "admission",
            "outbound",
            "proxy",
            "federation_worker",
            "portcullis",
            "outcome",
            "gate",
            "homeserver",
        ],
    ),
];

/// The edge of the edge: the binary uses the library as any user does.
const BINARY: &[&str] = &["main", "commands"];

#[test]
fn imports_point_one_way() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in rust_files(&sources) {
        let relative = file.strip_prefix(&sources).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.strip_suffix(".rs").unwrap_or(first);
        if module == "lib" || BINARY.contains(&module) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: module {module} has no place in the table of floors", relative.display()));
            continue;
        };
        for named in crate_paths(&fs::read_to_string(&file).unwrap()) {
            let is_module = MAY_IMPORT.iter().any(|(name, _)| *name == named);
            if is_module && named != module && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{}: {module} imports {named}, which lies above it", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first segment of every `crate::segment` in code (comments and docs left out); a re-export named from the crate
/// root would hide an arrow, so it counts as one too.
fn crate_paths(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let group = group.split('}').next().unwrap_or_default();
            names.extend(group.split(',').filter_map(first_segment));
        } else {
            names.extend(first_segment(rest));
        }
    }
    names
}

fn first_segment(path: &str) -> Option<String> {
    let segment: String = path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!segment.is_empty()).then_some(segment)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_reader_of_imports_sees_every_form() {
    let seen = crate_paths(
        "use crate::admission::Slot;\nuse crate::{limits, proxy::answer};\nlet x = crate::outbound::y();\n// crate::gate\n",
    );
    assert_eq!(seen, ["admission", "limits", "proxy", "outbound"]);
}
