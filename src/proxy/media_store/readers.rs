//! [`Readers`]: makes readers of a file that is being fetched, away from its writer.

use std::fmt;

use super::open_file::OpenFile;
use super::place::Following;
use super::reader::FileReader;

/// Makes readers of a file that is being fetched: any number, any time. A clone is of the same file.
///
/// It keeps the file open, not the fetch going: once the writer is gone, readers end as it left the file.
#[derive(Clone)]
pub(crate) struct Readers {
    file: OpenFile,
    data_at: u64,
    writer: Following,
}

impl Readers {
    pub(super) fn new(file: OpenFile, data_at: u64, writer: Following) -> Self {
        Self { file, data_at, writer }
    }

    /// A reader from the first byte on.
    pub(crate) fn reader(&self) -> FileReader {
        FileReader::behind(self.file.clone(), self.data_at, self.writer.clone())
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Readers").field("progress", &*self.writer.progress.borrow()).finish_non_exhaustive()
    }
}
