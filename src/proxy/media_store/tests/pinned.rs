//! Files that are gone and still read: they lie on the disk, and count.

use super::*;

const FILE: usize = 3_670_016;

/// Every byte of the disk that the store takes: files that have a name, and those that are open and have none.
#[cfg(target_os = "linux")]
fn taken(dir: &TempDir) -> u64 {
    let named = on_disk(dir).into_iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let nameless = open.filter(|fd| {
        let file = fs::read_link(fd).unwrap_or_default();
        file.starts_with(dir.path()) && file.to_string_lossy().ends_with(" (deleted)")
    });
    // What two descriptors have open counts twice, which errs on the side that this looks for.
    named + nameless.filter_map(|fd| Some(fs::metadata(fd).ok()?.len())).sum::<u64>()
}

async fn first_piece(reader: &mut FileReader) {
    assert_eq!(reader.frame().await.unwrap().unwrap().into_data().unwrap(), content(65_536));
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn sixty_slow_readers_of_a_file_each_do_not_make_the_store_larger_than_it_may_be() {
    let (dir, store) = new_store();
    let whole = content(FILE);
    let mut readers = Vec::new();
    for number in 0..60 {
        let mut file = store.begin(key(number), meta()).await.unwrap();
        let mut reader = file.reader();
        file.write(whole.clone()).await.unwrap();
        file.complete().await.unwrap();
        first_piece(&mut reader).await;
        readers.push(reader);
        // Half of them came when it was stored.
        let stored = file.keep().await.unwrap();
        if number % 2 == 0 {
            let mut reader = stored.open().await.unwrap();
            first_piece(&mut reader).await;
            readers.push(reader);
        }
        let usage = store.usage();
        assert!(usage.bytes + usage.unfinished_bytes + usage.pinned_bytes <= usage.max_bytes, "{usage:?}");
        let taken = taken(&dir);
        assert!(taken <= 16 * MIB, "{taken} bytes with {number} readers");
    }
    let usage = store.usage();
    assert_eq!((usage.files, usage.evicted, usage.cut), (4, 56, 56));
    // Of the last four, two have two.
    let (last, first) = (readers.split_off(84), readers);
    for reader in first {
        assert_eq!(read(reader).await, Err(BodyCut));
    }
    for reader in last {
        assert_eq!(read(reader).await.unwrap(), whole.slice(65_536..));
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_counts_until_its_last_reader_has_left() {
    let (_dir, store) = new_store();
    let stored = store_file(&store, key(1), content(FILE)).await.unwrap();
    let readers = [stored.open().await.unwrap(), stored.open().await.unwrap()];
    let bytes = store.usage().bytes;
    let usage = || {
        let usage = store.usage();
        (usage.files, usage.bytes, usage.pinned, usage.pinned_bytes)
    };
    assert_eq!(usage(), (1, bytes, 0, 0), "once");
    tokio::time::sleep(DAY).await;
    store.sweep().await;
    assert_eq!((store.usage().expired, usage()), (1, (0, 0, 1, bytes)));
    // All that is left beside it.
    let beside: Vec<_> = [2, 3, 4].into_iter().map(|number| store_file(&store, key(number), content(FILE))).collect();
    for file in beside {
        file.await.unwrap();
    }
    assert_eq!(usage(), (3, 3 * bytes, 1, bytes), "nothing had to go");
    let [one, other] = readers;
    drop(one);
    assert_eq!(usage(), (3, 3 * bytes, 1, bytes));
    assert_eq!(read(other).await.unwrap(), content(FILE));
    assert_eq!(usage(), (3, 3 * bytes, 0, 0));
    assert_eq!((store.usage().evicted, store.usage().cut), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_goes_first_and_then_what_was_asked_for_longest_ago() {
    let (_dir, store) = new_store();
    let mut readers = Vec::new();
    for number in 1..=4 {
        let stored = store_file(&store, key(number), content(FILE)).await.unwrap();
        if number != 3 {
            readers.push(stored.open().await.unwrap());
        }
    }
    // The first has one more, who came last.
    readers.push(store.find(&key(1)).unwrap().open().await.unwrap());
    let held = || (1..=6).filter(|number| store.find(&key(*number)).is_some()).collect::<Vec<_>>();
    store_file(&store, key(5), content(FILE)).await.unwrap();
    assert_eq!((held(), store.usage().cut), (vec![1, 2, 4, 5], 0), "older ones are read");
    let fifth = store.find(&key(5)).unwrap().open().await.unwrap();
    store_file(&store, key(6), content(FILE)).await.unwrap();
    assert_eq!((held(), store.usage().cut), (vec![1, 4, 5, 6], 1));
    assert_eq!(read(readers.remove(1)).await, Err(BodyCut));
    readers.push(fifth);
    for reader in readers {
        assert_eq!(read(reader).await.unwrap(), content(FILE));
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_has_no_name_any_more_goes_before_one_that_has() {
    let (_dir, store) = new_store();
    let kept = store_file(&store, key(1), content(FILE)).await.unwrap().open().await.unwrap();
    let replaced = store_file(&store, key(2), content(FILE)).await.unwrap().open().await.unwrap();
    let replacement = store_file(&store, key(2), content(FILE)).await.unwrap().open().await.unwrap();
    assert_eq!((store.usage().files, store.usage().pinned), (2, 1));
    for number in 3..=4 {
        store_file(&store, key(number), content(FILE)).await.unwrap();
        assert_eq!(store.usage().pinned, 1);
    }
    assert_eq!((store.usage().files, store.usage().evicted), (3, 1), "3, which nobody reads, made room for 4");
    let growing = store.begin(key(5), meta()).await.unwrap();
    let mut other = store.begin(key(6), meta()).await.unwrap();
    other.write(content(FILE)).await.unwrap();
    assert_eq!((store.usage().files, store.usage().pinned, store.usage().cut), (2, 1, 0), "4 made room");
    let mut last = store.begin(key(7), meta()).await.unwrap();
    last.write(content(2_000_000)).await.unwrap();
    assert_eq!((store.usage().files, store.usage().pinned, store.usage().cut), (2, 0, 1));
    assert_eq!(read(replaced).await, Err(BodyCut));
    for reader in [kept, replacement] {
        assert_eq!(read(reader).await.unwrap(), content(FILE));
    }
    drop((growing, other, last));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_is_given_up_counts_while_it_is_read() {
    let (dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(200_000)).await.unwrap();
    file.complete().await.unwrap();
    let (reader, room) = (file.reader(), store.usage().unfinished_bytes);
    drop(file);
    quiet().await;
    let usage = store.usage();
    assert_eq!((usage.unfinished, usage.unfinished_bytes, usage.pinned, usage.pinned_bytes), (0, 0, 1, room));
    assert!(on_disk(&dir).is_empty());
    assert_eq!(read(reader).await.unwrap(), content(200_000));
    assert_eq!((store.usage().pinned, store.usage().pinned_bytes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_had_to_go_before_it_was_opened_is_not_opened() {
    let (dir, store) = new_store();
    let stored = store_file(&store, key(1), content(10)).await.unwrap();
    let saved = fs::read(&on_disk(&dir)[0]).unwrap();
    let path = on_disk(&dir)[0].clone();
    store_file(&store, key(1), content(20)).await.unwrap();
    fs::write(path, saved).unwrap();
    assert_eq!(stored.open().await.unwrap_err().kind(), std::io::ErrorKind::NotFound, "it would count nowhere");
    assert_eq!(store.find(&key(1)).unwrap().len(), 20);
}
