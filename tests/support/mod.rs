//! The outside world on loopback: a private certificate authority, TLS servers that answer or misbehave in one way, a name
//! server, an address that nothing answers at.

// Each test binary uses its own part of this.
#![allow(dead_code, unused_imports, clippy::allow_attributes, reason = "not every test binary uses every part")]

pub(crate) mod black_hole;
pub(crate) mod descriptors;
pub(crate) mod fake_dns;
pub(crate) mod logging;
pub(crate) mod media;
pub(crate) mod patience;
pub(crate) mod private_ca;
pub(crate) mod tls_peer;

pub(crate) use black_hole::BlackHole;
pub(crate) use fake_dns::{FakeDns, Says};
pub(crate) use media::SentFile;
pub(crate) use patience::until;
pub(crate) use private_ca::PrivateCa;
pub(crate) use tls_peer::{Behaviour, SeenRequest, TlsPeer, json_answer};
