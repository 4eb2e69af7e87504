//! Any list of operations on a budget agrees with a list of held slots.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::budget_ops(input));
