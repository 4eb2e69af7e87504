//! [`Left`]: what the index counts beside moka: files to delete, files that are open, and what became of the others.

use std::collections::HashMap;
use std::fs::File;

use moka::notification::RemovalCause;

use super::folder::FileName;
use super::index::{Weights, Why};
use super::key::FileKey;
use super::open_file::Cell;
use super::stored::Entry;
use crate::sync::Arc;

/// Names of files to delete, files that are open, and counts.
#[derive(Default)]
pub(super) struct Left {
    pub(super) doomed: Vec<FileName>,
    /// Files that were taken from their readers, to be closed where that holds nobody up.
    pub(super) closing: Vec<Arc<File>>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// What those weigh.
    pub(super) blocks: u64,
    pub(super) evicted: u64,
    pub(super) expired: u64,
    pub(super) torn: u64,
    /// Files whose readers were cut.
    pub(super) cut: u64,
    open: HashMap<FileName, Open>,
    opened: u64,
}

/// A file that is written or read.
struct Open {
    key: FileKey,
    cell: Arc<Cell>,
    users: u64,
    /// Larger than that of all that were opened before.
    opened: u64,
    standing: Standing,
    blocks: u64,
    bytes: u64,
}

/// What a file that is open counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Nothing but itself: it has no name any more.
    Pinned,
    /// One of those stored.
    Stored,
    /// The room of its writer.
    Growing,
}

/// What the files that are open take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub(super) pinned: u64,
    pub(super) pinned_bytes: u64,
    /// Blocks of those.
    pub(super) pinned_blocks: u64,
    /// Blocks of stored files that are read.
    pub(super) read_blocks: u64,
}

impl Left {
    /// A new file has a writer.
    pub(super) fn begun(&mut self, key: FileKey, name: FileName, cell: Arc<Cell>) {
        let opened = self.next();
        self.open.insert(name, Open { key, cell, users: 1, opened, standing: Standing::Growing, blocks: 0, bytes: 0 });
    }

    /// The stored file of `entry` has a reader more. The file that is to be read: `cell`, or the one that others read already.
    pub(super) fn read(&mut self, entry: &Entry, weights: Weights, cell: Arc<Cell>) -> Arc<Cell> {
        let opened = self.next();
        let (blocks, bytes) = (weights.of_file(entry.file_bytes()), entry.file_bytes());
        let open = self.open.entry(entry.name.clone()).or_insert_with(|| {
            let (key, standing) = (entry.key.clone(), Standing::Stored);
            Open { key, cell, users: 0, opened, standing, blocks, bytes }
        });
        open.users += 1;
        open.opened = opened;
        Arc::clone(&open.cell)
    }

    pub(super) fn one_more(&mut self, name: &FileName) {
        let opened = self.next();
        if let Some(open) = self.open.get_mut(name) {
            open.users += 1;
            open.opened = opened;
        }
    }

    pub(super) fn one_less(&mut self, name: &FileName) {
        let Some(open) = self.open.get_mut(name) else { return };
        open.users -= 1;
        if open.users == 0 {
            self.open.remove(name);
        }
    }

    /// A file is one of those stored from here on.
    pub(super) fn file_came(&mut self, entry: &Entry, weights: Weights) {
        let blocks = weights.of_file(entry.file_bytes());
        self.files += 1;
        self.bytes += entry.file_bytes();
        self.blocks += blocks;
        if let Some(open) = self.open.get_mut(&entry.name) {
            (open.standing, open.blocks, open.bytes) = (Standing::Stored, blocks, entry.file_bytes());
        }
    }

    /// It is not any more.
    pub(super) fn file_left(&mut self, entry: &Entry, weights: Weights, cause: RemovalCause) {
        self.files -= 1;
        self.bytes -= entry.file_bytes();
        self.blocks -= weights.of_file(entry.file_bytes());
        self.evicted += u64::from(cause == RemovalCause::Size);
        self.doomed.push(entry.name.clone());
        if let Some(open) = self.open.get_mut(&entry.name) {
            open.standing = Standing::Pinned;
        }
    }

    /// A file was given up by its writer, which had room for so much.
    pub(super) fn given_up(&mut self, name: &FileName, blocks: u64, bytes: u64) {
        if let Some(open) = self.open.get_mut(name) {
            (open.standing, open.blocks, open.bytes) = (Standing::Pinned, blocks, bytes);
        }
    }

    /// What the files that are open take.
    pub(super) fn taken(&self) -> Taken {
        let mut taken = Taken::default();
        for open in self.open.values() {
            match open.standing {
                Standing::Pinned => {
                    taken.pinned += 1;
                    taken.pinned_bytes += open.bytes;
                    taken.pinned_blocks += open.blocks;
                }
                Standing::Stored => taken.read_blocks += open.blocks,
                Standing::Growing => {}
            }
        }
        taken
    }

    /// Closes one file for all its readers: of those without a name the one that was asked for longest ago, then of those stored.
    /// Says which that was, and whether it is stored; `None` if there is none to close.
    pub(super) fn cut_one(&mut self) -> Option<(FileKey, bool)> {
        let open = self.open.iter().filter(|(_, open)| open.standing != Standing::Growing);
        let name = open.min_by_key(|(_, open)| (open.standing, open.opened)).map(|(name, _)| name.clone())?;
        let open = self.open.remove(&name)?;
        self.closing.extend(open.cell.take());
        self.cut += 1;
        Some((open.key, open.standing == Standing::Stored))
    }

    /// The stored files that are read, as they were asked for, the last one last.
    pub(super) fn stored_and_read(&self) -> Vec<FileKey> {
        let mut read: Vec<_> = self.open.values().filter(|open| open.standing == Standing::Stored).collect();
        read.sort_by_key(|open| open.opened);
        read.into_iter().map(|open| open.key.clone()).collect()
    }

    /// Counts a file that went.
    pub(super) fn count(&mut self, why: Why) {
        match why {
            Why::Expired => self.expired += 1,
            Why::Torn => self.torn += 1,
        }
    }

    fn next(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }
}
