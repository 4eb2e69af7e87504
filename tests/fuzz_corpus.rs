//! Replays the committed fuzz corpus on the stable toolchain: what a fuzzer found once stays found.

#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read the corpus has to fail")]

use std::fs;
use std::future::Future;
use std::path::PathBuf;

use portcullis::fuzzing;

/// Every target of `fuzz/`, which a folder of the corpus has to be named after.
const TARGETS: [&str; 11] = [
    "budget_ops",
    "client_key",
    "config",
    "dns_answers",
    "gate_ops",
    "media_request",
    "multipart",
    "request",
    "server_name",
    "well_known",
    "x_matrix",
];

/// The whole corpus is worth replaying only while there is one.
const FEWEST_FILES: usize = 100;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// A failure is preceded by the file's name.
fn replay(target: &str, run: impl Fn(&[u8])) {
    for (file, input) in corpus(target) {
        println!("{}", file.display());
        run(&input);
    }
}

fn replay_in_paused_time<F: Future<Output = ()>>(target: &str, run: impl Fn(Vec<u8>) -> F) {
    replay(target, |input| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(run(input.to_vec()));
    });
}

#[test]
fn budget_ops() {
    replay("budget_ops", fuzzing::budget_ops);
}

#[test]
fn client_key() {
    replay("client_key", fuzzing::client_key);
}

#[test]
fn config() {
    replay("config", fuzzing::config);
}

#[test]
fn dns_answers() {
    replay("dns_answers", fuzzing::dns_answers);
}

#[test]
fn media_request() {
    replay_in_paused_time("media_request", |input| async move { fuzzing::media_request(&input).await });
}

#[test]
fn multipart() {
    replay("multipart", fuzzing::multipart);
}

#[test]
fn gate_ops() {
    replay("gate_ops", fuzzing::gate_ops);
}

#[test]
fn request() {
    replay_in_paused_time("request", |input| async move { fuzzing::request(&input).await });
}

#[test]
fn server_name() {
    replay("server_name", fuzzing::server_name);
}

#[test]
fn well_known() {
    replay_in_paused_time("well_known", |input| async move { fuzzing::well_known(&input).await });
}

#[test]
fn x_matrix() {
    replay("x_matrix", fuzzing::x_matrix);
}

#[test]
fn the_corpus_has_a_folder_for_each_target_and_a_hundred_files_in_all() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("corpus"), TARGETS);
    assert_eq!(names("fuzz_targets"), TARGETS);
    let files: usize = TARGETS.iter().map(|target| corpus(target).len()).sum();
    assert!(files >= FEWEST_FILES, "{files} files");
}
