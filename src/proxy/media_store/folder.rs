//! [`Folder`]: where the files lie and what they are called. Only what is named like ours is ever touched.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::StoreOpenError;
use super::key::{FileKey, is_hex};
use crate::sync::{Arc, AtomicBool, Ordering};

const LOCK: &str = "lock";
const PART: &str = "part";
const WHOLE: &str = "media";
const SUFFIX_BYTES: usize = 16;
const SHARD_BYTES: usize = 2;

/// The name of one file: its key, and a random number for the fetch that brought it. No two fetches share a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileName(Arc<str>);

/// How far a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Being written; worthless after a restart.
    Part,
    /// Whole.
    Whole,
}

/// A folder that this process alone uses, as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    deleting_fails: AtomicBool,
    _lock: File,
}

impl FileName {
    /// A name that no file has.
    pub(super) fn fresh(key: &FileKey) -> Self {
        Self(format!("{}-{:016x}", key.name(), rand::random::<u64>()).into())
    }

    /// The name of `file_name`, if it is one of ours.
    pub(super) fn parse(file_name: &str) -> Option<(Self, Stage)> {
        let (name, extension) = file_name.split_once('.')?;
        let stage = match extension {
            PART => Stage::Part,
            WHOLE => Stage::Whole,
            _ => return None,
        };
        let (key, suffix) = name.split_once('-')?;
        let ours = is_hex(key, FileKey::NAME_BYTES) && is_hex(suffix, SUFFIX_BYTES);
        ours.then(|| (Self(name.into()), stage))
    }

    /// Whether it is a name for the file of `key`.
    pub(super) fn is_for(&self, key: &FileKey) -> bool {
        self.0.split_once('-').is_some_and(|(name, _)| name == key.name())
    }

    /// The folder it lies in.
    pub(super) fn shard(&self) -> &str {
        self.0.get(..SHARD_BYTES).unwrap_or_default()
    }
}

impl Folder {
    /// Makes `root` if it is not there, checks that nobody else can write there, and locks it. *Blocking:* yes.
    pub(super) fn open(root: &Path) -> Result<Self, StoreOpenError> {
        let touched = |path: &Path, source| StoreOpenError::Io { path: path.to_owned(), source };
        if let Err(error) = private().recursive(true).create(root)
            && fs::symlink_metadata(root).is_err()
        {
            return Err(touched(root, error));
        }
        Self::judge(root)?;
        let at = root.join(LOCK);
        // At once: somebody's pipe of that name would wait for a reader.
        let mut options = OpenOptions::new();
        let lock = owner::at_once(owner::only(options.create(true).truncate(false).write(true))).open(&at);
        let lock = lock.map_err(|error| touched(&at, error))?;
        if !lock.metadata().map_err(|error| touched(&at, error))?.is_file() {
            return Err(touched(&at, io::Error::other("not a file")));
        }
        match lock.try_lock() {
            Ok(()) => {
                let folder = Self { root: root.to_owned(), deleting_fails: AtomicBool::new(false), _lock: lock };
                folder.make_shards().map_err(|error| touched(root, error))?;
                Ok(folder)
            }
            Err(TryLockError::WouldBlock) => Err(StoreOpenError::InUse(root.to_owned())),
            Err(TryLockError::Error(error)) => Err(touched(&at, error)),
        }
    }

    /// Whether `root`, which is there, is a folder that only this process's user can write to. *Blocking:* yes.
    pub(super) fn judge(root: &Path) -> Result<(), StoreOpenError> {
        let found =
            fs::symlink_metadata(root).map_err(|source| StoreOpenError::Io { path: root.to_owned(), source })?;
        if found.is_symlink() {
            return Err(StoreOpenError::Symlink(root.to_owned()));
        }
        if !found.is_dir() {
            return Err(StoreOpenError::NotADirectory(root.to_owned()));
        }
        owner::check(root, &found)
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the file `name` is.
    pub(super) fn path(&self, name: &FileName, stage: Stage) -> PathBuf {
        let extension = match stage {
            Stage::Part => PART,
            Stage::Whole => WHOLE,
        };
        self.root.join(name.shard()).join(format!("{}.{extension}", name.0))
    }

    /// A new file, for reading and writing, that nobody else can open. *Blocking:* yes.
    pub(super) fn create(&self, name: &FileName) -> io::Result<File> {
        let path = self.path(name, Stage::Part);
        let create = || owner::only(OpenOptions::new().read(true).write(true).create_new(true)).open(&path);
        match create() {
            // Somebody took its folder away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_shards()?;
                create()
            }
            created => created,
        }
    }

    /// Makes the folders that are not there: no file has to wait for one later. *Blocking:* yes.
    pub(super) fn make_shards(&self) -> io::Result<()> {
        let mut made = false;
        for number in 0..=u8::MAX {
            match private().create(self.root.join(format!("{number:02x}"))) {
                Ok(()) => made = true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        if made { sync_folder(&self.root) } else { Ok(()) }
    }

    /// The whole file `name`. *Blocking:* yes, for the disk alone: what somebody put in its place is not waited for.
    ///
    /// *Errors:* `InvalidData` if what is there is no file.
    pub(super) fn open_whole(&self, name: &FileName) -> io::Result<File> {
        let path = self.path(name, Stage::Whole);
        match owner::at_once(OpenOptions::new().read(true)).open(&path) {
            Ok(file) if file.metadata()?.is_file() => Ok(file),
            Err(error) if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) => {
                Err(error)
            }
            Err(error) if fs::symlink_metadata(&path)?.is_file() => Err(error),
            Ok(_) | Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Turns a part, whose bytes have reached the disk, into a whole file for good. *Blocking:* yes.
    pub(super) fn finish(&self, name: &FileName) -> io::Result<()> {
        fs::rename(self.path(name, Stage::Part), self.path(name, Stage::Whole))?;
        sync_folder(&self.root.join(name.shard()))
    }

    /// Deletes a file, if it is there. One that cannot be deleted is warned about once, until another can. *Blocking:* yes.
    pub(super) fn delete(&self, name: &FileName, stage: Stage) {
        let path = self.path(name, stage);
        let fails = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some(error),
            Ok(()) | Err(_) => None,
        };
        let failed = self.deleting_fails.swap(fails.is_some(), Ordering::Relaxed);
        if let Some(error) = fails.filter(|_| !failed) {
            let path = path.display();
            tracing::warn!(target: "portcullis::media", %path, %error, "stored media cannot be deleted, and takes more of the disk than it may");
        }
    }

    /// Whether this is the lock.
    pub(super) fn is_lock(file_name: &str) -> bool {
        file_name == LOCK
    }

    /// Whether this is a folder that files of ours lie in.
    pub(super) fn is_shard(file_name: &str) -> bool {
        is_hex(file_name, SHARD_BYTES)
    }
}

#[cfg(unix)]
fn private() -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt as _;

    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(not(unix))]
fn private() -> DirBuilder {
    DirBuilder::new()
}

/// Makes the names in `folder` last. *Blocking:* yes.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A folder cannot be opened as a file here; the file system's journal has to do.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
mod owner {
    use std::fs::{self, Metadata, OpenOptions, Permissions};
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::StoreOpenError;
    use crate::proxy::media_store::key::hex;

    const OTHERS_WRITE: u32 = 0o022;

    /// Whether only the user of this process can put files there.
    pub(super) fn check(root: &Path, found: &Metadata) -> Result<(), StoreOpenError> {
        if found.mode() & OTHERS_WRITE != 0 {
            return Err(StoreOpenError::WritableByOthers(root.to_owned()));
        }
        // A file of ours has our user: the system says who that is, and that we can write there.
        let probe = root.join(format!("probe-{}", hex(&rand::random::<[u8; 16]>())));
        let touched = |source| StoreOpenError::Io { path: root.to_owned(), source };
        let file = only(OpenOptions::new().write(true).create_new(true)).open(&probe).map_err(touched)?;
        let owner = file.metadata().map(|probe| probe.uid());
        fs::remove_file(&probe).map_err(touched)?;
        if owner.map_err(touched)? == found.uid() { Ok(()) } else { Err(StoreOpenError::NotOurs(root.to_owned())) }
    }

    /// Makes a new file readable and writable for its owner alone.
    pub(super) fn only(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600)
    }

    /// Opens without waiting for who is at the other end of a pipe, and follows no link.
    pub(super) fn at_once(options: &mut OpenOptions) -> &mut OpenOptions {
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits();
        options.custom_flags(i32::try_from(flags).unwrap_or_default())
    }

    /// Makes a folder of ours one that nobody else can look into, should it not be.
    pub(in super::super) fn close(folder: &Path, found: &Metadata) -> std::io::Result<()> {
        if found.mode() & 0o777 == 0o700 {
            return Ok(());
        }
        fs::set_permissions(folder, Permissions::from_mode(0o700))
    }
}

#[cfg(not(unix))]
mod owner {
    use std::fs::{Metadata, OpenOptions};
    use std::path::Path;

    use super::StoreOpenError;

    /// Who may write where is not for this process to know here.
    pub(super) fn check(_root: &Path, _found: &Metadata) -> Result<(), StoreOpenError> {
        Ok(())
    }

    pub(super) fn only(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(super) fn at_once(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(in super::super) fn close(_folder: &Path, _found: &Metadata) -> std::io::Result<()> {
        Ok(())
    }
}

/// Makes a folder of ours one that nobody else can look into, should it not be. *Blocking:* yes.
pub(super) fn close_to_others(folder: &Path, found: &fs::Metadata) -> io::Result<()> {
    owner::close(folder, found)
}
