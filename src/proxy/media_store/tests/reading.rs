//! Readers: behind a writer, at any pace, on any thread.

use std::io::{ErrorKind, Read as _};

use futures_util::FutureExt as _;
use http_body::Body as _;
use tokio::time::Instant;

use super::*;
use crate::limits::MEDIA_CHUNK_BYTES;
use crate::proxy::response_body::ResponseBody;

async fn piece(reader: &mut FileReader) -> Option<Result<Bytes, BodyCut>> {
    Some(reader.frame().await?.map(|frame| frame.into_data().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn bytes_reach_a_waiting_reader_at_once_and_its_end_comes_with_the_word_of_the_writer() {
    let (_dir, store) = new_store();
    let start = Instant::now();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    let mut reader = file.reader();
    assert!(piece(&mut reader).now_or_never().is_none(), "nothing there yet");
    for round in 1..4 {
        file.write(Bytes::from(vec![round; 5])).await.unwrap();
        assert_eq!(piece(&mut reader).await.unwrap().unwrap(), vec![round; 5], "without a buffer to fill first");
        assert!(piece(&mut reader).now_or_never().is_none());
        assert!(!reader.is_end_stream());
    }
    let reading = tokio::spawn(async move { piece(&mut reader).await });
    tokio::task::yield_now().await;
    assert!(!reading.is_finished(), "the last byte is there, but nobody said that it is the last");
    file.complete().await.unwrap();
    assert_eq!(reading.await.unwrap(), None);
    assert_eq!(start.elapsed(), Duration::ZERO, "no timer had a part in it");
}

#[tokio::test(start_paused = true)]
async fn many_readers_behind_one_writer_all_get_the_file_and_one_that_never_reads_hinders_nobody() {
    let (_dir, store) = new_store();
    let whole = content(1_500_000);
    let mut file = store.begin(key(1), meta()).await.unwrap();
    let idle = file.reader();
    let mut stuck = file.reader();
    let mut readers: Vec<_> = (0..16).map(|_| tokio::spawn(read(file.reader()))).collect();
    let mut left = whole.clone();
    let mut size = 1;
    while !left.is_empty() {
        file.write(left.split_to(size.min(left.len()))).await.unwrap();
        size = size * 3 % 100_003;
        if readers.len() < 48 {
            readers.push(tokio::spawn(read(file.reader())));
        }
    }
    let first = piece(&mut stuck).await.unwrap().unwrap();
    file.complete().await.unwrap();
    let late = file.reader();
    let stored = file.keep().await.unwrap();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap(), whole);
    }
    assert_eq!(read(late).await.unwrap(), whole);
    assert_eq!(read(stored.open().await.unwrap()).await.unwrap(), whole);
    assert_eq!(first, whole.slice(..MEDIA_CHUNK_BYTES));
    assert_eq!(read(stuck).await.unwrap(), whole.slice(MEDIA_CHUNK_BYTES..), "much later");
    assert_eq!(read(idle).await.unwrap(), whole);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_cuts_every_reader_wherever_it_is() {
    let (_dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(100_000)).await.unwrap();
    let waiting = tokio::spawn(read(file.reader()));
    let mut halfway = file.reader();
    piece(&mut halfway).await.unwrap().unwrap();
    let ranged = tokio::spawn(read(file.reader().range(&(99_990..200_000))));
    let fresh = file.reader();
    quiet().await;
    drop(file);
    assert_eq!(waiting.await.unwrap(), Err(BodyCut));
    assert_eq!(ranged.await.unwrap(), Err(BodyCut));
    assert_eq!(piece(&mut halfway).await, Some(Err(BodyCut)));
    assert_eq!(piece(&mut halfway).await, None);
    assert_eq!(read(fresh).await, Err(BodyCut));
}

#[tokio::test(start_paused = true)]
async fn the_size_is_known_once_it_cannot_change() {
    let (_dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    let growing = ResponseBody::from(file.reader());
    file.write(content(70_000)).await.unwrap();
    assert_eq!((growing.size_hint().lower(), growing.size_hint().exact()), (0, None));
    file.complete().await.unwrap();
    assert_eq!(growing.size_hint().exact(), Some(70_000));
    let mut reader = file.keep().await.unwrap().open().await.unwrap();
    assert_eq!(reader.size_hint().exact(), Some(70_000));
    piece(&mut reader).await.unwrap().unwrap();
    assert_eq!(reader.size_hint().exact(), Some(70_000 - 65_536));
    assert!(!reader.is_end_stream());
    piece(&mut reader).await.unwrap().unwrap();
    assert!(reader.is_end_stream());
    assert!(growing.is_streamed() && !ResponseBody::from(content(1)).is_streamed());
    let mut growing = growing.into_bytes().expect_err("a file is not lost unseen");
    let first = std::future::poll_fn(|context| std::pin::Pin::new(&mut growing).poll_frame(context)).await;
    assert_eq!(first.unwrap().unwrap().into_data().unwrap().len(), 65_536);
}

#[tokio::test(start_paused = true)]
async fn a_range_is_exactly_that() {
    let (_dir, store) = new_store();
    let whole = content(200_000);
    let mut file = store.begin(key(1), meta()).await.unwrap();
    let early = tokio::spawn(read(file.reader().range(&(70_000..130_000))));
    let empty = file.reader().range(&(5..5));
    assert!(empty.is_end_stream());
    file.write(whole.slice(..130_000)).await.unwrap();
    assert_eq!(early.await.unwrap().unwrap(), whole.slice(70_000..130_000), "though the file still grows");
    file.write(whole.slice(130_000..)).await.unwrap();
    file.complete().await.unwrap();
    assert_eq!(read(file.reader().range(&(199_999..200_001))).await, Err(BodyCut), "there is no such byte");
    let stored = file.keep().await.unwrap();
    for (start, end) in [(0, 1), (0, 200_000), (199_999, 200_000), (65_535, 65_537), (7, 7), (0, 0)] {
        let reader = stored.open().await.unwrap().range(&(start..end));
        assert_eq!(reader.size_hint().exact(), Some(end - start));
        let wanted = whole.slice(usize::try_from(start).unwrap()..usize::try_from(end).unwrap());
        assert_eq!(read(reader).await.unwrap(), wanted);
    }
    for beyond in [199_990..u64::MAX, 300_000..400_000, u64::MAX..u64::MAX] {
        let left = 200_000_u64.saturating_sub(beyond.start);
        let reader = stored.open().await.unwrap().range(&beyond);
        assert_eq!(reader.size_hint().exact(), Some(left));
        assert_eq!(u64::try_from(read(reader).await.unwrap().len()).unwrap(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_may_leave_at_any_time() {
    let (_dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).await.unwrap();
    file.write(content(200_000)).await.unwrap();
    for polls in 0..4 {
        let mut reader = file.reader();
        for _ in 0..polls {
            let _ = piece(&mut reader).now_or_never();
            tokio::task::yield_now().await;
        }
    }
    file.complete().await.unwrap();
    assert_eq!(read(file.reader()).await.unwrap(), content(200_000));
}

/// What a reader holds in memory, on a thread of its own: without a runtime everything is read on the thread that asks.
#[test]
fn a_reader_holds_one_piece_however_large_the_file_is() {
    let (_dir, store) = new_store();
    let stored = store_file(&store, key(1), content(8 * 1024 * 1024)).now_or_never().unwrap().unwrap();
    let mut reader = stored.open().now_or_never().unwrap().unwrap();
    let spent = allocation_counter::measure(|| {
        while let Some(read) = piece(&mut reader).now_or_never().unwrap() {
            assert!(read.unwrap().len() <= MEDIA_CHUNK_BYTES);
        }
    });
    let most = u64::try_from(MEDIA_CHUNK_BYTES).unwrap() + 1024;
    assert!((65_536..=most).contains(&spent.bytes_max), "{}", spent.bytes_max);
}

/// What a writer holds in memory while the disk is slower than the origin.
#[test]
fn a_writer_takes_no_more_than_its_buffer_before_it_waits() {
    let (_dir, store) = new_store();
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let mut file = runtime.block_on(store.begin(key(1), meta())).unwrap();
    // The one thread that asks the disk is busy until it is let go.
    let (release, busy) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || busy.recv());
    runtime.block_on(async {
        let mut accepted = 0;
        while let Some(written) = file.write(content(1000)).now_or_never() {
            written.unwrap();
            accepted += 1000;
        }
        assert_eq!(accepted, 66_000, "the first piece is being written, and half of the buffer waits");
        release.send(()).unwrap();
        // The last thousand was taken in part, and that future is gone.
        drop(file);
    });
}

#[test]
fn who_reads_and_who_writes_need_not_be_of_one_runtime() {
    let (_dir, store) = new_store();
    let whole = content(3_000_000);
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (writers, readers) = (runtime(), runtime());
    let mut file = writers.block_on(store.begin(key(1), meta())).unwrap();
    let reading = readers.spawn(read(file.reader()));
    let mut synchronous = ResponseBody::from(file.reader()).into_reader();
    let waiting = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        synchronous.read_to_end(&mut bytes).map(|_| bytes)
    });
    let sent = whole.clone();
    writers.block_on(async move {
        for chunk in sent.chunks(12_345) {
            file.write(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        file.complete().await.unwrap();
    });
    assert_eq!(readers.block_on(reading).unwrap().unwrap(), whole);
    assert_eq!(waiting.join().unwrap().unwrap(), whole);
}

#[test]
fn a_synchronous_reader_is_told_when_the_file_is_cut() {
    let (_dir, store) = new_store();
    let mut file = store.begin(key(1), meta()).now_or_never().unwrap().unwrap();
    file.write(content(10)).now_or_never().unwrap().unwrap();
    let mut reader = ResponseBody::from(file.reader()).into_reader();
    let mut bytes = [0; 100];
    assert_eq!(reader.read(&mut bytes[..0]).unwrap(), 0);
    assert_eq!(reader.read(&mut bytes).unwrap(), 10, "what is there, without waiting for more");
    assert_eq!(bytes[..10], content(10));
    let waiting = std::thread::spawn(move || reader.read(&mut bytes).unwrap_err());
    drop(file);
    let error = waiting.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(error.get_ref().unwrap().is::<BodyCut>());
}

#[test]
fn a_body_is_sent_from_thread_to_thread() {
    fn assert_sent<T: Send + Unpin + 'static>() {}
    fn assert_fit<T: Send + Sync + Unpin + 'static>() {}
    assert_sent::<ResponseBody>();
    assert_fit::<FileReader>();
    assert_fit::<MediaStore>();
    assert_fit::<StoredFile>();
    assert_fit::<Unfinished>();
}
