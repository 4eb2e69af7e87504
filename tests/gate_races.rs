//! The gate's shell under every interleaving of two threads, many of three, and random ones of eight.
//!
//! A waiter here parks its thread until its waker is called, so a lost wake-up is a deadlock, which both checkers report.
//! Ordinary `cargo test` has nothing to explore; the checkers need the crate built over their own primitives:
//!
//! ```text
//! RUSTFLAGS="--cfg portcullis_loom"    cargo test --release --no-default-features --features gate --test gate_races
//! RUSTFLAGS="--cfg portcullis_shuttle" cargo test --release --no-default-features --features gate --test gate_races
//! ```

#![cfg(all(feature = "gate", any(portcullis_loom, portcullis_shuttle)))]
#![expect(clippy::unwrap_used, reason = "a race that was lost has to fail the test")]

#[cfg(portcullis_loom)]
use loom as checker;
#[cfg(portcullis_shuttle)]
use shuttle as checker;

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use checker::sync::Arc;
use checker::sync::atomic::{AtomicUsize, Ordering};
use checker::thread;
use portcullis::gate::{BreakerState, GateConstants, GateKey, HomeserverGate, Permit};
use portcullis::{Outcome, Overload};

const OVERLOADED: Outcome = Outcome::Overloaded(Overload::ServerError);

const HOLD: Duration = Duration::from_secs(15 * 60);

/// A gate with that limit, from which it does not grow.
fn gate_of(limit: usize) -> HomeserverGate {
    let constants = GateConstants { initial_limit: limit, max_limit: limit, ..GateConstants::default() };
    HomeserverGate::with_dangerous_constants(GateKey::from_base_url("https://matrix.example.org").unwrap(), constants)
}

/// A gate whose breaker is open and whose period is over: the next one probes.
fn due_gate() -> HomeserverGate {
    let gate = gate_of(1);
    wait_for(gate.acquire()).finish(OVERLOADED);
    gate.pass_time_to(Duration::from_secs(60));
    assert_eq!(gate.status().breaker.state, BreakerState::Open);
    gate
}

struct Unparks(thread::Thread);

impl Wake for Unparks {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// Sleeps until woken, for as long as the future is not ready.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(std::sync::Arc::new(Unparks(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn poll_once<T>(future: &mut Waiting<T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// A caller who is already in line.
fn in_line(gate: &HomeserverGate) -> Waiting<Permit> {
    let gate = gate.clone();
    let mut waiting: Waiting<Permit> = Box::pin(async move { gate.acquire().await });
    assert!(poll_once(&mut waiting).is_none(), "it has to wait");
    waiting
}

/// Counts calls that are out at the same time, beside the gate and without its help.
struct Witness {
    out: AtomicUsize,
    cap: usize,
}

impl Witness {
    fn of(cap: usize) -> Arc<Self> {
        Arc::new(Self { out: AtomicUsize::new(0), cap })
    }

    fn call(&self) {
        assert!(self.out.fetch_add(1, Ordering::SeqCst) < self.cap, "admitted over the limit");
        thread::yield_now();
        self.out.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Nobody is out, nobody waits, and the next one is admitted as if nothing had been.
fn nothing_leaked(gate: &HomeserverGate) {
    let seen = gate.status();
    assert_eq!((seen.active, seen.waiting, seen.held), (0, 0, 0), "{seen:?}");
    wait_for(gate.acquire()).finish(Outcome::Refused);
}

#[cfg(portcullis_loom)]
mod loom_explores {
    use super::*;

    /// Every interleaving, of however many threads there are, with at most so many switches that nobody asked for.
    fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    #[test]
    fn one_who_waits_is_woken_by_the_end_of_a_call() {
        loom::model(|| {
            let (gate, witness) = (gate_of(1), Witness::of(1));
            let (theirs, watching) = (gate.clone(), Arc::clone(&witness));
            let rival = thread::spawn(move || {
                let permit = wait_for(theirs.acquire());
                watching.call();
                permit.finish(Outcome::Refused);
            });
            let permit = wait_for(gate.acquire());
            witness.call();
            permit.finish(Outcome::Refused);
            rival.join().unwrap();
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn one_who_leaves_while_a_slot_comes_free_takes_nothing_with_it() {
        loom::model(|| {
            let gate = gate_of(1);
            let permit = wait_for(gate.acquire());
            let (leaving, theirs) = (in_line(&gate), gate.clone());
            let rival = thread::spawn(move || {
                drop(leaving);
                wait_for(theirs.acquire()).finish(Outcome::Refused);
            });
            permit.finish(Outcome::Refused);
            rival.join().unwrap();
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn a_turn_given_to_one_who_leaves_goes_to_the_next() {
        bounded(3, || {
            let gate = gate_of(1);
            let permit = wait_for(gate.acquire());
            let (leaving, theirs) = (in_line(&gate), gate.clone());
            let leaver = thread::spawn(move || drop(leaving));
            let finisher = thread::spawn(move || permit.finish(Outcome::Refused));
            wait_for(theirs.acquire()).finish(Outcome::Refused);
            leaver.join().unwrap();
            finisher.join().unwrap();
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn three_callers_never_exceed_a_limit_of_two() {
        bounded(3, || {
            let (gate, witness) = (gate_of(2), Witness::of(2));
            let call = |gate: &HomeserverGate, witness: &Witness| {
                let permit = wait_for(gate.acquire());
                witness.call();
                permit.finish(Outcome::Refused);
            };
            let rivals: Vec<_> = (0..2)
                .map(|_| {
                    let (gate, witness) = (gate.clone(), Arc::clone(&witness));
                    thread::spawn(move || call(&gate, &witness))
                })
                .collect();
            call(&gate, &witness);
            for rival in rivals {
                rival.join().unwrap();
            }
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn one_who_waits_is_woken_by_the_end_of_a_hold() {
        loom::model(|| {
            let gate = gate_of(2);
            let (first, second) = (wait_for(gate.acquire()), wait_for(gate.acquire()));
            first.finish(Outcome::TimedOut);
            second.finish(Outcome::Refused);
            let theirs = gate.clone();
            let rival = thread::spawn(move || wait_for(theirs.acquire()).finish(Outcome::Refused));
            gate.pass_time_to(HOLD);
            rival.join().unwrap();
            nothing_leaked(&gate);
        });
    }

    /// Whoever looks does what the timer would have done, and has to wake whom it would have woken.
    #[test]
    fn a_look_at_the_gate_loses_no_wake_up() {
        bounded(3, || {
            let gate = gate_of(2);
            let (first, second) = (wait_for(gate.acquire()), wait_for(gate.acquire()));
            first.finish(Outcome::TimedOut);
            second.finish(Outcome::Refused);
            let (theirs, looked_at) = (gate.clone(), gate.clone());
            let waiter = thread::spawn(move || wait_for(theirs.acquire()).finish(Outcome::Refused));
            let looker = thread::spawn(move || {
                let seen = looked_at.status();
                assert!(seen.active + seen.held <= 1, "{seen:?}");
                assert_eq!(seen.limit, 1);
            });
            gate.pass_time_to(HOLD);
            waiter.join().unwrap();
            looker.join().unwrap();
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn two_signs_of_load_of_one_burst_halve_the_limit_once() {
        loom::model(|| {
            let gate = gate_of(4);
            let (first, second) = (wait_for(gate.acquire()), wait_for(gate.acquire()));
            let user = gate.interactive();
            let rival = thread::spawn(move || first.finish(OVERLOADED));
            user.report(Outcome::TimedOut);
            second.finish(OVERLOADED);
            rival.join().unwrap();
            assert_eq!(gate.status().limit, 2);
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn two_who_would_probe_do_so_one_after_the_other() {
        loom::model(|| {
            let (gate, witness) = (due_gate(), Witness::of(1));
            let (theirs, watching) = (gate.clone(), Arc::clone(&witness));
            let probe = |gate: &HomeserverGate, witness: &Witness| {
                let permit = wait_for(gate.acquire());
                witness.call();
                drop(permit);
            };
            let rival = thread::spawn(move || probe(&theirs, &watching));
            probe(&gate, &witness);
            rival.join().unwrap();
            let seen = gate.status();
            assert_eq!((seen.breaker.state, seen.active, seen.waiting), (BreakerState::Open, 0, 0));
            assert!(wait_for(gate.acquire()).is_probe());
        });
    }

    #[test]
    fn a_probe_that_is_answered_wakes_the_caller_and_the_poll() {
        bounded(3, || {
            let gate = due_gate();
            let probe = wait_for(gate.acquire());
            let (caller, poll) = (gate.clone(), gate.clone());
            let caller = thread::spawn(move || wait_for(caller.acquire()).finish(Outcome::Refused));
            let poll = thread::spawn(move || wait_for(poll.poll_turn()).finish(Outcome::FastSuccess));
            probe.finish(Outcome::SlowSuccess);
            caller.join().unwrap();
            poll.join().unwrap();
            assert_eq!(gate.status().limit, 1);
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn a_brief_wait_ends_with_a_permit_or_without_and_leaks_nothing() {
        loom::model(|| {
            let gate = gate_of(1);
            let (permit, theirs) = (wait_for(gate.acquire()), gate.clone());
            let rival = thread::spawn(move || {
                let (wait, briefly) = (Duration::from_secs(10), theirs.clone());
                let mut waiting: Waiting<_> = Box::pin(async move { briefly.acquire_within(wait).await });
                let answer = poll_once(&mut waiting).unwrap_or_else(|| {
                    theirs.pass_time_to(wait);
                    poll_once(&mut waiting).expect("its time is over")
                });
                if let Some(permit) = answer {
                    permit.finish(Outcome::Refused);
                }
            });
            permit.finish(Outcome::Refused);
            rival.join().unwrap();
            nothing_leaked(&gate);
        });
    }

    #[test]
    fn the_breaker_opens_under_one_who_waits_briefly_and_it_goes_away() {
        loom::model(|| {
            let gate = gate_of(1);
            let (permit, theirs) = (wait_for(gate.acquire()), gate.clone());
            let rival = thread::spawn(move || wait_for(theirs.acquire_within(HOLD)).is_none());
            permit.finish(OVERLOADED);
            assert!(rival.join().unwrap(), "it was there before or came after, and in neither case may it go");
            assert_eq!((gate.status().active, gate.status().waiting), (0, 0));
        });
    }

    #[test]
    fn one_who_follows_the_events_misses_none() {
        loom::model(|| {
            let gate = gate_of(1);
            let mut events = gate.events();
            let theirs = gate.clone();
            let rival = thread::spawn(move || wait_for(theirs.acquire()).finish(Outcome::Refused));
            let labels = [(); 2].map(|()| wait_for(events.next()).what.as_label());
            assert_eq!(labels, ["admitted", "finished"]);
            rival.join().unwrap();
        });
    }
}

#[cfg(portcullis_shuttle)]
mod shuttle_explores {
    use super::*;

    const THREADS: usize = 8;
    const ROUNDS: usize = 3;
    const SCHEDULES: usize = 2_000;

    /// One caller's round: it leaves the line early, drops its permit or finishes with `outcome`.
    fn round(gate: &HomeserverGate, choice: usize, outcome: Outcome, witness: &Witness) {
        let mine = gate.clone();
        let mut waiting: Waiting<Permit> = Box::pin(async move { mine.acquire().await });
        if choice % 5 == 0 {
            // Once polled, it is in line or has its permit; then it goes away.
            drop(poll_once(&mut waiting));
            return;
        }
        let permit = wait_for(waiting);
        witness.call();
        if choice % 5 == 1 {
            drop(permit);
        } else {
            permit.finish(outcome);
        }
    }

    #[test]
    fn eight_callers_never_exceed_the_limit_and_leak_nothing() {
        shuttle::check_random(
            || {
                let (gate, witness) = (gate_of(3), Witness::of(3));
                let callers: Vec<_> = (0..THREADS)
                    .map(|index| {
                        let (gate, witness) = (gate.clone(), Arc::clone(&witness));
                        thread::spawn(move || {
                            for n in 0..ROUNDS {
                                round(&gate, index + n, Outcome::Refused, &witness);
                            }
                        })
                    })
                    .collect();
                for caller in callers {
                    caller.join().unwrap();
                }
                nothing_leaked(&gate);
            },
            SCHEDULES,
        );
    }

    /// Six callers with every kind of end, a long-poll, and one who looks and lets time pass: everybody is served.
    #[test]
    fn eight_threads_with_failures_and_time_wedge_nobody() {
        const OUTCOMES: [Outcome; 6] = [
            Outcome::FastSuccess,
            Outcome::TimedOut,
            OVERLOADED,
            Outcome::UnknownSuccess,
            Outcome::FastSuccess,
            Outcome::Refused,
        ];
        shuttle::check_random(
            || {
                let (gate, witness, served) = (gate_of(2), Witness::of(2), Arc::new(AtomicUsize::new(0)));
                let mut callers: Vec<_> = (0..THREADS - 2)
                    .map(|index| {
                        let (gate, witness, served) = (gate.clone(), Arc::clone(&witness), Arc::clone(&served));
                        thread::spawn(move || {
                            for n in 0..ROUNDS {
                                let choice = index * 7 + n * 3;
                                round(&gate, choice, OUTCOMES[choice % OUTCOMES.len()], &witness);
                            }
                            served.fetch_add(1, Ordering::SeqCst);
                        })
                    })
                    .collect();
                callers.push({
                    let (gate, served) = (gate.clone(), Arc::clone(&served));
                    thread::spawn(move || {
                        for outcome in [Outcome::FastSuccess, Outcome::TimedOut] {
                            wait_for(gate.poll_turn()).finish(outcome);
                        }
                        served.fetch_add(1, Ordering::SeqCst);
                    })
                });
                let mut now = Duration::ZERO;
                while served.load(Ordering::SeqCst) < callers.len() {
                    let seen = gate.status();
                    assert_eq!(seen.limit == 0, seen.breaker.state != BreakerState::Closed, "{seen:?}");
                    now += Duration::from_secs(600);
                    gate.pass_time_to(now);
                    thread::yield_now();
                }
                for caller in callers {
                    caller.join().unwrap();
                }
                gate.pass_time_to(now + 2 * HOLD);
                nothing_leaked(&gate);
            },
            SCHEDULES,
        );
    }

    #[test]
    fn brief_waits_and_the_end_of_their_time_leak_nothing() {
        shuttle::check_random(
            || {
                let (gate, witness) = (gate_of(2), Witness::of(2));
                let callers: Vec<_> = (1..=THREADS as u64)
                    .map(|index| {
                        let (gate, witness) = (gate.clone(), Arc::clone(&witness));
                        thread::spawn(move || {
                            let (wait, briefly) = (Duration::from_secs(index), gate.clone());
                            let mut waiting: Waiting<_> = Box::pin(async move { briefly.acquire_within(wait).await });
                            let answer = poll_once(&mut waiting).unwrap_or_else(|| {
                                thread::yield_now();
                                gate.pass_time_to(gate.age() + wait);
                                poll_once(&mut waiting).expect("its time is over")
                            });
                            if let Some(permit) = answer {
                                witness.call();
                                permit.finish(Outcome::Refused);
                            }
                        })
                    })
                    .collect();
                for caller in callers {
                    caller.join().unwrap();
                }
                nothing_leaked(&gate);
            },
            SCHEDULES,
        );
    }
}
