//! [`Destinations`]: which servers were asked lately, and how that went. In memory alone, and not without end.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::time::Instant;

use super::times::whole_ms;
use super::{CallCounts, Ended, Why};
use crate::limits::DESTINATION_FORGOTTEN;
use crate::sync::Mutex;

/// A server that was asked lately, to be shown as JSON. Its name is a stranger's choice: show it as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DestinationStatus {
    /// The server, in canonical form.
    pub server: String,
    /// Calls that are out.
    pub in_flight: u64,
    /// How calls to it ended since it is in the table.
    #[serde(flatten)]
    pub counts: CallCounts,
    /// How long they took on average; 0 before the first has ended.
    pub mean_ms: u64,
    /// How long the slowest took.
    pub slowest_ms: u64,
    /// The latest that ended; null before the first.
    pub last: Option<LastCall>,
}

/// How the latest call to a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LastCall {
    /// How it ended.
    pub outcome: Ended,
    /// How far it got; null if it got what it asked for. A fixed word, as in the log.
    pub phase: Option<&'static str>,
    /// Why it failed; null if it got what it asked for. A fixed word, as in the log.
    pub reason: Option<&'static str>,
    /// The HTTP status that the server gave; null if it got what it asked for, or no answer came. As in the log.
    pub status: Option<u16>,
    /// How long it took.
    pub took_ms: u64,
    /// When it ended, in Unix milliseconds.
    pub ended_at_ms: u64,
}

/// The servers of the latest calls.
///
/// Always: at most as many as it was made for; worst case, with names of the greatest length, some 450 bytes each. Never: a
/// server with a call out is forgotten (`a_server_with_a_call_out_keeps_its_place`). A newcomer takes the place of a server
/// that was not asked for an hour, or else of the one with the fewest calls: a stranger who makes up names pushes out other
/// made-up names, not the servers that users talk to (`made_up_names_push_out_each_other`).
pub(super) struct Destinations {
    most: usize,
    rows: Mutex<Vec<Row>>,
}

/// Whether a call that is out has its row; it is given back when the call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) struct IsListed(bool);

#[derive(Debug)]
struct Row {
    server: String,
    in_flight: u64,
    counts: CallCounts,
    total: Duration,
    slowest: Duration,
    heard_at: Instant,
    last: Option<(Ended, Option<Failed>, Duration)>,
}

/// What is told of a call that did not give what was wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub(super) why: Why,
    /// What the server answered to its last request, if it did.
    pub(super) status: Option<u16>,
}

impl Destinations {
    pub(super) fn new(most: usize) -> Self {
        Self { most, rows: Mutex::new(Vec::with_capacity(most)) }
    }

    /// A call to `server` goes out.
    pub(super) fn begin(&self, server: &str, now: Instant) -> IsListed {
        let mut rows = self.rows.lock();
        let row = row(&mut rows, self.most, server, now);
        IsListed(row.map(|row| row.in_flight = row.in_flight.saturating_add(1)).is_some())
    }

    /// It has ended.
    pub(super) fn end(&self, listed: IsListed, server: &str, how: Ended, failed: Option<Failed>, took: Duration) {
        let now = Instant::now();
        let mut rows = self.rows.lock();
        let Some(row) = row(&mut rows, self.most, server, now) else { return };
        if listed.0 {
            row.in_flight = row.in_flight.saturating_sub(1);
        }
        let count = match how {
            Ended::Answered => &mut row.counts.answered,
            Ended::TimedOut => &mut row.counts.timed_out,
            Ended::Failed => &mut row.counts.failed,
        };
        *count = count.saturating_add(1);
        row.total = row.total.saturating_add(took);
        row.slowest = row.slowest.max(took);
        row.heard_at = now;
        row.last = Some((how, failed, took));
    }

    /// Every server of the table, by name.
    pub(super) fn status(&self) -> Vec<DestinationStatus> {
        let now = Instant::now();
        let unix_now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, whole_ms);
        let mut seen: Vec<_> = self.rows.lock().iter().map(|row| row.status(now, unix_now_ms)).collect();
        seen.sort_by(|one, other| one.server.cmp(&other.server));
        seen
    }
}

/// The row of `server`, made if there is none and a place can be had.
fn row<'a>(rows: &'a mut Vec<Row>, most: usize, server: &str, now: Instant) -> Option<&'a mut Row> {
    let at = rows.iter().position(|row| row.server == server);
    if let Some(at) = at {
        return rows.get_mut(at);
    }
    if rows.len() >= most {
        let idle = rows.iter().enumerate().filter(|(_, row)| row.in_flight == 0);
        let (least, _) = idle.min_by_key(|(_, row)| row.worth(now))?;
        rows.swap_remove(least);
    }
    rows.push(Row {
        server: server.to_owned(),
        in_flight: 0,
        counts: CallCounts::default(),
        total: Duration::ZERO,
        slowest: Duration::ZERO,
        heard_at: now,
        last: None,
    });
    rows.last_mut()
}

impl Row {
    fn calls(&self) -> u64 {
        let CallCounts { answered, timed_out, failed } = self.counts;
        answered.saturating_add(timed_out).saturating_add(failed)
    }

    /// What the row is worth keeping: the least goes first.
    fn worth(&self, now: Instant) -> (bool, u64, Instant) {
        let is_fresh = now.saturating_duration_since(self.heard_at) < DESTINATION_FORGOTTEN;
        (is_fresh, self.calls(), self.heard_at)
    }

    fn status(&self, now: Instant, unix_now_ms: u64) -> DestinationStatus {
        let age_ms = whole_ms(now.saturating_duration_since(self.heard_at));
        DestinationStatus {
            server: self.server.clone(),
            in_flight: self.in_flight,
            counts: self.counts,
            mean_ms: whole_ms(self.total).checked_div(self.calls()).unwrap_or_default(),
            slowest_ms: whole_ms(self.slowest),
            last: self.last.map(|(outcome, failed, took)| LastCall {
                outcome,
                phase: failed.map(|failed| failed.why.phase),
                reason: failed.map(|failed| failed.why.reason),
                status: failed.and_then(|failed| failed.status),
                took_ms: whole_ms(took),
                ended_at_ms: unix_now_ms.saturating_sub(age_ms),
            }),
        }
    }
}

impl fmt::Debug for Destinations {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Destinations").field("most", &self.most).field("servers", &self.rows.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NO_WAY: Failed = Failed { why: Why { phase: "connect", reason: "refused" }, status: Some(401) };

    fn call(table: &Destinations, server: &str, how: Ended, took: Duration) {
        let listed = table.begin(server, Instant::now());
        let failed = (how != Ended::Answered).then_some(NO_WAY);
        table.end(listed, server, how, failed, took);
    }

    fn servers(table: &Destinations) -> Vec<String> {
        table.status().into_iter().map(|row| row.server).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_shown_with_its_counts_its_times_and_its_last_call() {
        let table = Destinations::new(4);
        call(&table, "them.example", Ended::Answered, 100 * MS);
        call(&table, "them.example", Ended::TimedOut, 10_000 * MS);
        tokio::time::advance(5_000 * MS).await;
        let _out = table.begin("them.example", Instant::now());
        let seen = table.status();
        assert_eq!(seen.len(), 1);
        let row = &seen[0];
        assert_eq!((row.in_flight, row.mean_ms, row.slowest_ms), (1, 5_050, 10_000));
        assert_eq!(row.counts, CallCounts { answered: 1, timed_out: 1, failed: 0 });
        let last = row.last.unwrap();
        assert_eq!((last.outcome, last.phase, last.reason), (Ended::TimedOut, Some("connect"), Some("refused")));
        assert_eq!((last.status, last.took_ms), (Some(401), 10_000));
        let now_ms = whole_ms(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        assert!(last.ended_at_ms <= now_ms - 5_000, "five seconds ago: {} of {now_ms}", last.ended_at_ms);
    }

    #[tokio::test(start_paused = true)]
    async fn as_json_it_has_these_keys() {
        let table = Destinations::new(1);
        let listed = table.begin("them.example", Instant::now());
        let mut row = serde_json::json!({
            "server": "them.example", "in_flight": 1, "answered": 0, "timed_out": 0, "failed": 0, "mean_ms": 0,
            "slowest_ms": 0, "last": null,
        });
        assert_eq!(serde_json::to_value(&table.status()[0]).unwrap(), row);
        table.end(listed, "them.example", Ended::TimedOut, Some(NO_WAY), 7 * MS);
        let shown = serde_json::to_value(&table.status()[0]).unwrap();
        for (key, value) in [("in_flight", 0), ("timed_out", 1), ("mean_ms", 7), ("slowest_ms", 7)] {
            row[key] = value.into();
        }
        let ended_at_ms = shown["last"]["ended_at_ms"].clone();
        row["last"] = serde_json::json!({
            "outcome": "timed_out", "phase": "connect", "reason": "refused", "status": 401, "took_ms": 7, "ended_at_ms": ended_at_ms,
        });
        assert_eq!(shown, row);
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_names_push_out_each_other() {
        let table = Destinations::new(4);
        for _ in 0..2 {
            call(&table, "b.example", Ended::Answered, MS);
            call(&table, "a.example", Ended::Answered, MS);
        }
        for number in 0..1_000 {
            call(&table, &format!("made-up-{number}.example"), Ended::Failed, MS);
            tokio::time::advance(MS).await;
        }
        assert_eq!(servers(&table), ["a.example", "b.example", "made-up-998.example", "made-up-999.example"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_nobody_asked_for_an_hour_goes_first_however_many_calls_it_had() {
        let table = Destinations::new(2);
        for _ in 0..9 {
            call(&table, "old.example", Ended::Answered, MS);
        }
        tokio::time::advance(DESTINATION_FORGOTTEN.saturating_sub(MS)).await;
        for server in ["one.example", "two.example"] {
            call(&table, server, Ended::Answered, MS);
        }
        assert_eq!(servers(&table), ["old.example", "two.example"]);
        tokio::time::advance(MS).await;
        call(&table, "three.example", Ended::Answered, MS);
        assert_eq!(servers(&table), ["three.example", "two.example"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_a_call_out_keeps_its_place() {
        let table = Destinations::new(2);
        let one = table.begin("one.example", Instant::now());
        let _two = table.begin("two.example", Instant::now());
        let three = table.begin("three.example", Instant::now());
        assert_eq!(three, IsListed(false));
        table.end(three, "three.example", Ended::Failed, Some(NO_WAY), MS);
        assert_eq!(servers(&table), ["one.example", "two.example"]);
        table.end(one, "one.example", Ended::Answered, None, MS);
        call(&table, "three.example", Ended::Failed, MS);
        assert_eq!(servers(&table), ["three.example", "two.example"]);
        assert_eq!(table.status().iter().map(|row| row.in_flight).collect::<Vec<_>>(), [0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_place_takes_nothing_from_another_of_its_server() {
        let table = Destinations::new(1);
        let one = table.begin("one.example", Instant::now());
        let unlisted = table.begin("two.example", Instant::now());
        table.end(one, "one.example", Ended::Answered, None, MS);
        let _out = table.begin("two.example", Instant::now());
        table.end(unlisted, "two.example", Ended::Failed, Some(NO_WAY), MS);
        assert_eq!(table.status()[0].in_flight, 1);
    }
}
