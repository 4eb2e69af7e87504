//! Raw DNS messages through aliases, records and discovery: no panic, a bounded number of questions, only allowed
//! addresses, none by way of our own host.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| portcullis::fuzzing::dns_answers(input));
