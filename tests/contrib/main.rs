//! `contrib/` with the programs it is for: nginx and Caddy as Debian has them, on loopback, before two servers that write down
//! what reaches them; the unit before systemd's own checker; the example configuration before our own reader.
//!
//! Without a program its tests stand aside and say so; with `CI` set they fail.
#![cfg(all(feature = "server", target_os = "linux"))]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper outside a test function is test code all the same"
)]

mod backend;
mod caddy;
mod client;
mod container;
mod example;
mod installed;
mod nginx;
mod program;
mod readings;
mod shut;
mod spellings;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};

/// A file of `contrib/`.
fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(name)
}

/// A file of `contrib/` with each of these addresses in place of the one that it comes with; the comments aside, each is there
/// as often as is said.
fn adapted(name: &str, addresses: &[(&str, usize, std::net::SocketAddr)]) -> String {
    let text = fs::read_to_string(contrib(name)).unwrap();
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect();
    for (from, times, to) in addresses {
        let found: usize = lines.iter().map(|line| line.matches(from).count()).sum();
        assert_eq!(found, *times, "{name}: {from}");
        for line in &mut lines {
            *line = line.replace(from, &to.to_string());
        }
    }
    lines.join("\n")
}
