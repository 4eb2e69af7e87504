//! Finds again what an earlier process stored, and deletes what it left unfinished.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::error::StoreOpenError;
use super::folder::{FileName, Folder, Stage, close_to_others};
use super::format::{Inspected, inspect};
use super::index::{Index, Why};
use super::store::{StoreBounds, millis};
use super::stored::Entry;
use crate::sync::Arc;

/// Puts what is whole and not too old into `index`, oldest first, and deletes the rest of what is ours. *Blocking:* yes.
pub(super) fn rebuild(
    folder: &Folder,
    index: &Index,
    bounds: &StoreBounds,
    now: SystemTime,
) -> Result<(), StoreOpenError> {
    let mut survey = Survey::default();
    survey.look_through(folder, index, bounds)?;
    survey.admit(folder, index, bounds, millis(now));
    survey.report(folder);
    Ok(())
}

/// What lies in the folder.
#[derive(Default)]
struct Survey {
    whole: Vec<(FileName, Inspected)>,
    unfinished: u64,
    torn: u64,
    foreign: u64,
    first_foreign: Option<PathBuf>,
}

impl Survey {
    fn look_through(&mut self, folder: &Folder, index: &Index, bounds: &StoreBounds) -> Result<(), StoreOpenError> {
        for entry in entries(folder.root())? {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            if Folder::is_lock(name) {
                continue;
            }
            if !Folder::is_shard(name) {
                self.leave_alone(path);
                continue;
            }
            let found = fs::symlink_metadata(&path).map_err(|error| touched(&path, error))?;
            if found.is_symlink() {
                return Err(StoreOpenError::Symlink(path));
            }
            if !found.is_dir() {
                return Err(StoreOpenError::NotADirectory(path));
            }
            close_to_others(&path, &found).map_err(|error| touched(&path, error))?;
            for file in entries(&path)? {
                // One that cannot be read stops nobody; it is not ours to use.
                if let Err(error) = self.look_at(folder, index, bounds, name, &file) {
                    let path = file.path();
                    tracing::warn!(target: "portcullis::media", path = %path.display(), %error, "a stored file cannot be read");
                    self.leave_alone(path);
                }
            }
        }
        Ok(())
    }

    fn look_at(
        &mut self,
        folder: &Folder,
        index: &Index,
        bounds: &StoreBounds,
        shard: &str,
        file: &DirEntry,
    ) -> io::Result<()> {
        let named = file.file_name().to_str().and_then(FileName::parse);
        let named = named.filter(|(name, _)| name.shard() == shard);
        let (Some((name, stage)), true) = (named, file.file_type()?.is_file()) else {
            self.leave_alone(file.path());
            return Ok(());
        };
        if stage == Stage::Part {
            self.unfinished += 1;
            folder.delete(&name, stage);
            return Ok(());
        }
        let inspected = inspect(&folder.open_whole(&name)?)?;
        let ours = inspected.filter(|found| name.is_for(&found.key) && found.extent.data_bytes <= bounds.max_file);
        if let Some(inspected) = ours {
            self.whole.push((name, inspected));
        } else {
            self.torn += 1;
            index.count(Why::Torn);
            folder.delete(&name, stage);
        }
        Ok(())
    }

    fn leave_alone(&mut self, path: PathBuf) {
        self.foreign += 1;
        self.first_foreign.get_or_insert(path);
    }

    fn admit(&mut self, folder: &Folder, index: &Index, bounds: &StoreBounds, now_ms: u64) {
        self.whole.sort_by_key(|(_, inspected)| Reverse(inspected.extent.stored_at_ms));
        // A clock that was set back makes no file younger: it is at least as late as the newest file says.
        let newest = self.whole.first().map_or(0, |(_, inspected)| inspected.extent.stored_at_ms);
        let latest_ms = now_ms.max(newest);
        let mut newer = HashSet::new();
        let mut fresh = Vec::new();
        for (name, inspected) in self.whole.drain(..) {
            let stored_at_ms = inspected.extent.stored_at_ms;
            let age = Duration::from_millis(latest_ms.saturating_sub(stored_at_ms));
            let left = bounds.time_to_live.saturating_sub(age);
            // One from the future has an age that nobody knows.
            if left.is_zero() || stored_at_ms > now_ms {
                index.count(Why::Expired);
                folder.delete(&name, Stage::Whole);
            } else if !newer.insert(inspected.key.clone()) {
                // It was replaced, and not deleted any more.
                folder.delete(&name, Stage::Whole);
            } else {
                fresh.push((name, inspected, left));
            }
        }
        let now = Instant::now();
        for (name, Inspected { key, meta, extent }, left) in fresh.into_iter().rev() {
            index.admit_found(Arc::new(Entry { key, name, meta, extent, expires_at: now + left }));
        }
    }

    fn report(&self, folder: &Folder) {
        let dir = folder.root().display();
        if self.unfinished + self.torn > 0 {
            tracing::info!(target: "portcullis::media", %dir, unfinished = self.unfinished, torn = self.torn, "deleted media files that are not whole");
        }
        if let Some(first) = &self.first_foreign {
            let first = first.display();
            tracing::warn!(target: "portcullis::media", %dir, files = self.foreign, %first, "files in the folder of the media store are not the store's; they are left alone and not counted");
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, StoreOpenError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect);
    entries.map_err(|error| touched(folder, error))
}

fn touched(path: &Path, source: io::Error) -> StoreOpenError {
    StoreOpenError::Io { path: path.to_owned(), source }
}
