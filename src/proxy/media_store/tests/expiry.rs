//! A file's time: to the millisecond, and across restarts.

use std::time::SystemTime;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);
const ALMOST: Duration = Duration::from_millis(24 * 3_600_000 - 1);

#[tokio::test(start_paused = true)]
async fn h03_a_file_is_given_out_until_its_time_is_over_to_the_millisecond() {
    let (dir, store) = new_store();
    let stored = store_file(&store, key(1), content(10)).await.unwrap();
    tokio::time::advance(ALMOST).await;
    assert_eq!(store.find(&key(1)).unwrap().fresh_for(), MILLISECOND);
    let reader = stored.open().await.unwrap();
    tokio::time::advance(MILLISECOND).await;
    assert!(store.find(&key(1)).is_none());
    assert_eq!(on_disk(&dir).len(), 1);
    store.sweep().await;
    assert_eq!((store.usage().files, store.usage().expired, on_disk(&dir).len()), (0, 1, 0));
    assert_eq!(read(reader).await.unwrap(), content(10), "opened in time");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_takes_what_is_over_and_nothing_else_and_comes_along_with_keeping() {
    let (dir, store) = new_store();
    store_file(&store, key(1), content(10)).await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    store_file(&store, key(2), content(10)).await.unwrap();
    tokio::time::advance(DAY.checked_sub(Duration::from_secs(59)).unwrap()).await;
    store.sweep().await;
    assert!(store.find(&key(1)).is_none() && store.find(&key(2)).is_some());
    assert_eq!(on_disk(&dir).len(), 1);
    tokio::time::advance(Duration::from_millis(59_999)).await;
    store_file(&store, key(3), content(10)).await.unwrap();
    assert_eq!(on_disk(&dir).len(), 2, "swept less than a minute ago");
    tokio::time::advance(MILLISECOND).await;
    store_file(&store, key(4), content(10)).await.unwrap();
    assert_eq!((on_disk(&dir).len(), store.usage().expired), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_file_goes_on_while_nobody_runs() {
    let dir = TempDir::new().unwrap();
    let stored_at = store_file(&open(&dir), key(1), content(10)).await.unwrap().stored_at();
    let at = |later: Duration| MediaStore::open_at(bounds(dir.path()), stored_at + later).unwrap();
    for _restart in 0..3 {
        let file = at(ALMOST).find(&key(1)).unwrap();
        assert_eq!((file.fresh_for(), file.stored_at()), (MILLISECOND, stored_at), "no restart makes it younger");
    }
    let store = at(DAY);
    assert!(store.find(&key(1)).is_none());
    assert_eq!((store.usage().expired, on_disk(&dir).len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_makes_no_file_younger() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let old = store_file(&store, key(1), content(10)).await.unwrap().stored_at();
    std::thread::park_timeout(Duration::from_millis(5));
    let new = store_file(&store, key(2), content(10)).await.unwrap().stored_at();
    let apart = new.duration_since(old).unwrap();
    assert!(apart >= Duration::from_millis(5));
    drop(store);
    // Back to when the older was stored: it has lived at least until the newer came, which nobody knows the age of.
    let store = MediaStore::open_at(bounds(dir.path()), old).unwrap();
    assert_eq!(store.find(&key(1)).unwrap().fresh_for(), DAY.checked_sub(apart).unwrap());
    assert!(store.find(&key(2)).is_none());
    drop(store);
    // Back to before both: nothing is known of either.
    let store = MediaStore::open_at(bounds(dir.path()), SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!((store.usage().files, on_disk(&dir).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_longer_than_any_clock_is_no_fault() {
    let dir = TempDir::new().unwrap();
    let store = MediaStore::open(StoreBounds { time_to_live: Duration::MAX, ..bounds(dir.path()) }).unwrap();
    store_file(&store, key(1), content(10)).await.unwrap();
    assert!(store.find(&key(1)).unwrap().fresh_for() > 3649 * DAY);
}

#[tokio::test(start_paused = true)]
async fn h12_nothing_is_kept_where_the_time_is_zero() {
    let dir = TempDir::new().unwrap();
    let store = MediaStore::open(StoreBounds { time_to_live: Duration::ZERO, ..bounds(dir.path()) }).unwrap();
    store_file(&store, key(1), content(10)).await.unwrap();
    assert!(store.find(&key(1)).is_none());
}
