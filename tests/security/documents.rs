//! What `SECURITY.md` and the table beside this file cite has to exist, and every finding has to be in the table.

use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 2] = ["SECURITY.md", "tests/security/README.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What stands between backticks.
fn cited(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn is_path(citation: &str) -> bool {
    ["tests/", "src/"].iter().any(|folder| citation.starts_with(folder))
}

/// Test names are sentences: nothing else of ours has as many words, but for a finding's own file.
fn is_test_name(citation: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_finding = root().join(format!("tests/security/{citation}.rs")).exists();
    citation.bytes().all(word) && citation.matches('_').count() >= 4 && !is_finding
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => sources(&path, found),
            path if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// All our code, to look names up in.
fn code() -> String {
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        sources(&root().join(folder), &mut files);
    }
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn every_path_and_every_test_that_is_cited_exists() {
    let code = code();
    let mut tests_cited = 0;
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        assert_eq!(text.matches('`').count() % 2, 0, "{document}: a backtick is left open");
        for citation in cited(&text) {
            if is_path(citation) {
                assert!(root().join(citation).exists(), "{document} cites {citation}");
            } else if is_test_name(citation) {
                assert!(code.contains(&format!("fn {citation}(")), "{document} cites {citation}");
                tests_cited += 1;
            }
        }
    }
    assert!(tests_cited > 50, "only {tests_cited} tests are cited: are they read at all?");
}

#[test]
fn every_finding_is_in_the_table_and_says_how_its_control_is_unplugged() {
    let table = fs::read_to_string(root().join("tests/security/README.md")).unwrap();
    let main = fs::read_to_string(root().join("tests/security/main.rs")).unwrap();
    let findings: Vec<_> = main
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .filter(|module| !["support", "loopback", "rig", "documents"].contains(module))
        .collect();
    assert!(findings.len() >= 24, "{findings:?}");
    for finding in findings {
        assert!(table.contains(&format!("| `{finding}` |")), "{finding} is not in the table");
        let text = fs::read_to_string(root().join(format!("tests/security/{finding}.rs"))).unwrap();
        let doc: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for part in ["*Attack:*", "*Control:*", "*Unplug:*"] {
            assert!(doc.contains(part), "{finding}: {part}");
        }
    }
}

#[test]
fn every_test_named_in_a_finding_exists() {
    let code = code();
    let mut files = Vec::new();
    sources(&root().join("tests/security"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let doc: Vec<_> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for citation in cited(&doc.join("\n")) {
            let citation: String = citation.split_whitespace().filter(|word| *word != "//!").collect();
            if is_path(&citation) {
                assert!(root().join(&citation).exists(), "{} cites {citation}", file.display());
            } else if is_test_name(&citation) {
                assert!(code.contains(&format!("fn {citation}(")), "{} cites {citation}", file.display());
            }
        }
    }
}
