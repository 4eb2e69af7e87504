//! The public API, listed: `tests/public_api/LEVEL.txt` has every item that a user of that feature can name, and a change of
//! one is a change of the file. Whose types may be seen in it is listed here.
//!
//! It needs the JSON of rustdoc and so builds the documentation, once for each level:
//! `cargo test --test public_api -- --ignored`; with `PORTCULLIS_LIST_API=1` before it the files are written anew.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper outside a test function is test code all the same"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};

use public_api::tokens::Token;
use public_api::{Builder, PublicItem};

/// Each level with its features. A list holds what its level adds to those before it.
const LEVELS: &[(&str, &str)] =
    &[("admission", ""), ("gate", "gate"), ("tower", "tower"), ("outbound", "outbound"), ("server", "server")];

/// Whose items a signature may name: crates whose breaking release is everybody's, and which an integrator has anyway.
const CRATES: &[&str] = &[
    "core",
    "alloc",
    "std",
    "portcullis",
    "bytes",
    "http",
    "http_body",
    "ipnet",
    // serde's traits are defined there.
    "serde_core",
    // With the feature `tower` alone.
    "tower_layer",
    "tower_service",
];

/// Single items of other crates, and whether at the level of the reference homeserver alone: what that adds is made for our
/// own binary. What the levels before it show is looked at without it.
const ITEMS: &[(&str, bool)] = &[
    // tokio's clock is the one that a test can pause, and 1.x will not change it.
    ("tokio::time::instant::Instant", false),
    ("serde_json::value::Value", true),
];

/// Not said of each type: what every type is. That one is *not* `Send` is said.
const UNSAID: &[&str] = &[
    " core::marker::Freeze",
    " core::marker::Send",
    " core::marker::StructuralPartialEq",
    " core::marker::Sync",
    " core::marker::Unpin",
    " core::marker::UnsafeUnpin",
    "!core::marker::Freeze",
    "core::panic::unwind_safe::",
];

#[test]
#[ignore = "builds the documentation; CI runs it"]
fn the_public_api_is_what_is_listed_and_names_nobody_elses_types() {
    let (mut ground, mut wrong) = (BTreeSet::new(), Vec::new());
    for (level, features) in LEVELS {
        let items = items(features);
        let modules = modules(&items);
        for item in &items {
            wrong.extend(foreign(level, item).map(|path| format!("{level}: {path} is nobody's to see, in: {item}")));
            let unnameable = paths(item).into_iter().filter(|path| is_unnameable(path, &modules));
            wrong.extend(unnameable.map(|path| format!("{level}: {path} is in no public module, in: {item}")));
        }
        let mut lines: BTreeSet<_> = listed(&items);
        lines.retain(|line| !ground.contains(line));
        ground.extend(lines.iter().cloned());
        assert!(!lines.is_empty(), "{level}: nothing was listed");
        wrong.extend(compare(level, &lines));
    }
    assert!(wrong.is_empty(), "{}\nPORTCULLIS_LIST_API=1 accepts what is meant", wrong.join("\n"));
}

/// What differs between the list and the file.
fn compare(level: &str, lines: &BTreeSet<String>) -> Vec<String> {
    let file = here().join("tests/public_api").join(level).with_extension("txt");
    if std::env::var_os("PORTCULLIS_LIST_API").is_some() {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(file, text).unwrap();
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap();
    let before: BTreeSet<_> = text.lines().map(str::to_owned).collect();
    let gone = before.difference(lines).map(|line| format!("{level}: gone: {line}"));
    let new = lines.difference(&before).map(|line| format!("{level}: new: {line}"));
    gone.chain(new).collect()
}

fn listed(items: &[PublicItem]) -> BTreeSet<String> {
    items.iter().map(ToString::to_string).filter(|line| !is_unsaid(line)).collect()
}

fn is_unsaid(line: &str) -> bool {
    let of = line.strip_prefix("impl").map(|rest| rest.rsplit_once(" for ").map_or(rest, |(of, _)| of));
    of.is_some_and(|of| UNSAID.iter().any(|unsaid| of.contains(unsaid)))
}

/// Every item at this level, without what is true of all types. The functions of derived traits are left out, the traits
/// are not.
fn items(features: &str) -> Vec<PublicItem> {
    let json = rustdoc_json(features);
    let all = Builder::from_rustdoc_json(&json).omit_blanket_impls(true).build();
    let all =
        all.expect("rustdoc 1.95 writes what this release of public-api reads; another one needs its own").into_items();
    let short = Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_derived_impls(true);
    let short: BTreeSet<_> = short.build().unwrap().into_items().map(|item| item.to_string()).collect();
    all.filter(|item| {
        let line = item.to_string();
        line.starts_with("impl") || short.contains(&line)
    })
    .collect()
}

fn rustdoc_json(features: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(env!("CARGO"))
        .current_dir(here())
        .env("RUSTDOC", here().join("tests/public_api/rustdoc"))
        .args(["rustdoc", "--lib", "--locked", "--offline", "--no-default-features", "--features", features])
        .arg("--target-dir")
        .arg(target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
        // All levels share one file, and cargo would not write it again for a level that it has seen before.
        .arg(format!("--cfg=listed_by_{}", id()))
        .status()
        .unwrap();
    assert!(built.success(), "the documentation was not built");
    target.join("doc/portcullis.json")
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths in this item that nobody should see.
fn foreign(level: &str, item: &PublicItem) -> impl Iterator<Item = String> {
    let in_server = level == "server";
    paths(item).into_iter().filter(move |path| {
        let first = path.split("::").next().unwrap_or_default();
        // `Self::Item`, `F::Output`
        let is_parameter = first.starts_with(char::is_uppercase);
        !is_parameter
            && !CRATES.contains(&first)
            && !ITEMS.iter().any(|(item, server_only)| item == path && (in_server || !server_only))
    })
}

/// Our public modules, the root among them.
fn modules(items: &[PublicItem]) -> BTreeSet<String> {
    items.iter().filter_map(|item| item.to_string().strip_prefix("pub mod ").map(str::to_owned)).collect()
}

/// Whether this is a path of ours through a module that nobody else can name: a type that is public where it stands and is
/// exported nowhere.
fn is_unnameable(path: &str, modules: &BTreeSet<String>) -> bool {
    let mut module = String::new();
    let mut segments = path.split("::").peekable();
    if segments.peek() != Some(&"portcullis") {
        return false;
    }
    while let Some(segment) = segments.next() {
        // The last one is an item, whichever it is; one with a capital letter is a type, and what follows is of it.
        if segments.peek().is_none() || segment.starts_with(char::is_uppercase) {
            return false;
        }
        module = if module.is_empty() { segment.to_owned() } else { format!("{module}::{segment}") };
        if !modules.contains(&module) {
            return true;
        }
    }
    false
}

#[test]
fn a_path_through_a_private_module_is_unnameable() {
    let modules = ["portcullis", "portcullis::gate", "portcullis::gate::state"].map(str::to_owned).into();
    for (path, unnameable) in [
        ("portcullis::Portcullis", false),
        ("portcullis::Portcullis::begin", false),
        ("portcullis::gate", false),
        ("portcullis::gate::Permit::finish", false),
        ("portcullis::gate::state::transport_kind", false),
        ("portcullis::proxy::public_rooms::RoomFilter", true),
        ("portcullis::gate::inner::Permit", true),
        ("http::response::Response", false),
        ("core::proxy::Portcullis", false),
    ] {
        assert_eq!(is_unnameable(path, &modules), unnameable, "{path}");
    }
}

/// Every path of two segments and more.
fn paths(item: &PublicItem) -> Vec<String> {
    let (mut found, mut path) = (Vec::new(), String::new());
    let mut end = |path: &mut String| {
        let path = std::mem::take(path);
        // One that begins with `::` goes on behind a generic type.
        found.extend((path.contains("::") && !path.starts_with("::")).then_some(path));
    };
    for token in item.tokens() {
        match token {
            Token::Symbol(symbol) if symbol == "::" => path.push_str("::"),
            Token::Identifier(name)
            | Token::Type(name)
            | Token::Function(name)
            | Token::Generic(name)
            | Token::Self_(name)
            | Token::Primitive(name) => {
                if !path.is_empty() && !path.ends_with("::") {
                    end(&mut path);
                }
                path.push_str(name);
            }
            _ => end(&mut path),
        }
    }
    end(&mut path);
    found
}
