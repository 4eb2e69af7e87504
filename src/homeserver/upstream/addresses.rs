//! [`UpstreamAddresses`]: where the name of the homeserver behind leads, asked of the system one question at a time.
//!
//! The system's own resolver knows the hosts file and the names of containers, and it holds a thread for as long as it
//! likes. So there is never more than one question, whoever waits for its answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::Instant;

use crate::limits::UPSTREAM_ADDRESSES_REMEMBERED;

/// Answers the one name of the homeserver behind.
///
/// Always: at most one question is out (`there_is_one_question_at_a_time_and_its_answer_is_remembered_briefly`).
#[derive(Clone)]
pub(super) struct UpstreamAddresses {
    ask: Arc<dyn Fn() -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>,
    latest: Arc<Mutex<Option<Latest>>>,
}

type Answer = Result<Vec<SocketAddr>, Unanswered>;

#[derive(Clone)]
struct Latest {
    answer: Shared<BoxFuture<'static, Answer>>,
    /// When it was there, and is to be used no more some time later.
    since: Arc<Mutex<Option<Instant>>>,
}

/// The system knows no address.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the name of the homeserver behind leads nowhere")]
pub(super) struct Unanswered;

impl UpstreamAddresses {
    /// Those of `host`, as the system knows them.
    pub(super) fn of(host: &str) -> Self {
        let host: Arc<str> = host.into();
        Self::asking(move || {
            let host = Arc::clone(&host);
            async move { tokio::net::lookup_host((&*host, 0)).await.map(Iterator::collect) }.boxed()
        })
    }

    fn asking(ask: impl Fn() -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), latest: Arc::default() }
    }

    /// The answer that is there, or on its way.
    fn latest(&self) -> Shared<BoxFuture<'static, Answer>> {
        let mut latest = self.latest.lock();
        if let Some(latest) = &*latest
            && latest.is_good(Instant::now())
        {
            return latest.answer.clone();
        }
        let since = Arc::new(Mutex::new(None));
        let (asked, at) = ((self.ask)(), Arc::clone(&since));
        // A task: whoever waits may leave, and the question is out all the same.
        let task = tokio::spawn(async move {
            let answer = asked.await.ok().filter(|found| !found.is_empty()).ok_or(Unanswered);
            *at.lock() = Some(Instant::now());
            answer
        });
        let answer = async move { task.await.unwrap_or(Err(Unanswered)) }.boxed().shared();
        *latest = Some(Latest { answer: answer.clone(), since });
        answer
    }
}

impl Latest {
    /// On its way, or there and fresh.
    fn is_good(&self, now: Instant) -> bool {
        let since = *self.since.lock();
        since.is_none_or(|since| now.saturating_duration_since(since) < UPSTREAM_ADDRESSES_REMEMBERED)
    }
}

impl Resolve for UpstreamAddresses {
    fn resolve(&self, _only_one: Name) -> Resolving {
        let answer = self.latest();
        Box::pin(async move {
            let addresses: Addrs = Box::new(answer.await?.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_one_question_at_a_time_and_its_answer_is_remembered_briefly() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let addresses = UpstreamAddresses::asking(move || {
            let asked = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                if asked == 0 { Ok(vec!["192.0.2.1:0".parse().unwrap()]) } else { Err(io::Error::other("gone")) }
            }
            .boxed()
        });
        let impatient = tokio::time::timeout(Duration::from_secs(1), addresses.latest()).await;
        assert!(impatient.is_err());
        let (one, other) = tokio::join!(addresses.latest(), addresses.latest());
        assert_eq!((one.unwrap().len(), other.unwrap().len(), asked.load(Ordering::SeqCst)), (1, 1, 1));
        tokio::time::advance(Duration::from_millis(4999)).await;
        assert!(addresses.latest().await.is_ok());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(addresses.latest().await.is_err(), "asked again");
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
