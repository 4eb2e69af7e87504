//! [`OpenFile`]: a file that somebody writes or reads, and that takes the disk for as long, whatever became of its name.

use std::fs::File;

use super::folder::FileName;
use super::left::Left;
use crate::sync::{Arc, Mutex};

/// A file for one writer or reader. A clone is of the same file, for one more.
///
/// Always: as long as there is one it is known to the index, and its bytes count (`a_file_counts_until_its_last_reader_has_left`).
/// It is closed for all of them at once when its room is needed.
pub(super) struct OpenFile {
    left: Arc<Mutex<Left>>,
    name: FileName,
    cell: Arc<Cell>,
}

/// The file, until it is closed.
pub(super) struct Cell(Mutex<Option<Arc<File>>>);

impl Cell {
    pub(super) fn new(file: File) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Arc::new(file)))))
    }

    /// Takes the file from all who have it. Dropping what is returned may ask the disk.
    pub(super) fn take(&self) -> Option<Arc<File>> {
        self.0.lock().take()
    }
}

impl OpenFile {
    /// For one who is counted in `left` already.
    pub(super) fn counted(left: Arc<Mutex<Left>>, name: FileName, cell: Arc<Cell>) -> Self {
        Self { left, name, cell }
    }

    /// The file, for the moment of one use; `None` once it was closed.
    pub(super) fn get(&self) -> Option<Arc<File>> {
        self.cell.0.lock().clone()
    }
}

impl Clone for OpenFile {
    fn clone(&self) -> Self {
        self.left.lock().one_more(&self.name);
        Self { left: Arc::clone(&self.left), name: self.name.clone(), cell: Arc::clone(&self.cell) }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.left.lock().one_less(&self.name);
    }
}
