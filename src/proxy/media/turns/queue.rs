//! [`Queue`]: who runs and who waits, as plain data. It reads no clock, locks nothing and wakes nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::admission::{ClientKey, MediaLimits, Standing};

/// Fetches that run, and those that wait for their turn in the order of their ranks.
///
/// The rank of a fetch is its round and, within the round, the order of arrival. A client's next fetch is a round after its
/// last one that waits, or after the last round served: so clients take turns, one client's fetches keep their order, and
/// whoever comes now ranks behind all that waited when this round was served. A fetch whose origin is full is stepped over
/// and keeps its rank.
///
/// Always: the caps of [`MediaLimits`] hold; nobody waits who could run (`a_naive_model_agrees`). Never: a fetch is passed
/// over for ever (`nobody_is_passed_over_for_ever`).
#[derive(Debug)]
pub(super) struct Queue<W> {
    limits: MediaLimits,
    waiting: BTreeMap<Rank, Waiter<W>>,
    waiting_of: HashMap<ClientKey, BTreeSet<Rank>>,
    running: usize,
    running_unproven: usize,
    running_at: HashMap<Arc<str>, usize>,
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
    origin: Arc<str>,
    /// What the origin's standing was when the turn was given: this is what it is counted as until it ends.
    standing: Standing,
}

impl<W> Queue<W> {
    pub(super) fn new(limits: MediaLimits) -> Self {
        Self {
            limits,
            waiting: BTreeMap::new(),
            waiting_of: HashMap::new(),
            running: 0,
            running_unproven: 0,
            running_at: HashMap::new(),
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
        if self.running >= self.limits.max_running() {
            return None;
        }
        let (rank, standing) = self.waiting.iter().find_map(|(rank, waiter)| {
            let standing = standing(&waiter.origin);
            self.has_room(&waiter.origin, standing).then_some((*rank, standing))
        })?;
        let Waiter { origin, wake, .. } = self.take(rank)?;
        self.served = self.served.max(rank.round);
        self.running = self.running.saturating_add(1);
        if standing == Standing::Unproven {
            self.running_unproven = self.running_unproven.saturating_add(1);
        }
        let at = self.running_at.entry(Arc::clone(&origin)).or_default();
        *at = at.saturating_add(1);
        Some((Running { origin, standing }, wake))
    }

    /// One that ran has ended.
    pub(super) fn ended(&mut self, ended: &Running) {
        self.running = self.running.saturating_sub(1);
        if ended.standing == Standing::Unproven {
            self.running_unproven = self.running_unproven.saturating_sub(1);
        }
        if let Some(at) = self.running_at.get_mut(&ended.origin) {
            *at = at.saturating_sub(1);
            if *at == 0 {
                self.running_at.remove(&ended.origin);
            }
        }
    }

    /// How many run.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn has_room(&self, origin: &str, standing: Standing) -> bool {
        let here = self.running_at.get(origin).copied().unwrap_or_default();
        match standing {
            Standing::Proven => here < self.limits.max_running_per_origin(),
            Standing::Unproven => {
                here < self.limits.unproven_running_per_origin()
                    && self.running_unproven < self.limits.unproven_running()
            }
        }
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
        self.waiting.is_empty()
            && self.waiting_of.is_empty()
            && self.running_at.is_empty()
            && (self.running, self.running_unproven) == (0, 0)
    }
}
