//! Peers for tests: a private certificate authority and TLS servers on loopback that answer, or misbehave in one way.

// Each test binary uses its own part of this.
#![allow(dead_code, unused_imports, clippy::allow_attributes, reason = "not every test binary uses every part")]

pub(crate) mod private_ca;
pub(crate) mod tls_peer;

pub(crate) use private_ca::PrivateCa;
pub(crate) use tls_peer::{Behaviour, SeenRequest, TlsPeer, json_answer};
