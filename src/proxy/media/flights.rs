//! [`Flights`]: one fetch per file, however many ask for it.
//!
//! The first who asks for a file leads: a fetch is started for it. Who comes while it is on the way follows, in a slot and
//! under a deadline of its own, and reads what the leader stores. What becomes of a leader that fails is decided by those
//! who follow it; here they only learn of it.
//!
//! ```text
//!  board ─► Lead ─ ticket.head ─► followers read behind ─ ticket.land ─► they know how it ended
//!      └──► Follow                                     └─ dropped: landed with a failure
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::failure::MediaFailure;
use crate::sync::Mutex;

/// The files on the way, by key. `H` is what is known once a file begins to come, `L` what there is when all has come, `P`
/// what somebody who reads holds until then.
///
/// Always: at most one flight per key takes new followers (`c01_c02_c03_one_leads_and_the_next_after_it`); there are as many
/// flights as leaders, and each leader holds a pass or a turn.
pub(crate) struct Flights<K, H, L, P> {
    under_way: Mutex<ByKey<K, H, L, P>>,
}

type ByKey<K, H, L, P> = HashMap<K, Arc<Flight<H, L, P>>>;

/// How it ended: with a file, or without.
pub(crate) type Landing<L> = Result<L, MediaFailure>;

/// How far a flight is.
#[derive(Clone, Debug)]
enum News<H, L> {
    /// Nothing has come yet.
    UnderWay,
    /// The file is coming.
    Coming(H),
    /// It has ended.
    Landed(Landing<L>),
}

struct Flight<H, L, P> {
    /// How long its leader has the other server wait for a file that is not uploaded yet.
    patience: Duration,
    news: watch::Sender<News<H, L>>,
    /// What those hold who read already; `None` once nobody has to hold anything.
    riders: Mutex<Option<Vec<P>>>,
}

/// Where somebody finds itself who asks for a file.
pub(crate) enum Boarded<K: Eq + Hash, H, L, P> {
    /// It has to fetch it, and to say how that goes.
    Lead(Ticket<K, H, L, P>, Seat<H, L, P>),
    /// Another fetches it.
    Follow(Seat<H, L, P>),
}

/// What a file that is asked for has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrived<H, L> {
    /// It is coming, and can be read as it comes.
    Coming(H),
    /// All of it is there.
    Whole(L),
}

impl<K: Clone + Eq + Hash, H: Clone, L: Clone, P> Flights<K, H, L, P> {
    /// Nothing is on the way.
    pub(crate) fn new() -> Self {
        Self { under_way: Mutex::new(HashMap::new()) }
    }

    /// Follows the flight of `key`, or leads one that waits for an upload for `patience`.
    pub(crate) fn board(self: &Arc<Self>, key: &K, patience: Duration) -> Boarded<K, H, L, P> {
        let mut under_way = self.under_way.lock();
        if let Some(flight) = under_way.get(key) {
            return Boarded::Follow(Seat::aboard(flight));
        }
        let (news, riders) = (watch::Sender::new(News::UnderWay), Mutex::new(Some(Vec::new())));
        let flight = Arc::new(Flight { patience, news, riders });
        under_way.insert(key.clone(), Arc::clone(&flight));
        drop(under_way);
        let seat = Seat::aboard(&flight);
        Boarded::Lead(Ticket { flights: Arc::clone(self), key: key.clone(), flight: Some(flight) }, seat)
    }
}

/// The leader's. Dropping it, a panic included, ends the flight with [`MediaFailure::Failed`].
#[must_use = "dropping the ticket ends the flight"]
pub(crate) struct Ticket<K: Eq + Hash, H, L, P> {
    flights: Arc<Flights<K, H, L, P>>,
    key: K,
    /// `None` once landed.
    flight: Option<Arc<Flight<H, L, P>>>,
}

impl<K: Eq + Hash, H, L, P> Ticket<K, H, L, P> {
    /// The file is coming: followers may read.
    pub(crate) fn coming(&self, head: H) {
        if let Some(flight) = &self.flight {
            flight.news.send_replace(News::Coming(head));
        }
    }

    /// The call has ended: what riders hold is given back now, and they hold nothing from here on.
    pub(crate) fn free_riders(&self) {
        if let Some(flight) = &self.flight {
            flight.free_riders();
        }
    }

    /// It has ended. Who comes from here on does not follow any more.
    pub(crate) fn land(mut self, landing: Landing<L>) {
        self.end(landing);
    }

    fn end(&mut self, landing: Landing<L>) {
        let Some(flight) = self.flight.take() else { return };
        self.flights.under_way.lock().remove(&self.key);
        flight.free_riders();
        flight.news.send_replace(News::Landed(landing));
    }
}

impl<K: Eq + Hash, H, L, P> Drop for Ticket<K, H, L, P> {
    fn drop(&mut self) {
        self.end(Err(MediaFailure::Failed));
    }
}

impl<H, L, P> Flight<H, L, P> {
    fn free_riders(&self) {
        let riders = self.riders.lock().take();
        // Outside the lock: giving a slot back takes another.
        drop(riders);
    }
}

/// A place in a flight, the leader's own or a follower's.
pub(crate) struct Seat<H, L, P> {
    flight: Arc<Flight<H, L, P>>,
    news: watch::Receiver<News<H, L>>,
}

impl<H: Clone, L: Clone, P> Seat<H, L, P> {
    fn aboard(flight: &Arc<Flight<H, L, P>>) -> Self {
        Self { flight: Arc::clone(flight), news: flight.news.subscribe() }
    }

    /// How long its leader has the other server wait for a file that is not uploaded yet.
    pub(crate) fn patience(&self) -> Duration {
        self.flight.patience
    }

    /// Waits until the file is coming, or the flight has ended.
    pub(crate) async fn arrived(&mut self) -> Landing<Arrived<H, L>> {
        self.wait(|news| match news {
            News::UnderWay => None,
            News::Coming(head) => Some(Ok(Arrived::Coming(head.clone()))),
            News::Landed(landing) => Some(landing.clone().map(Arrived::Whole)),
        })
        .await
    }

    /// Waits until the flight has ended.
    pub(crate) async fn landed(&mut self) -> Landing<Arrived<H, L>> {
        self.wait(|news| match news {
            News::UnderWay | News::Coming(_) => None,
            News::Landed(landing) => Some(landing.clone().map(Arrived::Whole)),
        })
        .await
    }

    /// Holds `held` until the call has ended, also when whoever reads has left.
    pub(crate) fn ride(&self, held: P) {
        let mut riders = self.flight.riders.lock();
        let unwanted = match riders.as_mut() {
            Some(riders) => {
                riders.push(held);
                None
            }
            None => Some(held),
        };
        drop(riders);
        drop(unwanted);
    }

    async fn wait<T>(&mut self, judge: impl Fn(&News<H, L>) -> Option<Landing<T>>) -> Landing<T> {
        let news = self.news.wait_for(|news| judge(news).is_some()).await;
        // The sender lives as long as the seat, so there always are news.
        news.ok().and_then(|news| judge(&news)).unwrap_or(Err(MediaFailure::Failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fleet = Flights<&'static str, &'static str, u8, Arc<()>>;

    fn fleet() -> Arc<Fleet> {
        Arc::new(Flights::new())
    }

    fn lead(flights: &Arc<Fleet>, key: &'static str) -> Ticket<&'static str, &'static str, u8, Arc<()>> {
        match flights.board(&key, Duration::ZERO) {
            Boarded::Lead(ticket, _) => ticket,
            Boarded::Follow(_) => panic!("{key} is on the way"),
        }
    }

    fn follow(flights: &Arc<Fleet>, key: &'static str) -> Seat<&'static str, u8, Arc<()>> {
        match flights.board(&key, Duration::ZERO) {
            Boarded::Follow(seat) => seat,
            Boarded::Lead(..) => panic!("{key} is not on the way"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn c01_c02_c03_one_leads_and_the_next_after_it() {
        let flights = fleet();
        let (first, other) = (lead(&flights, "k"), lead(&flights, "l"));
        assert_eq!(flights.under_way.lock().len(), 2);
        let mut seat = follow(&flights, "k");
        drop(first);
        assert_eq!(seat.arrived().await, Err(MediaFailure::Failed));
        let again = lead(&flights, "k");
        again.land(Ok(7));
        other.land(Err(MediaFailure::NotFound));
        assert!(flights.under_way.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn c05_followers_wait_and_learn_at_once_how_it_goes() {
        let flights = fleet();
        let ticket = lead(&flights, "k");
        let mut seats = [follow(&flights, "k"), follow(&flights, "k")];
        let patience = Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, seats[0].arrived()).await.is_err(), "still waiting");
        ticket.coming("head");
        assert_eq!(seats[0].arrived().await, Ok(Arrived::Coming("head")));
        assert!(tokio::time::timeout(patience, seats[1].landed()).await.is_err(), "not all of it is there");
        assert_eq!(follow(&flights, "k").arrived().await, Ok(Arrived::Coming("head")));
        ticket.land(Ok(7));
        assert_eq!(seats[1].landed().await, Ok(Arrived::Whole(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_the_leader_is_a_landing() {
        let flights = fleet();
        let ticket = lead(&flights, "k");
        let mut seat = follow(&flights, "k");
        let leader = tokio::spawn(async move {
            ticket.coming("head");
            panic!("inside the fetch");
        });
        assert_eq!(seat.landed().await, Err(MediaFailure::Failed));
        assert!(leader.await.unwrap_err().is_panic());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_reader_holds_it_holds_until_the_call_has_ended_though_it_left() {
        let flights = fleet();
        let slot = Arc::new(());
        let ticket = lead(&flights, "k");
        let (seat, late) = (follow(&flights, "k"), follow(&flights, "k"));
        seat.ride(Arc::clone(&slot));
        drop(seat);
        assert_eq!(Arc::strong_count(&slot), 2);
        ticket.free_riders();
        assert_eq!(Arc::strong_count(&slot), 1);
        late.ride(Arc::clone(&slot));
        assert_eq!(Arc::strong_count(&slot), 1, "nothing is held any more");
        drop(ticket);
    }
}
