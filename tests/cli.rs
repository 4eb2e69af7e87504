//! The binary as an operator meets it: first line, exit status, what it says.
#![cfg(all(feature = "server", unix))]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper outside a test function is test code all the same"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

#[cfg(test)]
mod cli {
    pub(crate) mod mistakes;
}

/// Only a test that fails waits this long.
const LONG: Duration = Duration::from_secs(20);

/// Asks the server this often before giving up: seconds, since each attempt is a connection.
const ATTEMPTS: usize = 20_000;

fn portcullis() -> Command {
    Command::new(env!("CARGO_BIN_EXE_portcullis"))
}

/// An empty directory of the test's own.
fn directory(test: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli").join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// A directory with a key and a configuration for free ports, `more` added to it.
fn configured(test: &str, more: &str) -> PathBuf {
    let directory = directory(test);
    let key = directory.join("key");
    assert!(portcullis().arg("keygen").arg(&key).output().unwrap().status.success());
    let head = "server_name = \"us.example\"\nsigning_key = \"key\"\n";
    let ports = "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n";
    fs::write(directory.join("portcullis.toml"), format!("{head}{ports}{more}")).unwrap();
    directory
}

fn run(arguments: &[&str], directory: &Path) -> Output {
    portcullis().args(arguments).current_dir(directory).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// `portcullis serve`, ended with the test.
struct Serving {
    child: Child,
    clients: SocketAddr,
    admin: SocketAddr,
}

impl Serving {
    /// Its log goes to the file `log`.
    fn start(directory: &Path) -> Self {
        let mut child = portcullis()
            .args(["serve", "--config", "portcullis.toml"])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(directory.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let addresses = first.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}"));
        let (clients, admin) = addresses.split_once(", admin on ").unwrap();
        Self { child, clients: clients.parse().unwrap(), admin: admin.parse().unwrap() }
    }

    fn get(&self, path: &str) -> String {
        hear(say(self.clients, path))
    }

    fn status(&self) -> Value {
        let answer = hear(say(self.admin, "/v1/status"));
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn until_in_flight(&self, calls: u64) {
        let reached = || self.status()["budgets"]["directory"]["in_flight"] == calls;
        assert!((0..ATTEMPTS).any(|_| reached()), "never {calls} in flight");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(to: SocketAddr, path: &str) -> TcpStream {
    say_as(to, "GET", path)
}

fn say_as(to: SocketAddr, method: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The fields of every line of a JSON log.
fn log(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("log")).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone()).collect()
}

fn hear(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn serve_prints_its_addresses_first_answers_and_ends_with_0_on_either_signal() {
    for signal in ["TERM", "INT"] {
        let room = "[[rooms]]\nroom_id = \"!a:us.example\"\nname = \"A\"\n";
        let directory = configured(&format!("serve-{signal}"), room);
        let mut serving = Serving::start(&directory);
        assert!(serving.get("/_matrix/client/versions").starts_with("HTTP/1.1 200"));
        assert!(serving.get("/_matrix/key/v2/server").contains("\"ed25519:a_"));
        assert!(serving.get("/_matrix/client/v3/publicRooms").contains("!a:us.example"));
        assert!(serving.get("/v1/status").starts_with("HTTP/1.1 404"));
        assert!(hear(say(serving.admin, "/healthz")).starts_with("HTTP/1.1 200"));
        assert_eq!(serving.status()["budgets"]["directory"]["cap"], 8);
        serving.signal(signal);
        assert_eq!(serving.child.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_lookup_that_hangs_costs_its_client_one_slot_and_is_answered_before_the_end() {
    let silent_dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let federation =
        format!("[federation]\nremote_timeout = \"3 s\"\nnameservers = [\"{}\"]\n", silent_dns.local_addr().unwrap());
    let directory = configured("in-flight", &format!("{federation}[log]\nlevel = \"debug\"\nformat = \"json\"\n"));
    let mut serving = Serving::start(&directory);
    let remote = "/_matrix/client/v3/publicRooms?server=them.example";
    let hangs = say(serving.clients, remote);
    serving.until_in_flight(1);
    let refused = serving.get(remote);
    assert!(
        refused.starts_with("HTTP/1.1 429") && refused.to_lowercase().contains("\r\nretry-after: 1\r\n"),
        "{refused}"
    );
    assert!(serving.get("/_matrix/client/versions").starts_with("HTTP/1.1 200"));
    assert_eq!(serving.status()["budgets"]["directory"]["refused"]["client"], 1);
    serving.signal("TERM");
    let answer = hear(hangs);
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    let failed: Vec<_> = log(&directory).into_iter().filter(|fields| fields["message"] == "lookup failed").collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((&failed[0]["server"], &failed[0]["route"]), (&"them.example".into(), &"room-list".into()));
    assert_eq!((&failed[0]["phase"], &failed[0]["reason"]), (&"discover".into(), &"out-of-time".into()));
}

#[test]
fn a_second_signal_cuts_the_calls_short() {
    let silent_dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let federation = format!("[federation]\nnameservers = [\"{}\"]\n", silent_dns.local_addr().unwrap());
    let directory = configured("second-signal", &federation);
    let mut serving = Serving::start(&directory);
    let hangs = say(serving.clients, "/_matrix/client/v3/publicRooms?server=them.example");
    serving.until_in_flight(1);
    serving.signal("TERM");
    assert!((0..ATTEMPTS).any(|_| TcpStream::connect(serving.clients).is_err()), "still taking connections");
    serving.signal("TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    assert!(fs::read_to_string(directory.join("log")).unwrap().contains("stopping at once"));
    drop(hangs);
}

#[test]
fn a_client_and_an_operator_are_told_which_methods_there_are() {
    let directory = configured("methods", "media.remote_fetch_enabled = false\n");
    let serving = Serving::start(&directory);
    let ask = |to, method, path| hear(say_as(to, method, path)).to_lowercase();
    let refused = ask(serving.clients, "PUT", "/_matrix/client/v3/publicRooms");
    assert!(
        refused.starts_with("http/1.1 405") && refused.contains("\r\nallow: get, head, post, options\r\n"),
        "{refused}"
    );
    let head = ask(serving.admin, "HEAD", "/v1/status");
    assert!(head.starts_with("http/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    let absolute = ask(serving.admin, "GET", "http://evil.example/v1/status");
    assert!(absolute.starts_with("http/1.1 403"), "{absolute}");
    for broken in
        ["/_matrix/client/v3/directory/room/%23a%ZZ:them.example", "/_matrix/client/v3/publicRooms?server=a%ZZ"]
    {
        let answer = ask(serving.clients, "GET", broken);
        assert!(answer.starts_with("http/1.1 400") && answer.contains("m_invalid_param"), "{answer}");
    }
}

#[test]
fn keygen_makes_a_key_for_its_owner_alone_and_overwrites_none() {
    let directory = directory("keygen");
    assert_eq!(run(&["keygen", "key"], &directory).status.code(), Some(0));
    let key = directory.join("key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let made = fs::read_to_string(&key).unwrap();
    assert!(made.starts_with("ed25519 a_") && made.lines().count() == 1, "{made}");
    let again = run(&["keygen", "key"], &directory);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(told(&again), "portcullis: key already exists and is not overwritten; choose another name\n");
    assert_eq!(fs::read_to_string(&key).unwrap(), made);
    assert_eq!(run(&["keygen", "nowhere/key"], &directory).status.code(), Some(2));
}

#[test]
fn a_lookup_that_fails_is_status_1_and_json_has_every_key() {
    let directory = directory("resolve");
    let output = run(&["resolve", "127.1", "--json"], &directory);
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["error"]["kind"], "invalid-server-name");
    for key in ["server_name", "source", "delegated_to", "host_header", "tls_name", "addresses", "steps"] {
        assert!(told.get(key).is_some(), "{key}");
    }
    assert_eq!(run(&["resolve", "44.128.10.1"], &directory).status.code(), Some(0));
    assert_eq!(run(&["resolve", "them.example", "--config", "missing.toml"], &directory).status.code(), Some(2));
}

#[test]
fn usage_errors_are_status_2_and_help_teaches() {
    let directory = directory("usage");
    for wrong in [&["serv"][..], &[], &["serve", "--port", "80"], &["check-config"], &["keygen"]] {
        assert_eq!(run(wrong, &directory).status.code(), Some(2), "{wrong:?}");
    }
    for right in [
        &["--help"][..],
        &["--version"],
        &["serve", "--version"],
        &["keygen", "--version"],
        &["serve", "--help"],
        &["resolve", "--help"],
    ] {
        assert_eq!(run(right, &directory).status.code(), Some(0), "{right:?}");
    }
    let help = String::from_utf8(run(&["--help"], &directory).stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
}

#[test]
fn a_url_is_no_server_name_and_is_told_so() {
    let output = run(&["resolve", "https://matrix.org"], &directory("url"));
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(shown.contains("a server name is wanted, not a URL"), "{shown}");
    assert_eq!(told(&output), "");
}

#[test]
fn the_rehearsal_needs_no_certificates_of_the_system_and_is_silent_in_a_pipe() {
    let output =
        portcullis().args(["demo"]).env("SSL_CERT_FILE", "/nowhere").env("SSL_CERT_DIR", "/nowhere").output().unwrap();
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!((output.status.code(), told(&output)), (Some(0), String::new()), "{shown}");
    assert!(shown.starts_with("A pool of 8 request threads") && shown.contains("shortened"), "{shown}");
    assert!(shown.contains("* ended by time (504)") && shown.ends_with("Every promise was kept.\n"), "{shown}");
}

#[test]
fn with_too_few_descriptors_the_rehearsal_is_not_held_rather_than_lost() {
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 40 && exec \"$0\" demo", env!("CARGO_BIN_EXE_portcullis")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).starts_with("portcullis: the rehearsal could not be held: "), "{}", told(&output));
    assert!(output.stdout.is_empty());
}
