//! [`Origin`]: where each key of a configuration stands, so that what shows only later is told with its line too.

use std::collections::BTreeMap;

/// The file a configuration was read from, and the line of each key in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// As the operator named it; empty where there is no file.
    file: String,
    lines: BTreeMap<String, usize>,
}

impl Origin {
    pub(super) fn of(file: &str) -> Self {
        Self { file: file.to_owned(), lines: BTreeMap::new() }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn place(&mut self, key: String, line: usize) {
        self.lines.insert(key, line);
    }

    /// The line of `key`, counted from 1; `None` if the operator did not write it.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }
}
