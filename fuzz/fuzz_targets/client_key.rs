//! Peer, proxies and `X-Forwarded-For`: no panic, and nobody can change whom its request counts against.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::client_key(input));
