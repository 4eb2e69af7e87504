//! Any text is a configuration within every bound, or mistakes that name their lines; never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::config(input));
