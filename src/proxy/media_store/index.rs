//! [`Index`]: which files are stored, and room for them and for those that are still coming.
//!
//! moka keeps the order of use and pushes out what was not used for longest. The room of all unfinished files together is
//! one more entry in it, made the newest whenever it changes: so a file that grows pushes out finished ones by the same rule
//! as a file that comes, and the two together cannot pass the bound. Files that are read but no longer stored lie on the disk
//! until they are closed, and weigh there too.

use std::fs::File;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

use super::error::StoreFault;
use super::folder::FileName;
use super::key::FileKey;
use super::left::Left;
use super::open_file::{Cell, OpenFile};
use super::stored::Entry;
use super::usage::StoreUsage;
use crate::limits::{MEDIA_BLOCK_BYTES, MEDIA_STORED_FILES};
use crate::sync::{Arc, Mutex};

/// Times moka is asked to evict before a file is refused. It evicts hundreds at a time.
const ROUNDS: usize = 64;
/// Files named as used before moka is made to note it: it keeps some 380 such notes, and drops the next.
const NOTED: usize = 64;

/// The files stored, least recently used first out.
///
/// Always: whenever no call is in progress, the weights of finished files, of unfinished ones, and of those that are gone but
/// still read, are at most the bound, all together (`no_order_of_operations_passes_the_bound`). Room is made by files that
/// nobody reads, the one not used for longest first; only when there are none by cutting readers.
pub(super) struct Index {
    cache: Cache<Place, Holding>,
    /// Room of all unfinished files, in blocks. Whoever changes what is held holds this; nothing else is done meanwhile.
    unfinished: Mutex<Unfinished>,
    /// Locked last, under the other and moka's own, and for a few additions only.
    left: Arc<Mutex<Left>>,
    weights: Weights,
}

/// What files weigh: blocks of the disk, and never less than their share of the number of files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    most: u64,
    least_of_a_file: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    File(FileKey),
    Unfinished,
}

#[derive(Clone)]
enum Holding {
    File(Arc<Entry>),
    Unfinished(u64),
}

#[derive(Debug, Default)]
struct Unfinished {
    files: u64,
    blocks: u64,
}

/// Why a file is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Expired,
    Torn,
}

/// Room for one unfinished file. Dropping it gives the room back.
#[must_use]
pub(super) struct Room {
    index: Arc<Index>,
    blocks: u64,
}

impl Index {
    /// An empty index for files of at most `max_bytes` in all.
    pub(super) fn new(max_bytes: u64) -> Self {
        // One entry weighs 2^32 blocks at most, 16 TiB; so much of a larger store is used.
        let most = (max_bytes / MEDIA_BLOCK_BYTES).min(u64::from(u32::MAX));
        let weights = Weights { most, least_of_a_file: (most / MEDIA_STORED_FILES).max(1) };
        let left = Arc::new(Mutex::new(Left::default()));
        let leaving = Arc::clone(&left);
        let cache = Cache::builder()
            .max_capacity(most)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(move |_: &Place, holding: &Holding| {
                let blocks = match holding {
                    Holding::File(entry) => weights.of_file(entry.file_bytes()),
                    Holding::Unfinished(blocks) => *blocks,
                };
                u32::try_from(blocks).unwrap_or(u32::MAX)
            })
            .eviction_listener(move |_, holding, cause| {
                if let Holding::File(entry) = holding {
                    leaving.lock().file_left(&entry, weights, cause);
                }
            })
            .build();
        Self { cache, unfinished: Mutex::default(), left, weights }
    }

    /// The file of `key`, if its time is not over. It counts as used. *Blocking:* no.
    pub(super) fn find(&self, key: &FileKey) -> Option<Arc<Entry>> {
        self.entry(key).filter(|entry| entry.is_fresh(Instant::now()))
    }

    /// Room for a new file of at least `bytes`.
    pub(super) fn room(index: &Arc<Self>, bytes: u64) -> Result<Room, StoreFault> {
        let blocks = index.weights.of_file(bytes);
        let mut unfinished = index.unfinished.lock();
        index.take(&mut unfinished, blocks)?;
        unfinished.files += 1;
        Ok(Room { index: Arc::clone(index), blocks })
    }

    /// Makes the file that `room` was for one of those stored, in place of an older one. Its room is given back.
    pub(super) fn admit(&self, entry: Arc<Entry>, mut room: Room) {
        let mut unfinished = self.unfinished.lock();
        unfinished.give_back(&mut room.blocks);
        // First the room, so that the file, which takes no more than that, finds it free and nothing has to go.
        self.settle(unfinished.blocks);
        self.insert(entry);
        self.settle(unfinished.blocks);
    }

    /// Makes a file that lay in the folder already one of those stored, newer than all before.
    pub(super) fn admit_found(&self, entry: Arc<Entry>) {
        let unfinished = self.unfinished.lock();
        self.insert(entry);
        self.settle(unfinished.blocks);
    }

    /// Forgets `entry`, unless it was replaced meanwhile. Its file is to be deleted.
    pub(super) fn forget(&self, entry: &Entry, why: Why) {
        let changing = self.unfinished.lock();
        if self.entry(&entry.key).is_some_and(|held| held.name == entry.name) {
            self.cache.invalidate(&Place::File(entry.key.clone()));
            self.cache.run_pending_tasks();
            self.count(why);
            // It weighs on, elsewhere, while it is read.
            self.settle(changing.blocks);
        }
    }

    /// A new file, for its writer and those who read behind it.
    pub(super) fn begun(&self, key: &FileKey, name: &FileName, file: File) -> OpenFile {
        let cell = Cell::new(file);
        self.left.lock().begun(key.clone(), name.clone(), Arc::clone(&cell));
        OpenFile::counted(Arc::clone(&self.left), name.clone(), cell)
    }

    /// The file of `entry`, which lies in `file`, for a reader; `None` if it had to go meanwhile.
    pub(super) fn read(&self, entry: &Entry, file: File) -> Option<OpenFile> {
        let cell = Cell::new(file);
        let _changing = self.unfinished.lock();
        self.entry(&entry.key).filter(|held| held.name == entry.name)?;
        let cell = self.left.lock().read(entry, self.weights, cell);
        Some(OpenFile::counted(Arc::clone(&self.left), entry.name.clone(), cell))
    }

    /// Gives the room of a file back that is deleted; those who read it weigh on.
    pub(super) fn give_up(&self, name: &FileName, mut room: Room) {
        let mut unfinished = self.unfinished.lock();
        let (blocks, bytes) = (room.blocks, room.bytes());
        unfinished.give_back(&mut room.blocks);
        self.left.lock().given_up(name, blocks, bytes);
        self.settle(unfinished.blocks);
    }

    /// Counts a file that was never held.
    pub(super) fn count(&self, why: Why) {
        self.left.lock().count(why);
    }

    /// The files whose time is over at `now`.
    pub(super) fn expired(&self, now: Instant) -> Vec<Arc<Entry>> {
        let held = self.cache.iter().filter_map(|(_, holding)| match holding {
            Holding::File(entry) => Some(entry),
            Holding::Unfinished(_) => None,
        });
        held.filter(|entry| !entry.is_fresh(now)).collect()
    }

    /// The files that are no longer held since this was asked last, to be deleted.
    pub(super) fn take_doomed(&self) -> Vec<FileName> {
        std::mem::take(&mut self.left.lock().doomed)
    }

    /// The files that were taken from their readers since this was asked last. Dropping them closes them.
    pub(super) fn take_closing(&self) -> Vec<Arc<File>> {
        std::mem::take(&mut self.left.lock().closing)
    }

    /// What is held.
    pub(super) fn usage(&self) -> StoreUsage {
        let unfinished = self.unfinished.lock();
        let left = self.left.lock();
        let taken = left.taken();
        StoreUsage {
            files: left.files,
            bytes: left.bytes,
            unfinished: unfinished.files,
            unfinished_bytes: unfinished.blocks * MEDIA_BLOCK_BYTES,
            pinned: taken.pinned,
            pinned_bytes: taken.pinned_bytes,
            max_bytes: self.weights.most * MEDIA_BLOCK_BYTES,
            evicted: left.evicted,
            expired: left.expired,
            torn: left.torn,
            cut: left.cut,
        }
    }

    fn entry(&self, key: &FileKey) -> Option<Arc<Entry>> {
        match self.cache.get(&Place::File(key.clone()))? {
            Holding::File(entry) => Some(entry),
            Holding::Unfinished(_) => None,
        }
    }

    fn insert(&self, entry: Arc<Entry>) {
        self.left.lock().file_came(&entry, self.weights);
        self.cache.insert(Place::File(entry.key.clone()), Holding::File(entry));
    }

    fn take(&self, unfinished: &mut Unfinished, blocks: u64) -> Result<(), StoreFault> {
        let wanted = unfinished.blocks.saturating_add(blocks);
        if wanted > self.weights.most {
            return Err(StoreFault::NoRoom);
        }
        if !self.settle(wanted) {
            self.settle(unfinished.blocks);
            return Err(StoreFault::NoRoom);
        }
        unfinished.blocks = wanted;
        Ok(())
    }

    /// Evicts until the files, those that are gone but read, and `unfinished` blocks fit; says whether they do.
    fn settle(&self, unfinished: u64) -> bool {
        for _ in 0..ROUNDS {
            let beside = unfinished + self.spare_what_is_read(unfinished);
            self.cache.insert(Place::Unfinished, Holding::Unfinished(beside));
            self.cache.run_pending_tasks();
            let fits = self.cache.contains_key(&Place::Unfinished) && self.cache.weighted_size() <= self.weights.most;
            // Files that are found meanwhile become newer than the room, so it may have gone in their stead, or one that is
            // read.
            if fits && unfinished + self.left.lock().taken().pinned_blocks <= beside {
                return true;
            }
        }
        false
    }

    /// Cuts readers until what is left to them fits beside `unfinished` blocks, and makes the files they read the newest if
    /// others have to go. Says how many blocks those take that are read and not stored.
    fn spare_what_is_read(&self, unfinished: u64) -> u64 {
        let mut left = self.left.lock();
        let mut gone = Vec::new();
        let mut taken = left.taken();
        while unfinished + taken.pinned_blocks + taken.read_blocks > self.weights.most {
            let Some((key, stored)) = left.cut_one() else { break };
            if stored {
                left.evicted += 1;
                gone.push(key);
            }
            taken = left.taken();
        }
        let full = unfinished + taken.pinned_blocks + left.blocks > self.weights.most;
        let spared = if full { left.stored_and_read() } else { Vec::new() };
        // moka, asked for anything, may call for this lock.
        drop(left);
        for key in gone {
            self.cache.invalidate(&Place::File(key));
        }
        for some in spared.chunks(NOTED) {
            for key in some {
                self.cache.get(&Place::File(key.clone()));
            }
            self.cache.run_pending_tasks();
        }
        taken.pinned_blocks
    }
}

impl Unfinished {
    /// Takes the `blocks` of a file back, once.
    fn give_back(&mut self, blocks: &mut u64) -> bool {
        let given = std::mem::take(blocks);
        // No file has less than one.
        self.files -= u64::from(given > 0);
        self.blocks -= given;
        given > 0
    }
}

impl Weights {
    pub(super) fn of_file(self, bytes: u64) -> u64 {
        bytes.div_ceil(MEDIA_BLOCK_BYTES).max(self.least_of_a_file)
    }
}

impl Room {
    /// Makes it at least as large as `bytes`.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), StoreFault> {
        let Some(more) = self.index.weights.of_file(bytes).checked_sub(self.blocks).filter(|more| *more > 0) else {
            return Ok(());
        };
        let mut unfinished = self.index.unfinished.lock();
        self.index.take(&mut unfinished, more)?;
        self.blocks += more;
        Ok(())
    }

    /// How large it is.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * MEDIA_BLOCK_BYTES
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut unfinished = self.index.unfinished.lock();
        if unfinished.give_back(&mut self.blocks) {
            self.index.settle(unfinished.blocks);
        }
    }
}

#[cfg(test)]
mod tests;
