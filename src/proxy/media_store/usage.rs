//! [`StoreUsage`]: what the media store holds.

use serde::Serialize;

/// What the media store holds, and what became of what it held. Making one asks no disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreUsage {
    /// Finished files.
    pub files: u64,
    /// Their bytes on disk, heads and ends included.
    pub bytes: u64,
    /// Files that are being fetched.
    pub unfinished: u64,
    /// Room taken for those, in bytes.
    pub unfinished_bytes: u64,
    /// Files that are no longer stored and still read, which keeps their bytes on the disk.
    pub pinned: u64,
    /// Their bytes on disk.
    pub pinned_bytes: u64,
    /// Most bytes of all three.
    pub max_bytes: u64,
    /// Files that had to make room, since the start.
    pub evicted: u64,
    /// Files deleted because their time was over, since the start; those found so at the start included.
    pub expired: u64,
    /// Files deleted because they were not whole or not what they should be, since the start; those found at the start
    /// included.
    pub torn: u64,
    /// Files whose readers were cut because nothing else was left to make room, since the start.
    pub cut: u64,
}
