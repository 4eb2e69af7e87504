//! [`RateLimit`]: how many calls one client may cause a minute. What is over it is refused; nothing waits.
//!
//! The budget bounds how many calls are in flight, not how many there are: with a server of their own that answers at
//! once, a stranger makes thousands of signed calls a minute through one slot.
//!
//! Each client has a bucket that fills at an even rate. All that is remembered of it is when it will be full again (the
//! generic cell rate algorithm), and a full bucket is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::time::Instant;

use super::client_key::ClientKey;
use crate::limits::{RATE_LIMIT_CLIENTS, RATE_LIMIT_RANGE};
use crate::sync::Mutex;

const MINUTE: Duration = Duration::from_secs(60);

/// So many full buckets are forgotten with each call, one more than a call adds: the table shrinks under any load.
const FORGOTTEN_AT_ONCE: usize = 2;

/// Calls of one client: so many a minute for ever, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    per_minute: u32,
    burst: u32,
}

/// What a [`RateLimit`] is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateCaps {
    /// Calls a minute, for ever.
    pub per_minute: u32,
    /// Calls at once, after a pause.
    pub burst: u32,
}

/// When a bucket is full again, and which of those at that moment.
type Due = (Instant, u64);

/// The buckets of all clients.
///
/// Always: at most `most` are kept, two small entries each, in all some 120 bytes. Never: a client is let through more
/// often than its bucket allows, whoever floods the table (`a_flood_of_clients_lets_nobody_through_more_often`).
struct Buckets {
    limit: RateLimit,
    most: NonZeroUsize,
    due: HashMap<ClientKey, Due>,
    /// The same, the fullest first.
    by_due: BTreeMap<Due, ClientKey>,
    next: u64,
    /// When the emptiest bucket that had to make room is full. Any of the unknown may be its owner, so nobody unknown
    /// has more than it had. It matters only while `most` clients at once have spent of theirs.
    floor: Option<Instant>,
}

/// [`Buckets`] for all threads.
pub(super) struct ClientRate(Mutex<Buckets>);

impl RateLimit {
    /// The rate with these caps, each from 1 to 60,000. `None` outside: 0 would let nothing through, and is never "unlimited".
    ///
    /// ```
    /// use portcullis::{RateCaps, RateLimit};
    ///
    /// let limit = RateLimit::new(RateCaps { per_minute: 60, burst: 20 }).unwrap(); // twenty at once, then one a second
    /// assert_eq!((limit.per_minute(), limit.burst()), (60, 20));
    /// assert_eq!(RateLimit::new(RateCaps { per_minute: 0, burst: 20 }), None);
    /// ```
    #[must_use]
    pub fn new(caps: RateCaps) -> Option<Self> {
        let RateCaps { per_minute, burst } = caps;
        let both = [per_minute, burst].iter().all(|figure| RATE_LIMIT_RANGE.contains(figure));
        both.then_some(Self { per_minute, burst })
    }

    /// Calls a minute, for ever.
    #[must_use]
    pub fn per_minute(self) -> u32 {
        self.per_minute
    }

    /// Calls at once, after a pause.
    #[must_use]
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// What a bucket takes to fill by one call. Rounded up: there is never one more a minute than allowed.
    fn interval(self) -> Duration {
        let nanos = MINUTE.as_nanos().div_ceil(u128::from(self.per_minute));
        u64::try_from(nanos).map_or(MINUTE, Duration::from_nanos)
    }

    /// How long the emptiest bucket out of which a call may still be taken needs to be full.
    fn tolerance(self) -> Duration {
        self.interval() * self.burst.saturating_sub(1)
    }
}

impl Buckets {
    fn new(limit: RateLimit, most: NonZeroUsize) -> Self {
        Self { limit, most, due: HashMap::new(), by_due: BTreeMap::new(), next: 0, floor: None }
    }

    /// Takes one call out of the bucket of `client`.
    ///
    /// *Errors:* how long until there is one in it, if nobody else of the same key takes it. Nothing is taken then.
    fn take(&mut self, client: &ClientKey, now: Instant) -> Result<(), Duration> {
        self.forget_full(now);
        let known = self.due.get(client).copied();
        let due = known.map(|(due, _)| due).or(self.floor).map_or(now, |due| due.max(now));
        let wait = due.duration_since(now).saturating_sub(self.limit.tolerance());
        if !wait.is_zero() {
            return Err(wait);
        }
        if let Some(known) = known {
            self.by_due.remove(&known);
        } else if self.due.len() >= self.most.get() {
            self.make_room();
        }
        let due = (due + self.limit.interval(), self.next);
        self.next = self.next.wrapping_add(1);
        self.due.insert(*client, due);
        self.by_due.insert(due, *client);
        Ok(())
    }

    /// A full bucket is like none.
    fn forget_full(&mut self, now: Instant) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            match self.by_due.first_entry() {
                Some(first) if first.key().0 <= now => drop(self.due.remove(&first.remove())),
                _ => return,
            }
        }
    }

    fn make_room(&mut self) {
        if let Some(((due, _), client)) = self.by_due.pop_first() {
            self.due.remove(&client);
            self.floor = self.floor.max(Some(due));
        }
    }
}

impl ClientRate {
    /// Full buckets for everybody.
    pub(super) fn new(limit: RateLimit) -> Self {
        Self(Mutex::new(Buckets::new(limit, RATE_LIMIT_CLIENTS)))
    }

    /// Takes one call of `client`. *Errors:* how long to wait for the next. *Blocking:* no.
    pub(super) fn take(&self, client: &ClientKey, now: Instant) -> Result<(), Duration> {
        self.0.lock().take(client, now)
    }
}

impl fmt::Debug for ClientRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets = self.0.lock();
        out.debug_struct("ClientRate")
            .field("limit", &buckets.limit)
            .field("clients", &buckets.due.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(portcullis_loom, portcullis_shuttle))))]
mod tests;
