//! What the interop suite and the load tools stand on: real peers, `portcullis serve` as a process of its own with TLS in
//! front of it, a client, and what the kernel says about a process.

// The suite and the tools each use a part of this.
#![allow(dead_code, unused_imports, clippy::allow_attributes, reason = "not every user of this needs every part")]

mod attackers;
mod client;
mod latencies;
mod local_load;
mod process;
mod serve;
mod stall;
mod synapse;
mod tls_front;

pub(crate) use attackers::{Attackers, Tally};
pub(crate) use client::{Answer, Client, Drained, PROXY};
pub(crate) use latencies::Latencies;
pub(crate) use local_load::{LOCAL_LIST, LocalLoad, ask_locally};
pub(crate) use process::{Footprint, Process};
pub(crate) use serve::{OWN_TOKEN, Serve, Setup};
pub(crate) use stall::{Counters, Stall};
pub(crate) use synapse::{Media, RunLock, Stopped, Synapse, installed};
pub(crate) use tls_front::TlsFront;
/// Bytes.
pub(crate) const MIB: u64 = 1024 * 1024;

/// The folder of the scripts that start peers.
fn peers() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/peers")
}
