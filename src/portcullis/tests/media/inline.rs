//! Files on a thread of the pool, under the main budget: for who cannot answer later.

use std::sync::mpsc;

use super::*;
use crate::limits::MEDIA_CALLBACKS;

/// Built outside of any runtime: fetches run on the federation worker, as they do in use.
fn built(rig: &Rig, inline: bool) -> Portcullis {
    let builder = builder(8, &FakeRemote::new(|_| Answers::StaySilent))
        .remote_media(Box::new(rig.origin.clone()))
        .media_store(rig.store())
        .remote_fetch(ON);
    if inline { builder.inline_media().build().unwrap() } else { builder.build().unwrap() }
}

fn read(answer: Response<ResponseBody>) -> (u16, Vec<u8>) {
    let status = answer.status().as_u16();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut answer.into_body().into_reader(), &mut bytes).unwrap();
    (status, bytes)
}

fn held() -> (Arc<Semaphore>, FakeOrigin) {
    let told = Arc::new(Semaphore::new(0));
    let origin = FakeOrigin::new({
        let told = Arc::clone(&told);
        move |_| Does::GiveWhenTold(Arc::clone(&told), CAT)
    });
    (told, origin)
}

#[test]
fn m17_f14_a_second_file_of_the_same_client_is_429_and_the_slot_comes_back() {
    for inline in [false, true] {
        let (told, origin) = held();
        let rig = Rig::new(origin);
        let portcullis = built(&rig, inline);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                if !inline {
                    return portcullis.handle_blocking(&Gallery, address(1), &file("them.example", "a")).unwrap();
                }
                match portcullis.begin(&Gallery, address(1), &file("them.example", "a")).unwrap() {
                    Begun::Call(lookup) => portcullis.finish_blocking(lookup),
                    other => panic!("{other:?}"),
                }
            });
            while rig.origin.calls() == 0 {
                std::thread::yield_now();
            }
            let status = portcullis.status();
            assert_eq!((status.budgets.directory.in_flight, status.budgets.media.in_flight), (1, 0));
            let second = portcullis.handle_blocking(&Gallery, address(1), &file("them.example", "b")).unwrap();
            let (status, text) = read(second);
            assert_eq!(status, 429);
            assert!(String::from_utf8(text).unwrap().contains("files"));
            told.add_permits(1);
            assert_eq!(read(first.join().unwrap()), (200, CAT.to_vec()));
        });
        let status = portcullis.status();
        assert_eq!((status.budgets.directory.in_flight, status.calls.media.answered), (0, 1));
        let stored = portcullis.handle_blocking(&Gallery, address(1), &file("them.example", "a")).unwrap();
        assert_eq!(read(stored), (200, CAT.to_vec()));
        assert_eq!(rig.origin.calls(), 1);
    }
}

#[test]
fn an_answer_comes_later_without_a_thread_of_the_caller_s() {
    let (told, origin) = held();
    let rig = Rig::new(origin);
    let portcullis = built(&rig, false);
    let (send, receive) = mpsc::channel();
    for media_id in ["a", "b", "c"] {
        let Begun::Media(lookup) = portcullis.begin(&Gallery, address(1), &file("them.example", media_id)).unwrap()
        else {
            panic!("held no thread")
        };
        let send = send.clone();
        portcullis.spawn_media(lookup, move |answer| send.send(answer).unwrap());
    }
    assert_eq!(portcullis.status().budgets.media.in_flight, 3);
    told.add_permits(3);
    for _ in 0..3 {
        assert_eq!(read(receive.recv().unwrap()), (200, CAT.to_vec()));
    }
    // Dropping it all ends what is under way, uncalled.
    let Begun::Media(lookup) = portcullis.begin(&Gallery, address(1), &file("them.example", "d")).unwrap() else {
        panic!()
    };
    portcullis.spawn_media(lookup, move |answer| drop(send.send(answer)));
    drop(portcullis);
    if let Ok(answer) = receive.recv() {
        assert_eq!(answer.status(), 503);
    }
}

#[test]
fn callbacks_that_wait_and_panic_harm_no_call_and_hold_no_slot() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::Give(CAT)));
    let remote = FakeRemote::saying(200, NO_ROOMS);
    let portcullis = builder(8, &remote).remote_media(Box::new(rig.origin.clone()));
    let portcullis = portcullis.media_store(rig.store()).remote_fetch(ON).build().unwrap();
    let begun = |media_id: &str| match portcullis.begin(&Gallery, address(1), &file("them.example", media_id)) {
        Some(Begun::Media(lookup)) => lookup,
        other => panic!("{other:?}"),
    };
    let (say, said) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    for _ in 0..MEDIA_CALLBACKS {
        let (say, held) = (say.clone(), Arc::clone(&held));
        portcullis.spawn_media(begun("a"), move |answer| {
            say.send(answer.status().as_u16()).unwrap();
            let _ended = held.lock().recv();
            panic!("on purpose");
        });
    }
    for _ in 0..MEDIA_CALLBACKS {
        assert_eq!(said.recv_timeout(60 * SECOND), Ok(200));
    }

    // Every place is taken. The disk has threads of its own, lookups go on, and what comes later waits without a slot.
    let after = say.clone();
    portcullis.spawn_media(begun("b"), move |answer| after.send(answer.status().as_u16()).unwrap());
    let list = portcullis.handle_blocking(&Gallery, address(2), &list_of("r.example")).unwrap();
    assert_eq!(read(list).0, 200);
    let stored = portcullis.handle_blocking(&Gallery, address(2), &file("them.example", "c")).unwrap();
    assert_eq!(read(stored), (200, CAT.to_vec()));
    while portcullis.status().calls.media.answered < 3 || portcullis.status().budgets.media.in_flight > 0 {
        std::thread::yield_now();
    }
    assert!(said.try_recv().is_err(), "no more than so many at once");
    drop(let_go);
    assert_eq!(said.recv_timeout(60 * SECOND), Ok(200));
}

#[tokio::test(start_paused = true)]
async fn the_whole_file_is_there_before_the_answer_so_that_failures_are_proper_answers() {
    for (last, outcome, calls) in [
        (Piece::After(Duration::from_secs(1), b"two"), (200, ""), 1),
        (Piece::Break(BROKEN), (502, "M_UNKNOWN"), 1),
        (Piece::Zeros(256 * 1024), (502, "M_TOO_LARGE"), 1),
        (Piece::Stall, (504, "M_UNKNOWN"), 1),
    ] {
        let rig = Rig::new(FakeOrigin::new(move |_| {
            Does::Drip(vec![Piece::After(Duration::from_secs(1), b"one "), last.clone()], None)
        }));
        let portcullis = rig.builder().inline_media().build().unwrap();
        let Begun::Call(lookup) = portcullis.begin(&Gallery, address(1), &file("them.example", "abc")).unwrap() else {
            panic!("inline")
        };
        assert_eq!(portcullis.admission().budget().in_flight(), 1);
        let answer = portcullis.finish(lookup).await;
        assert_eq!(portcullis.admission().budget().in_flight(), 0);
        assert_eq!(answer.headers().contains_key("content-length"), outcome.0 == 200);
        assert_eq!(got(answer).await.outcome(), outcome);
        assert_eq!(rig.origin.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn inline_and_off_the_pool_share_a_fetch() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::GiveAfter(Duration::from_secs(2), CAT)));
    let portcullis = rig.builder().inline_media().build().unwrap();
    let Begun::Call(inline) = portcullis.begin(&Gallery, address(1), &file("them.example", "abc")).unwrap() else {
        panic!("inline")
    };
    // An asynchronous caller holds no thread, whatever the other half of the house does.
    let off_pool = start(&portcullis, 2, &file("them.example", "abc"));
    settle().await;
    let status = portcullis.status();
    assert_eq!((status.budgets.directory.in_flight, status.budgets.media.in_flight), (1, 1));
    assert!(got(portcullis.finish(inline).await).await.is(CAT));
    assert!(off_pool.await.unwrap().is(CAT));
    assert_eq!(rig.origin.calls(), 1);
    at_rest(&portcullis).await;
}
