//! A remote that misbehaves in one way: `peers/stall.py`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use super::{Process, peers};

/// It ends by itself, should its user be killed: after an hour and a half.
const SECONDS: &str = "5400";

/// A running `stall.py`. Dropping it ends it.
pub(crate) struct Stall {
    process: Child,
    port: u16,
    stats_port: u16,
}

/// What it has seen so far.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Counters {
    pub(crate) accepted: u64,
    pub(crate) open: u64,
    pub(crate) max_open: u64,
    pub(crate) requests: u64,
    pub(crate) bytes_sent: u64,
}

impl Stall {
    /// With the certificate in this folder, which is made where it is missing; its authority is `ca.crt` there.
    pub(crate) fn start(mode: &str, tls: &Path, more: &[&str]) -> Self {
        #[derive(Deserialize)]
        struct Ready {
            port: u16,
            stats_port: u16,
        }

        let mut process = Command::new(peers().join("stall.py"))
            .args([mode, "--seconds", SECONDS, "--tls-dir"])
            .arg(tls)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
        let ready: Ready = serde_json::from_str(&first_line).unwrap();
        Self { process, port: ready.port, stats_port: ready.stats_port }
    }

    /// Its name with an address and a port in it, which nothing has to be asked about.
    pub(crate) fn server_name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn process(&self) -> Process {
        Process::of(self.process.id())
    }

    /// *Blocking:* asks it, on a plain connection.
    pub(crate) fn counters(&self) -> Counters {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.stats_port))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: stats\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}
