//! [`StoredFile`]: a whole file of the store.

use std::fmt;
use std::io;
#[cfg(test)]
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::folder::FileName;
use super::format::{Extent, Inspected, inspect};
use super::index::Why;
use super::key::FileKey;
use super::meta::FileMeta;
use super::reader::FileReader;
use super::store::{Shared, off_thread};
use crate::sync::Arc;

/// A whole file, as the index holds it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: FileKey,
    pub(super) name: FileName,
    pub(super) meta: FileMeta,
    pub(super) extent: Extent,
    pub(super) expires_at: Instant,
}

/// A whole file of the store. It may be gone when it is opened.
#[derive(Clone)]
pub(crate) struct StoredFile {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
}

impl Entry {
    /// Bytes on disk.
    pub(super) fn file_bytes(&self) -> u64 {
        self.extent.file_bytes()
    }

    /// Whether its time is not over.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        now < self.expires_at
    }
}

impl StoredFile {
    pub(super) fn new(shared: Arc<Shared>, entry: Arc<Entry>) -> Self {
        Self { shared, entry }
    }

    /// What the other server said about it.
    pub(crate) fn meta(&self) -> &FileMeta {
        &self.entry.meta
    }

    /// Its entity tag.
    #[cfg(test)]
    pub(crate) fn etag(&self) -> &str {
        self.entry.key.etag()
    }

    /// Its length in bytes, without what the store adds.
    pub(crate) fn len(&self) -> u64 {
        self.entry.extent.data_bytes
    }

    /// When it was stored, by the clock on the wall.
    #[cfg(test)]
    pub(crate) fn stored_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.entry.extent.stored_at_ms)
    }

    /// How long it will still be given out.
    #[cfg(test)]
    pub(crate) fn fresh_for(&self) -> Duration {
        self.entry.expires_at.saturating_duration_since(Instant::now())
    }

    /// Opens it. From then on it can be read whole, whatever becomes of it, unless nothing else is left to make room: then
    /// its readers are cut.
    ///
    /// *Errors:* `NotFound`: it had to make room meanwhile, or was deleted under us. `InvalidData`: it is no longer what was
    /// stored. In both cases it is forgotten, and to be fetched anew. Others: what the system says. *Cancel safety:* yes.
    /// *Blocking:* no, but for a caller outside of any tokio runtime.
    pub(crate) async fn open(&self) -> io::Result<FileReader> {
        let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry));
        off_thread(move || {
            let opened = shared.folder.open_whole(&entry.name).and_then(|file| {
                let inspected = inspect(&file)?;
                let whole =
                    inspected.is_some_and(|Inspected { key, extent, .. }| key == entry.key && extent == entry.extent);
                if !whole {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                shared.index.read(&entry, file).ok_or_else(|| io::ErrorKind::NotFound.into())
            });
            match opened {
                Ok(file) => Ok(FileReader::whole(file, entry.extent.head_bytes, entry.extent.data_bytes)),
                Err(error) => {
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) {
                        shared.index.forget(&entry, Why::Torn);
                        shared.delete_doomed();
                    }
                    Err(error)
                }
            }
        })
        .await
        .unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }
}

impl fmt::Debug for StoredFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StoredFile").field("entry", &self.entry).finish_non_exhaustive()
    }
}
