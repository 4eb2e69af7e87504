//! [`MediaStore`]: the door to the stored files.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::disk::write_all_at;
use super::error::{StoreFault, StoreOpenError};
use super::folder::{Folder, Stage};
use super::index::{Index, Why};
use super::key::FileKey;
use super::meta::FileMeta;
use super::open_file::OpenFile;
use super::rebuild::rebuild;
use super::stored::StoredFile;
use super::unfinished::Unfinished;
use super::usage::StoreUsage;
use crate::limits::{MEDIA_FIRST_ROOM_BYTES, MEDIA_SWEEP_INTERVAL};
use crate::sync::{Arc, Mutex};

/// Files of other servers, on disk. A clone is the same store.
///
/// Always: finished files, unfinished ones and deleted ones that are still read take at most the bytes it was given, all
/// together and whatever order things happen in (`no_order_of_operations_passes_the_bound`). Never: a file is given out that is not whole (`a_torn_file_is_never_served`).
#[derive(Clone)]
pub(crate) struct MediaStore {
    shared: Arc<Shared>,
}

/// Where files are stored, how many, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct StoreBounds {
    /// The folder. Made if it is not there; used by one process at a time.
    pub(crate) dir: PathBuf,
    /// Most bytes of finished and unfinished files together.
    pub(crate) bytes: u64,
    /// How long a file is given out.
    pub(crate) time_to_live: Duration,
    /// Largest file, in bytes.
    pub(crate) max_file: u64,
}

/// What the store, its files and their writers share.
pub(super) struct Shared {
    pub(super) folder: Folder,
    pub(super) index: Arc<Index>,
    pub(super) bounds: StoreBounds,
    /// The fault that was warned about, until a file is kept again.
    outage: Mutex<Option<StoreFault>>,
    swept_at: Mutex<Instant>,
    /// What a full disk looks like from here.
    #[cfg(test)]
    pub(super) write_fails: Mutex<Option<io::ErrorKind>>,
}

/// Longest time to live: a clock can be asked about the end of it.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl MediaStore {
    /// Whether a store could be opened in `dir`, which is there, if no other process has one. Nothing is left behind.
    ///
    /// *Errors:* [`StoreOpenError`]. *Panics:* never. *Blocking:* yes, a moment.
    #[cfg(feature = "server")]
    pub(crate) fn judge_folder(dir: &std::path::Path) -> Result<(), StoreOpenError> {
        Folder::judge(dir)
    }

    /// Opens the store, makes its folder if need be, and finds again what an earlier process stored there.
    ///
    /// *Errors:* [`StoreOpenError`]. *Panics:* never. *Blocking:* yes, some 20 µs for each stored file.
    pub(crate) fn open(bounds: StoreBounds) -> Result<Self, StoreOpenError> {
        Self::open_at(bounds, SystemTime::now())
    }

    /// The same, as of `now` by the clock on the wall.
    pub(super) fn open_at(mut bounds: StoreBounds, now: SystemTime) -> Result<Self, StoreOpenError> {
        bounds.time_to_live = bounds.time_to_live.min(LONGEST);
        let index = Index::new(bounds.bytes);
        // The head and the end of a file are less than the first room.
        if bounds.max_file.saturating_add(MEDIA_FIRST_ROOM_BYTES) > bounds.bytes {
            return Err(StoreOpenError::TooSmall { bytes: bounds.bytes, max_file: bounds.max_file });
        }
        let folder = Folder::open(&bounds.dir)?;
        rebuild(&folder, &index, &bounds, now)?;
        let shared = Shared {
            folder,
            index: Arc::new(index),
            bounds,
            outage: Mutex::default(),
            swept_at: Mutex::new(Instant::now()),
            #[cfg(test)]
            write_fails: Mutex::default(),
        };
        shared.delete_doomed();
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The file of `key`, if it is stored and its time is not over. *Blocking:* no; it asks no disk.
    pub(crate) fn find(&self, key: &FileKey) -> Option<StoredFile> {
        self.shared.index.find(key).map(|entry| StoredFile::new(Arc::clone(&self.shared), entry))
    }

    /// Begins a file.
    ///
    /// *Errors:* [`StoreFault`]. *Cancel safety:* dropping the future leaves nothing behind. *Blocking:* no.
    pub(crate) async fn begin(&self, key: FileKey, meta: FileMeta) -> Result<Unfinished, StoreFault> {
        Unfinished::begin(Arc::clone(&self.shared), key, meta).await
    }

    /// Deletes the files whose time is over. Done along with keeping a file too, once a minute at most; who keeps none for
    /// long calls this.
    ///
    /// *Cancel safety:* it goes on without its caller. *Blocking:* no.
    pub(crate) async fn sweep(&self) {
        let shared = Arc::clone(&self.shared);
        let now = Instant::now();
        let _ = off_thread(move || shared.sweep(now)).await;
    }

    /// Deletes every file, however fresh, as if the store were new. *Blocking:* yes.
    #[cfg(feature = "server")]
    pub(crate) fn empty(&self) {
        let now = Instant::now();
        // A clock that was paused may have run far ahead.
        self.shared.sweep(now + LONGEST + LONGEST);
        *self.shared.swept_at.lock() = now;
    }

    /// Largest file it takes, in bytes.
    pub(crate) fn max_file_bytes(&self) -> u64 {
        self.shared.bounds.max_file
    }

    /// What the store holds. *Blocking:* no.
    pub(crate) fn usage(&self) -> StoreUsage {
        self.shared.index.usage()
    }
}

impl Shared {
    /// Deletes what the index no longer holds, and closes what was taken from its readers. *Blocking:* yes.
    pub(super) fn delete_doomed(&self) {
        for name in self.index.take_doomed() {
            self.folder.delete(&name, Stage::Whole);
        }
        drop(self.index.take_closing());
    }

    /// Deletes the files whose time is over at `now`. *Blocking:* yes.
    pub(super) fn sweep(&self, now: Instant) {
        *self.swept_at.lock() = now;
        for entry in self.index.expired(now) {
            self.index.forget(&entry, Why::Expired);
        }
        self.delete_doomed();
    }

    /// The same, if it was not done lately. *Blocking:* yes.
    pub(super) fn sweep_if_due(&self, now: Instant) {
        let due = now.saturating_duration_since(*self.swept_at.lock()) >= MEDIA_SWEEP_INTERVAL;
        if due {
            self.sweep(now);
        }
    }

    /// Writes all of `bytes`. *Blocking:* yes.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "a test makes the disk of one store fail"))]
    pub(super) fn write(&self, file: &OpenFile, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some(kind) = *self.write_fails.lock() {
            return Err(kind.into());
        }
        write_all_at(&*file.get().ok_or(io::ErrorKind::NotFound)?, bytes, at)
    }

    /// The fault behind `error`, warned about once: when it begins, not for each file that meets it.
    pub(super) fn fault(&self, error: &io::Error) -> StoreFault {
        let fault = StoreFault::from(error.kind());
        if self.outage.lock().replace(fault) != Some(fault) {
            let dir = self.bounds.dir.display();
            tracing::warn!(target: "portcullis::media", %dir, %fault, %error, "media of other servers cannot be stored, and is not fetched");
        }
        fault
    }

    /// A file was kept: the disk takes bytes.
    pub(super) fn kept(&self) {
        if self.outage.lock().take().is_some() {
            let dir = self.bounds.dir.display();
            tracing::info!(target: "portcullis::media", %dir, "media of other servers is stored again");
        }
    }
}

impl fmt::Debug for MediaStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MediaStore").field("bounds", &self.shared.bounds).finish_non_exhaustive()
    }
}

/// Runs `work`, which asks the disk, where it holds nobody up: on a thread for such work of the runtime that asks. Without a
/// runtime there is only the thread that asks.
///
/// It runs to its end also if the future is dropped. *Errors:* it did not run, because the runtime goes away.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await,
        Err(_) => Ok(work()),
    }
}

/// `time` as a file says it.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl MediaStore {
    /// From now on the disk refuses every write like this.
    pub(crate) fn fail_writes(&self, kind: Option<io::ErrorKind>) {
        *self.shared.write_fails.lock() = kind;
    }
}
