//! Rows B of the behaviour table, and a random walk beside a naive model.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[test]
fn b01_a_fifth_key_is_refused_at_once() {
    let budget = InFlightBudget::new(InFlightCaps { global: 4, per_key: 1 });
    let _held: Vec<_> = (0..4).map(|key| budget.try_acquire(&key).unwrap()).collect();
    assert_eq!(budget.try_acquire(&4).unwrap_err(), Full::Global);
    assert_eq!(budget.in_flight(), 4);
}

#[test]
fn b02_a_freed_slot_is_admitted_again() {
    let budget = InFlightBudget::new(InFlightCaps { global: 4, per_key: 1 });
    let mut held: Vec<_> = (0..4).map(|key| budget.try_acquire(&key).unwrap()).collect();
    drop(held.remove(1));
    let _new = budget.try_acquire(&9).unwrap();
    assert_eq!(budget.in_flight(), 4);
    assert_eq!(budget.try_acquire(&10).unwrap_err(), Full::Global);
}

#[test]
fn b03_b04_a_refusal_by_key_takes_no_global_slot() {
    let budget = InFlightBudget::new(InFlightCaps { global: 2, per_key: 1 });
    let _x = budget.try_acquire(&'x').unwrap();
    assert_eq!(budget.try_acquire(&'x').unwrap_err(), Full::Key);
    assert_eq!((budget.in_flight(), budget.in_flight_for(&'x')), (1, 1));
    let _y = budget.try_acquire(&'y').unwrap();
}

#[test]
fn b05_leaving_scope_forgets_the_key() {
    let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
    {
        let _slot = budget.try_acquire(&"k").unwrap();
        assert_eq!(budget.tracked_keys(), 1);
    }
    assert_eq!(budget.tracked_keys(), 0);
    assert!(budget.try_acquire(&"k").is_ok());
}

#[test]
fn b08_a_cap_of_zero_admits_nothing_and_keeps_nothing() {
    for (global, per_key, why) in [(0, 1, Full::Global), (1, 0, Full::Key), (0, 0, Full::Global)] {
        let budget = InFlightBudget::new(InFlightCaps { global, per_key });
        assert_eq!(budget.try_acquire(&1).unwrap_err(), why);
        assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0));
    }
}

#[test]
fn a_slot_comes_back_while_unwinding() {
    let budget = InFlightBudget::new(InFlightCaps { global: 1, per_key: 1 });
    let inside = budget.clone();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _slot = inside.try_acquire(&1).unwrap();
        panic!("in the middle of a call");
    }));
    assert!(outcome.is_err());
    assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0));
}

proptest! {
    /// Any order of takes and gives agrees with a map from key to count.
    #[test]
    fn budget_matches_a_naive_model(
        global in 0usize..6,
        per_key in 0usize..4,
        steps in proptest::collection::vec((any::<bool>(), 0u8..6, any::<prop::sample::Index>()), 0..200),
    ) {
        let budget = InFlightBudget::new(InFlightCaps { global, per_key });
        let mut model: HashMap<u8, usize> = HashMap::new();
        let mut held = Vec::new();
        for (take, key, which) in steps {
            if take {
                let total: usize = model.values().sum();
                let of_key = model.get(&key).copied().unwrap_or(0);
                let expected = if total >= global { Err(Full::Global) }
                    else if of_key >= per_key { Err(Full::Key) }
                    else { Ok(()) };
                match budget.try_acquire(&key) {
                    Ok(slot) => { prop_assert_eq!(expected, Ok(())); held.push((key, slot)); *model.entry(key).or_default() += 1; }
                    Err(full) => prop_assert_eq!(expected, Err(full)),
                }
            } else if !held.is_empty() {
                let (key, slot) = held.swap_remove(which.index(held.len()));
                drop(slot);
                let count = model.get_mut(&key).unwrap();
                *count -= 1;
                if *count == 0 { model.remove(&key); }
            }
            prop_assert_eq!(budget.in_flight(), model.values().sum::<usize>());
            prop_assert_eq!(budget.tracked_keys(), model.len());
        }
        held.clear();
        prop_assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0));
    }
}
