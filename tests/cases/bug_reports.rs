//! placeholder
pub(crate) const TESTS: &[(&str, fn())] = &[];
