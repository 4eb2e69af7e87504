//! [`StoreOpenError`]: why there is no store, and [`StoreFault`]: why it does not take a file.

use std::io;
use std::path::PathBuf;

/// The folder of the media store cannot be used. The text says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// Another store has it, of this process or of another one.
    #[error("{}: in use by another media store, in this process or another one; give each a folder of its own", .0.display())]
    InUse(PathBuf),
    /// It, or a folder of ours inside, is a symbolic link.
    #[error("{}: a symbolic link; name the folder itself, or remove the link", .0.display())]
    Symlink(PathBuf),
    /// It is something else.
    #[error("{}: not a folder; name one, or a path that does not exist yet", .0.display())]
    NotADirectory(PathBuf),
    /// Somebody else owns it.
    #[error("{}: owned by another user, who could put files there; chown it to the user of this process", .0.display())]
    NotOurs(PathBuf),
    /// Others may write there.
    #[error("{}: others may write there; chmod it to 700", .0.display())]
    WritableByOthers(PathBuf),
    /// The largest file does not fit.
    #[error(
        "a media store of {bytes} bytes does not hold a file of the largest size, {max_file} bytes; raise the one or lower the other"
    )]
    TooSmall {
        /// What the store may take.
        bytes: u64,
        /// The largest file.
        max_file: u64,
    },
    /// The system refuses something.
    #[error("{}: {source}; this process has to be able to write there", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The store does not take a file, or not the rest of it. The server goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreFault {
    /// Unfinished files take all that the store may take.
    #[error("no-room")]
    NoRoom,
    /// The file is larger than any may be.
    #[error("too-large")]
    TooLarge,
    /// The disk, or our share of it, is full.
    #[error("disk-full")]
    DiskFull,
    /// The disk refuses for another reason.
    #[error("io")]
    Io,
    /// Its end was never declared, so it is not kept.
    #[error("incomplete")]
    Incomplete,
}

impl From<io::ErrorKind> for StoreFault {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Io,
        }
    }
}
