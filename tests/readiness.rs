//! What the service manager hears of `portcullis serve`, over a real socket of the kind that it gives.
#![cfg(all(feature = "server", target_os = "linux"))]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a helper outside a test function is test code all the same"
)]

use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Only a test that fails waits this long.
const LONG: Duration = Duration::from_secs(60);

struct Serving(Child);

impl Serving {
    /// In a directory of its own, on free ports.
    fn start(directory: &std::path::Path, socket: &str) -> Self {
        let portcullis = || Command::new(env!("CARGO_BIN_EXE_portcullis"));
        assert!(portcullis().arg("keygen").arg(directory.join("key")).output().unwrap().status.success());
        let config = "server_name = \"us.example\"\nsigning_key = \"key\"\nlisten = \"127.0.0.1:0\"\n\
                      admin_listen = \"127.0.0.1:0\"\nmedia.remote_fetch_enabled = false\n";
        std::fs::write(directory.join("portcullis.toml"), config).unwrap();
        let mut command = portcullis();
        command.args(["serve", "--config", "portcullis.toml"]).current_dir(directory).env("NOTIFY_SOCKET", socket);
        command.stdin(Stdio::null()).stderr(std::fs::File::create(directory.join("stderr")).unwrap());
        command.stdout(std::fs::File::create(directory.join("stdout")).unwrap());
        Self(command.spawn().unwrap())
    }

    fn terminate(&self) {
        let process = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn heard(socket: &UnixDatagram) -> String {
    let mut datagram = [0; 256];
    let length = socket.recv(&mut datagram).unwrap();
    String::from_utf8(datagram[..length].to_vec()).unwrap()
}

fn assert_told(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(LONG)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(directory.path(), name);
    assert_eq!(heard(socket), "READY=1");
    // It is true: the address was said before, and somebody listens there.
    let said = std::fs::read_to_string(directory.path().join("stdout")).unwrap();
    let address = said.strip_prefix("listening on ").and_then(|rest| rest.split_once(',')).unwrap().0;
    let client = TcpStream::connect(address).unwrap();
    serving.terminate();
    assert_eq!(heard(socket), "STOPPING=1");
    drop(client);
    assert_eq!(serving.0.wait().unwrap().code(), Some(0));
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 1]).is_err(), "nothing else was said");
}

#[test]
fn the_service_manager_is_told_at_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    assert_told(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
}

#[test]
fn the_service_manager_is_told_at_a_name_without_a_path() {
    let name = format!("portcullis-readiness-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    assert_told(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

#[test]
fn a_service_manager_that_is_gone_is_a_line_and_no_end() {
    for (socket, problem) in [("/nowhere/notify", "No such file"), ("nowhere", "neither a path nor @ and a name")] {
        let directory = tempfile::tempdir().unwrap();
        let mut serving = Serving::start(directory.path(), socket);
        let log = || std::fs::read_to_string(directory.path().join("stderr")).unwrap();
        let began = std::time::SystemTime::now();
        while !log().contains(problem) {
            assert!(began.elapsed().unwrap() < LONG, "{}", log());
            std::thread::yield_now();
        }
        serving.terminate();
        assert_eq!(serving.0.wait().unwrap().code(), Some(0), "{}", log());
    }
}
