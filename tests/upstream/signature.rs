//! Whether other servers can accept our signature: the homeserver behind is asked which key it publishes, and the servers asked
//! lately are looked at. The operator is told, and nothing waits for it.
//!
//! *Unplug:* leave `look_after_signature` out of `serve`, or one of its two halves out of it.

use std::fs;
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::rig::{Arrived, Behind, Front, Says, config, json};
use crate::support::logging::let_each_thread_decide;
use crate::support::patience::PATIENCE;
use crate::support::{Behaviour, PrivateCa, TlsPeer, json_answer, until};

const KEY: &str = "/_matrix/key/v2/server";
const VERSIONS: &str = "/_matrix/client/versions";

/// What this thread wrote to the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Everything runs on this thread.
    fn listen() -> (Self, DefaultGuard) {
        let_each_thread_decide();
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let ours = Targets::new().with_target("portcullis", LevelFilter::DEBUG);
        let listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(ours).with(lines));
        (log, listening)
    }

    fn lines_of(&self, level: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().clone()).unwrap();
        log.lines().filter(|line| line.contains(&format!(" {level} portcullis"))).map(str::to_owned).collect()
    }
}

/// Everything that is told once the homeserver behind has said this, as lines of the levels WARN, INFO and DEBUG.
async fn told(says: impl Fn(&Arrived) -> Says + Send + Sync + 'static) -> [Vec<String>; 3] {
    let (log, _listening) = Log::listen();
    let behind = Behind::saying(says).await;
    let _front = Front::looked_after(&config(behind.address), &PrivateCa::new());
    let all = || ["WARN", "INFO", "DEBUG"].map(|level| log.lines_of(level));
    until("a word of the key", 1, || all().iter().map(Vec::len).sum::<usize>().min(1)).await;
    assert!(behind.seen().iter().all(|arrived| [KEY, VERSIONS].contains(&arrived.target())), "{:?}", behind.seen());
    all()
}

fn document(server_name: &str, keys: &str) -> Says {
    json(200, &format!(r#"{{"server_name":"{server_name}","verify_keys":{keys},"valid_until_ts":1}}"#))
}

#[tokio::test]
async fn a_homeserver_that_publishes_our_key_is_as_it_should_be_also_if_it_starts_later() {
    let (log, _listening) = Log::listen();
    let ours = Arc::new(Mutex::new(String::new()));
    let published = Arc::clone(&ours);
    let behind = Behind::saying(move |_| match published.lock().as_str() {
        "" => json(503, ""),
        document => json(200, document),
    })
    .await;
    let front = Front::looked_after(&config(behind.address), &PrivateCa::new());
    until("a first question", 1, || behind.seen().len().min(1)).await;
    let answer = front.get(KEY).await;
    answer.text().clone_into(&mut ours.lock());
    until("a line", 1, || log.lines_of("INFO").len()).await;
    let line = &log.lines_of("INFO")[0];
    assert!(line.contains("the homeserver behind publishes our signing key"), "{line}");
    assert_eq!(log.lines_of("WARN"), [""; 0]);
    let counted = front.status();
    let answered =
        [counted.passed_on.small.answered, counted.passed_on.files.answered, counted.token_questions.answered];
    assert_eq!(answered, [0; 3], "it is not counted");
}

#[tokio::test]
async fn another_key_is_a_warning_that_names_both_and_says_what_to_do() {
    let keys = r#"{"ed25519:a_real":{"key":"eA"},"ed25519:\u001b[31m\nWARN":{"key":"eA"}}"#;
    let [warnings, info, _] = told(move |_| document("us.example", keys)).await;
    assert_eq!((warnings.len(), info.len()), (1, 0), "{warnings:?}");
    for part in [
        "server_name=us.example",
        "key_id=\"ed25519:a_",
        "published=\"ed25519:a_real\"",
        "signing_key_path in homeserver.yaml",
    ] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
}

#[tokio::test]
async fn another_name_is_a_warning() {
    let [warnings, ..] = told(|_| document("them.example", "{}")).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("server_name=us.example theirs=them.example"), "{warnings:?}");
}

#[tokio::test]
async fn one_that_does_not_say_here_is_no_news() {
    let nothing_here = |_: &Arrived| json(404, r#"{"errcode":"M_UNRECOGNIZED","error":"no"}"#);
    let [warnings, info, debug] = told(nothing_here).await;
    assert_eq!((warnings.len(), info.len(), debug.len()), (0, 0, 1), "{warnings:?} {info:?}");
    // Nor is a proxy that has a page of its own there, and leads other paths to a homeserver.
    let [warnings, info, debug] = told(|arrived| match arrived.target() {
        VERSIONS => json(200, r#"{"versions":["v1.11"]}"#),
        _ => json(200, "<!doctype html>"),
    })
    .await;
    assert_eq!((warnings.len(), info.len(), debug.len()), (0, 0, 1), "{warnings:?} {info:?}");
}

#[tokio::test]
async fn something_else_than_a_homeserver_is_a_warning() {
    for (status, body) in [(200, ""), (404, "<h1>not found</h1>"), (200, "<html>")] {
        let [warnings, info, _] = told(move |_| json(status, body)).await;
        assert_eq!((warnings.len(), info.len()), (1, 0), "{warnings:?}");
        assert!(warnings[0].contains("what answers at homeserver.upstream is no homeserver"), "{warnings:?}");
    }
}

#[tokio::test]
async fn a_signature_that_nobody_accepts_is_told_of_once() {
    let (log, _listening) = Log::listen();
    let ca = PrivateCa::new();
    let behind = Behind::saying(|_| json(404, r#"{"errcode":"M_UNRECOGNIZED"}"#)).await;
    let front = Front::looked_after(&config(behind.address), &ca);
    let mut peers = Vec::new();
    for _ in 0..3 {
        let refuses = || Behaviour::answers(|_| json_answer(401, r#"{"errcode":"M_UNAUTHORIZED","error":"them"}"#));
        peers.push(TlsPeer::start(ca.server_config(&["127.0.0.1"]), refuses()).await);
    }
    for peer in &peers {
        let answer = front.get(&format!("/_matrix/client/v3/directory/room/%23a:{}", peer.address())).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
    }
    until("a warning", 1, || log.lines_of("WARN").len()).await;
    let line = &log.lines_of("WARN")[0];
    assert!(line.contains("other servers do not accept our signature") && line.contains("servers=3"), "{line}");
    assert!(!line.contains("127.0.0.1") && !line.contains("them"), "{line}");
}

#[tokio::test]
async fn serve_says_so_and_waits_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_portcullis");
    let made = Command::new(binary).arg("keygen").arg(folder.path().join("key")).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let (go_on, heard) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(0_usize)));
    let (may, asked) = (Arc::clone(&go_on), Arc::clone(&heard));
    let behind = Behind::saying(move |_| {
        *asked.lock() = 1;
        if *may.lock() { document("them.example", "{}") } else { Says::ThenCloses(Vec::new()) }
    })
    .await;
    let text = format!(
        "server_name = \"us.example\"\nsigning_key = \"key\"\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         homeserver.upstream = \"http://{}\"\nmedia.remote_fetch_enabled = false\n",
        behind.address
    );
    fs::write(folder.path().join("portcullis.toml"), text).unwrap();
    let mut child = Command::new(binary)
        .args(["serve", "--config", "portcullis.toml"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut listening = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut listening).await.unwrap();
    assert!(listening.starts_with("listening on "), "{listening}");
    until("a first question", 1, || *heard.lock()).await;
    *go_on.lock() = true;
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let warned = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it ended");
            if line.contains("the homeserver behind has another server_name") {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, warned).await.unwrap();
    child.kill().await.unwrap();
}
