//! What a turn at the gate costs when a slot is free, beside a semaphore and the two clock reads a caller would need too.
//!
//! `cargo bench --bench gate` ends with a table of medians and their ratio. Both contenders run in turns, batch by batch, so
//! that whatever else the machine is doing slows both. The bar: acquire + finish takes at most 1.1 times the yardstick in
//! one thread.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a bench that cannot be set up has to fail")]

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use portcullis::Outcome;
use portcullis::gate::{GateKey, HomeserverGate};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The gate's ceiling, where a gate that is well ends up.
const CAP: usize = 4;
/// Operations of a batch in one thread: so short that few are interrupted.
const BATCH: u32 = 2_000;
/// The same per thread, of two: enough to drown the cost of starting them.
const LONG_BATCH: u32 = 20_000;
/// Batches of each contender, in one thread and in two.
const ROUNDS: [usize; 2] = [4_001, 301];

type Operation<'a> = &'a (dyn Fn() + Sync);

/// Polls once: the slot is free.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("a slot is free"),
    }
}

fn main() {
    let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org").expect("a base URL"));
    let ours = || ready(gate.acquire()).finish(black_box(Outcome::FastSuccess));
    let semaphore = Arc::new(Semaphore::new(CAP));
    // Both clock reads are the gate's own: when the call was admitted, and when it ended.
    let theirs = || {
        let permit = ready(Arc::clone(&semaphore).acquire_owned());
        black_box(Instant::now());
        drop(black_box(permit));
        black_box(Instant::now());
    };
    // From the second growth on the limit stays where it is.
    (0..LONG_BATCH).for_each(|_| ours());
    assert_eq!(gate.status().limit, CAP);

    println!(
        "{:<18}{:<11}{:>14}{:>14}{:>26}",
        "operation", "threads", "portcullis", "yardstick", "÷ semaphore + 2 clocks"
    );
    for (threads, operations, rounds) in [(1, BATCH, ROUNDS[0]), (2, LONG_BATCH, ROUNDS[1])] {
        let (ours, theirs) = in_turns(threads, operations, rounds, &ours, &theirs);
        println!(
            "{:<18}{:<11}{ours:>11.1} ns{theirs:>11.1} ns{:>26.2}",
            "acquire-finish",
            format!("{threads}-thread{}", if threads == 1 { "" } else { "s" }),
            ours / theirs
        );
    }
}

/// The medians of both, in nanoseconds per operation.
fn in_turns(threads: u32, operations: u32, rounds: usize, ours: Operation<'_>, theirs: Operation<'_>) -> (f64, f64) {
    let mut times = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
    for round in 0..rounds {
        for which in [round % 2, (round + 1) % 2] {
            times[which].push(batch(threads, operations, [ours, theirs][which]));
        }
    }
    let [ours, theirs] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e9 / f64::from(threads * operations)
    });
    (ours, theirs)
}

fn batch(threads: u32, operations: u32, operation: Operation<'_>) -> Duration {
    let many = || (0..operations).for_each(|_| operation());
    let start = Instant::now();
    if threads == 1 {
        many();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(many);
            }
        });
    }
    start.elapsed()
}
