//! What a crash, or somebody else, left in the folder.

use super::*;

/// Stores one file, closes the store, and says where it lies.
async fn one_file(dir: &TempDir, number: u8, length: usize) -> PathBuf {
    let store = open(dir);
    let before = on_disk(dir);
    store_file(&store, key(number), content(length)).await.unwrap();
    on_disk(dir).into_iter().find(|path| !before.contains(path)).unwrap()
}

/// Opens the store again: the file of `number` is not there, and `path` is deleted.
fn assert_torn(dir: &TempDir, number: u8, path: &Path, what: &str) {
    let store = open(dir);
    assert!(store.find(&key(number)).is_none(), "{what}");
    assert_eq!((store.usage().files, store.usage().bytes, store.usage().torn), (0, 0, 1), "{what}");
    assert!(!path.exists(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    for number in 0..5 {
        one_file(&dir, number, 1000 * usize::from(number)).await;
    }
    let store = open(&dir);
    assert_eq!((store.usage().files, store.usage().torn), (5, 0));
    for number in 0..5 {
        let file = store.find(&key(number)).unwrap();
        assert_eq!(file.meta(), &meta());
        assert_eq!(read(file.open().await.unwrap()).await.unwrap(), content(1000 * usize::from(number)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_torn_file_is_never_served() {
    let dir = TempDir::new().unwrap();
    let path = one_file(&dir, 1, 3000).await;
    let whole = fs::read(&path).unwrap();
    let data = whole.len() - 40 - 3000;
    let cuts = [0, 1, 8, 11, 12, 13, data - 17, data - 16, data - 1, data, data + 1, data + 2999];
    let cuts = cuts.into_iter().chain(whole.len() - 41..whole.len());
    for length in cuts {
        fs::write(&path, &whole[..length]).unwrap();
        assert_torn(&dir, 1, &path, &format!("cut to {length}"));
    }
    for at in [0, 8, 12, 20, data - 1, data + 3000, whole.len() - 33, whole.len() - 20, whole.len() - 1] {
        let mut other = whole.clone();
        other[at] ^= 0x10;
        fs::write(&path, other).unwrap();
        assert_torn(&dir, 1, &path, &format!("byte {at} is another"));
    }
    fs::write(&path, vec![0; whole.len()]).unwrap();
    assert_torn(&dir, 1, &path, "zeros of the right length");
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert_torn(&dir, 1, &path, "one byte more");
    fs::write(&path, &whole).unwrap();
    assert!(open(&dir).find(&key(1)).is_some(), "it was the damage, not the rest");
}

#[tokio::test(start_paused = true)]
async fn a_part_is_deleted_at_the_start_however_much_of_it_was_written() {
    let dir = TempDir::new().unwrap();
    let path = one_file(&dir, 1, 3000).await;
    let whole = fs::read(&path).unwrap();
    let part = path.with_extension("part");
    for length in [0, 10, whole.len() / 2, whole.len()] {
        fs::remove_file(&path).unwrap_or_default();
        fs::write(&part, &whole[..length]).unwrap();
        let store = open(&dir);
        assert!(store.find(&key(1)).is_none(), "{length} bytes, not renamed");
        assert!(on_disk(&dir).is_empty());
    }
    // A second fetch was under way.
    fs::write(&path, &whole).unwrap();
    fs::write(&part, &whole).unwrap();
    assert_eq!(open(&dir).find(&key(1)).unwrap().len(), 3000);
    assert_eq!(on_disk(&dir), [path]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_file_under_the_name_of_another_is_not_that_other() {
    let dir = TempDir::new().unwrap();
    let path = one_file(&dir, 1, 3000).await;
    let suffix = &path.file_name().unwrap().to_str().unwrap()[64..];
    let shard = dir.path().join("media/02");
    let other = shard.join(format!("{}{suffix}", "02".repeat(32)));
    fs::rename(&path, &other).unwrap();
    assert_torn(&dir, 2, &other, "renamed");
    assert!(open(&dir).find(&key(1)).is_none());
}

#[tokio::test(start_paused = true)]
async fn of_two_files_of_a_key_the_newer_is_kept() {
    let dir = TempDir::new().unwrap();
    let older = one_file(&dir, 1, 10).await;
    let saved = fs::read(&older).unwrap();
    // The clock on the wall has to move on between the two.
    std::thread::park_timeout(Duration::from_millis(5));
    one_file(&dir, 1, 20).await;
    fs::write(&older, saved).unwrap();
    assert_eq!(on_disk(&dir).len(), 2);
    assert_eq!(open(&dir).find(&key(1)).unwrap().len(), 20);
    assert_eq!(on_disk(&dir).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_smaller_store_keeps_the_newest_of_what_it_finds() {
    let dir = TempDir::new().unwrap();
    for number in 0..8 {
        one_file(&dir, number, 1024 * 1024).await;
        std::thread::park_timeout(Duration::from_millis(3));
    }
    let bounds = StoreBounds { bytes: 4 * MIB, max_file: 2 * MIB, ..bounds(dir.path()) };
    let store = MediaStore::open(bounds.clone()).unwrap();
    let held: Vec<_> = (0..8).filter(|number| store.find(&key(*number)).is_some()).collect();
    assert_eq!(held, [5, 6, 7]);
    assert_eq!((store.usage().evicted, on_disk(&dir).len()), (5, 3));
    drop(store);
    let store = MediaStore::open(StoreBounds { max_file: MIB - 1, ..bounds }).unwrap();
    assert_eq!((store.usage().files, on_disk(&dir).len()), (0, 0), "larger than any may be now");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_under_us_is_forgotten_and_fetched_anew() {
    let (dir, store) = new_store();
    let damages: [fn(&Path); 4] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, b"").unwrap(),
        |path| fs::write(path, b"something else").unwrap(),
        |path| fs::File::options().write(true).open(path).unwrap().set_len(1500).unwrap(),
    ];
    for damage in damages {
        let stored = store_file(&store, key(1), content(3000)).await.unwrap();
        damage(&on_disk(&dir)[0]);
        let error = stored.open().await.unwrap_err().kind();
        assert!(matches!(error, std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData), "{error}");
        assert!(store.find(&key(1)).is_none());
        assert_eq!((store.usage().files, on_disk(&dir).len()), (0, 0));
    }
    assert_eq!(store.usage().torn, 4);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn what_is_no_file_in_the_place_of_one_holds_nobody_up_and_is_forgotten() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let (dir, store) = new_store();
    let node = |path: &Path, kind| mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let places: [&dyn Fn(&Path); 4] = [
        &|path| node(path, FileType::Fifo),
        &|path| fs::create_dir(path).unwrap(),
        &|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        &|path| node(path, FileType::Socket),
    ];
    for (number, put) in (1..).zip(places) {
        let before = on_disk(&dir);
        let stored = store_file(&store, key(number), content(10)).await.unwrap();
        let path = on_disk(&dir).into_iter().find(|path| !before.contains(path)).unwrap();
        fs::remove_file(&path).unwrap();
        put(&path);
        assert_eq!(stored.open().await.unwrap_err().kind(), std::io::ErrorKind::InvalidData, "{number}");
        assert!(store.find(&key(number)).is_none());
        // A new one lies elsewhere, whatever stays there.
        let anew = store_file(&store, key(number), content(20)).await.unwrap();
        assert_eq!(read(anew.open().await.unwrap()).await.unwrap(), content(20));
        assert_eq!(path.exists(), path.is_dir(), "only a folder is not ours to delete");
    }
    assert_eq!((store.usage().torn, store.usage().files), (4, 4));
}

/// What it leads to may be the right file now, and another at the next look.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_link_in_the_place_of_a_file_is_not_followed_even_to_that_file() {
    let (dir, store) = new_store();
    let elsewhere = TempDir::new().unwrap();
    let stored = store_file(&store, key(1), content(10)).await.unwrap();
    let path = on_disk(&dir).remove(0);
    let moved = elsewhere.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    assert_eq!(stored.open().await.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    assert!(store.find(&key(1)).is_none());
    assert!(moved.exists(), "only the link was ours to delete");
}

#[tokio::test(start_paused = true)]
async fn a_file_cut_while_it_is_read_does_not_end_cleanly() {
    let (dir, store) = new_store();
    let stored = store_file(&store, key(1), content(200_000)).await.unwrap();
    let mut reader = stored.open().await.unwrap();
    let first = reader.frame().await.unwrap().unwrap().into_data().unwrap();
    fs::File::options().write(true).open(&on_disk(&dir)[0]).unwrap().set_len(100_000).unwrap();
    assert_eq!(first.len(), 65_536);
    assert_eq!(reader.frame().await.unwrap().unwrap_err(), BodyCut);
    assert!(reader.frame().await.is_none());
}
