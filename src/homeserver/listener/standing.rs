//! [`Standings`]: which connections could go if the listener is full, and in what order.
//!
//! A connection on which nothing was asked yet costs its owner nothing to open, so it is the first that has to go. Next is
//! one whose answers are made and lie unread: asking for many and reading none must not be a way to keep a place. One whose
//! request is being worked on never goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connections that may be ended, the longest standing first.
///
/// Always: a connection is in one of the two lists exactly while no request of its is being worked on and it was not
/// chosen to end.
#[derive(Debug, Default)]
pub(super) struct Standings {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    next: u64,
    /// Nothing is asked, and all that was is answered and gone.
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// All that was asked is answered; some of it is not read.
    unread: BTreeMap<u64, Arc<Notify>>,
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
    unread: usize,
    /// Since when something lies unread: an answer more does not make the first one younger.
    unread_since: Option<u64>,
    listed: Listed,
}

#[derive(Clone, Copy, Debug)]
enum Listed {
    Waiting(u64),
    Unread(u64),
    Not,
    /// Chosen to end: in no list again.
    Ended,
}

/// A request is being worked on until this is dropped, or [answered](Self::answered).
#[derive(Debug)]
pub(super) struct InFlight {
    connection: Arc<Standing>,
}

/// An answer is on its way until this is dropped.
#[derive(Debug)]
pub(super) struct Unread {
    connection: Arc<Standing>,
}

impl Standings {
    pub(super) fn join(self: &Arc<Self>) -> Arc<Standing> {
        let own = Own { in_flight: 0, unread: 0, unread_since: None, listed: Listed::Not };
        let standing = Standing { all: Arc::clone(self), own: Mutex::new(own), chosen: Arc::new(Notify::new()) };
        standing.change(|_| ());
        Arc::new(standing)
    }

    /// Tells the connection that has stood longest to end, one that waits before one that does not read. From here on it
    /// takes no request. `false`: every connection has a request that is being worked on.
    pub(super) fn end_longest_standing(&self) -> bool {
        let mut lists = self.lists.lock();
        let longest = lists.waiting.pop_first().or_else(|| lists.unread.pop_first());
        longest.map(|(_, chosen)| chosen.notify_one()).is_some()
    }
}

impl Lists {
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Takes a connection out of its list; `false`: it was chosen to end.
    fn remove(&mut self, listed: Listed) -> bool {
        match listed {
            Listed::Waiting(number) => self.waiting.remove(&number).is_some(),
            Listed::Unread(number) => self.unread.remove(&number).is_some(),
            Listed::Not => true,
            Listed::Ended => false,
        }
    }
}

impl Standing {
    /// A whole request is there. `None`: too late, the connection was chosen to end.
    pub(super) fn begin(self: &Arc<Self>) -> Option<InFlight> {
        self.change(|own| own.in_flight = own.in_flight.saturating_add(1))
            .then(|| InFlight { connection: Arc::clone(self) })
    }

    /// Ready once the connection has to end.
    ///
    /// *Cancel safety:* yes.
    pub(super) async fn chosen_to_end(&self) {
        self.chosen.notified().await;
    }

    /// Counts anew, and takes the place that follows from it; `false`: it was chosen to end.
    fn change(&self, count: impl FnOnce(&mut Own)) -> bool {
        let mut own = self.own.lock();
        let mut lists = self.all.lists.lock();
        count(&mut own);
        if !lists.remove(own.listed) {
            own.listed = Listed::Ended;
            return false;
        }
        if own.unread == 0 {
            own.unread_since = None;
        }
        own.listed = if own.in_flight > 0 {
            Listed::Not
        } else if own.unread > 0 {
            let number = *own.unread_since.get_or_insert_with(|| lists.number());
            lists.unread.insert(number, Arc::clone(&self.chosen));
            Listed::Unread(number)
        } else {
            let number = lists.number();
            lists.waiting.insert(number, Arc::clone(&self.chosen));
            Listed::Waiting(number)
        };
        true
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.all.lists.lock().remove(self.own.get_mut().listed);
    }
}

impl InFlight {
    /// The answer is made; from here on it is the client's turn.
    pub(super) fn answered(self) -> Unread {
        let connection = Arc::clone(&self.connection);
        connection.change(|own| own.unread = own.unread.saturating_add(1));
        Unread { connection }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.connection.change(|own| own.in_flight = own.in_flight.saturating_sub(1));
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.connection.change(|own| own.unread = own.unread.saturating_sub(1));
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
        assert!(all.end_longest_standing());
        third.chosen_to_end().await;
        assert!(third.begin().is_none(), "too late");
        assert!(all.end_longest_standing());
        first.chosen_to_end().await;
        assert!(!all.end_longest_standing(), "its second request is still in flight");
        drop(asks_twice);
        assert!(all.end_longest_standing());
        second.chosen_to_end().await;
    }

    #[tokio::test]
    async fn one_that_does_not_read_goes_after_those_who_wait_and_an_answer_more_does_not_save_it() {
        let all = Arc::new(Standings::default());
        let (reads_none, reads_late, waits) = (all.join(), all.join(), all.join());
        let first = reads_none.begin().unwrap().answered();
        let late = reads_late.begin().unwrap().answered();
        let second = reads_none.begin().unwrap().answered();
        assert!(all.end_longest_standing());
        waits.chosen_to_end().await;
        assert!(all.end_longest_standing());
        reads_none.chosen_to_end().await;
        assert!(reads_none.begin().is_none(), "too late");
        drop(late);
        assert!(reads_late.begin().is_some(), "it has read, and asks again");
        drop((first, second));
        assert!(all.lists.lock().unread.is_empty());
    }

    #[test]
    fn a_connection_that_ended_leaves_nothing_behind() {
        let all = Arc::new(Standings::default());
        drop(all.join());
        let asked = all.join();
        drop(asked.begin());
        drop(asked.begin().map(InFlight::answered));
        drop(asked);
        let lists = all.lists.lock();
        assert!(lists.waiting.is_empty() && lists.unread.is_empty());
        drop(lists);
        assert!(!all.end_longest_standing());
    }
}
