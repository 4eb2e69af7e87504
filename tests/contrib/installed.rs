//! The whole of it as it is installed: nginx in front, `portcullis serve` with the example configuration behind it, and a
//! homeserver beside.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use super::backend::Backend;
use super::client::{LONG, get};
use super::program::{Program, is_there, own_address};
use super::{adapted, caddy, contrib, nginx};

/// Refuses every connection: a lookup there fails at once.
const CLOSED: &str = "127.0.0.1:1";

struct Serving {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Serving {
    /// With the example, and these lines in place of those that begin in the same way.
    fn start(changes: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let portcullis = || Command::new(env!("CARGO_BIN_EXE_portcullis"));
        assert!(
            portcullis().arg("keygen").arg(directory.path().join("signing.key")).output().unwrap().status.success()
        );
        let mut example = fs::read_to_string(contrib("portcullis.example.toml")).unwrap();
        for change in changes {
            let key = format!("\n{} = ", change.split_once(" = ").unwrap().0);
            let at = example.find(&key).unwrap() + 1;
            let end = at + example[at..].find('\n').unwrap();
            example.replace_range(at..end, change);
        }
        fs::write(directory.path().join("portcullis.toml"), example).unwrap();
        let mut command = portcullis();
        command.args(["serve", "--config", "portcullis.toml"]).current_dir(directory.path());
        command.stderr(fs::File::create(directory.path().join("log")).unwrap());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|line| line.split_once(',')).unwrap().0.parse();
        Self { child, address: address.unwrap(), directory }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serving(trusted: &str) -> Serving {
    Serving::start(&[
        "listen = \"127.0.0.1:0\"",
        "admin_listen = \"127.0.0.1:0\"",
        trusted,
        "lookups_per_minute = 1",
        "lookup_burst = 2",
        "allow_networks = [\"127.0.0.0/8\"]",
    ])
}

fn installed(trusted: &str) -> Option<(Program, Serving, Backend)> {
    is_there("nginx").then(|| {
        let serving = serving(trusted);
        let homeserver = Backend::start();
        let ours = adapted("portcullis.nginx.conf", &[("127.0.0.1:8009", 1, serving.address)]);
        let nginx = nginx::start(&[own_address()], &[("portcullis.nginx.conf", ours)], homeserver.address);
        (nginx, serving, homeserver)
    })
}

/// The head of the answer to a lookup of a client at this address, which claims another one each time.
fn look_up(proxy: SocketAddr, from: Ipv4Addr, page: u32) -> String {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&proxy.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request = format!(
        "GET /_matrix/client/v3/publicRooms?server={CLOSED}&limit={page} HTTP/1.1\r\nHost: matrix.example.org\r\n\
         X-Forwarded-For: 203.0.113.{page}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    heard.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase()
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

#[test]
fn each_client_behind_the_proxy_has_a_rate_of_its_own_and_is_told_how_long_to_wait() {
    let Some((nginx, serving, homeserver)) = installed("trusted_proxies = [\"127.0.0.1\"]") else { return };
    for last in [1, 2] {
        let heads: Vec<_> = (1..=3).map(|page| look_up(nginx.address, Ipv4Addr::new(127, 5, 0, last), page)).collect();
        assert_eq!(heads.iter().map(|head| status(head)).collect::<Vec<_>>(), ["502", "502", "429"]);
        let wait = heads[2].lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
        assert!((1..=60).contains(&wait.parse::<u32>().unwrap()), "{wait}");
    }
    assert!(!serving.log().contains("X-Forwarded-For"), "{}", serving.log());
    assert_eq!(homeserver.take_seen(), []);
}

#[test]
fn behind_a_proxy_that_is_not_listed_all_are_one_and_the_operator_is_told_why() {
    let Some((nginx, serving, _homeserver)) = installed("trusted_proxies = []") else { return };
    let heads: Vec<_> = (1..=4).map(|n| look_up(nginx.address, Ipv4Addr::new(127, 5, 0, n), n.into())).collect();
    assert_eq!(heads.iter().map(|head| status(head)).collect::<Vec<_>>(), ["502", "502", "429", "429"]);
    let log = serving.log();
    assert_eq!(log.matches("add \"127.0.0.1\" to trusted_proxies").count(), 1, "{log}");
    assert!(!log.contains("203.0.113"), "{log}");
}

#[test]
fn what_the_front_does_not_know_is_404_and_what_is_not_its_own_is_the_homeservers() {
    let Some((nginx, _serving, homeserver)) = installed("trusted_proxies = [\"127.0.0.1\"]") else { return };
    let list = get(nginx.address, "/_matrix/client/v3/publicRooms");
    assert!(list.status == 200 && list.body.contains("\"chunk\":[]"), "{list:?}");
    let alias = "/_matrix/client/v3/directory/room/%23a%2F..%2F..%2F..%2F..%2F..%2Fb:127.0.0.1:1";
    assert_eq!(get(nginx.address, alias).status, 502, "an alias of the server that it names");
    for target in
        ["//_matrix/client/v3/publicRooms", "/_matrix/client/unstable/publicRooms", "/_matrix/client/v3/x/../sync"]
    {
        let answer = get(nginx.address, target);
        assert!(answer.status == 404 && answer.body.contains("M_UNRECOGNIZED"), "{target}: {answer:?}");
    }
    assert_eq!(homeserver.take_seen(), []);
    assert_eq!(get(nginx.address, "/_matrix/client/v3/sync").status, 200);
    assert_eq!(homeserver.take_seen().len(), 1);
}

/// A client that sends megabytes, and reads meanwhile: Caddy itself resets one that does not.
fn assert_told_that_it_is_too_much(proxy: SocketAddr) {
    const MEGABYTES: usize = 12 << 20;
    for _ in 0..8 {
        let mut reads = TcpStream::connect(proxy).unwrap();
        reads.set_read_timeout(Some(LONG)).unwrap();
        let mut writes = reads.try_clone().unwrap();
        let sending = thread::spawn(move || {
            let head = format!(
                "POST /_matrix/client/v3/publicRooms HTTP/1.1\r\nHost: matrix.example.org\r\nConnection: close\r\n\
                 Content-Length: {MEGABYTES}\r\n\r\n"
            );
            // Whether anybody listens to the end is the proxy's to decide.
            let _ = writes.write_all(head.as_bytes()).and_then(|()| writes.write_all(&vec![b'a'; MEGABYTES]));
        });
        let mut heard = Vec::new();
        let _ = reads.read_to_end(&mut heard);
        drop(reads);
        sending.join().unwrap();
        let heard = String::from_utf8(heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 413") && heard.contains("M_TOO_LARGE"), "{heard:?}");
        assert!(heard.to_ascii_lowercase().contains("access-control-allow-origin: *"), "{heard}");
    }
}

#[test]
fn a_body_of_megabytes_is_413_through_nginx() {
    let Some((nginx, _serving, _homeserver)) = installed("trusted_proxies = [\"127.0.0.1\"]") else { return };
    assert_told_that_it_is_too_much(nginx.address);
}

#[test]
fn a_body_of_megabytes_is_413_through_caddy() {
    if !is_there("caddy") {
        return;
    }
    let (serving, homeserver) = (serving("trusted_proxies = [\"127.0.0.1\"]"), Backend::start());
    let caddy = caddy::start(&[own_address()], serving.address, homeserver.address);
    assert_told_that_it_is_too_much(caddy.address);
}
