//! Requests for files before a hostile world: no panic, nobody asked where nobody may be, no half file as a whole one, no
//! slot left.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis_fuzz::in_paused_time(portcullis::fuzzing::media_request(input)));
