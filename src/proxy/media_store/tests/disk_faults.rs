//! A disk that does not take what it is given.

use std::io::{ErrorKind, Write as _};

use super::*;
use crate::proxy::watch::lines::Lines;

#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_the_file_and_nothing_else() {
    let (dir, store) = new_store();
    store_file(&store, key(1), content(10)).await.unwrap();
    let mut file = store.begin(key(2), meta()).await.unwrap();
    let reader = tokio::spawn(read(file.reader()));
    file.write(content(1000)).await.unwrap();
    file.written().await;
    for (kind, fault) in [
        (ErrorKind::StorageFull, StoreFault::DiskFull),
        (ErrorKind::QuotaExceeded, StoreFault::DiskFull),
        (ErrorKind::PermissionDenied, StoreFault::Io),
    ] {
        store.fail_writes(Some(kind));
        assert_eq!(store_file(&store, key(3), content(10)).await.unwrap_err(), fault);
    }
    // Written behind the back of who writes, so it is the next call that says so.
    file.write(content(1000)).await.unwrap();
    file.written().await;
    assert_eq!(file.write(content(1000)).await, Err(StoreFault::Io));
    assert_eq!(file.complete().await, Err(StoreFault::Io));
    assert_eq!(reader.await.unwrap(), Err(BodyCut));
    drop(file);
    quiet().await;
    assert_eq!((store.usage().files, store.usage().unfinished, on_disk(&dir).len()), (1, 0, 1));
    assert_eq!(read(store.find(&key(1)).unwrap().open().await.unwrap()).await.unwrap(), content(10));
    store.fail_writes(None);
    store_file(&store, key(2), content(10)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fills_up_at_the_very_end_does_not_hurt_who_reads() {
    let (dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(200_000)).await.unwrap();
    file.complete().await.unwrap();
    let reader = file.reader();
    store.fail_writes(Some(ErrorKind::StorageFull));
    assert_eq!(file.keep().await.unwrap_err(), StoreFault::DiskFull);
    quiet().await;
    assert!(store.find(&key(1)).is_none());
    assert!(on_disk(&dir).is_empty());
    assert_eq!(read(reader).await.unwrap(), content(200_000));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_taken_away_is_a_fault_and_not_a_panic() {
    let (dir, store) = new_store();
    let stored = store_file(&store, key(1), content(10)).await.unwrap();
    let mut file = store.begin(key(2), meta()).await.unwrap();
    fs::remove_dir_all(dir.path().join("media")).unwrap();
    assert_eq!(store.begin(key(3), meta()).await.unwrap_err(), StoreFault::Io);
    file.write(content(10)).await.unwrap();
    file.complete().await.unwrap();
    assert_eq!(file.keep().await.unwrap_err(), StoreFault::Io);
    assert_eq!(stored.open().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.usage().files, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_says_about_a_full_disk_is_understood() {
    let error = fs::File::options().write(true).open("/dev/full").unwrap().write(b"x").unwrap_err();
    assert_eq!(StoreFault::from(error.kind()), StoreFault::DiskFull);
}

/// Without a runtime everything happens on this thread, where the warnings are counted.
#[test]
fn a_full_disk_is_warned_about_once_until_a_file_is_kept_again() {
    use futures_util::FutureExt as _;

    let (_dir, store) = new_store();
    let (warnings, _logging) = Lines::of_this_thread(tracing::Level::WARN);
    let attempt = || store_file(&store, key(1), content(10)).now_or_never().unwrap();
    for outage in 1..3 {
        store.fail_writes(Some(ErrorKind::StorageFull));
        for _ in 0..5 {
            assert_eq!(attempt().unwrap_err(), StoreFault::DiskFull);
        }
        assert_eq!(warnings.read().len(), outage);
        store.fail_writes(None);
        attempt().unwrap();
    }
}
