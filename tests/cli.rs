//! The binary as an operator meets it: first line, exit status, one clear line for each mistake.
#![cfg(all(feature = "server", unix))]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper outside a test function is test code all the same"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

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
    fn start(directory: &Path) -> Self {
        let mut child = portcullis()
            .args(["serve", "--config", "portcullis.toml"])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
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
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n").unwrap();
    stream
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
    let mut serving = Serving::start(&configured("in-flight", &federation));
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
}

#[test]
fn a_second_signal_cuts_the_calls_short() {
    let silent_dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let federation = format!("[federation]\nnameservers = [\"{}\"]\n", silent_dns.local_addr().unwrap());
    let mut serving = Serving::start(&configured("second-signal", &federation));
    let hangs = say(serving.clients, "/_matrix/client/v3/publicRooms?server=them.example");
    serving.until_in_flight(1);
    serving.signal("TERM");
    assert!((0..ATTEMPTS).any(|_| TcpStream::connect(serving.clients).is_err()), "still taking connections");
    serving.signal("TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    drop(hangs);
}

#[test]
fn without_the_switch_serve_and_check_config_warn_and_with_it_they_do_not() {
    let directory = configured("switch", "");
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!(checked.status.code(), Some(0));
    assert!(told(&checked).contains("remote_fetch_enabled"));
    let directory = configured("switch-set", "[media]\nremote_fetch_enabled = false\n");
    assert_eq!(told(&run(&["check-config", "portcullis.toml"], &directory)), "");
}

#[test]
fn each_mistake_is_one_clear_line_and_status_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let head = "server_name = \"us.example\"\nadmin_listen = \"127.0.0.1:0\"\n";
    let key = "signing_key = \"key\"\n";
    let free = "listen = \"127.0.0.1:0\"\n";
    for (what, toml, line) in [
        ("no-key", format!("{head}{free}signing_key = \"missing\"\n"), "signing_key: "),
        ("bad-key", format!("{head}{free}signing_key = \"portcullis.toml\"\n"), "signing_key: "),
        ("taken", format!("{head}{key}listen = \"{taken}\"\n"), &format!("listen: cannot listen on {taken}: ")),
        ("pool", format!("{head}{key}{free}request_threads = 1\n"), "portcullis.toml:5: request_threads: a pool of 1 "),
        ("zero", format!("{head}{key}{free}request_threads = 0\n"), "portcullis.toml:5: request_threads: "),
        ("ca", format!("{head}{key}{free}federation.extra_ca_file = \"key\"\n"), "federation.extra_ca_file: "),
        (
            "upstream",
            format!("{head}{key}{free}homeserver.upstream = \"http://[::1]\"\n"),
            "portcullis.toml:5: homeserver.upstream: ",
        ),
    ] {
        let directory = configured(&format!("mistake-{what}"), "");
        let toml = format!("{toml}media.remote_fetch_enabled = false\n");
        fs::write(directory.join("portcullis.toml"), toml).unwrap();
        let output = run(&["serve", "--config", "portcullis.toml"], &directory);
        assert_eq!(output.status.code(), Some(2), "{what}");
        assert!(told(&output).starts_with(line), "{what}: {}", told(&output));
        assert_eq!(told(&output).lines().count(), 1, "{what}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{what}");
    }
}

#[test]
fn check_config_tells_everything_at_once() {
    let directory = configured("everything", "request_threads = 1\ncolour = 3\nfederation.remote_timeout = \"0 s\"\n");
    let output = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!(output.status.code(), Some(2));
    let told = told(&output);
    for line in [":5: request_threads: ", ":6: colour: ", ":7: federation.remote_timeout: "] {
        assert!(told.lines().any(|told| told.starts_with(&format!("portcullis.toml{line}"))), "{told}");
    }
    let directory = configured("outside", "federation.extra_ca_file = \"none\"\n");
    fs::remove_file(directory.join("key")).unwrap();
    let output = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!(output.status.code(), Some(2));
    let told = self::told(&output);
    assert!(told.contains(": signing_key: ") && told.contains(": federation.extra_ca_file: "), "{told}");
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
    assert_eq!(told(&again).lines().count(), 1);
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
    for right in [&["--help"][..], &["--version"], &["serve", "--help"], &["resolve", "--help"]] {
        assert_eq!(run(right, &directory).status.code(), Some(0), "{right:?}");
    }
    let help = String::from_utf8(run(&["--help"], &directory).stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
}
