//! Whatever is signed verifies with another implementation and for nothing else; what cannot be signed is an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::x_matrix(input));
