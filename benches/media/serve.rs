//! `portcullis serve` as a process of its own.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use portcullis::outbound::Ed25519Signer;

use super::origin::Origin;

pub(crate) const TOKEN: &str = "benchmark-token";
/// The reverse proxy all clients come through.
pub(crate) const PROXY: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 1);

/// A running server. Dropping it ends it.
pub(crate) struct Serve {
    process: Child,
    address: SocketAddr,
    _files: tempfile::TempDir,
}

impl Serve {
    /// Trusts the authorities of these origins and nobody else's beside the system's.
    pub(crate) fn start(origins: &[&Origin]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let key = Ed25519Signer::generate("benchmark.example".parse().unwrap()).to_key_file_line();
        let key_file = files.path().join("signing.key");
        std::fs::write(&key_file, key).unwrap();
        std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut authorities = String::new();
        for origin in origins {
            writeln!(authorities, "{}", origin.ca_pem.trim_end()).unwrap();
        }
        std::fs::write(files.path().join("ca.pem"), authorities).unwrap();
        let config = files.path().join("portcullis.toml");
        std::fs::write(&config, configuration()).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["serve", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
        let address = first_line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
        Self { address: address.unwrap().parse().unwrap(), process, _files: files }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The peak of resident memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

fn configuration() -> String {
    format!(
        r#"
server_name = "benchmark.example"
signing_key = "signing.key"
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
trusted_proxies = ["{PROXY}"]

[federation]
extra_ca_file = "ca.pem"
allow_networks = ["127.0.0.0/8"]

[media]
remote_fetch_enabled = true
cache_dir = "media"
cache_size = "16 GiB"

[[tokens]]
token = "{TOKEN}"
user_id = "@bench:benchmark.example"
"#
    )
}
