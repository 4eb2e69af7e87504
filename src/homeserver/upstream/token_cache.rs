//! [`TokenCache`]: what the homeserver behind said of tokens within the last minute. No token is in it.

use std::fmt;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::limits::{BAD_TOKENS, GOOD_TOKENS, TOKEN_REMEMBERED};
use crate::proxy::answer::homeserver::upstream::{BadToken, TokenVerdict};

/// A token under a key that was made at the start and is nowhere else: whoever reads the memory of it has no token, and
/// cannot tell whether a token they have is among these.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenHash([u8; 32]);

/// Good tokens and bad ones, apart: however many are made up, they push out nobody's but such.
///
/// Always: at most so many of each as it was made for (`made_up_tokens_push_out_no_good_one`).
pub(super) struct TokenCache {
    key: [u8; 32],
    good: Cache<TokenHash, Known<Box<str>>>,
    bad: Cache<TokenHash, Known<BadToken>>,
}

#[derive(Clone)]
struct Known<T> {
    said: T,
    at: Instant,
}

impl<T> Known<T> {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < TOKEN_REMEMBERED
    }
}

impl TokenCache {
    pub(super) fn new() -> Self {
        Self::with_room_for(GOOD_TOKENS, BAD_TOKENS)
    }

    fn with_room_for(good: u64, bad: u64) -> Self {
        // The least recently used goes, not the least often used: a newcomer has a place.
        Self {
            key: rand::random(),
            good: Cache::builder().max_capacity(good).eviction_policy(EvictionPolicy::lru()).build(),
            bad: Cache::builder().max_capacity(bad).eviction_policy(EvictionPolicy::lru()).build(),
        }
    }

    pub(super) fn hash(&self, token: &str) -> TokenHash {
        // The key has one length, and no hash is ever told: nothing can be appended to what is hashed.
        TokenHash(Sha256::new_with_prefix(self.key).chain_update(token).finalize().into())
    }

    /// What was said within the last minute.
    pub(super) fn said(&self, token: &TokenHash) -> Option<TokenVerdict> {
        let now = Instant::now();
        if let Some(known) = self.good.get(token).filter(|known| known.is_fresh(now)) {
            return Some(TokenVerdict::Good(known.said));
        }
        self.bad.get(token).filter(|known| known.is_fresh(now)).map(|known| TokenVerdict::Bad(known.said))
    }

    /// Whether it was good when it was last asked about, however long ago.
    pub(super) fn was_good(&self, token: &TokenHash) -> bool {
        self.good.contains_key(token)
    }

    pub(super) fn remember(&self, token: TokenHash, verdict: &TokenVerdict) {
        let at = Instant::now();
        match verdict {
            TokenVerdict::Good(user) => {
                self.good.insert(token, Known { said: user.clone(), at });
                self.bad.invalidate(&token);
            }
            TokenVerdict::Bad(bad) => {
                self.bad.insert(token, Known { said: *bad, at });
                self.good.invalidate(&token);
            }
        }
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TokenCache")
            .field("good", &self.good.entry_count())
            .field("bad", &self.bad.entry_count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::*;
    use crate::proxy::answer::homeserver::upstream::judge_whoami;

    fn good() -> TokenVerdict {
        TokenVerdict::Good("@a:us.example".into())
    }

    fn bad() -> TokenVerdict {
        judge_whoami(StatusCode::UNAUTHORIZED, br#"{"errcode":"M_UNKNOWN_TOKEN"}"#).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_is_remembered_for_a_minute_and_no_longer() {
        let cache = TokenCache::new();
        let (mine, made_up) = (cache.hash("mine"), cache.hash("made up"));
        assert_eq!(cache.said(&mine), None);
        cache.remember(mine, &good());
        cache.remember(made_up, &bad());
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert_eq!((cache.said(&mine), cache.said(&made_up)), (Some(good()), Some(bad())));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((cache.said(&mine), cache.said(&made_up)), (None, None));
        assert!(cache.was_good(&mine) && !cache.was_good(&made_up));
    }

    #[tokio::test(start_paused = true)]
    async fn the_latest_word_counts() {
        let cache = TokenCache::new();
        let token = cache.hash("mine");
        cache.remember(token, &good());
        cache.remember(token, &bad());
        assert_eq!(cache.said(&token), Some(bad()));
        assert!(!cache.was_good(&token), "it was revoked");
        cache.remember(token, &good());
        assert_eq!(cache.said(&token), Some(good()));
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_tokens_push_out_no_good_one() {
        let cache = TokenCache::with_room_for(8, 8);
        let mine = cache.hash("mine");
        cache.remember(mine, &good());
        for number in 0..1000 {
            cache.remember(cache.hash(&format!("made up {number}")), &bad());
        }
        cache.bad.run_pending_tasks();
        assert!(cache.bad.entry_count() <= 8, "{}", cache.bad.entry_count());
        assert_eq!(cache.said(&mine), Some(good()));
        for number in 0..1000 {
            cache.remember(cache.hash(&format!("a user's {number}")), &good());
        }
        cache.good.run_pending_tasks();
        assert!(cache.good.entry_count() <= 8, "{}", cache.good.entry_count());
    }

    #[test]
    fn no_two_processes_know_a_token_by_the_same_hash_and_none_shows_it() {
        let (one, other) = (TokenCache::new(), TokenCache::new());
        assert!(one.hash("secret") == one.hash("secret"));
        assert!(one.hash("secret") != other.hash("secret") && one.hash("secret") != one.hash("secret "));
        one.remember(one.hash("secret"), &good());
        let shown = format!("{one:?}");
        assert!(!shown.contains("secret") && !shown.contains("@a"), "{shown}");
    }
}
