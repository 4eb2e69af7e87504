//! The bodies of the fuzz targets: each takes any bytes, and panics if a property does not hold.
//!
//! They are here, and not in `fuzz/`, so that the committed corpus is replayed by an ordinary test on the stable
//! toolchain (`tests/fuzz_corpus.rs`). Not part of the API: anything here may change in any release.
//!
//! The targets whose answers take time are futures. They are meant for a current-thread runtime with paused time, where
//! a deadline of ten seconds costs nothing; none of them opens a socket.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a property that does not hold has to panic: that is what a fuzzer sees"
)]

mod budget_ops;
mod client_key;
mod config;
mod dns_answers;
mod gate_model;
mod gate_ops;
mod media_request;
mod multipart;
mod request;
mod script;
mod server_name;
mod well_known;
mod wire;
mod x_matrix;

pub use budget_ops::budget_ops;
pub use client_key::client_key;
pub use config::config;
pub use dns_answers::dns_answers;
pub use gate_ops::{GateAct, GateReached, figures_of, gate_acts, gate_ops};
pub use media_request::media_request;
pub use multipart::multipart;
pub use request::request;
pub use server_name::server_name;
pub use well_known::well_known;
pub use x_matrix::x_matrix;

/// Text in lines; what is not UTF-8 reads as U+FFFD.
fn lines(input: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(input).split('\n').map(ToOwned::to_owned).collect()
}

/// Splits at each `separator`.
fn sections<'a>(mut input: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    while let Some(at) = input.windows(separator.len()).position(|window| window == separator) {
        found.push(&input[..at]);
        input = &input[at + separator.len()..];
    }
    found.push(input);
    found
}
