//! Operations on an in-flight budget, against a model that is too simple to be wrong.

use crate::admission::{Full, InFlightBudget, InFlightCaps, Slot};

/// How many different keys there are: more than the largest cap, so that a table with no place left is reached.
const KEYS: u8 = 12;

/// Any list of operations: the budget answers as a plain list of held slots does, no cap is ever passed, a refusal
/// changes nothing, and when every slot is dropped nothing is left.
///
/// The first two bytes are the caps; then two bytes make one operation on one key or slot.
pub fn budget_ops(input: &[u8]) {
    let [global, per_key, operations @ ..] = input else { return };
    let (global, per_key) = (usize::from(global % 9), usize::from(per_key % 4));
    let budget = InFlightBudget::new(InFlightCaps { global, per_key });
    let mut handles = vec![budget.clone()];
    let mut held: Vec<(u8, Slot<u8>)> = Vec::new();
    for operation in operations.chunks_exact(2) {
        let (key, index) = (operation[1] % KEYS, usize::from(operation[1]));
        match operation[0] % 8 {
            0..=3 => {
                let of_key = held.iter().filter(|(holder, _)| *holder == key).count();
                let expected = if held.len() >= global {
                    Err(Full::Global)
                } else if of_key >= per_key {
                    Err(Full::Key)
                } else {
                    Ok(())
                };
                let outcome = handles[index % handles.len()].try_acquire(&key);
                assert_eq!(outcome.as_ref().map(drop), expected.as_ref().map(drop), "key {key}");
                held.extend(outcome.ok().map(|slot| (key, slot)));
            }
            4 | 5 if !held.is_empty() => drop(held.remove(index % held.len())),
            6 => handles.push(budget.clone()),
            7 => {
                // A slot is given back by another thread too, or while unwinding; the order is what counts here.
                held.retain(|(holder, _)| *holder != key);
            }
            _ => {}
        }
        agrees(&budget, &held);
    }
    held.clear();
    agrees(&budget, &held);
}

fn agrees(budget: &InFlightBudget<u8>, held: &[(u8, Slot<u8>)]) {
    assert_eq!(budget.in_flight(), held.len());
    assert!(budget.in_flight() <= budget.global_cap());
    let mut tracked = 0;
    for key in 0..KEYS {
        let of_key = held.iter().filter(|(holder, _)| *holder == key).count();
        assert_eq!(budget.in_flight_for(&key), of_key);
        assert!(of_key <= budget.per_key_cap());
        tracked += usize::from(of_key > 0);
    }
    assert_eq!(budget.tracked_keys(), tracked);
}
