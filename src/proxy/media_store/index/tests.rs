//! The bound of the index, against a model that anybody can check.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits::{MAX_CONTENT_DISPOSITION_BYTES, MAX_CONTENT_TYPE_BYTES};
use crate::proxy::media_store::disk::to_u64;
use crate::proxy::media_store::format::Head;
use crate::proxy::media_store::meta::FileMeta;

const CAPACITY: u64 = 64;

fn key(number: u8) -> FileKey {
    FileKey::from_name(&format!("{number:064x}")).unwrap()
}

/// A file that takes exactly `blocks` on disk.
fn entry(number: u8, blocks: u64) -> Arc<Entry> {
    let meta = FileMeta::default();
    let head = Head::new(&key(number), &meta).unwrap();
    let (_, empty) = head.end(0, 0);
    let (_, extent) = head.end(blocks * MEDIA_BLOCK_BYTES - empty.file_bytes(), 0);
    let name = FileName::fresh(&key(number));
    Arc::new(Entry { key: key(number), name, meta, extent, expires_at: Instant::now() + Duration::from_secs(60) })
}

fn put(index: &Arc<Index>, number: u8, blocks: u64) -> Result<Arc<Entry>, StoreFault> {
    let room = Index::room(index, blocks * MEDIA_BLOCK_BYTES)?;
    let entry = entry(number, blocks);
    index.admit(Arc::clone(&entry), room);
    Ok(entry)
}

fn index() -> Arc<Index> {
    Arc::new(Index::new(CAPACITY * MEDIA_BLOCK_BYTES))
}

#[test]
fn the_least_recently_used_makes_room_for_one_that_grows() {
    let index = index();
    let names: Vec<_> = (0..4).map(|number| put(&index, number, 16).unwrap().name.clone()).collect();
    assert!(index.find(&key(0)).is_some());
    let mut room = Index::room(&index, 1).unwrap();
    assert_eq!(index.take_doomed(), std::slice::from_ref(&names[1]), "0 was used since");
    room.grow_to(16 * MEDIA_BLOCK_BYTES).unwrap();
    assert_eq!(index.take_doomed(), [], "that fits");
    room.grow_to(16 * MEDIA_BLOCK_BYTES + 1).unwrap();
    assert_eq!(index.take_doomed(), std::slice::from_ref(&names[2]));
    room.grow_to(CAPACITY * MEDIA_BLOCK_BYTES).unwrap();
    assert_eq!(index.take_doomed(), [names[3].clone(), names[0].clone()]);
    assert_eq!(room.grow_to(CAPACITY * MEDIA_BLOCK_BYTES + 1), Err(StoreFault::NoRoom));
    assert_eq!(Index::room(&index, 1).err(), Some(StoreFault::NoRoom));
    let usage = index.usage();
    assert_eq!((usage.files, usage.bytes, usage.evicted), (0, 0, 4));
    assert_eq!((usage.unfinished, usage.unfinished_bytes), (1, usage.max_bytes));
    drop(room);
    assert_eq!((index.usage().unfinished, index.usage().unfinished_bytes), (0, 0));
    put(&index, 5, CAPACITY).unwrap();
}

#[test]
fn r15_a_newer_file_of_a_key_takes_the_place_of_the_older_and_is_not_deleted_with_it() {
    let index = index();
    let older = put(&index, 1, 2).unwrap();
    let newer = put(&index, 1, 3).unwrap();
    assert_eq!(index.take_doomed(), std::slice::from_ref(&older.name));
    assert_eq!(index.find(&key(1)).unwrap().name, newer.name);
    index.forget(&older, Why::Torn);
    assert_eq!(index.take_doomed(), []);
    assert_eq!(index.usage().torn, 0);
    index.forget(&newer, Why::Torn);
    assert_eq!(index.take_doomed(), std::slice::from_ref(&newer.name));
    assert!(index.find(&key(1)).is_none());
    assert_eq!((index.usage().files, index.usage().bytes, index.usage().torn), (0, 0, 1));
}

#[test]
fn r15_fifty_files_leave_as_many_as_fit_at_once() {
    let index = Arc::new(Index::new(10 * MEDIA_BLOCK_BYTES));
    for number in 0..50 {
        put(&index, number, 1).unwrap();
        assert_eq!(index.usage().files, u64::from(number + 1).min(10));
    }
    assert_eq!(index.take_doomed().len(), 40);
}

#[test]
fn the_number_of_files_is_bounded_too() {
    let blocks = MEDIA_STORED_FILES * 8;
    let index = Arc::new(Index::new(blocks * MEDIA_BLOCK_BYTES));
    let room = Index::room(&index, 1).unwrap();
    assert_eq!(room.bytes(), 8 * MEDIA_BLOCK_BYTES, "the smallest file counts as its share of the number");
}

#[test]
fn a_store_larger_than_any_disk_still_adds_up() {
    let index = Arc::new(Index::new(u64::MAX));
    let most = index.usage().max_bytes;
    assert_eq!(most, u64::from(u32::MAX) * MEDIA_BLOCK_BYTES);
    let room = Index::room(&index, most).unwrap();
    assert_eq!(Index::room(&index, 1).err(), Some(StoreFault::NoRoom));
    drop(room);
    assert!(Index::room(&index, most + 1).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Begin { blocks: u64 },
    Grow { which: usize, blocks: u64 },
    Keep { which: usize, key: u8 },
    Drop { which: usize },
    Find { key: u8 },
    Read { key: u8 },
    Leave { which: usize },
    Forget { key: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1..24u64).prop_map(|blocks| Step::Begin { blocks }),
        3 => (0..8usize, 1..40u64).prop_map(|(which, blocks)| Step::Grow { which, blocks }),
        3 => (0..8usize, 0..12u8).prop_map(|(which, key)| Step::Keep { which, key }),
        1 => (0..8usize).prop_map(|which| Step::Drop { which }),
        4 => (0..12u8).prop_map(|key| Step::Find { key }),
        2 => (0..12u8).prop_map(|key| Step::Read { key }),
        1 => (0..8usize).prop_map(|which| Step::Leave { which }),
        1 => (0..12u8).prop_map(|key| Step::Forget { key }),
    ]
}

/// The bound, spelt out: a list in order of use, lists of who reads, and a sum.
#[derive(Default)]
struct Model {
    files: Vec<File>,
    /// Read, and no longer stored; the one asked for longest ago first.
    pinned: Vec<File>,
    rooms: Vec<u64>,
    asked: u64,
}

#[derive(Clone, Debug)]
struct File {
    key: u8,
    name: FileName,
    blocks: u64,
    readers: usize,
    asked: u64,
}

impl Model {
    fn total(&self) -> u64 {
        let files = self.files.iter().chain(&self.pinned).map(|file| file.blocks);
        files.sum::<u64>() + self.rooms.iter().sum::<u64>()
    }

    /// What takes room whatever is evicted.
    fn cannot_go(&self) -> u64 {
        self.total() - self.files.iter().filter(|file| file.readers == 0).map(|file| file.blocks).sum::<u64>()
    }

    fn may_take(&self, more: u64) -> bool {
        self.rooms.iter().sum::<u64>() + more <= CAPACITY
    }

    fn evict(&mut self) {
        let read = |file: &File| file.readers > 0;
        let mut full = false;
        while self.cannot_go() > CAPACITY {
            if self.pinned.is_empty() {
                let oldest =
                    (0..self.files.len()).filter(|at| read(&self.files[*at])).min_by_key(|at| self.files[*at].asked);
                self.files.remove(oldest.unwrap());
                full = true;
            } else {
                self.pinned.remove(0);
            }
        }
        full |= self.total() > CAPACITY;
        while self.total() > CAPACITY {
            let unread = self.files.iter().position(|file| !read(file));
            self.files.remove(unread.unwrap());
        }
        // What was spared was used.
        if full {
            self.files.sort_by_key(|file| if read(file) { file.asked } else { 0 });
        }
    }

    fn remove(&mut self, key: u8) -> Option<File> {
        let at = self.files.iter().position(|held| held.key == key)?;
        Some(self.files.remove(at))
    }

    fn lose(&mut self, key: u8) {
        let lost = self.remove(key).filter(|file| file.readers > 0);
        self.pinned.extend(lost);
        self.pinned.sort_by_key(|file| file.asked);
    }

    fn find(&mut self, key: u8) -> bool {
        let found = self.remove(key);
        self.files.extend(found.clone());
        found.is_some()
    }

    fn reads(&mut self, key: u8) {
        self.asked += 1;
        if let Some(file) = self.files.iter_mut().find(|file| file.key == key) {
            (file.asked, file.readers) = (self.asked, file.readers + 1);
        }
    }

    fn leaves(&mut self, name: &FileName) {
        for file in self.files.iter_mut().chain(&mut self.pinned).filter(|file| file.name == *name) {
            file.readers -= 1;
        }
        self.pinned.retain(|file| file.readers > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_operations_passes_the_bound(steps in prop::collection::vec(step(), 1000)) {
        let index = index();
        let mut model = Model::default();
        let mut rooms: Vec<Room> = Vec::new();
        let mut kept = HashMap::new();
        let mut readers: Vec<(FileName, OpenFile)> = Vec::new();
        for step in steps {
            match step {
                Step::Begin { blocks } => {
                    let room = Index::room(&index, blocks * MEDIA_BLOCK_BYTES);
                    prop_assert_eq!(room.is_ok(), model.may_take(blocks));
                    if let Ok(room) = room {
                        rooms.push(room);
                        model.rooms.push(blocks);
                    }
                }
                Step::Grow { which, blocks } => {
                    let Some(room) = rooms.get_mut(which) else { continue };
                    let more = blocks.saturating_sub(model.rooms[which]);
                    prop_assert_eq!(room.grow_to(blocks * MEDIA_BLOCK_BYTES).is_ok(), model.may_take(more));
                    if model.may_take(more) {
                        model.rooms[which] += more;
                    }
                }
                Step::Keep { which, key } if which < rooms.len() => {
                    let (room, blocks) = (rooms.remove(which), model.rooms.remove(which));
                    let entry = entry(key, blocks);
                    let name = entry.name.clone();
                    kept.insert(key, name.clone());
                    index.admit(entry, room);
                    model.lose(key);
                    model.files.push(File { key, name, blocks, readers: 0, asked: 0 });
                }
                Step::Drop { which } if which < rooms.len() => {
                    drop(rooms.remove(which));
                    model.rooms.remove(which);
                }
                Step::Find { key: number } => {
                    let found = index.find(&key(number));
                    prop_assert_eq!(found.is_some(), model.find(number));
                    prop_assert!(found.is_none_or(|entry| entry.name == kept[&number]));
                }
                Step::Read { key: number } => {
                    let found = index.find(&key(number));
                    prop_assert_eq!(found.is_some(), model.find(number));
                    let Some(entry) = found else { continue };
                    let file = index.read(&entry, tempfile::tempfile().unwrap()).unwrap();
                    readers.push((entry.name.clone(), file));
                    model.reads(number);
                }
                Step::Leave { which } if which < readers.len() => {
                    let (name, file) = readers.remove(which);
                    drop(file);
                    model.leaves(&name);
                }
                Step::Keep { .. } | Step::Drop { .. } | Step::Leave { .. } => {}
                Step::Forget { key: number } => {
                    if let Some(entry) = index.find(&key(number)) {
                        index.forget(&entry, Why::Expired);
                    }
                    model.lose(number);
                }
            }
            model.evict();
            let usage = index.usage();
            let taken = usage.bytes + usage.unfinished_bytes + usage.pinned_bytes;
            prop_assert!(taken <= CAPACITY * MEDIA_BLOCK_BYTES);
            prop_assert_eq!(taken / MEDIA_BLOCK_BYTES, model.total());
            prop_assert_eq!(usage.pinned, to_u64(model.pinned.len()));
            let open = |name: &FileName| model.files.iter().chain(&model.pinned).any(|file| file.name == *name && file.readers > 0);
            for (name, file) in &readers {
                prop_assert_eq!(file.get().is_some(), open(name));
            }
            drop(index.take_closing());
            prop_assert_eq!(usage.files, to_u64(model.files.len()));
            prop_assert_eq!(usage.unfinished, to_u64(rooms.len()));
        }
        drop((rooms, readers));
        prop_assert_eq!((index.usage().unfinished_bytes, index.usage().pinned), (0, 0));
    }
}

#[test]
fn the_bound_holds_whatever_threads_do_at_once() {
    let index = index();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..500u32 {
                    let number = u8::try_from((round * 7 + u32::from(thread)) % 20).unwrap();
                    let Ok(mut room) = Index::room(index, MEDIA_BLOCK_BYTES) else { continue };
                    let _ = index.find(&key(number / 2));
                    let blocks = 1 + u64::from(round % 9);
                    if room.grow_to(blocks * MEDIA_BLOCK_BYTES).is_ok() {
                        index.admit(entry(number, blocks), room);
                    }
                    let usage = index.usage();
                    assert!(usage.bytes + usage.unfinished_bytes <= usage.max_bytes);
                }
            });
        }
    });
    let usage = index.usage();
    assert_eq!((usage.unfinished, usage.unfinished_bytes), (0, 0));
    let held: Vec<_> = (0..20).filter_map(|number| index.find(&key(number))).collect();
    assert_eq!(usage.files, to_u64(held.len()));
    assert_eq!(usage.bytes, held.iter().map(|entry| entry.file_bytes()).sum::<u64>());
    assert!(usage.bytes <= usage.max_bytes);
}

/// The worst case that [`MEDIA_STORED_FILES`] gives, by the file: one with the longest texts, and one with next to none. In a
/// process of its own: what moka gives back, it gives back on whichever thread, and not while another looks at a cache.
#[test]
fn what_a_stored_file_takes_of_memory() {
    const ALONE: &str = "PORTCULLIS_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let done = alone.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let files = 4096;
    for (content_type, disposition, most) in
        [(MAX_CONTENT_TYPE_BYTES, MAX_CONTENT_DISPOSITION_BYTES, 3000), (0, 0, 700)]
    {
        let (content_type, disposition) = ("t".repeat(content_type), "d".repeat(disposition));
        let index = Index::new(files * MEDIA_BLOCK_BYTES * 2);
        let spent = allocation_counter::measure(|| {
            for number in 0..files {
                let key = FileKey::from_name(&format!("{number:064x}")).unwrap();
                let meta = FileMeta::new(Some(content_type.clone()), Some(disposition.clone()));
                let (_, extent) = Head::new(&key, &meta).unwrap().end(0, 0);
                let name = FileName::fresh(&key);
                index.admit_found(Arc::new(Entry { key, name, meta, extent, expires_at: Instant::now() }));
            }
        });
        assert_eq!(index.usage().files, files);
        let bytes = u64::try_from(spent.bytes_current).unwrap();
        assert!((files * 300..files * most).contains(&bytes), "{} bytes a file", bytes / files);
    }
}
