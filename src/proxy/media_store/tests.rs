//! The store as its users see it, on a real disk.

mod crashes;
mod disk_faults;
mod expiry;
mod folders;
mod lifecycle;
mod pinned;
mod random_walk;
mod reading;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tempfile::TempDir;

use super::*;
use crate::proxy::response_body::BodyCut;

const MIB: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 3600);

fn bounds(dir: &Path) -> StoreBounds {
    StoreBounds { dir: dir.join("media"), bytes: 16 * MIB, time_to_live: DAY, max_file: 8 * MIB }
}

fn open(dir: &TempDir) -> MediaStore {
    MediaStore::open(bounds(dir.path())).unwrap()
}

fn new_store() -> (TempDir, MediaStore) {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    (dir, store)
}

fn key(number: u8) -> FileKey {
    FileKey::from_name(&format!("{number:02x}").repeat(32)).unwrap()
}

fn meta() -> FileMeta {
    FileMeta::new(Some("image/png".to_owned()), None)
}

/// Bytes that differ from place to place.
fn content(length: usize) -> Bytes {
    (0..length).map(|at| u8::try_from((at / 251 + at) % 256).unwrap()).collect()
}

async fn store_file(store: &MediaStore, key: FileKey, bytes: Bytes) -> Result<StoredFile, StoreFault> {
    let mut file = store.begin(key, meta()).await?;
    file.write(bytes).await?;
    file.complete().await?;
    file.keep().await
}

async fn read(reader: FileReader) -> Result<Bytes, BodyCut> {
    Ok(reader.collect().await?.to_bytes())
}

/// Every file below the folder of the store but its lock.
fn on_disk(dir: &TempDir) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir.path().join("media")).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(fs::read_dir(entry.path()).unwrap().map(|file| file.unwrap().path()));
        } else if entry.file_name() != "lock" {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Waits until no thread asks the disk any more: a paused clock stands still as long as one does.
async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
