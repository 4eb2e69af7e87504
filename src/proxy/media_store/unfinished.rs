//! [`Unfinished`]: a file that is being fetched, and the end of the store that is written to.

use std::fmt;
use std::io;
use std::time::SystemTime;

use bytes::{Buf as _, Bytes};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::disk::to_u64;
use super::error::StoreFault;
use super::folder::{FileName, Stage};
use super::format::{END_BYTES, Head};
use super::index::{Index, Room};
use super::key::FileKey;
use super::meta::FileMeta;
use super::open_file::OpenFile;
use super::progress::Progress;
#[cfg(test)]
use super::reader::FileReader;
use super::readers::Readers;
use super::store::{Shared, millis, off_thread};
use super::stored::{Entry, StoredFile};
use super::write_behind::WriteBehind;
use crate::limits::{MEDIA_FIRST_ROOM_BYTES, MEDIA_ROOM_STEP_BYTES};
use crate::sync::Arc;

/// A file that is being fetched.
///
/// Dropped before it is kept, it is deleted; its readers get [`BodyCut`](crate::proxy::response_body::BodyCut), unless it was
/// complete: then they read on to its end.
///
/// Always: [`MEDIA_WRITE_BUFFER_BYTES`](crate::limits::MEDIA_WRITE_BUFFER_BYTES) of it are in memory at most.
#[must_use = "dropping it deletes the file"]
pub(crate) struct Unfinished {
    key: FileKey,
    meta: FileMeta,
    head: Head,
    part: Part,
    bytes: WriteBehind,
    accepted: u64,
    complete: bool,
}

/// A file on disk that is deleted unless it is kept.
struct Part {
    shared: Arc<Shared>,
    name: FileName,
    file: OpenFile,
    /// `None` once it is kept.
    room: Option<Room>,
}

impl Unfinished {
    /// Makes the file and writes its head.
    pub(super) async fn begin(shared: Arc<Shared>, key: FileKey, meta: FileMeta) -> Result<Self, StoreFault> {
        let meta = meta.bounded();
        let head = Head::new(&key, &meta).map_err(|error| shared.fault(&error))?;
        let room = Index::room(&shared.index, first_room(&shared, &head))?;
        let name = FileName::fresh(&key);
        let (writer, named, head_bytes) = (Arc::clone(&shared), key.clone(), head.bytes().to_vec());
        let created = off_thread(move || {
            writer.delete_doomed();
            let created = writer.folder.create(&name);
            let file = writer.index.begun(&named, &name, created.map_err(|error| writer.fault(&error))?);
            // From here on it is deleted, should nobody be there any more to take it.
            let part = Part { shared: Arc::clone(&writer), name, file, room: Some(room) };
            part.write(&head_bytes, 0).map_err(|error| writer.fault(&error))?;
            Ok(part)
        });
        let part = created.await.unwrap_or(Err(StoreFault::Io))?;
        let bytes = WriteBehind::new(shared, part.file.clone(), head.length());
        Ok(Self { key, meta, head, part, bytes, accepted: 0, complete: false })
    }

    /// A reader from the first byte on, whenever it comes.
    #[cfg(test)]
    pub(crate) fn reader(&self) -> FileReader {
        self.readers().reader()
    }

    /// Makes readers from the first byte on, where the writer is not at hand.
    pub(crate) fn readers(&self) -> Readers {
        Readers::new(self.part.file.clone(), self.head.length(), self.bytes.follow())
    }

    /// Takes the next bytes. Readers see them as soon as the disk has them; returns earlier, once they fit into the buffer.
    ///
    /// *Errors:* [`StoreFault`], also that of earlier bytes; the file is lost then. *Cancel safety:* none, some of the bytes may
    /// have been taken; drop it. *Blocking:* no.
    pub(crate) async fn write(&mut self, mut bytes: Bytes) -> Result<(), StoreFault> {
        let wanted = self.accepted.saturating_add(to_u64(bytes.len()));
        if wanted > self.part.shared.bounds.max_file {
            return Err(StoreFault::TooLarge);
        }
        self.make_room(wanted)?;
        while !bytes.is_empty() {
            let taken = self.bytes.take_some(&bytes).await?;
            bytes.advance(taken);
            self.accepted += to_u64(taken);
        }
        Ok(())
    }

    /// All bytes were written, and the other server's answer was whole: readers may end now. It still has to be kept.
    ///
    /// *Errors:* [`StoreFault`] of the last bytes. *Cancel safety:* it can be called again. *Blocking:* no.
    pub(crate) async fn complete(&mut self) -> Result<(), StoreFault> {
        self.bytes.written().await?;
        self.bytes.end(Progress::Whole(self.accepted));
        self.complete = true;
        Ok(())
    }

    /// Makes it a stored file, for good: it survives a crash from here on.
    ///
    /// *Errors:* [`StoreFault`]; the file is deleted then, and readers of a complete one read on. *Cancel safety:* it goes on
    /// without its caller. *Blocking:* no.
    pub(crate) async fn keep(self) -> Result<StoredFile, StoreFault> {
        if !self.complete {
            return Err(StoreFault::Incomplete);
        }
        let now = Instant::now();
        off_thread(move || self.keep_here(now)).await.unwrap_or(Err(StoreFault::Io))
    }

    fn keep_here(mut self, now: Instant) -> Result<StoredFile, StoreFault> {
        let shared = Arc::clone(&self.part.shared);
        let (end, extent) = self.head.end(self.accepted, millis(SystemTime::now()));
        let kept = || -> io::Result<()> {
            self.part.write(&end, self.head.length() + self.accepted)?;
            self.part.file.get().ok_or(io::ErrorKind::NotFound)?.sync_all()?;
            shared.folder.finish(&self.part.name)
        };
        kept().map_err(|error| shared.fault(&error))?;
        let entry = Arc::new(Entry {
            key: self.key.clone(),
            name: self.part.name.clone(),
            meta: self.meta.clone(),
            extent,
            expires_at: now + shared.bounds.time_to_live,
        });
        if let Some(room) = self.part.room.take() {
            shared.index.admit(Arc::clone(&entry), room);
        }
        shared.kept();
        shared.delete_doomed();
        shared.sweep_if_due(now);
        Ok(StoredFile::new(shared, entry))
    }

    fn make_room(&mut self, wanted: u64) -> Result<(), StoreFault> {
        let around = self.head.length() + to_u64(END_BYTES);
        let needed = wanted + around;
        let Some(room) = self.part.room.as_mut().filter(|room| room.bytes() < needed) else { return Ok(()) };
        let ahead = needed.clamp(MEDIA_FIRST_ROOM_BYTES, MEDIA_ROOM_STEP_BYTES);
        let at_most = self.part.shared.bounds.max_file + around;
        room.grow_to(needed.saturating_add(ahead).min(at_most)).or_else(|_| room.grow_to(needed))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.bytes.end(Progress::Cut);
    }
}

impl Part {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.shared.write(&self.file, bytes, at)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        let (shared, name) = (Arc::clone(&self.shared), self.name.clone());
        let delete = move || {
            shared.folder.delete(&name, Stage::Part);
            // It may have been renamed before something failed.
            shared.folder.delete(&name, Stage::Whole);
            shared.index.give_up(&name, room);
            // What readers it had may have made room themselves.
            shared.delete_doomed();
        };
        match Handle::try_current() {
            // Detached; a runtime that goes away leaves the file to the next start.
            Ok(runtime) => drop(runtime.spawn_blocking(delete)),
            Err(_) => delete(),
        }
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Unfinished").field("key", &self.key).field("accepted", &self.accepted).finish_non_exhaustive()
    }
}

fn first_room(shared: &Shared, head: &Head) -> u64 {
    let most = shared.bounds.max_file.saturating_add(head.length()).saturating_add(to_u64(END_BYTES));
    most.min(MEDIA_FIRST_ROOM_BYTES)
}

#[cfg(test)]
impl Unfinished {
    /// Waits until the disk has what was written, or refused it.
    pub(super) async fn written(&self) {
        let _ = self.bytes.written().await;
    }
}
