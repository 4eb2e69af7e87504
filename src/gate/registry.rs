//! [`GateRegistry`]: one gate per homeserver, and not without end.

use std::collections::HashMap;
use std::fmt;

use crate::gate::constants::GateConstants;
use crate::gate::counts::GateCounts;
use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::interactive::InteractiveStart;
use crate::gate::key::GateKey;
use crate::gate::status::GateStatus;
use crate::limits::GATES;
use crate::sync::{Arc, Mutex};

/// The gates of a process, one per homeserver.
///
/// Always: at most as many gates as it was made for, and never two for one key. A gate is forgotten only when a place is
/// needed, and only if it is at rest (closed, its limit at the start or above, nothing active, held or waiting) and nobody
/// else holds a handle, a permit or a start of it. (`tests/gate/registry.rs`)
///
/// Clones share the same gates.
///
/// ```
/// use portcullis::gate::{GateKey, GateRegistry};
///
/// let registry = GateRegistry::default();
/// let gate = registry.gate(&GateKey::from_base_url("https://matrix.example.org")?)?;
/// let same = registry.gate(&GateKey::from_base_url("HTTPS://Matrix.Example.org:443/")?)?;
/// let start = gate.interactive();
/// start.report(portcullis::Outcome::timeout());
/// assert_eq!(same.status().limit, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct GateRegistry {
    shared: Arc<Shared>,
}

struct Shared {
    constants: GateConstants,
    capacity: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    gates: HashMap<GateKey, Entry>,
    /// Goes up with each use of a gate.
    clock: u64,
    unheard: u64,
    /// What gates counted that are no more.
    forgotten: GateCounts,
}

struct Entry {
    gate: HomeserverGate,
    last_used: u64,
}

/// Every place is taken by a gate that cannot be forgotten. Nothing may be sent then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no place for the gate of another homeserver")]
pub struct RegistryFull;

impl Default for GateRegistry {
    /// Room for 1,024 homeservers.
    fn default() -> Self {
        Self::new(GATES)
    }
}

impl GateRegistry {
    /// Room for the gates of `capacity` homeservers.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self::with_dangerous_constants(capacity, GateConstants::default())
    }

    /// The same, with gates whose figures are not the record's
    /// ([`HomeserverGate::with_dangerous_constants`]).
    #[must_use]
    pub fn with_dangerous_constants(capacity: usize, constants: GateConstants) -> Self {
        Self { shared: Arc::new(Shared { constants, capacity, table: Mutex::new(Table::default()) }) }
    }

    /// The gate of `key`, made if there is none yet.
    ///
    /// *Errors:* [`RegistryFull`]. *Panics:* never. *Blocking:* no; a new gate in a full registry costs one pass over it.
    pub fn gate(&self, key: &GateKey) -> Result<HomeserverGate, RegistryFull> {
        let mut table = self.shared.table.lock();
        if let Some(gate) = table.existing(key) {
            return Ok(gate);
        }
        if table.gates.len() >= self.shared.capacity && !table.forget_one() {
            return Err(RegistryFull);
        }
        let gate = HomeserverGate::with_dangerous_constants(key.clone(), self.shared.constants);
        let last_used = table.clock;
        table.gates.insert(key.clone(), Entry { gate: gate.clone(), last_used });
        Ok(gate)
    }

    /// The gate of `key`, if there is one.
    #[must_use]
    pub fn existing(&self, key: &GateKey) -> Option<HomeserverGate> {
        self.shared.table.lock().existing(key)
    }

    /// A call to `key` that a user waits for starts now. It never waits and never makes a gate: without one its report is
    /// logged at trace and counted ([`unheard_reports`](Self::unheard_reports)).
    ///
    /// *Panics:* never. *Blocking:* no.
    pub fn interactive(&self, key: &GateKey) -> InteractiveStart {
        match self.existing(key) {
            Some(gate) => gate.interactive(),
            None => InteractiveStart::unheard(self.clone()),
        }
    }

    /// Reports of calls that no gate knew of when they started.
    #[must_use]
    pub fn unheard_reports(&self) -> u64 {
        self.shared.table.lock().unheard
    }

    /// How many gates there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.table.lock().gates.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every gate as it is now, by key: the `homeservers` of a status page.
    ///
    /// *Panics:* never. *Blocking:* no; asking for a gate waits while the numbers are copied.
    #[must_use]
    pub fn status(&self) -> Vec<GateStatus> {
        let table = self.shared.table.lock();
        // Under the lock: a handle taken out would keep its gate from being forgotten meanwhile.
        let (mut seen, after): (Vec<_>, Vec<_>) = table
            .gates
            .iter()
            .map(|(key, entry)| {
                let (seen, after) = entry.gate.shared.look();
                (GateStatus::of(key, &seen), (key.clone(), after))
            })
            .unzip();
        drop(table);
        for (key, after) in after {
            after.carry_out(&key);
        }
        seen.sort_by(|one, other| one.key.cmp(&other.key));
        seen
    }

    /// What all gates counted together, those that are forgotten included: the sums for metrics.
    #[must_use]
    pub fn counts(&self) -> GateCounts {
        let table = self.shared.table.lock();
        let counts = table.gates.values().map(|entry| entry.gate.shared.counts());
        counts.fold(table.forgotten, GateCounts::plus)
    }

    pub(super) fn count_unheard(&self) {
        let mut table = self.shared.table.lock();
        table.unheard = table.unheard.saturating_add(1);
    }
}

impl Table {
    fn existing(&mut self, key: &GateKey) -> Option<HomeserverGate> {
        self.clock = self.clock.saturating_add(1);
        let entry = self.gates.get_mut(key)?;
        entry.last_used = self.clock;
        Some(entry.gate.clone())
    }

    /// Forgets the gate that was asked for least recently among those at rest.
    fn forget_one(&mut self) -> bool {
        let at_rest = self.gates.iter_mut().filter_map(|(key, entry)| {
            // Fails if anybody else holds it; and nobody can begin to while the table is locked.
            let counts = Arc::get_mut(&mut entry.gate.shared)?.at_rest()?;
            Some((entry.last_used, key, counts))
        });
        let Some((_, key, counts)) = at_rest.min_by_key(|(last_used, ..)| *last_used) else { return false };
        let key = key.clone();
        self.forgotten = self.forgotten.plus(counts);
        self.gates.remove(&key);
        true
    }
}

impl fmt::Debug for GateRegistry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("GateRegistry")
            .field("gates", &self.len())
            .field("capacity", &self.shared.capacity)
            .finish_non_exhaustive()
    }
}
