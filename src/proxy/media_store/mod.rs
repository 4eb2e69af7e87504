//! Files of other servers, on disk: bounded, short-lived, never torn.
//!
//! ```text
//!  begin ─► Unfinished ─ write … write ─ complete ─ keep ─► in the index ─ find ─► StoredFile ─ open ─► FileReader
//!              │  <hash>-<random>.part        fsync, rename to .media, fsync of the folder                (whole, a range)
//!              └─ reader() ─► FileReader, any number of them, each behind the writer at its own pace
//! ```
//!
//! The fetch writes the file and nothing else; every client, the first one too, reads behind it. So a slow client holds one
//! piece of the file and stalls nobody.
//!
//! - A name is the hash of what the file is, and a random number for the fetch that brought it. Nothing a stranger sends is
//!   ever part of a path, and deleting an old copy never hits a new one.
//! - A file is served if its head, its end and its length agree, and under no other name than its own. One that was cut off
//!   by a crash is still called `.part`, or disagrees; both are deleted at the next start.
//! - Unfinished files count, and so do files that were deleted while somebody reads them. Together with the finished ones they
//!   never take more than the store was given: a file that grows pushes out those not used for longest, at last those that
//!   are read, whose readers are cut; it is refused when all there is are unfinished ones.
//! - What is not named like ours is left alone.

mod blocking_reader;
mod disk;
mod error;
mod folder;
mod format;
mod index;
mod key;
mod latest;
mod left;
mod meta;
mod open_file;
mod place;
mod progress;
mod reader;
mod readers;
mod rebuild;
mod store;
mod stored;
mod unfinished;
mod usage;
mod write_behind;

pub(crate) use blocking_reader::BlockingFileReader;
pub(crate) use error::StoreFault;
pub use error::StoreOpenError;
pub(crate) use key::FileKey;
pub(crate) use meta::FileMeta;
pub(crate) use reader::FileReader;
pub(crate) use readers::Readers;
pub(crate) use store::{MediaStore, StoreBounds};
pub(crate) use stored::StoredFile;
pub(crate) use unfinished::Unfinished;
pub use usage::StoreUsage;

#[cfg(test)]
mod tests;
