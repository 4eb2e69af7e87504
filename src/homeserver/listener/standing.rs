//! [`Standings`]: which connections wait for a request, and since when.
//!
//! A connection on which nothing was asked yet costs its owner nothing to open, so when the listener is full it is the
//! one that has to go. One whose request is being answered never goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connections that wait, the longest waiting first.
///
/// Always: a connection is in here exactly while it has no request in flight and was not chosen to end.
#[derive(Debug, Default)]
pub(super) struct Standings {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    connections: BTreeMap<u64, Arc<Notify>>,
}

/// One connection's standing. It waits from the start.
#[derive(Debug)]
pub(super) struct Standing {
    all: Arc<Standings>,
    own: Mutex<Own>,
    chosen: Arc<Notify>,
}

#[derive(Debug)]
struct Own {
    in_flight: usize,
    /// The place among those who wait.
    since: u64,
}

/// A request is in flight until this is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    connection: Arc<Standing>,
}

impl Standings {
    pub(super) fn join(self: &Arc<Self>) -> Arc<Standing> {
        let chosen = Arc::new(Notify::new());
        let since = self.waits(&chosen);
        Arc::new(Standing { all: Arc::clone(self), own: Mutex::new(Own { in_flight: 0, since }), chosen })
    }

    /// Tells the connection that has waited longest to end. From here on it takes no request. `false`: none waits.
    pub(super) fn end_longest_waiting(&self) -> bool {
        let longest = self.waiting.lock().connections.pop_first();
        longest.map(|(_, chosen)| chosen.notify_one()).is_some()
    }

    fn waits(&self, connection: &Arc<Notify>) -> u64 {
        let mut waiting = self.waiting.lock();
        let since = waiting.next;
        waiting.next = since.wrapping_add(1);
        waiting.connections.insert(since, Arc::clone(connection));
        since
    }

    /// `false`: it was chosen to end.
    fn no_longer_waits(&self, since: u64) -> bool {
        self.waiting.lock().connections.remove(&since).is_some()
    }
}

impl Standing {
    /// A whole request is there. `None`: too late, the connection was chosen to end.
    pub(super) fn begin(self: &Arc<Self>) -> Option<InFlight> {
        let mut own = self.own.lock();
        if own.in_flight == 0 && !self.all.no_longer_waits(own.since) {
            return None;
        }
        own.in_flight = own.in_flight.saturating_add(1);
        Some(InFlight { connection: Arc::clone(self) })
    }

    /// Ready once the connection has to end.
    ///
    /// *Cancel safety:* yes.
    pub(super) async fn chosen_to_end(&self) {
        self.chosen.notified().await;
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.all.no_longer_waits(self.own.get_mut().since);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut own = self.connection.own.lock();
        own.in_flight = own.in_flight.saturating_sub(1);
        if own.in_flight == 0 {
            own.since = self.connection.all.waits(&self.connection.chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_waiting_is_chosen_and_never_one_with_a_request() {
        let all = Arc::new(Standings::default());
        let (first, second, third) = (all.join(), all.join(), all.join());
        let asks = second.begin().unwrap();
        let asks_twice = second.begin().unwrap();
        let answered = first.begin().unwrap();
        drop((asks, answered));
        assert!(all.end_longest_waiting());
        third.chosen_to_end().await;
        assert!(third.begin().is_none(), "too late");
        assert!(all.end_longest_waiting());
        first.chosen_to_end().await;
        assert!(!all.end_longest_waiting(), "its second request is still in flight");
        drop(asks_twice);
        assert!(all.end_longest_waiting());
        second.chosen_to_end().await;
    }

    #[test]
    fn a_connection_that_ended_leaves_nothing_behind() {
        let all = Arc::new(Standings::default());
        drop(all.join());
        let asked = all.join();
        drop(asked.begin());
        drop(asked);
        assert!(all.waiting.lock().connections.is_empty());
        assert!(!all.end_longest_waiting());
    }
}
