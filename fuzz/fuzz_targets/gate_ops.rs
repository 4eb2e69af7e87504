//! Any list of events at the load gate's core ends as the model of the record has it.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::gate_ops(input));
