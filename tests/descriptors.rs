//! `portcullis serve` where few files may be open: it says what it can do, and keeps what others need.
#![cfg(all(feature = "server", unix))]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper outside a test function is test code all the same"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Only a test that fails waits this long.
const LONG: Duration = Duration::from_secs(20);

/// Well before the first client's ten seconds for a request are over, and its descriptor is free again.
const BEFORE_ROOM: Duration = Duration::from_secs(6);

/// A directory with a key and a configuration for free ports.
fn configured(test: &str, media: bool) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("descriptors").join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let keygen = Command::new(env!("CARGO_BIN_EXE_portcullis")).arg("keygen").arg(directory.join("key")).output();
    assert!(keygen.unwrap().status.success());
    let file = format!(
        "server_name = \"us.example\"\nsigning_key = \"key\"\nlisten = \"127.0.0.1:0\"\nadmin_listen = \
                \"127.0.0.1:0\"\n[federation]\nnameservers = [\"127.0.0.1:9\"]\n[media]\nremote_fetch_enabled = {media}\n"
    );
    fs::write(directory.join("portcullis.toml"), file).unwrap();
    directory
}

/// `portcullis serve` that may open `files` files, with remote media or without.
fn serve(test: &str, files: usize, media: bool) -> Child {
    Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {files} && exec \"$0\" serve --config portcullis.toml"))
        .arg(env!("CARGO_BIN_EXE_portcullis"))
        .current_dir(configured(test, media))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn connect(to: SocketAddr, from: IpAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    timeout(LONG, socket.connect(to)).await.expect("nobody accepts").unwrap()
}

async fn get(to: SocketAddr, path: &str) -> String {
    let mut stream = connect(to, "127.0.0.1".parse().unwrap()).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, stream.read_to_string(&mut answer)).await.expect("no answer").unwrap();
    answer
}

#[tokio::test]
async fn with_few_descriptors_clients_get_fewer_connections_and_the_operator_is_answered_all_the_same() {
    let mut serving = Serving(serve("few", 256, false));
    let mut first = String::new();
    BufReader::new(serving.0.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let addresses = first.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}"));
    let (clients, admin) = addresses.split_once(", admin on ").unwrap();
    let (clients, admin): (SocketAddr, SocketAddr) = (clients.parse().unwrap(), admin.parse().unwrap());
    let mut taken = Vec::new();
    // More than it may open, but not so many that some are not even queued.
    for client in 1..=12 {
        for _ in 0..25 {
            let mut stream = connect(clients, IpAddr::from([127, 0, 1, client])).await;
            // It may have had to make room already.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHo").await;
            taken.push(stream);
        }
    }
    let told = timeout(BEFORE_ROOM, get(admin, "/healthz")).await;
    assert!(told.expect("the operator waited until the clients were gone").starts_with("HTTP/1.1 200"));
    assert!(get(clients, "/_matrix/client/versions").await.starts_with("HTTP/1.1 200"));
    drop(taken);
    serving.0.kill().unwrap();
    let mut told = String::new();
    serving.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    let warned = told.matches("the limit of open files is 256: there is room for 48 client connections, not 512");
    assert_eq!(warned.count(), 1, "{told}");
}

#[test]
fn with_a_hopeless_limit_it_ends_with_2_and_one_line() {
    let ended = serve("hopeless", 128, false).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("portcullis: the limit of open files is 128; 224 are needed"), "{told}");
    assert!(ended.stdout.is_empty());
}

#[test]
fn files_of_other_servers_need_more_and_the_line_says_what_to_lower() {
    let ended = serve("media", 1024, true).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let told = String::from_utf8(ended.stderr).unwrap();
    let refusal = told.lines().last().unwrap();
    assert!(refusal.starts_with("portcullis: the limit of open files is 1024; 1456 are needed"), "{told}");
    assert!(refusal.contains("1216 for fetching files") && refusal.contains("media.max_running"), "{told}");
    assert!(ended.stdout.is_empty());
}
