//! A program of the system, on an address of its own, ended with its test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

/// How often a program that starts is looked for; a minute in all.
const LOOKS: u32 = 6000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// An address that nobody else has: a program is told where to listen, so a free port of a shared address may be gone by then.
/// All of 127.0.0.0/8 is this machine's, and a process of ours has its own part of it.
pub(crate) fn own_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = 8400 + u16::from(NEXT.fetch_add(1, Ordering::Relaxed));
    SocketAddr::from(([127, 64 | (high & 63), middle, low], port))
}

/// An address that refuses every connection as long as this is kept: it is taken, and nobody listens.
pub(crate) struct Refusing {
    pub(crate) address: SocketAddr,
    _taken: Socket,
}

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        Self { address: socket.local_addr().unwrap().as_socket().unwrap(), _taken: socket }
    }
}

/// Whether there is such a program.
///
/// # Panics
/// If there is none and `CI` is set.
pub(crate) fn is_there(program: &str) -> bool {
    let found = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| PathBuf::from(folder).join(program).exists());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{program} is not installed, and this is CI");
        eprintln!("STANDING ASIDE: {program} is not installed, so nothing of it is tested (apt-get install {program})");
    }
    found
}

pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    directory: TempDir,
}

impl Program {
    /// Starts it in a directory with these files, and waits until it listens.
    pub(crate) fn start(name: &str, arguments: &[&str], files: &[(&str, String)], address: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in files {
            fs::write(directory.path().join(file), text).unwrap();
        }
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new(name);
        command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
        // Nothing of the user's: neither settings nor a place for state.
        command.env("HOME", directory.path()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let mut program = Self { child, address, directory };
        program.until_it_listens();
        program
    }

    fn until_it_listens(&mut self) {
        let (_nobody_says, wait) = channel::<()>();
        for _ in 0..LOOKS {
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended:\n{}", self.log());
            let _ = wait.recv_timeout(BETWEEN_LOOKS);
        }
        panic!("it does not listen at {}:\n{}", self.address, self.log());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
