//! The question for the signing key that the homeserver behind publishes: once after the start, in the background.

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, VIA};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};

use super::client::head_deadline;
use super::homeserver::Upstream;
use super::published_key::{Published, is_homeservers, judge, tell_of_no_homeserver};
use super::rebuild::Rebuilt;
use crate::limits::{MAX_ERROR_BODY_BYTES, UPSTREAM_KEY_FIRST_PAUSE, UPSTREAM_KEY_QUESTIONS};

const KEY: &str = "/_matrix/key/v2/server";
const VERSIONS: &str = "/_matrix/client/versions";

impl Upstream {
    /// Asks which signing key the homeserver behind publishes, and warns if it is not ours. One that does not answer is asked
    /// again, with growing pauses, for some ten minutes. It is not counted, and no load gate hears of it.
    ///
    /// *Cancel safety:* dropping the future ends it, and nothing is told. *Panics:* never, inside a tokio runtime.
    pub(crate) async fn compare_signing_key(&self) {
        if !until_answered(|| self.says_which_key()).await {
            Published::NotNow.tell(&self.own_key);
        }
    }

    /// Whether there was an answer; then the log has been told.
    async fn says_which_key(&self) -> bool {
        let Some((status, body)) = self.question(KEY).await else { return false };
        match judge(status, &body, &self.own_key) {
            Published::NotNow => false,
            // A proxy may have no way for this one path and lead the others to a homeserver.
            Published::NoSense => match self.question(VERSIONS).await {
                Some((status, _)) if status.is_server_error() => false,
                Some((_, body)) if is_homeservers(&body) => {
                    Published::NotHere.tell(&self.own_key);
                    true
                }
                Some(_) => {
                    tell_of_no_homeserver(self.client.origin());
                    true
                }
                None => false,
            },
            published => {
                published.tell(&self.own_key);
                true
            }
        }
    }

    /// An answer of bounded size, within the time that any answer of the homeserver behind has.
    async fn question(&self, path: &str) -> Option<(StatusCode, Bytes)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(VIA, self.via.clone());
        let request = Rebuilt { method: Method::GET, path_and_query: path.to_owned(), headers, body: Bytes::new() };
        let deadline = head_deadline();
        let (head, body) = self.client.send(request, deadline).await.ok()?.into_parts();
        let body = deadline.cut(Limited::new(body, MAX_ERROR_BODY_BYTES).collect()).await.ok()?;
        // One that is cut off or too large says nothing, and makes no sense at that.
        Some((head.status, body.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
    }
}

/// Asks until there was an answer, or often enough. Whether there was one.
async fn until_answered<F: Future<Output = bool> + Send>(ask: impl Fn() -> F + Send) -> bool {
    let mut pause = UPSTREAM_KEY_FIRST_PAUSE;
    for asked in 1..=UPSTREAM_KEY_QUESTIONS {
        if ask().await {
            return true;
        }
        if asked < UPSTREAM_KEY_QUESTIONS {
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    /// Asked how often, for how long, with what end, if the question of this number is answered.
    async fn asked(answered: u32) -> (u32, Duration, bool) {
        let (start, count) = (Instant::now(), AtomicU32::new(0));
        let ask = || std::future::ready(count.fetch_add(1, Ordering::Relaxed) + 1 == answered);
        let is_answered = until_answered(ask).await;
        (count.into_inner(), start.elapsed(), is_answered)
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_answer_is_asked_with_growing_pauses_and_not_without_end() {
        let seconds = Duration::from_secs;
        assert_eq!(asked(1).await, (1, seconds(0), true));
        assert_eq!(asked(3).await, (3, seconds(5 + 10), true));
        assert_eq!(asked(0).await, (8, seconds(5 + 10 + 20 + 40 + 80 + 160 + 320), false));
    }
}
