//! The in-flight budget under every interleaving of two threads, many of three, and random ones of eight.
//!
//! Ordinary `cargo test` has nothing to explore here; the checkers need the crate built over their own primitives:
//!
//! ```text
//! RUSTFLAGS="--cfg portcullis_loom"    cargo test --release --no-default-features --test races
//! RUSTFLAGS="--cfg portcullis_shuttle" cargo test --release --no-default-features --test races
//! ```

#[cfg(portcullis_loom)]
mod loom_explores {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;
    use portcullis::{InFlightBudget, InFlightCaps};

    /// Counts what is held at the same time, beside the budget and without its help.
    struct Witness {
        held: AtomicUsize,
        cap: usize,
    }

    impl Witness {
        fn hold(&self) {
            assert!(self.held.fetch_add(1, Ordering::SeqCst) < self.cap, "admitted over the cap");
            thread::yield_now();
            self.held.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn rivals(threads: usize, cap: usize, per_key: usize, key_of: fn(usize) -> usize) {
        let budget = InFlightBudget::new(InFlightCaps { global: cap, per_key });
        let witness = Arc::new(Witness { held: AtomicUsize::new(0), cap });
        let rivals: Vec<_> = (0..threads)
            .map(|index| {
                let (budget, witness) = (budget.clone(), Arc::clone(&witness));
                thread::spawn(move || {
                    if let Ok(slot) = budget.try_acquire(&key_of(index)) {
                        witness.hold();
                        drop(slot);
                    }
                })
            })
            .collect();
        for rival in rivals {
            rival.join().unwrap();
        }
        assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0), "a slot leaked");
        assert!(budget.try_acquire(&0).is_ok(), "the full hint went stale");
    }

    #[test]
    fn two_strangers_never_exceed_a_cap_of_one_and_leak_nothing() {
        loom::model(|| rivals(2, 1, 1, |index| index));
    }

    #[test]
    fn two_calls_of_one_key_leak_nothing() {
        loom::model(|| rivals(2, 2, 1, |_| 7));
    }

    /// The array has a place for each key, so one key that may hold more is what only the count can stop.
    #[test]
    fn two_calls_of_one_key_never_exceed_a_cap_of_one() {
        loom::model(|| rivals(2, 1, 2, |_| 7));
    }

    #[test]
    fn three_strangers_never_exceed_a_cap_of_two() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| rivals(3, 2, 1, |index| index));
    }

    #[test]
    fn two_callers_of_one_key_do_not_refuse_each_other() {
        loom::model(|| {
            let budget = InFlightBudget::new(InFlightCaps { global: 2, per_key: 1 });
            let other = budget.clone();
            let rival = thread::spawn(move || other.try_acquire(&1).ok());
            let mine = budget.try_acquire(&1).ok();
            let theirs = rival.join().unwrap();
            assert_eq!(usize::from(mine.is_some()) + usize::from(theirs.is_some()), 1);
        });
    }

    #[test]
    fn a_release_that_has_happened_is_seen_by_the_next_caller() {
        loom::model(|| {
            let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
            let slot = budget.try_acquire(&1).unwrap();
            let other = budget.clone();
            let rival = thread::spawn(move || drop(other.try_acquire(&2)));
            drop(slot);
            rival.join().unwrap();
            assert!(budget.try_acquire(&3).is_ok());
        });
    }
}

#[cfg(portcullis_shuttle)]
mod shuttle_explores {
    use portcullis::{InFlightBudget, InFlightCaps};
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::{AtomicUsize, Ordering};
    use shuttle::thread;

    const THREADS: usize = 8;
    const CAP: usize = 3;

    #[test]
    fn eight_threads_never_exceed_the_cap_and_leak_nothing() {
        shuttle::check_random(
            || {
                let budget = InFlightBudget::new(InFlightCaps { global: CAP, per_key: 1 });
                let held = Arc::new(AtomicUsize::new(0));
                let rivals: Vec<_> = (0..THREADS)
                    .map(|index| {
                        let (budget, held) = (budget.clone(), Arc::clone(&held));
                        thread::spawn(move || {
                            for round in 0..3 {
                                if let Ok(slot) = budget.try_acquire(&((index + round) % 5)) {
                                    assert!(held.fetch_add(1, Ordering::SeqCst) < CAP, "admitted over the cap");
                                    thread::yield_now();
                                    held.fetch_sub(1, Ordering::SeqCst);
                                    drop(slot);
                                }
                            }
                        })
                    })
                    .collect();
                for rival in rivals {
                    rival.join().unwrap();
                }
                assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0), "a slot leaked");
                assert!(budget.try_acquire(&0).is_ok(), "the full hint went stale");
            },
            2_000,
        );
    }

    #[test]
    fn a_slot_released_by_another_thread_comes_back() {
        shuttle::check_random(
            || {
                let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
                let other = budget.clone();
                let slot = budget.try_acquire(&1).unwrap();
                let holder = thread::spawn(move || drop(slot));
                let asker = thread::spawn(move || drop(other.try_acquire(&2)));
                holder.join().unwrap();
                asker.join().unwrap();
                assert!(budget.try_acquire(&3).is_ok());
            },
            2_000,
        );
    }
}
