//! `Containerfile`, read: building it needs images from the network.

use std::fs;
use std::path::Path;

use super::contrib;

/// The instructions of the file, one a line.
fn instructions() -> Vec<String> {
    let text = fs::read_to_string(contrib("Containerfile")).unwrap().replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_image_has_neither_a_shell_nor_root() {
    let instructions = instructions();
    let last_stage = instructions.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    let (build, image) = instructions.split_at(last_stage);
    assert!(image[0].contains("distroless/") && image[0].ends_with(":nonroot"), "{}", image[0]);
    assert!(build[0].ends_with(" AS build"), "{}", build[0]);
    // What runs in the last stage would need a shell; so would a command that is no list.
    for line in image {
        assert!(!line.starts_with("RUN ") && !line.starts_with("ADD "), "{line}");
        if line.starts_with("ENTRYPOINT ") || line.starts_with("CMD ") {
            assert!(line.contains("[\"") && line.ends_with(']'), "{line}");
        }
    }
    let user = image.iter().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}");
}

#[test]
fn what_it_copies_and_builds_is_there() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let instructions = instructions();
    let compiler = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(instructions[0].contains(&format!("/rust:{compiler}-")), "{}", instructions[0]);
    let mut copied = Vec::new();
    for line in instructions.iter().filter_map(|line| line.strip_prefix("COPY ")) {
        let words: Vec<&str> = line.split(' ').collect();
        if !line.starts_with("--from=build ") {
            copied.extend_from_slice(&words[..words.len() - 1]);
        }
    }
    assert!(copied.iter().all(|path| root().join(path).exists()), "{copied:?}");
    // The manifest names what has to be there, though it is not built.
    for path in manifest.lines().filter_map(|line| line.strip_prefix("path = ")) {
        let folder = path.trim_matches('"').split('/').next().unwrap();
        assert!(copied.contains(&folder), "{path}");
    }
    for folder in ["src", "benches", "examples", "tests", "Cargo.lock"] {
        assert!(copied.contains(&folder), "{folder}");
    }
    let build = instructions.iter().find(|line| line.contains("cargo build")).unwrap();
    assert!(build.contains(" --locked ") && build.contains(" --features server "), "{build}");
    assert!(manifest.contains("\nserver = ["));
    let (target, installed) = ("target/release/portcullis", "/usr/local/bin/portcullis");
    assert!(instructions.iter().any(|line| line.contains(target) && line.ends_with(installed)));
    assert!(instructions.contains(&format!("ENTRYPOINT [\"{installed}\"]")));
}
