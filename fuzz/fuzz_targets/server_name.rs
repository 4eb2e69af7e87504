//! A name means the same host and port to every parser on the way, or is refused before anything is looked up.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::server_name(input));
