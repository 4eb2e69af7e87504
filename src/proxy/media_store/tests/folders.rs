//! Whose folder it is, and what else lies in it.

use super::*;

fn refusal(dir: &Path) -> StoreOpenError {
    MediaStore::open(StoreBounds { dir: dir.to_owned(), ..bounds(dir) }).unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_folder_belongs_to_one_process_at_a_time() {
    let (dir, store) = new_store();
    let other = MediaStore::open(bounds(dir.path())).unwrap_err();
    assert!(matches!(&other, StoreOpenError::InUse(path) if path.ends_with("media")), "{other}");
    assert!(other.to_string().contains("in this process or another one; give each a folder of its own"));
    let file = store.begin(key(1), meta()).await.unwrap();
    drop(store);
    assert!(MediaStore::open(bounds(dir.path())).is_err(), "a fetch is still under way");
    drop(file);
    quiet().await;
    open(&dir);
}

#[test]
fn a_path_that_is_no_folder_is_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"precious").unwrap();
    assert!(matches!(refusal(&file), StoreOpenError::NotADirectory(path) if path == file));
    assert!(matches!(refusal(&file.join("below")), StoreOpenError::Io { .. }));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let made = dir.path().join("not/there/yet");
    MediaStore::open(StoreBounds { dir: made.clone(), ..bounds(&made) }).unwrap();
    assert!(made.is_dir());
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_the_place_of_the_lock_is_refused_at_once() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let dir = TempDir::new().unwrap();
    let (root, lock) = (dir.path().join("media"), dir.path().join("media/lock"));
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    mknodat(CWD, &lock, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refused = || MediaStore::open(bounds(dir.path())).unwrap_err();
    assert!(matches!(refused(), StoreOpenError::Io { path, .. } if path == lock));
    // Nor is it one for somebody who reads at its other end.
    let _reader = fs::File::options().read(true).write(true).open(&lock).unwrap();
    assert!(matches!(refused(), StoreOpenError::Io { path, .. } if path == lock));
}

#[test]
fn a_store_that_cannot_hold_the_largest_file_is_refused() {
    let dir = TempDir::new().unwrap();
    let small = StoreBounds { bytes: 8 * MIB, max_file: 8 * MIB, ..bounds(dir.path()) };
    let error = MediaStore::open(small).unwrap_err();
    assert!(matches!(error, StoreOpenError::TooSmall { bytes: 8_388_608, max_file: 8_388_608 }));
    assert!(!dir.path().join("media").exists(), "nothing was touched");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_is_left_alone() {
    let (dir, store) = new_store();
    store_file(&store, key(1), content(10)).await.unwrap();
    drop(store);
    let ours = on_disk(&dir)[0].clone();
    let shard = ours.parent().unwrap().to_owned();
    let name = ours.file_stem().unwrap().to_str().unwrap();
    let root = dir.path().join("media");
    let mut foreign = vec![
        root.join("notes.txt"),
        root.join(ours.file_name().unwrap()),
        shard.join("notes.part"),
        shard.join(format!("{}-{}.part", "02".repeat(32), "0".repeat(16))),
        shard.join(format!("{name}.media.bak")),
        shard.join(format!("{name}.MEDIA")),
        shard.join(format!("{}.media", &name[..70])),
        shard.join(format!("{}.part", "../".repeat(3).replace('/', "_"))),
    ];
    for path in &foreign {
        fs::write(path, b"precious").unwrap();
    }
    let folder = shard.join(format!("{}-{}.media", "01".repeat(32), "0".repeat(16)));
    fs::create_dir(&folder).unwrap();
    foreign.push(folder);
    let store = open(&dir);
    assert_eq!((store.usage().files, store.usage().torn), (1, 0));
    assert!(foreign.iter().all(|path| path.exists()), "{:?}", on_disk(&dir));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_else_can_look_in() {
        let (dir, store) = new_store();
        store_file(&store, key(1), content(10)).await.unwrap();
        let _growing = store.begin(key(2), meta()).await.unwrap();
        let root = dir.path().join("media");
        assert_eq!((mode(&root), mode(&root.join("lock"))), (0o700, 0o600));
        for file in on_disk(&dir) {
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        }
    }

    #[test]
    fn a_folder_where_others_may_write_is_refused_and_one_they_may_read_is_not_changed() {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("media");
        fs::create_dir(&root).unwrap();
        for open_to_others in [0o777, 0o770, 0o702] {
            set_mode(&root, open_to_others);
            assert!(matches!(refusal(&root), StoreOpenError::WritableByOthers(path) if path == root));
        }
        set_mode(&root, 0o755);
        drop(open(&dir));
        assert_eq!(mode(&root), 0o755, "not ours to change");
        let shard = root.join("ab");
        set_mode(&shard, 0o777);
        drop(open(&dir));
        assert_eq!(mode(&shard), 0o700, "this one is");
    }

    #[test]
    fn links_are_refused_or_left_alone() {
        let dir = TempDir::new().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), b"precious").unwrap();
        let link = dir.path().join("link");
        symlink(&elsewhere, &link).unwrap();
        assert!(matches!(refusal(&link), StoreOpenError::Symlink(path) if path == link));
        let dangling = dir.path().join("dangling");
        symlink(dir.path().join("nowhere"), &dangling).unwrap();
        assert!(matches!(refusal(&dangling), StoreOpenError::Symlink(_)));

        drop(open(&dir));
        let root = dir.path().join("media");
        let shard = root.join("ab");
        fs::remove_dir(&shard).unwrap();
        symlink(&elsewhere, &shard).unwrap();
        assert!(matches!(refusal(&root), StoreOpenError::Symlink(path) if path == shard));
        fs::remove_file(&shard).unwrap();
        fs::create_dir(&shard).unwrap();
        let file = shard.join(format!("{}-{}.part", "ab".repeat(32), "0".repeat(16)));
        symlink(elsewhere.join("file"), &file).unwrap();
        drop(open(&dir));
        assert!(file.is_symlink() && elsewhere.join("file").exists());
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("media");
        fs::create_dir(&root).unwrap();
        set_mode(&root, 0o755);
        if chown(&root, Some(12_345), None).is_ok() {
            assert!(matches!(refusal(&root), StoreOpenError::NotOurs(path) if path == root));
        } else {
            // Only root can give a folder away. For others it is the system that refuses, as here.
            assert!(matches!(refusal(Path::new("/usr")), StoreOpenError::Io { .. }));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let error = refusal(Path::new("/proc/portcullis-media"));
        assert!(matches!(error, StoreOpenError::Io { .. }));
        assert!(error.to_string().starts_with("/proc/portcullis-media: "), "{error}");
    }
}
