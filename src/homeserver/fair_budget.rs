//! Places for work of clients, of which a few clients never get all, and [how they stand](FairBudgetStatus).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::admission::{ClientKey, Full, InFlightBudget, InFlightCaps, Slot};

/// A bound on work in flight, in all and per client, under which a client that holds as much as is left gets no more.
///
/// Always: whoever holds nothing finds a place as long as one is left; what is left halves at best with each address that
/// takes all it may (`four_clients_leave_room_for_a_fifth`). Clones share the same budget.
#[derive(Clone, Debug)]
pub(super) struct FairBudget {
    slots: InFlightBudget<ClientKey>,
    /// Held while it is looked and taken: what is given back meanwhile only makes room.
    taking: Arc<Mutex<()>>,
    refused: Arc<AtomicU64>,
}

/// Such a budget at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FairBudgetStatus {
    /// Places taken.
    pub in_flight: usize,
    /// Most at once.
    pub cap: usize,
    /// Most at once of one client; fewer where little is left.
    pub per_client: usize,
    /// Requests answered 503 since the start: there was no place.
    pub refused: u64,
}

impl FairBudget {
    /// So many places in all, and for one client.
    pub(super) fn new(caps: InFlightCaps) -> Self {
        Self { slots: InFlightBudget::new(caps), taking: Arc::default(), refused: Arc::default() }
    }

    /// A place for `client`. *Errors:* [`Full`], which is counted. *Blocking:* no.
    pub(super) fn try_acquire(&self, client: &ClientKey) -> Result<Slot<ClientKey>, Full> {
        self.try_acquire_beside(client, 0)
    }

    /// The same, with `kept` of the places for others than this kind of work.
    pub(super) fn try_acquire_beside(&self, client: &ClientKey, kept: usize) -> Result<Slot<ClientKey>, Full> {
        let taken = self.take(client, kept);
        if taken.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn take(&self, client: &ClientKey, kept: usize) -> Result<Slot<ClientKey>, Full> {
        let _taking = self.taking.lock();
        let left = self.slots.global_cap().saturating_sub(kept).saturating_sub(self.slots.in_flight());
        if left == 0 {
            return Err(Full::Global);
        }
        if self.slots.in_flight_for(client) >= left {
            return Err(Full::Key);
        }
        self.slots.try_acquire(client)
    }

    /// Places taken.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    /// How it stands. *Blocking:* no.
    pub(super) fn status(&self) -> FairBudgetStatus {
        FairBudgetStatus {
            in_flight: self.slots.in_flight(),
            cap: self.slots.global_cap(),
            per_client: self.slots.per_key_cap(),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> ClientKey {
        ClientKey::vouched([192, 0, 2, last].into(), Default::default())
    }

    /// All that `client` gets.
    fn all_of(budget: &FairBudget, last: u8) -> Vec<Slot<ClientKey>> {
        std::iter::from_fn(|| budget.try_acquire(&client(last)).ok()).collect()
    }

    #[test]
    fn four_clients_leave_room_for_a_fifth() {
        let budget = FairBudget::new(InFlightCaps { global: 128, per_key: 64 });
        let held: Vec<_> = (1..=4).map(|last| all_of(&budget, last)).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [64, 32, 16, 8]);
        assert_eq!(budget.try_acquire(&client(1)).unwrap_err(), Full::Key);
        let fifth = all_of(&budget, 5);
        assert_eq!(fifth.len(), 4);
        let seen = FairBudgetStatus { in_flight: 124, cap: 128, per_client: 64, refused: 6 };
        assert_eq!(budget.status(), seen);
        drop((held, fifth));
        assert_eq!(budget.in_flight(), 0);
    }

    #[test]
    fn the_cap_of_one_client_holds_where_much_is_left() {
        let budget = FairBudget::new(InFlightCaps { global: 128, per_key: 8 });
        assert_eq!(all_of(&budget, 1).len(), 8);
    }

    #[test]
    fn the_last_place_is_for_who_holds_none() {
        let budget = FairBudget::new(InFlightCaps { global: 2, per_key: 2 });
        let held = all_of(&budget, 1);
        assert_eq!(held.len(), 1);
        let other = budget.try_acquire(&client(2)).unwrap();
        assert_eq!(budget.try_acquire(&client(3)).unwrap_err(), Full::Global);
        drop((held, other));
    }

    #[test]
    fn what_is_kept_is_for_other_work_alone() {
        let budget = FairBudget::new(InFlightCaps { global: 8, per_key: 8 });
        let held: Vec<_> = (1..=9).filter_map(|last| budget.try_acquire_beside(&client(last), 2).ok()).collect();
        assert_eq!(held.len(), 6);
        let others: Vec<_> = (1..=9).filter_map(|last| budget.try_acquire(&client(10 + last)).ok()).collect();
        assert_eq!((others.len(), budget.in_flight()), (2, 8));
    }
}
