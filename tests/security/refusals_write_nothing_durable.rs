//! Refusals that cost more than service.
//!
//! *Attack:* be refused as fast as possible; if each refusal writes a row or a line, the log fills the disk, and a stranger
//! writes into it. *Control:* a refusal is a counter (`Admission::count_refusal` in `src/admission/admit.rs`) and a line at
//! debug level (`Portcullis::admit` in `src/portcullis.rs`). *Unplug:* raise that line to info: the first test reads it, the
//! second finds the log grown.

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use portcullis::Begun;
use portcullis::outbound::Ed25519Signer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{Does, Home, Names, OWN_NAME, Outside, PUBLIC, client, get, list_of, portcullis_of_eight, until};
use crate::support::logging::let_each_thread_decide;
use portcullis::limits::STEADY_REFUSALS;

const FLOOD: usize = 10_000;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn f19_ten_thousand_refusals_are_counted_and_nothing_is_written() {
    let portcullis = portcullis_of_eight(&Names::none(), &Outside::that(Does::NothingEver));
    let held: Vec<_> =
        (1..=4).map(|n| portcullis.begin(&Home, client(n), &get(&list_of(PUBLIC, n.into()))).unwrap()).collect();
    let written = Written::default();
    let into = written.clone();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(move || into.clone()).finish();
    let_each_thread_decide();
    tracing::subscriber::with_default(log, || {
        for page in 0..FLOOD {
            let n = if page % 2 == 0 { 1 } else { 5 };
            let refused = portcullis.begin(&Home, client(n), &get(&list_of(PUBLIC, page))).unwrap();
            assert!(matches!(refused, Begun::Answer(answer) if answer.status() == 429));
        }
        let said = String::from_utf8(written.0.lock().clone()).unwrap();
        assert_eq!(said, "");
        tracing::info!("the log works");
    });
    assert!(!written.0.lock().is_empty());
    let refused = portcullis.admission().refused();
    assert_eq!(refused.client + refused.global, u64::try_from(FLOOD).unwrap());
    drop(held);
}

/// Everything a run of the binary leaves: the files of its directory and what it has said, in bytes.
fn left_in(directory: &std::path::Path) -> Vec<(String, u64)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_refusals_add_no_byte_to_the_log_and_the_files_of_the_binary() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("key"), Ed25519Signer::generate(OWN_NAME.parse().unwrap()).to_key_file_line()).unwrap();
    let config = format!(
        "server_name = \"{OWN_NAME}\"\nsigning_key = \"key\"\nlisten = \"127.0.0.1:0\"\n\
         admin_listen = \"127.0.0.1:0\"\n[federation]\nallow_networks = [\"127.0.0.0/8\"]\n\
         nameservers = [\"127.0.0.1:9\"]\n"
    );
    fs::write(at("portcullis.toml"), config).unwrap();
    let mut serving = tokio::process::Command::from({
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(["serve", "--config", "portcullis.toml"]).current_dir(directory.path());
        command.stdout(fs::File::create(at("stdout")).unwrap()).stderr(fs::File::create(at("stderr")).unwrap());
        command.stdin(Stdio::null());
        command
    });
    let _serving = serving.kill_on_drop(true).spawn().unwrap();
    let first_line = || {
        let mut line = String::new();
        BufReader::new(fs::File::open(at("stdout")).unwrap()).read_line(&mut line).unwrap();
        line.split_once(", admin").map(|(listening, _)| listening.trim_start_matches("listening on ").to_owned())
    };
    until("the server listens", || first_line().is_some()).await;
    let address: SocketAddr = first_line().unwrap().parse().unwrap();

    let ask = async |page: usize| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let path = list_of(&silent.local_addr().unwrap().to_string(), page);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {OWN_NAME}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        heard
    };
    let holding = ask(0);
    let refused = async {
        let (_held, _) = silent.accept().await.unwrap();
        // That one client is refused all the time is told once, for it may be a proxy that is not listed.
        for page in 1..=STEADY_REFUSALS {
            assert!(ask(page.try_into().unwrap()).await.starts_with("HTTP/1.1 429"));
        }
        assert_eq!(fs::read_to_string(at("stderr")).unwrap().matches("was refused").count(), 1);
        let before = left_in(directory.path());
        for page in 1..=200 {
            assert!(ask(page).await.starts_with("HTTP/1.1 429"));
        }
        assert_eq!(left_in(directory.path()), before);
    };
    tokio::select! {
        () = refused => {}
        heard = holding => panic!("the lookup ended: {heard}"),
    }
}
