//! From the first byte to the last reader.

use super::*;

#[tokio::test(start_paused = true)]
async fn h01_a_file_is_found_again_with_what_was_said_about_it() {
    let (dir, store) = new_store();
    assert!(store.find(&key(1)).is_none());
    let stored = store_file(&store, key(1), content(100_000)).await.unwrap();
    let found = store.find(&key(1)).unwrap();
    for file in [stored, found] {
        assert_eq!((file.meta(), file.len(), file.etag()), (&meta(), 100_000, key(1).etag()));
        assert_eq!(read(file.open().await.unwrap()).await.unwrap(), content(100_000));
    }
    assert!(store.find(&key(2)).is_none());
    let usage = store.usage();
    let files = on_disk(&dir);
    assert_eq!((usage.files, usage.unfinished, usage.unfinished_bytes), (1, 0, 0));
    assert_eq!(usage.bytes, fs::metadata(&files[0]).unwrap().len());
    assert_eq!(files.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_is_a_file() {
    let (dir, store) = new_store();
    store_file(&store, key(1), Bytes::new()).await.unwrap();
    let stored = store.find(&key(1)).unwrap();
    assert_eq!(stored.len(), 0);
    assert_eq!(read(stored.open().await.unwrap()).await.unwrap(), Bytes::new());
    drop((stored, store));
    assert_eq!(open(&dir).find(&key(1)).unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn h03_a_second_fetch_of_a_file_replaces_the_first() {
    let (dir, store) = new_store();
    let first = store_file(&store, key(1), content(10)).await.unwrap();
    let reader = first.open().await.unwrap();
    store_file(&store, key(1), content(20)).await.unwrap();
    assert_eq!(store.find(&key(1)).unwrap().len(), 20);
    assert_eq!((store.usage().files, on_disk(&dir).len()), (1, 1));
    assert_eq!(read(reader).await.unwrap(), content(10), "opened before");
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_unfinished_leaves_nothing_behind() {
    let (dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(300_000)).await.unwrap();
    assert!(store.find(&key(1)).is_none(), "not before it is kept");
    assert_eq!((store.usage().unfinished, on_disk(&dir).len()), (1, 1));
    drop(file);
    quiet().await;
    assert_eq!((store.usage().unfinished, store.usage().unfinished_bytes), (0, 0));
    assert!(on_disk(&dir).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_never_declared_whole_is_not_kept() {
    let (dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(10)).await.unwrap();
    let reader = file.reader();
    assert_eq!(file.keep().await.unwrap_err(), StoreFault::Incomplete);
    assert_eq!(read(reader).await, Err(BodyCut));
    quiet().await;
    assert!(on_disk(&dir).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_it_begins_or_keeps_leaves_no_part() {
    let (dir, store) = new_store();
    {
        let begin = std::pin::pin!(store.begin(key(1), meta()));
        assert!(futures_util::poll!(begin).is_pending());
    }
    quiet().await;
    assert!(on_disk(&dir).is_empty());
    assert_eq!(store.usage().unfinished, 0);

    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(10)).await.unwrap();
    file.complete().await.unwrap();
    {
        let keep = std::pin::pin!(file.keep());
        assert!(futures_util::poll!(keep).is_pending());
    }
    quiet().await;
    assert_eq!(store.find(&key(1)).unwrap().len(), 10, "it went on without its caller");
}

#[tokio::test(start_paused = true)]
async fn br32_a_file_larger_than_any_may_be_is_refused_before_it_is_on_disk() {
    let (_dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(8 * 1024 * 1024)).await.unwrap();
    assert_eq!(file.write(content(1)).await, Err(StoreFault::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn unfinished_files_push_out_finished_ones_and_are_refused_when_there_are_none() {
    let (dir, store) = new_store();
    let piece = content(1024 * 1024);
    for number in 0..12 {
        store_file(&store, key(number), piece.clone()).await.unwrap();
    }
    let opened = store.find(&key(1)).unwrap();
    let reader = opened.open().await.unwrap();
    let mut growing = [store.begin(key(50), meta()).await.unwrap(), store.begin(key(51), meta()).await.unwrap()];
    let mut refused = None;
    for round in 0..8 {
        for file in &mut growing {
            refused = refused.or(file.write(piece.clone()).await.err());
            file.written().await;
            let usage = store.usage();
            assert!(usage.bytes + usage.unfinished_bytes <= 16 * MIB);
            let on_disk: u64 = on_disk(&dir).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
            assert!(on_disk <= 16 * MIB, "{on_disk} in round {round}");
        }
    }
    assert_eq!(refused, Some(StoreFault::NoRoom), "two files of 8 MiB and their heads are more than 16");
    assert_eq!(store.usage().files, 0);
    assert_eq!(read(reader).await, Err(BodyCut), "there was nothing else left to go");
    assert_eq!((store.usage().evicted, store.usage().cut), (12, 1));
    assert_eq!(opened.open().await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    drop(growing);
    quiet().await;
    store_file(&store, key(1), piece).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_small_file_takes_little_room_ahead_and_a_large_one_a_step_at_most() {
    let (_dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    assert_eq!(store.usage().unfinished_bytes, 64 * 1024);
    let mut accepted = 0;
    while accepted < 5 * MIB {
        file.write(content(10_000)).await.unwrap();
        accepted += 10_000;
        let ahead = store.usage().unfinished_bytes - accepted;
        assert!(ahead <= MIB + 4096 + 1000, "{ahead} ahead of {accepted}");
    }
}
