//! The envelope of another server's file: no panic, no more than went in, and the same however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::multipart(input));
