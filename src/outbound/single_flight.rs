//! [`Places`]: one place per key for what is known, and one turn per place to find it out.
//!
//! Equal questions that arrive together cost one lookup: the holder of the turn asks, the others wait for the turn and
//! then find the answer in place. Whoever is cut by its own deadline is dropped together with its turn, so that the next
//! one leads with its own time; nobody is handed another caller's expiry.

use std::hash::Hash;

use moka::future::Cache;
use moka::policy::EvictionPolicy;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::sync::{Arc, Mutex};

/// Places for at most `capacity` keys; the least recently used ones make room.
///
/// A place that had to go while somebody holds its turn lives on with its holder: an equal question then asks once more,
/// nothing else happens.
pub(crate) struct Places<K, V> {
    places: Cache<K, Arc<Place<V>>>,
}

/// What is known for one key.
pub(crate) struct Place<V> {
    known: Mutex<Option<V>>,
    turn: Semaphore,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static, V: Clone + Send + Sync + 'static> Places<K, V> {
    /// No place is taken yet. The bound is kept by housekeeping between calls, so it may be passed for a moment.
    pub(crate) fn new(capacity: u64) -> Self {
        // The least recently used goes, not the least often used: a flood of names asked often must not keep a newcomer out.
        let places = Cache::builder().max_capacity(capacity).eviction_policy(EvictionPolicy::lru()).build();
        Self { places }
    }

    /// The place of `key`, an empty one if there was none.
    pub(crate) async fn place(&self, key: &K) -> Arc<Place<V>> {
        match self.places.get(key).await {
            Some(place) => place,
            None => self.places.get_with_by_ref(key, async { Arc::new(Place::default()) }).await,
        }
    }

    /// How many places are kept, after housekeeping.
    #[cfg(test)]
    pub(crate) async fn len(&self) -> u64 {
        self.places.run_pending_tasks().await;
        self.places.entry_count()
    }
}

impl<V: Clone> Place<V> {
    /// What is known, fresh or not: its age is the value's own business.
    pub(crate) fn known(&self) -> Option<V> {
        self.known.lock().clone()
    }

    /// Replaces what is known.
    pub(crate) fn remember(&self, value: V) {
        *self.known.lock() = Some(value);
    }

    /// Waits for the turn to ask. Given back on drop; first come, first served.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed, so always Some; without it two would ask, which is harmless.
        self.turn.acquire().await.ok()
    }

    /// The turn, if nobody has it.
    pub(crate) fn turn_now(&self) -> Option<SemaphorePermit<'_>> {
        self.turn.try_acquire().ok()
    }
}

impl<V> Default for Place<V> {
    fn default() -> Self {
        Self { known: Mutex::new(None), turn: Semaphore::new(1) }
    }
}
