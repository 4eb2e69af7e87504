//! The configuration file as an operator meets it: read from disk, told about in full.
#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, reason = "a helper outside a test function is test code all the same")]

use std::fs;
use std::path::PathBuf;

use portcullis::homeserver::config::{Config, ConfigProblem, MediaCacheDir, SigningKeySource};

fn file(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("config");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_relative_path_in_a_file_starts_at_the_file() {
    let path = file("relative.toml", "server_name = \"us.example\"\nsigning_key = \"keys/ours\"\n");
    let config = Config::read(&path).unwrap();
    assert_eq!(config.signing_key, SigningKeySource::File(path.parent().unwrap().join("keys/ours")));
}

#[test]
fn every_mistake_is_one_line_with_file_line_and_key() {
    let path = file("mistakes.toml", "server_name = \"us.example\"\nrequest_threads = 1\n\n[log]\nlevel = \"loud\"\n");
    let told = Config::read(&path).unwrap_err().to_string();
    let lines: Vec<&str> = told.lines().collect();
    let file = path.display();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].starts_with(&format!("{file}:2: request_threads: a pool of 1 ")), "{told}");
    assert!(lines[1].starts_with(&format!("{file}:5: log.level: \"loud\" is none of ")), "{told}");
    assert!(lines[2].starts_with(&format!("{file}: signing_key: this key is missing")), "{told}");
}

#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    for path in [PathBuf::from("/nowhere/portcullis.toml"), file("latin1.toml", b"server_name = \"\xfc\"")] {
        let problem = Config::read(&path).unwrap_err();
        assert!(matches!(problem, ConfigProblem::Unreadable { .. }), "{problem}");
        assert!(problem.to_string().starts_with(&path.display().to_string()));
    }
}

#[test]
fn remote_media_is_off_unless_the_file_says_so_and_its_files_have_a_place_beside_the_file() {
    let read = |media: &str| {
        let path = file("media.toml", format!("server_name = \"us.example\"\nsigning_key = \"key\"\n{media}"));
        let config = Config::read(&path).unwrap();
        let beside = MediaCacheDir::At(path.parent().unwrap().join("media-cache"));
        (config.media.policy().remote_fetch_enabled, config.media.cache_dir == beside)
    };
    assert_eq!(read(""), (false, true));
    assert_eq!(read("[media]\nremote_fetch_enabled = false\n"), (false, true));
    assert_eq!(read("[media]\nremote_fetch_enabled = true\n"), (true, true));
    assert_eq!(read("[media]\ncache_dir = \"/var/cache/portcullis\"\n"), (false, false));
    let without = Config::without_file().media;
    assert_eq!((without.policy().remote_fetch_enabled, without.cache_dir), (false, MediaCacheDir::ThrowAway));
}

#[test]
fn the_files_a_configuration_names_are_looked_at_only_where_that_is_asked_for() {
    let text =
        "server_name = \"us.example\"\nsigning_key = \"nowhere\"\n[federation]\nextra_ca_file = \"files.toml\"\n";
    let path = file("files.toml", text);
    assert!(Config::read(&path).is_ok());
    let told = Config::read_with_files(&path).unwrap_err().to_string();
    let file = path.display();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with(&format!("{file}:2: signing_key: ")), "{told}");
    assert!(lines[1].starts_with(&format!("{file}:4: federation.extra_ca_file: ")), "{told}");
}
