//! [`DnsCache`]: what the DNS said a moment ago, and one question in flight per name.
//!
//! A time-out is nobody's answer: it is not remembered and not handed to those who waited, each of whom asks with the time
//! it has itself.

use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::OutboundDeadline;
use crate::limits::{DNS_CACHE_MAX, DNS_CACHE_MAX_RECORDS, DNS_NEGATIVE_DEFAULT, DNS_NEGATIVE_MAX, DNS_SERVFAIL_KEEP};
use crate::outbound::resolver::DnsError;
use crate::outbound::single_flight::Places;
use crate::sync::Arc;

/// Answers by question, for as long as their time to live says, one hour at most.
///
/// Always: at most `capacity` answers of at most [`DNS_CACHE_MAX_RECORDS`] records each; a larger answer is used and
/// forgotten. Never: a time-out is remembered (`a_time_out_is_neither_remembered_nor_shared`).
pub(crate) struct DnsCache<K, R> {
    places: Places<K, Remembered<R>>,
}

/// What one lookup brought, with the time to live of its shortest-lived record.
pub(crate) struct Looked<R> {
    pub(crate) answer: Result<Vec<R>, DnsError>,
    /// Of the records, or of the zone's word on what does not exist. `None`: it gave none.
    pub(crate) ttl: Option<Duration>,
}

struct Remembered<R> {
    answer: Result<Arc<[R]>, DnsError>,
    answered_at: Instant,
    expires_at: Instant,
}

impl<K, R> DnsCache<K, R>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    R: Send + Sync + 'static,
{
    pub(crate) fn new(capacity: u64) -> Self {
        Self { places: Places::new(capacity) }
    }

    /// The answer to `question`: remembered, or looked up by this caller or by one that asks the same at this moment.
    ///
    /// *Errors:* [`DnsError`]. *Cancel safety:* dropping the future lets the next waiter look up.
    pub(crate) async fn answer<F>(
        &self,
        question: K,
        deadline: OutboundDeadline,
        look_up: impl FnOnce() -> F,
    ) -> Result<Arc<[R]>, DnsError>
    where
        F: Future<Output = Looked<R>>,
    {
        let asked_at = Instant::now();
        let ask = async {
            let place = self.places.place(&question).await;
            if let Some(known) = place.known().filter(|known| known.may_be_used(asked_at)) {
                return known.answer;
            }
            let turn = place.turn().await;
            if let Some(known) = place.known().filter(|known| known.may_be_used(asked_at)) {
                return known.answer;
            }
            let looked = look_up().await;
            let now = Instant::now();
            let keep_for = looked.keep_for();
            let answer = looked.answer.map(Arc::from);
            if let Some(keep_for) = keep_for {
                place.remember(Remembered { answer: answer.clone(), answered_at: now, expires_at: now + keep_for });
            }
            drop(turn);
            answer
        };
        deadline.cut(ask).await.unwrap_or(Err(DnsError::TimedOut))
    }

    #[cfg(test)]
    pub(crate) async fn len(&self) -> u64 {
        self.places.len().await
    }
}

impl<R> Looked<R> {
    /// How long this may be remembered; `None`: it must not even be shown to those who wait.
    fn keep_for(&self) -> Option<Duration> {
        match &self.answer {
            Ok(records) if records.len() > DNS_CACHE_MAX_RECORDS => None,
            Ok(_) => Some(self.ttl.unwrap_or(Duration::ZERO).min(DNS_CACHE_MAX)),
            Err(DnsError::NoRecords) => Some(self.ttl.unwrap_or(DNS_NEGATIVE_DEFAULT).min(DNS_NEGATIVE_MAX)),
            Err(DnsError::AliasLoop) => Some(DNS_NEGATIVE_DEFAULT),
            Err(DnsError::ServFail) => Some(DNS_SERVFAIL_KEEP),
            // Not worth remembering, but true for those who asked meanwhile.
            Err(DnsError::Failed) => Some(Duration::ZERO),
            Err(DnsError::TimedOut) => None,
        }
    }
}

impl<R> Remembered<R> {
    /// Still alive, or younger than the question: a time to live of zero is good for those who asked before it came.
    fn may_be_used(&self, asked_at: Instant) -> bool {
        Instant::now() < self.expires_at || self.answered_at > asked_at
    }
}

impl<R> Clone for Remembered<R> {
    fn clone(&self) -> Self {
        Self { answer: self.answer.clone(), answered_at: self.answered_at, expires_at: self.expires_at }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn in_time(allowed: Duration) -> OutboundDeadline {
        OutboundDeadline::after(allowed, Instant::now())
    }

    /// A name server that counts the questions and takes its time.
    struct Server {
        asked: AtomicUsize,
        takes: Duration,
        says: Result<Vec<u8>, DnsError>,
        ttl: Option<Duration>,
    }

    impl Server {
        fn new(says: Result<Vec<u8>, DnsError>, ttl: Option<Duration>) -> Self {
            Self { asked: AtomicUsize::new(0), takes: Duration::ZERO, says, ttl }
        }

        async fn look_up(&self) -> Looked<u8> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.takes).await;
            Looked { answer: self.says.clone(), ttl: self.ttl }
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    /// Asks at second 0, and again just before and just after `kept` has passed: one question, then a second one.
    async fn assert_kept_for(server: Server, kept: Duration) {
        let cache = DnsCache::new(10);
        let ask = async || cache.answer("a", in_time(SECOND), || server.look_up()).await;
        let first = ask().await;
        if !kept.is_zero() {
            tokio::time::advance(kept.saturating_sub(Duration::from_millis(1))).await;
            assert_eq!(ask().await, first);
            assert_eq!(server.asked(), 1, "remembered until {kept:?}");
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask().await, first);
        assert_eq!(server.asked(), 2, "forgotten after {kept:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_live_for_their_time_to_live_and_one_hour_at_most() {
        assert_kept_for(Server::new(Ok(vec![1]), Some(7 * SECOND)), 7 * SECOND).await;
        assert_kept_for(Server::new(Ok(vec![1]), Some(86_400 * SECOND)), 3600 * SECOND).await;
        assert_kept_for(Server::new(Ok(vec![1]), Some(Duration::ZERO)), Duration::ZERO).await;
        assert_kept_for(Server::new(Ok(vec![1]), None), Duration::ZERO).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_exist_is_remembered_for_a_minute_at_most() {
        assert_kept_for(Server::new(Err(DnsError::NoRecords), Some(9 * SECOND)), 9 * SECOND).await;
        assert_kept_for(Server::new(Err(DnsError::NoRecords), Some(3600 * SECOND)), 60 * SECOND).await;
        assert_kept_for(Server::new(Err(DnsError::NoRecords), None), 30 * SECOND).await;
        assert_kept_for(Server::new(Err(DnsError::ServFail), None), 5 * SECOND).await;
        assert_kept_for(Server::new(Err(DnsError::Failed), None), Duration::ZERO).await;
        assert_kept_for(Server::new(Err(DnsError::TimedOut), None), Duration::ZERO).await;
    }

    #[tokio::test(start_paused = true)]
    async fn equal_questions_share_one_lookup_even_with_a_time_to_live_of_zero() {
        let server = Server { takes: SECOND, ..Server::new(Ok(vec![7]), Some(Duration::ZERO)) };
        let cache = DnsCache::new(10);
        let ask = || cache.answer("a", in_time(5 * SECOND), || server.look_up());
        let (one, two, three) = tokio::join!(ask(), ask(), ask());
        assert_eq!((one.unwrap()[0], two.unwrap()[0], three.unwrap()[0]), (7, 7, 7));
        assert_eq!(server.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_is_neither_remembered_nor_shared() {
        let server = Server { takes: 3 * SECOND, ..Server::new(Ok(vec![7]), Some(60 * SECOND)) };
        let cache = DnsCache::new(10);
        let start = Instant::now();
        let hasty = cache.answer("a", in_time(2 * SECOND), || server.look_up());
        let patient = cache.answer("a", in_time(9 * SECOND), || server.look_up());
        let (hasty, patient) = tokio::join!(hasty, patient);
        assert_eq!(hasty.unwrap_err(), DnsError::TimedOut);
        assert_eq!(patient.unwrap()[0], 7);
        assert_eq!(start.elapsed(), 5 * SECOND, "the patient one asked anew when the hasty one was cut");
        assert_eq!(server.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_names_and_of_records_is_bounded() {
        let server = Server::new(Ok(vec![1]), Some(60 * SECOND));
        let cache = DnsCache::new(10);
        for name in 0..100 {
            cache.answer(name, in_time(SECOND), || server.look_up()).await.unwrap();
        }
        assert!(cache.len().await <= 10);

        let flood = Server::new(Ok(vec![1; DNS_CACHE_MAX_RECORDS + 1]), Some(60 * SECOND));
        let cache = DnsCache::new(10);
        for _ in 0..2 {
            let answer = cache.answer("a", in_time(SECOND), || flood.look_up()).await.unwrap();
            assert_eq!(answer.len(), DNS_CACHE_MAX_RECORDS + 1, "used whole");
        }
        assert_eq!(flood.asked(), 2, "and forgotten");
    }
}
