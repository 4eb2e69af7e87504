//! [`Standings`]: which connections could go if the listener is full, and in what order.
//!
//! One that is closed already, and only hears its client out, is the first that has to go. A connection on which nothing was
//! asked yet costs its owner nothing to open, so it is next. After these comes one whose answers are made and lie unread: asking for many and reading none must not be a way to keep a place. One whose
//! request is being worked on never goes.
//!
//! An answer that is streamed is being worked on while its client takes what there is. It lies unread while a write waits,
//! and whoever reads well stands last among those: its time starts anew with each write that waits, unless it is behind
//! the least rate.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::answer_clock::AnswerKind;

/// The connections that may be ended, the longest standing first.
///
/// Always: a connection is in one of the three lists exactly while nothing of its is being worked on and it was not chosen to
/// end.
#[derive(Debug, Default)]
pub(super) struct Standings {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    next: u64,
    /// All is answered and gone, and nothing more will be.
    closing: BTreeMap<u64, Arc<Notify>>,
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
    /// Whole answers that are on their way.
    unread: usize,
    /// Streamed answers that are on their way.
    streamed: usize,
    /// What is written of a streamed answer waits for the client.
    stalled: bool,
    /// Since when something lies unread: an answer more does not make the first one younger.
    unread_since: Option<u64>,
    /// It is closed towards the client, who may not know it yet.
    closing: bool,
    listed: Listed,
}

#[derive(Clone, Copy, Debug)]
enum Listed {
    Closing(u64),
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
    kind: AnswerKind,
}

impl Standings {
    pub(super) fn join(self: &Arc<Self>) -> Arc<Standing> {
        let own = Own {
            in_flight: 0,
            unread: 0,
            streamed: 0,
            stalled: false,
            unread_since: None,
            closing: false,
            listed: Listed::Not,
        };
        let standing = Standing { all: Arc::clone(self), own: Mutex::new(own), chosen: Arc::new(Notify::new()) };
        standing.change(|_| ());
        Arc::new(standing)
    }

    /// Tells the connection that has stood longest to end: one that is closing before one that waits, and that before one
    /// that does not read. From here on it takes no request. `false`: something is being worked on for every connection.
    pub(super) fn end_longest_standing(&self) -> bool {
        let mut lists = self.lists.lock();
        let longest = lists.closing.pop_first().or_else(|| lists.waiting.pop_first());
        let longest = longest.or_else(|| lists.unread.pop_first());
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
            Listed::Closing(number) => self.closing.remove(&number).is_some(),
            Listed::Waiting(number) => self.waiting.remove(&number).is_some(),
            Listed::Unread(number) => self.unread.remove(&number).is_some(),
            Listed::Not => true,
            Listed::Ended => false,
        }
    }
}

impl Own {
    fn on_their_way(&mut self, kind: AnswerKind) -> &mut usize {
        match kind {
            AnswerKind::Whole => &mut self.unread,
            AnswerKind::Streamed => &mut self.streamed,
        }
    }
}

impl Standing {
    /// A whole request is there. `None`: too late, the connection was chosen to end.
    pub(super) fn begin(self: &Arc<Self>) -> Option<InFlight> {
        self.change(|own| own.in_flight = own.in_flight.saturating_add(1))
            .then(|| InFlight { connection: Arc::clone(self) })
    }

    /// Its last answer is gone, and nothing more is taken from it.
    pub(super) fn closes(&self) {
        self.change(|own| own.closing = true);
    }

    /// An answer is being made, or on its way.
    pub(super) fn answers(&self) -> bool {
        let own = self.own.lock();
        own.in_flight > 0 || own.unread > 0 || own.streamed > 0
    }

    /// A streamed answer is on its way.
    pub(super) fn streams(&self) -> bool {
        self.own.lock().streamed > 0
    }

    /// A write of a streamed answer waits for the client.
    pub(super) fn stalls(&self) {
        self.change(|own| own.stalled = true);
    }

    /// It waits no longer. Whoever `keeps_pace` is no slower for it.
    pub(super) fn moves(&self, keeps_pace: bool) {
        self.change(|own| {
            own.stalled = false;
            if keeps_pace && own.unread == 0 {
                own.unread_since = None;
            }
        });
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
        own.stalled &= own.streamed > 0;
        if own.unread == 0 && own.streamed == 0 {
            own.unread_since = None;
        }
        let works = own.in_flight > 0 || (own.streamed > 0 && !own.stalled);
        own.listed = if works {
            Listed::Not
        } else if own.unread > 0 || own.streamed > 0 {
            let number = *own.unread_since.get_or_insert_with(|| lists.number());
            lists.unread.insert(number, Arc::clone(&self.chosen));
            Listed::Unread(number)
        } else if own.closing {
            let number = lists.number();
            lists.closing.insert(number, Arc::clone(&self.chosen));
            Listed::Closing(number)
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
    pub(super) fn answered(self, kind: AnswerKind) -> Unread {
        let connection = Arc::clone(&self.connection);
        connection.change(|own| {
            let on_their_way = own.on_their_way(kind);
            *on_their_way = on_their_way.saturating_add(1);
        });
        Unread { connection, kind }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.connection.change(|own| own.in_flight = own.in_flight.saturating_sub(1));
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.connection.change(|own| {
            let on_their_way = own.on_their_way(self.kind);
            *on_their_way = on_their_way.saturating_sub(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_chosen(connection: &Standing) -> bool {
        connection.chosen_to_end().now_or_never().is_some()
    }

    #[test]
    fn the_longest_waiting_is_chosen_and_never_one_with_a_request() {
        let all = Arc::new(Standings::default());
        let (first, second, third) = (all.join(), all.join(), all.join());
        let asks = second.begin().unwrap();
        let asks_twice = second.begin().unwrap();
        let answered = first.begin().unwrap();
        drop((asks, answered));
        assert!(all.end_longest_standing());
        assert!(is_chosen(&third));
        assert!(third.begin().is_none(), "too late");
        assert!(all.end_longest_standing());
        assert!(is_chosen(&first));
        assert!(!all.end_longest_standing(), "its second request is still in flight");
        drop(asks_twice);
        assert!(all.end_longest_standing());
        assert!(is_chosen(&second));
    }

    #[test]
    fn one_that_only_hears_its_client_out_goes_before_those_who_wait() {
        let all = Arc::new(Standings::default());
        let (waits, closing) = (all.join(), all.join());
        drop(closing.begin().unwrap().answered(AnswerKind::Whole));
        closing.closes();
        assert!(all.end_longest_standing());
        assert!(is_chosen(&closing) && !is_chosen(&waits));
        drop(closing);
        assert!(all.lists.lock().closing.is_empty());
        let ends_by_itself = all.join();
        ends_by_itself.closes();
        drop(ends_by_itself);
        assert!(all.lists.lock().closing.is_empty());
    }

    #[test]
    fn one_that_does_not_read_goes_after_those_who_wait_and_an_answer_more_does_not_save_it() {
        let all = Arc::new(Standings::default());
        let (reads_none, reads_late, waits) = (all.join(), all.join(), all.join());
        let first = reads_none.begin().unwrap().answered(AnswerKind::Whole);
        let late = reads_late.begin().unwrap().answered(AnswerKind::Whole);
        let second = reads_none.begin().unwrap().answered(AnswerKind::Whole);
        assert!(all.end_longest_standing());
        assert!(is_chosen(&waits));
        assert!(all.end_longest_standing());
        assert!(is_chosen(&reads_none));
        assert!(reads_none.begin().is_none(), "too late");
        drop(late);
        assert!(reads_late.begin().is_some(), "it has read, and asks again");
        drop((first, second));
        assert!(all.lists.lock().unread.is_empty());
    }

    #[test]
    fn a_streamed_answer_is_worked_on_while_its_client_takes_it_and_lies_unread_while_a_write_waits() {
        let all = Arc::new(Standings::default());
        let streams = all.join();
        let answer = streams.begin().unwrap().answered(AnswerKind::Streamed);
        assert!(!all.end_longest_standing(), "its client has not kept anything waiting");
        streams.stalls();
        streams.moves(true);
        assert!(!all.end_longest_standing());
        streams.stalls();
        assert!(all.end_longest_standing());
        assert!(is_chosen(&streams));
        streams.moves(true);
        assert!(streams.begin().is_none(), "too late");
        drop(answer);
        assert!(!all.end_longest_standing());
    }

    #[test]
    fn whoever_reads_a_streamed_answer_well_goes_last_and_whoever_drips_stays_where_it_stood() {
        let all = Arc::new(Standings::default());
        let (reads_well, drips, unread) = (all.join(), all.join(), all.join());
        let mut answers: Vec<_> =
            [&reads_well, &drips].map(|one| one.begin().unwrap().answered(AnswerKind::Streamed)).into();
        reads_well.stalls();
        drips.stalls();
        answers.push(unread.begin().unwrap().answered(AnswerKind::Whole));
        drips.moves(false);
        drips.stalls();
        reads_well.moves(true);
        reads_well.stalls();
        for next in [&drips, &unread, &reads_well] {
            assert!(all.end_longest_standing());
            assert!(is_chosen(next));
        }
        assert!(!all.end_longest_standing());
    }

    #[test]
    fn a_streamed_answer_that_is_gone_leaves_a_connection_that_waits() {
        let all = Arc::new(Standings::default());
        let streams = all.join();
        let answer = streams.begin().unwrap().answered(AnswerKind::Streamed);
        assert!(streams.streams());
        streams.stalls();
        drop(answer);
        assert!(!streams.streams());
        assert!(all.lists.lock().unread.is_empty());
        assert_eq!(all.lists.lock().waiting.len(), 1);
        drop(streams.begin().unwrap().answered(AnswerKind::Streamed));
        assert!(!streams.own.lock().stalled);
    }

    #[test]
    fn a_connection_that_ended_leaves_nothing_behind() {
        let all = Arc::new(Standings::default());
        drop(all.join());
        let asked = all.join();
        drop(asked.begin());
        drop(asked.begin().map(|asked| asked.answered(AnswerKind::Whole)));
        drop(asked);
        let lists = all.lists.lock();
        assert!(lists.waiting.is_empty() && lists.unread.is_empty());
        drop(lists);
        assert!(!all.end_longest_standing());
    }
}
