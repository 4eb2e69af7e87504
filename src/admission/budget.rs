//! [`InFlightBudget`]: how many calls may be in flight, in all and per key. It refuses; it never waits.
//!
//! The state is an array of at most `global` keys behind one lock, searched in order, with a "full" hint that a refusal
//! reads before the lock. Nothing is allocated after [`InFlightBudget::new`]: a flood of strangers costs a few
//! nanoseconds each and no memory. (A lock-free array was tried and gave wrong answers under races: two callers of one key
//! could refuse each other.)

use std::fmt;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

/// A bound on calls in flight: one global cap, one cap per key.
///
/// Always: at most `global` slots exist, at most `per_key` of one key (`tests/races.rs`, `budget_matches_a_naive_model`).
/// Never: a refusal changes state or allocates (`tests/no_allocation.rs`). Worst-case memory: `global` keys, taken at
/// once by [`InFlightBudget::new`].
///
/// Clones share the same budget.
///
/// ```
/// use portcullis::{Full, InFlightBudget, InFlightCaps};
///
/// let budget = InFlightBudget::new(InFlightCaps { global: 2, per_key: 1 });
/// let alice = budget.try_acquire(&"alice").unwrap();
/// assert_eq!(budget.try_acquire(&"alice").unwrap_err(), Full::Key);
/// let bob = budget.try_acquire(&"bob").unwrap();
/// assert_eq!(budget.try_acquire(&"carol").unwrap_err(), Full::Global);
/// drop(alice);
/// assert!(budget.try_acquire(&"carol").is_ok());
/// # drop(bob);
/// ```
pub struct InFlightBudget<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    global: usize,
    per_key: usize,
    /// True while every slot is taken. Written under the lock; a stale "true" can only be seen by a caller that raced
    /// with the release, and that caller would have been refused a moment earlier.
    full: AtomicBool,
    table: Mutex<Table<K>>,
}

struct Table<K> {
    /// One place per key with calls in flight; always `global` long.
    places: Box<[Option<Place<K>>]>,
    /// Every place from here on is free.
    end: usize,
    active: usize,
}

struct Place<K> {
    key: K,
    held: usize,
}

/// The caps of an [`InFlightBudget`]. A cap of 0 admits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightCaps {
    /// Slots in all.
    pub global: usize,
    /// Slots of one key.
    pub per_key: usize,
}

/// Which cap refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// Every slot is taken, whoever asks.
    #[error("every slot is taken")]
    Global,
    /// This key holds all the slots one key may hold.
    #[error("this key holds all the slots it may hold")]
    Key,
}

impl<K: Clone + Eq> InFlightBudget<K> {
    /// A budget with these caps.
    #[must_use]
    pub fn new(caps: InFlightCaps) -> Self {
        let InFlightCaps { global, per_key } = caps;
        let places = std::iter::repeat_with(|| None).take(global).collect();
        let table = Mutex::new(Table { places, end: 0, active: 0 });
        Self { shared: Arc::new(Shared { global, per_key, full: AtomicBool::new(global == 0), table }) }
    }

    /// Takes a slot for `key`, or says which cap is in the way.
    ///
    /// *Errors:* [`Full`]; nothing has changed then. *Panics:* never. *Blocking:* no; the lock is held for one pass over
    /// at most `global` keys.
    pub fn try_acquire(&self, key: &K) -> Result<Slot<K>, Full> {
        // Relaxed is enough: a release that happens before this call is also coherence-ordered before this load.
        if self.shared.full.load(Ordering::Relaxed) {
            return Err(Full::Global);
        }
        let mut table = self.shared.table.lock();
        if table.active >= self.shared.global {
            return Err(Full::Global);
        }
        let place = table.claim(key, self.shared.per_key).ok_or(Full::Key)?;
        if table.active >= self.shared.global {
            self.shared.full.store(true, Ordering::Relaxed);
        }
        drop(table);
        Ok(Slot { shared: Arc::clone(&self.shared), place })
    }

    /// How many slots `key` holds.
    #[must_use]
    pub fn in_flight_for(&self, key: &K) -> usize {
        let table = self.shared.table.lock();
        table.places.iter().flatten().find(|place| place.key == *key).map_or(0, |place| place.held)
    }
}

impl<K> InFlightBudget<K> {
    /// How many slots are held.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.table.lock().active
    }

    /// How many keys hold a slot.
    #[must_use]
    pub fn tracked_keys(&self) -> usize {
        self.shared.table.lock().places.iter().flatten().count()
    }

    /// The global cap.
    #[must_use]
    pub fn global_cap(&self) -> usize {
        self.shared.global
    }

    /// The cap per key.
    #[must_use]
    pub fn per_key_cap(&self) -> usize {
        self.shared.per_key
    }
}

impl<K: Clone + Eq> Table<K> {
    /// Counts one more call of `key` and returns its place; `None` if the key may hold no more.
    fn claim(&mut self, key: &K, per_key: usize) -> Option<usize> {
        if per_key == 0 {
            return None;
        }
        let mut free = None;
        for (index, place) in self.places.iter_mut().take(self.end).enumerate() {
            match place {
                Some(place) if place.key == *key => {
                    if place.held >= per_key {
                        return None;
                    }
                    place.held = place.held.saturating_add(1);
                    self.active = self.active.saturating_add(1);
                    return Some(index);
                }
                Some(_) => {}
                None => free = free.or(Some(index)),
            }
        }
        let index = free.unwrap_or(self.end);
        // With a slot free there is a place free: each tracked key holds at least one slot.
        *self.places.get_mut(index)? = Some(Place { key: key.clone(), held: 1 });
        self.end = self.end.max(index.saturating_add(1));
        self.active = self.active.saturating_add(1);
        Some(index)
    }
}

impl<K> Table<K> {
    /// Gives one call back; a key without calls is forgotten and handed to the caller to drop outside the lock.
    fn release(&mut self, index: usize) -> Option<Place<K>> {
        self.active = self.active.saturating_sub(1);
        let place = self.places.get_mut(index)?;
        let held = place.as_mut()?;
        held.held = held.held.saturating_sub(1);
        if held.held > 0 {
            return None;
        }
        let forgotten = place.take();
        if index.saturating_add(1) == self.end {
            self.end = index;
        }
        forgotten
    }
}

impl<K> Clone for InFlightBudget<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for InFlightBudget<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("InFlightBudget")
            .field("in_flight", &self.in_flight())
            .field("global_cap", &self.global_cap())
            .field("per_key_cap", &self.per_key_cap())
            .finish()
    }
}

/// One call in flight. The slot is freed when this is dropped, once, also while unwinding.
///
/// Not `Clone`: a slot cannot be given back twice. Dropping never panics; it takes the budget's lock for a moment.
#[must_use = "dropping the slot frees it: it has to live as long as the call"]
pub struct Slot<K> {
    shared: Arc<Shared<K>>,
    place: usize,
}

impl<K> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut table = self.shared.table.lock();
        let forgotten = table.release(self.place);
        self.shared.full.store(false, Ordering::Relaxed);
        drop(table);
        // A key's own destructor is the caller's code: it runs after the lock is free.
        drop(forgotten);
    }
}

impl<K> fmt::Debug for Slot<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Slot").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(portcullis_loom, portcullis_shuttle))))]
mod tests;
