//! [`Index`]: which files are stored, and room for them and for those that are still coming.
//!
//! moka keeps the order of use and pushes out what was not used for longest. The room of all unfinished files together is
//! one more entry in it, made the newest whenever it changes: so a file that grows pushes out finished ones by the same rule
//! as a file that comes, and the two together cannot pass the bound.

use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

use super::error::StoreFault;
use super::folder::FileName;
use super::key::FileKey;
use super::stored::Entry;
use super::usage::StoreUsage;
use crate::limits::{MEDIA_BLOCK_BYTES, MEDIA_STORED_FILES};
use crate::sync::{Arc, Mutex};

/// Times moka is asked to evict before a file is refused. It evicts hundreds at a time.
const ROUNDS: usize = 64;

/// The files stored, least recently used first out.
///
/// Always: whenever no call is in progress, the weights of finished and unfinished files together are at most the bound
/// (`no_order_of_operations_passes_the_bound`).
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
struct Weights {
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

/// What is no longer held: names of files to delete, and counts.
#[derive(Debug, Default)]
struct Left {
    doomed: Vec<FileName>,
    files: u64,
    bytes: u64,
    evicted: u64,
    expired: u64,
    torn: u64,
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
                    leaving.lock().file_left(&entry, cause);
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
        let _changing = self.unfinished.lock();
        if self.entry(&entry.key).is_some_and(|held| held.name == entry.name) {
            self.cache.invalidate(&Place::File(entry.key.clone()));
            self.cache.run_pending_tasks();
            self.count(why);
        }
    }

    /// Counts a file that was never held.
    pub(super) fn count(&self, why: Why) {
        let mut left = self.left.lock();
        match why {
            Why::Expired => left.expired += 1,
            Why::Torn => left.torn += 1,
        }
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

    /// What is held.
    pub(super) fn usage(&self) -> StoreUsage {
        let unfinished = self.unfinished.lock();
        let left = self.left.lock();
        StoreUsage {
            files: left.files,
            bytes: left.bytes,
            unfinished: unfinished.files,
            unfinished_bytes: unfinished.blocks * MEDIA_BLOCK_BYTES,
            max_bytes: self.weights.most * MEDIA_BLOCK_BYTES,
            evicted: left.evicted,
            expired: left.expired,
            torn: left.torn,
        }
    }

    fn entry(&self, key: &FileKey) -> Option<Arc<Entry>> {
        match self.cache.get(&Place::File(key.clone()))? {
            Holding::File(entry) => Some(entry),
            Holding::Unfinished(_) => None,
        }
    }

    fn insert(&self, entry: Arc<Entry>) {
        {
            let mut left = self.left.lock();
            left.files += 1;
            left.bytes += entry.file_bytes();
        }
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

    /// Evicts until the files and `unfinished` blocks fit; says whether they do.
    fn settle(&self, unfinished: u64) -> bool {
        for _ in 0..ROUNDS {
            self.cache.insert(Place::Unfinished, Holding::Unfinished(unfinished));
            self.cache.run_pending_tasks();
            // Files that are read meanwhile become newer than the room, so it may have gone in their stead.
            if self.cache.contains_key(&Place::Unfinished) && self.cache.weighted_size() <= self.weights.most {
                return true;
            }
        }
        false
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
    fn of_file(self, bytes: u64) -> u64 {
        bytes.div_ceil(MEDIA_BLOCK_BYTES).max(self.least_of_a_file)
    }
}

impl Left {
    fn file_left(&mut self, entry: &Entry, cause: RemovalCause) {
        self.files -= 1;
        self.bytes -= entry.file_bytes();
        self.evicted += u64::from(cause == RemovalCause::Size);
        self.doomed.push(entry.name.clone());
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
