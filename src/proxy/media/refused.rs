//! [`Refused`]: what other servers said no to lately, so that the clients of one room do not ask again one by one.

use std::fmt;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

use super::failure::MediaFailure;
use crate::proxy::media_store::FileKey;

/// Files that their server has not, or not in this form, or not small enough.
///
/// Always: at most `most` entries plus what inserts in progress have not yet weighed, some 200 bytes each. Never: a deadline
/// or a fault of the other server (`only_what_was_said_of_a_file_is_remembered`).
pub(crate) struct Refused {
    kept: Cache<FileKey, Kept>,
    time_to_live: Duration,
}

#[derive(Clone, Copy)]
struct Kept {
    failure: MediaFailure,
    expires_at: Instant,
}

impl Refused {
    /// Nothing is refused yet.
    pub(crate) fn new(most: u64, time_to_live: Duration) -> Self {
        let kept = Cache::builder()
            .max_capacity(most)
            // A flood of files asked for often must not keep the next one out.
            .eviction_policy(EvictionPolicy::lru())
            // Gives the memory back. What counts is `expires_at`, which a test can move.
            .time_to_live(time_to_live)
            .build();
        Self { kept, time_to_live }
    }

    /// What was said of this file lately. *Blocking:* no.
    pub(crate) fn of(&self, key: &FileKey) -> Option<MediaFailure> {
        self.kept.get(key).filter(|kept| kept.expires_at > Instant::now()).map(|kept| kept.failure)
    }

    /// Keeps `failure` in mind, if it is of the kind that is.
    pub(crate) fn remember(&self, key: &FileKey, failure: MediaFailure) {
        if failure.is_remembered() {
            let expires_at = Instant::now() + self.time_to_live;
            self.kept.insert(key.clone(), Kept { failure, expires_at });
            // Evicts now what is over the bound, rather than some inserts later.
            self.kept.run_pending_tasks();
        }
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Refused").field("kept", &self.kept.entry_count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{MediaVariant, RemoteFile};

    fn key(media_id: &str) -> FileKey {
        let file = RemoteFile { server: "them.example".parse().unwrap(), media_id: media_id.parse().unwrap() };
        FileKey::new(&file, MediaVariant::Download)
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_said_of_a_file_is_remembered() {
        let refused = Refused::new(8, Duration::from_secs(30));
        for (failure, remembered) in [
            (MediaFailure::NotFound, true),
            (MediaFailure::TooLarge, true),
            (MediaFailure::NoThumbnail, true),
            (MediaFailure::NotYetUploaded, false),
            (MediaFailure::TimedOut, false),
            (MediaFailure::Failed, false),
            (MediaFailure::NoRoom, false),
            (MediaFailure::Stopping, false),
        ] {
            let key = key(&format!("{failure:?}"));
            refused.remember(&key, failure);
            assert_eq!(refused.of(&key), remembered.then_some(failure));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_forgotten_after_half_a_minute_to_the_millisecond() {
        let refused = Refused::new(8, Duration::from_secs(30));
        refused.remember(&key("a"), MediaFailure::NotFound);
        tokio::time::advance(Duration::from_millis(29_999)).await;
        assert_eq!(refused.of(&key("a")), Some(MediaFailure::NotFound));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(refused.of(&key("a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_cannot_make_it_grow() {
        let refused = Refused::new(8, Duration::from_secs(30));
        for n in 0..1000 {
            refused.remember(&key(&n.to_string()), MediaFailure::NotFound);
        }
        assert_eq!(refused.kept.entry_count(), 8);
        assert_eq!(refused.of(&key("999")), Some(MediaFailure::NotFound));
    }
}
