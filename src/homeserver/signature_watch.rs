//! [`SignatureWatch`]: tells the operator that other servers do not accept our signature, which every lookup fails of while
//! nothing here is wrong.

use tokio::time::Instant;

use crate::limits::{UNACCEPTED_SIGNATURES, WATCH_LINE_INTERVAL};
use crate::proxy::watch::{DestinationStatus, Ended};
use crate::status::Destinations;

/// Looks at the servers asked lately, now and then. It reads no time itself.
///
/// Never: more than one line in [`WATCH_LINE_INTERVAL`], nor one while some server answers
/// (`one_that_answered_after_them_says_that_it_is_they`). A server that was asked but once is as good a sign as another, so a
/// stranger with [`UNACCEPTED_SIGNATURES`] servers can bring a line about at a time when nobody else asks for anything.
#[derive(Debug, Default)]
pub(super) struct SignatureWatch {
    told_at: Option<Instant>,
}

impl SignatureWatch {
    /// The line that is due: how many servers answered 401 in their latest call, since the last that was answered anywhere.
    pub(super) fn look(&mut self, seen: &Destinations, now: Instant) -> Option<usize> {
        let all = || seen.directory.iter().chain(&seen.media);
        let answered_at = all().filter_map(|server| ended_at(server, Ended::Answered, None)).max();
        let mut unaccepted: Vec<&str> = all()
            .filter(|server| ended_at(server, Ended::Failed, Some(401)).is_some_and(|at| Some(at) > answered_at))
            .map(|server| server.server.as_str())
            .collect();
        unaccepted.sort_unstable();
        unaccepted.dedup();
        let is_told = self.told_at.is_some_and(|at| now.saturating_duration_since(at) < WATCH_LINE_INTERVAL);
        if unaccepted.len() < UNACCEPTED_SIGNATURES || is_told {
            return None;
        }
        self.told_at = Some(now);
        Some(unaccepted.len())
    }
}

/// When its latest call ended, if it ended so.
fn ended_at(server: &DestinationStatus, how: Ended, status: Option<u16>) -> Option<u64> {
    let last = server.last?;
    (last.outcome == how && (status.is_none() || last.status == status)).then_some(last.ended_at_ms)
}

/// Nothing in it is a stranger's but how many there were.
pub(super) fn tell(servers: usize) {
    tracing::warn!(
        target: "portcullis::serve",
        servers,
        "other servers do not accept our signature: the latest answer of each of these was 401, and no other has answered since; is \
         server_name the homeserver's, signing_key the key it publishes, and its /_matrix/key/v2/server to be reached by others?"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::watch::{CallCounts, LastCall};

    fn row(server: &str, outcome: Ended, status: Option<u16>, ended_at_ms: u64) -> DestinationStatus {
        let last = LastCall { outcome, phase: None, reason: None, status, took_ms: 1, ended_at_ms };
        let counts = CallCounts::default();
        DestinationStatus {
            server: server.to_owned(),
            in_flight: 0,
            counts,
            mean_ms: 1,
            slowest_ms: 1,
            last: Some(last),
        }
    }

    fn refuses(server: &str, at: u64) -> DestinationStatus {
        row(server, Ended::Failed, Some(401), at)
    }

    fn look(rows: &[DestinationStatus], files: &[DestinationStatus]) -> Option<usize> {
        let seen = Destinations { directory: rows.to_vec(), media: files.to_vec() };
        SignatureWatch::default().look(&seen, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn three_servers_are_a_sign_and_one_that_is_asked_often_is_none() {
        let (a, b, c) = (refuses("a.example", 1), refuses("b.example", 2), refuses("c.example", 3));
        assert_eq!(look(&[a.clone(), b.clone()], &[]), None);
        assert_eq!(look(&[a.clone(), b.clone()], &[refuses("a.example", 9)]), None, "one server, two ways");
        assert_eq!(look(&[a.clone(), b.clone(), c.clone()], &[]), Some(3));
        assert_eq!(look(&[a.clone(), b.clone()], std::slice::from_ref(&c)), Some(3));
        let otherwise = [row("c.example", Ended::Failed, Some(403), 3), row("d.example", Ended::TimedOut, None, 4)];
        assert_eq!(look(&[&[a, b][..], &otherwise].concat(), &[]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_answered_after_them_says_that_it_is_they() {
        let refused = [refuses("a.example", 11), refuses("b.example", 12), refuses("c.example", 13)];
        let answered = |at| row("good.example", Ended::Answered, None, at);
        assert_eq!(look(&refused, &[answered(14)]), None);
        assert_eq!(look(&refused, &[answered(12)]), None, "one of them since");
        assert_eq!(look(&refused, &[answered(10)]), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once_an_hour() {
        let rows = vec![refuses("a.example", 1), refuses("b.example", 2), refuses("c.example", 3)];
        let (seen, mut watch) = (Destinations { directory: rows, media: Vec::new() }, SignatureWatch::default());
        let start = Instant::now();
        assert_eq!(watch.look(&seen, start), Some(3));
        assert_eq!(watch.look(&seen, start + WATCH_LINE_INTERVAL.mul_f32(0.5)), None);
        assert_eq!(watch.look(&seen, start + WATCH_LINE_INTERVAL), Some(3));
    }
}
