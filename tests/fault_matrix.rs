//! Whatever goes wrong at another server, on whichever route: the right answer in time, and everything given back.
#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

use fault_matrix::route::{FILE_ROUTES, ROUTES};
use fault_matrix::table::MATRIX;
use fault_matrix::{cell, file_cell, file_table};
use loopback::{OWN_ROOM, POOL, World, ask, ask_from_a_thread, assert_at_rest, client, get};
use parking_lot::Mutex;
use portcullis::limits;
use support::{Behaviour, PrivateCa, descriptors, tls_peer::refusing_address, until};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

#[cfg(test)]
mod loopback;
#[cfg(test)]
mod support;

#[cfg(test)]
mod fault_matrix {
    pub(crate) mod cell;
    pub(crate) mod file_cell;
    pub(crate) mod file_stage;
    pub(crate) mod file_table;
    pub(crate) mod route;
    pub(crate) mod stage;
    pub(crate) mod table;
}

/// Held by a test from before its runtime is there to after it is gone.
static ALONE: Mutex<()> = Mutex::new(());

/// Cells at a time. Most of them wait; more would starve those that have to shake hands.
const AT_ONCE: usize = 16;

/// Runs one test of this process at a time: its descriptors are as many afterwards as they were.
fn alone(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock();
    // Stays open from its first use on.
    refusing_address();
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let before = descriptors::open();
        test.await;
        until("descriptors of the process", before, descriptors::open).await;
    });
}

#[test]
fn every_fault_on_every_route_is_answered_in_time_and_gives_everything_back() {
    alone(every_cell());
}

async fn every_cell() {
    let ca = Arc::new(PrivateCa::new());
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut cells = JoinSet::new();
    let mut names = BTreeMap::new();
    for row in MATRIX {
        for (column, route) in ROUTES.into_iter().enumerate() {
            let (ca, places) = (Arc::clone(&ca), Arc::clone(&places));
            let cell = cells.spawn(async move {
                let _place = places.acquire().await.unwrap();
                (column, cell::run(row, column, ca).await)
            });
            names.insert(cell.id(), format!("{:?} × {route:?}", row.stage));
        }
    }
    assert_eq!(names.len(), MATRIX.len() * ROUTES.len());

    let mut told: BTreeMap<(usize, u16), Vec<String>> = BTreeMap::new();
    let mut failed = Vec::new();
    while let Some(ended) = cells.join_next_with_id().await {
        match ended {
            Ok((_, (column, answer))) => told.entry((column, answer.status)).or_default().push(answer.text),
            Err(error) => failed.push(format!("{}: {}", names[&error.id()], reason(error))),
        }
    }
    assert!(failed.is_empty(), "{} cells failed: {failed:#?}", failed.len());
    for ((column, status), mut texts) in told {
        texts.dedup();
        assert_eq!(texts.len(), 1, "{:?} {status}: the text tells faults apart: {texts:?}", ROUTES[column]);
    }
}

#[test]
fn every_fault_of_every_file_is_an_answer_in_time_or_a_cut_one_and_gives_everything_back() {
    alone(every_cell_of_files());
}

async fn every_cell_of_files() {
    let ca = Arc::new(PrivateCa::new());
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut cells = JoinSet::new();
    let mut names = BTreeMap::new();
    for (stage, files) in file_table::rows() {
        for (column, route) in FILE_ROUTES.into_iter().enumerate() {
            let (ca, places) = (Arc::clone(&ca), Arc::clone(&places));
            let cell = cells.spawn(async move {
                let _place = places.acquire().await.unwrap();
                file_cell::run(stage, files, column, ca).await
            });
            names.insert(cell.id(), format!("{stage:?} × {route:?}"));
        }
    }
    assert_eq!(names.len(), file_table::rows().count() * FILE_ROUTES.len());

    let mut told: BTreeMap<(u16, String), Vec<String>> = BTreeMap::new();
    let mut failed = Vec::new();
    while let Some(ended) = cells.join_next_with_id().await {
        match ended {
            Ok((_, Some(answer))) => told.entry((answer.status, answer.errcode())).or_default().push(answer.text),
            Ok((_, None)) => {}
            Err(error) => failed.push(format!("{}: {}", names[&error.id()], reason(error))),
        }
    }
    assert!(failed.is_empty(), "{} cells failed: {failed:#?}", failed.len());
    for (outcome, mut texts) in told {
        texts.dedup();
        assert_eq!(texts.len(), 1, "{outcome:?}: the text tells faults apart: {texts:?}");
    }
}

fn reason(error: JoinError) -> String {
    let panic = error.into_panic();
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// The record's figures, with its own clock: a pool of eight and a peer that takes requests and never answers.
#[test]
fn f03_f04_f05_twenty_threads_ask_a_silent_peer_and_half_the_pool_stays_free() {
    alone(async {
        // Differing questions make a call each. One question asked by all shares a call while there is time; whoever has
        // some milliseconds more than the first may use them for another.
        let differing = twenty_threads(4, |number| format!("&limit={}", u16::from(number) + 1));
        let equal = twenty_threads(1, |_| String::new());
        tokio::join!(differing, equal);
    });
}

async fn twenty_threads(connections: usize, more: impl Fn(u8) -> String) {
    let world = World::new().await;
    let (peer, server) = world.peer("silent.example", Behaviour::TlsSilent).await;
    let portcullis = world.portcullis(None);
    let bound = limits::DIRECTORY_DEADLINE + limits::WORKER_MARGIN;

    let together = Arc::new(Barrier::new(20));
    let mut asking = JoinSet::new();
    for number in 0..20 {
        let (portcullis, together) = (Arc::clone(&portcullis), Arc::clone(&together));
        let request = get(&format!("/_matrix/client/v3/publicRooms?server={server}{}", more(number)));
        asking.spawn(async move {
            tokio::task::spawn_blocking(move || together.wait()).await.unwrap();
            ask_from_a_thread(&portcullis, client(number), request).await
        });
    }
    let in_flight = || portcullis.admission().budget().in_flight();
    until("calls in flight", POOL / 2, in_flight).await;
    let local = ask(&portcullis, client(99), &get("/_matrix/client/v3/publicRooms")).await;
    assert_eq!(local.content()["chunk"][0]["room_id"], OWN_ROOM);
    assert_eq!(in_flight(), POOL / 2, "the local answer waited for the calls");
    until("connections while the calls are on", connections, || peer.accepted()).await;
    assert_eq!(in_flight(), POOL / 2);

    let mut outcomes = BTreeMap::<_, usize>::new();
    while let Some(answer) = asking.join_next().await {
        let answer = answer.unwrap();
        answer.assert_headers();
        let (status, errcode) = answer.outcome();
        match status {
            429 => {
                assert_eq!(answer.headers["retry-after"], "1");
                assert_eq!(answer.content()["retry_after_ms"], 1000);
                assert!(answer.took < limits::DIRECTORY_DEADLINE / 2, "a refusal waited: {answer:?}");
            }
            _ => assert!(answer.took <= bound, "{answer:?}"),
        }
        *outcomes.entry((status, errcode)).or_default() += 1;
    }
    assert_at_rest(&portcullis);
    let (refused, cut) = ((429, "M_LIMIT_EXCEEDED".to_owned()), (504, "M_UNKNOWN".to_owned()));
    assert_eq!(outcomes, BTreeMap::from([(refused, 16), (cut, 4)]));
    assert!((connections..=POOL / 2).contains(&peer.accepted()), "{} connections", peer.accepted());
    assert_eq!(portcullis.admission().refused().global, 16);
    assert_eq!(portcullis.status().federation_worker.overruns, 0);
    peer.all_closed().await;
}
