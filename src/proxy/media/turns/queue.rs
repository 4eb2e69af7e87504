//! [`Queue`]: who runs and who waits, as plain data. It reads no clock, locks nothing and wakes nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::census::{Caps, Census};
use crate::admission::{ClientKey, MediaLimits};
use crate::proxy::media::standing::Standing;

/// Fetches that run, and those that wait for their turn in the order of their ranks.
///
/// The rank of a fetch is its round and, within the round, the order of arrival. A client's next fetch is a round after its
/// last one that waits, or after the last round served: so clients take turns, one client's fetches keep their order, and
/// whoever comes now ranks behind all that waited when this round was served. A fetch whose origin is full, or whose
/// client has its share, is stepped over and keeps its rank.
///
/// Always: the caps of [`MediaLimits`] hold; nobody waits who could run (`a_naive_model_agrees`). Never: a fetch is passed
/// over for ever (`nobody_is_passed_over_for_ever`).
#[derive(Debug)]
pub(super) struct Queue<W> {
    waiting: BTreeMap<Rank, Waiter<W>>,
    waiting_of: HashMap<ClientKey, BTreeSet<Rank>>,
    max_running: usize,
    running: Census,
    /// The latest round of which somebody was served.
    served: u64,
    arrivals: u64,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    round: u64,
    arrival: u64,
}

#[derive(Debug)]
struct Waiter<W> {
    client: ClientKey,
    origin: Arc<str>,
    wake: W,
}

/// One fetch that runs.
#[derive(Debug)]
pub(super) struct Running {
    client: ClientKey,
    origin: Arc<str>,
}

impl<W> Queue<W> {
    pub(super) fn new(limits: MediaLimits) -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_of: HashMap::new(),
            max_running: limits.max_running(),
            running: Census::new(Caps::running(limits)),
            served: 0,
            arrivals: 0,
        }
    }

    /// Puts a fetch behind those it has to wait for.
    pub(super) fn join(&mut self, client: ClientKey, origin: Arc<str>, wake: W) -> Rank {
        let own = self.waiting_of.entry(client).or_default();
        let behind = own.last().map_or(self.served, |last| last.round.max(self.served));
        self.arrivals = self.arrivals.saturating_add(1);
        let rank = Rank { round: behind.saturating_add(1), arrival: self.arrivals };
        own.insert(rank);
        self.waiting.insert(rank, Waiter { client, origin, wake });
        rank
    }

    /// Takes a fetch out, if it still waits.
    pub(super) fn leave(&mut self, rank: Rank) -> Option<W> {
        self.take(rank).map(|waiter| waiter.wake)
    }

    /// The next one that may run, counted as running from now on.
    pub(super) fn next(&mut self, standing: impl Fn(&str) -> Standing) -> Option<(Running, W)> {
        if self.running.total() >= self.max_running {
            return None;
        }
        let tally = self.running.tally(&standing);
        let rank = self.waiting.iter().find_map(|(rank, waiter)| {
            let Waiter { client, origin, .. } = waiter;
            tally.room(*client, origin, standing(origin)).is_ok().then_some(*rank)
        })?;
        let Waiter { client, origin, wake } = self.take(rank)?;
        self.served = self.served.max(rank.round);
        self.running.add(client, Arc::clone(&origin));
        Some((Running { client, origin }, wake))
    }

    /// One that ran has ended.
    pub(super) fn ended(&mut self, ended: &Running) {
        self.running.remove(ended.client, &ended.origin);
    }

    /// How many run.
    pub(super) fn running(&self) -> usize {
        self.running.total()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn take(&mut self, rank: Rank) -> Option<Waiter<W>> {
        let waiter = self.waiting.remove(&rank)?;
        if let Some(own) = self.waiting_of.get_mut(&waiter.client) {
            own.remove(&rank);
            if own.is_empty() {
                self.waiting_of.remove(&waiter.client);
            }
        }
        Some(waiter)
    }

    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.waiting.is_empty() && self.waiting_of.is_empty() && self.running.is_empty()
    }
}
