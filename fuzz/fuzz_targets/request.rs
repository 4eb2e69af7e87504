//! A client's bytes through the listener and the whole request path, before a hostile world: no panic, no cap passed, no slot
//! left, every answer well formed, nothing asked outside for a bad name or our own.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis_fuzz::in_paused_time(portcullis::fuzzing::request(input)));
