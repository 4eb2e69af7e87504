//! A stranger's well-known file over all its hops: no panic, in time, within bounds, and the name in it means one thing.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis_fuzz::in_paused_time(portcullis::fuzzing::well_known(input)));
