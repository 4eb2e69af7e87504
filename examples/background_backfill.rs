//! Fills in the history of rooms, page by page, from a real homeserver and through the load gate.
//!
//! ```text
//! cargo run --example background_backfill -- http://127.0.0.1:8008 TOKEN '!room:example.org' --pages 200
//! ```
//!
//! Each room is paged through by a task of its own, one page at a time; the gate decides how many of them have a page in
//! flight. Stop the homeserver while this runs (`kill -STOP`) and the status lines say why nothing moves and until when.
//! `--scale 60` lets the record's minutes pass in seconds, so that it takes a coffee's time and not a day's.

mod matrix;

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use matrix::{CallError, Homeserver, outcome};
use portcullis::Took;
use portcullis::gate::{GateConstants, GateKey, GateRegistry, GateStatus, Happened, HomeserverGate};
use portcullis::limits::{BACKFILL_PAGE_TIMEOUT, GATES};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

const USAGE: &str = "\
usage: background_backfill BASE_URL ACCESS_TOKEN ROOM_ID… [--pages N] [--page-size N] [--scale N] [--json]

  --pages N      so many pages in all; rooms that have no more begin again. Without it: each room once
  --page-size N  events in a page (50)
  --scale N      the gate's times and the pages' timeout pass N times as fast (1). Never against a server of others
  --json         the whole status as JSON after each change";

/// Even a healthy homeserver may need so long for a page, however fast time is to pass.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(2);

/// What is wanted.
pub(crate) struct Wanted {
    pub(crate) base_url: String,
    pub(crate) access_token: String,
    pub(crate) rooms: Vec<String>,
    pub(crate) pages: Option<u64>,
    pub(crate) page_size: u32,
    pub(crate) scale: u32,
    pub(crate) json: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) pages: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Rooms that the homeserver does not give out.
    pub(crate) left_alone: AtomicU64,
    /// Pages begun: what is left of those wanted is shared by all rooms.
    begun: AtomicU64,
}

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| matches!(argument.as_str(), "-h" | "--help")) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let wanted = match Wanted::parse(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let interrupted = async {
        // Without a handler there is no orderly end to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    match run(wanted, interrupted).await {
        Ok(progress) if progress.left_alone.load(Ordering::Relaxed) > 0 => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Pages through all rooms until they are done or `stop` ends.
pub(crate) async fn run(wanted: Wanted, stop: impl Future<Output = ()>) -> Result<Arc<Progress>, Box<dyn Error>> {
    let server = Homeserver::new(&wanted.base_url, &wanted.access_token)?;
    // One registry for the process: accounts of one homeserver share its gate.
    let gates = GateRegistry::with_dangerous_constants(GATES, GateConstants::default().sped_up(wanted.scale));
    let gate = gates.gate(&GateKey::from_base_url(&wanted.base_url)?)?;
    let timeout = (BACKFILL_PAGE_TIMEOUT / wanted.scale.max(1)).max(SHORTEST_TIMEOUT);
    let progress = Arc::new(Progress::default());
    let mut rooms = JoinSet::new();
    for room in wanted.rooms {
        let (server, gate, progress) = (server.clone(), gate.clone(), Arc::clone(&progress));
        let room = Room { id: room, size: wanted.page_size.to_string(), pages: wanted.pages, timeout };
        rooms.spawn(async move { room.page_through(&server, &gate, &progress).await });
    }

    let mut events = gate.events();
    let mut every_second = interval(Duration::from_secs(1));
    every_second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_told = None;
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => {
                println!("stopping: pages in flight are dropped, and teach the gate nothing");
                rooms.shutdown().await;
                break;
            }
            done = rooms.join_next() => match done {
                Some(done) => if let Err(told) = done? {
                    progress.left_alone.fetch_add(1, Ordering::Relaxed);
                    println!("{told}");
                },
                None => break,
            },
            event = events.next() => {
                if let Some(told) = told(event.what) {
                    println!("{:>7.1} s  {told}", event.at.as_secs_f64());
                    if wanted.json {
                        println!("{}", serde_json::to_string(&gate.status())?);
                    }
                }
            }
            _ = every_second.tick() => {
                // The same line again every five seconds is enough.
                let status = gate.status();
                let now = (status.breaker.state, status.limit, status.held, gate.age().as_secs() / 5);
                if last_told.replace(now) != Some(now) {
                    println!("{}", line(&gate, &status, &progress));
                }
            }
        }
    }
    println!("{}", line(&gate, &gate.status(), &progress));
    Ok(progress)
}

struct Room {
    id: String,
    size: String,
    pages: Option<u64>,
    timeout: Duration,
}

impl Room {
    /// One page after the other, backwards from the latest. An error says why the room is left alone.
    async fn page_through(
        &self,
        server: &Homeserver,
        gate: &HomeserverGate,
        progress: &Progress,
    ) -> Result<(), String> {
        let mut from: Option<String> = None;
        loop {
            if self.pages.is_some_and(|pages| progress.begun.fetch_add(1, Ordering::Relaxed) >= pages) {
                return Ok(());
            }
            // Waiting here is no part of the request: its timeout begins when there is a permit.
            let permit = gate.acquire().await;
            let page = self.page(server, from.as_deref());
            let page = permit.run_within(self.timeout, page, outcome).await;
            let any = Took { elapsed: Duration::ZERO, timeout: self.timeout }; // what is load is so at any time
            let says_load = page.as_ref().is_ok_and(|page| outcome(page, any).is_load());
            match page {
                Ok(Ok(page)) => {
                    let events = page.pointer("/chunk").and_then(Value::as_array).map_or(0, Vec::len);
                    progress.pages.fetch_add(1, Ordering::Relaxed);
                    progress.events.fetch_add(events.try_into().unwrap_or(0), Ordering::Relaxed);
                    from = page.pointer("/end").and_then(Value::as_str).map(str::to_owned);
                    if from.is_none() && self.pages.is_none() {
                        return Ok(());
                    }
                    continue;
                }
                // The gate knows what to make of it; the same page is asked for again when it lets a call through.
                Err(_outer_timeout) => progress.timed_out.fetch_add(1, Ordering::Relaxed),
                Ok(Err(_)) if says_load => progress.failed.fetch_add(1, Ordering::Relaxed),
                Ok(Err(error)) => return Err(format!("{} is left alone: {error}", self.id)),
            };
            // A page that did not come is none of those wanted.
            progress.begun.fetch_sub(1, Ordering::Relaxed);
        }
    }

    async fn page(&self, server: &Homeserver, from: Option<&str>) -> Result<Value, CallError> {
        let mut query = vec![("dir", "b"), ("limit", self.size.as_str())];
        query.extend(from.map(|from| ("from", from)));
        server.get(&["rooms", &self.id, "messages"], &query).await
    }
}

/// What happened, if it is worth a line.
fn told(what: Happened) -> Option<String> {
    match what {
        Happened::LimitChanged { from, to } => Some(format!("limit {from} to {to}")),
        Happened::Held { .. } => Some("a page timed out; its slot is held".to_owned()),
        Happened::HoldExpired => Some("a held slot is free again".to_owned()),
        Happened::Opened { outcome, reopened: 0, .. } => Some(format!("the breaker opens: {}", outcome.as_label())),
        Happened::Opened { outcome, reopened, .. } => {
            Some(format!("the breaker stays open: {}; failed probes: {reopened}", outcome.as_label()))
        }
        Happened::Probing => Some("the breaker lets one page through".to_owned()),
        Happened::Closed => Some("the breaker closes".to_owned()),
        _ => None,
    }
}

/// Why nothing moves, and until when; or how fast it does.
fn line(gate: &HomeserverGate, status: &GateStatus, progress: &Progress) -> String {
    let GateStatus { limit, active, held, waiting, .. } = status;
    let mut line = format!(
        "{:>7.1} s  {:<8} limit {limit}, {active} active, {held} held, {waiting} waiting",
        gate.age().as_secs_f64(),
        format!("{:?}", status.breaker.state).to_lowercase()
    );
    if let Some(oldest) = status.oldest_wait_ms.filter(|oldest| *oldest >= 1000) {
        let _ = write!(line, " ({} s)", oldest / 1000);
    }
    let decided_by = format!("{:?}", status.next_admission.decided_by).to_lowercase();
    let _ = match status.next_admission.at_ms.map(|at| at.saturating_sub(status.seen_at_ms)) {
        Some(ms) if ms > 0 => write!(line, "; next in {}.{} s ({decided_by})", ms / 1000, ms / 100 % 10),
        _ => write!(line, "; next: {decided_by}"),
    };
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (pages, events) = (count(&progress.pages), count(&progress.events));
    let (timed_out, failed) = (count(&progress.timed_out), count(&progress.failed));
    let _ = write!(line, " | {pages} pages, {events} events, {timed_out} timed out, {failed} failed");
    line
}

impl Wanted {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut plain = Vec::new();
        let (mut pages, mut page_size, mut scale, mut json) = (None, 50, 1, false);
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let number =
                    arguments.next().and_then(|number| number.parse::<u32>().ok()).filter(|number| *number > 0);
                number.ok_or_else(|| format!("{argument} takes a number above 0"))
            };
            match argument.as_str() {
                "--pages" => pages = Some(number()?.into()),
                "--page-size" => page_size = number()?,
                "--scale" => scale = number()?,
                "--json" => json = true,
                option if option.starts_with("--") => return Err(format!("{option} is unknown")),
                _ => plain.push(argument),
            }
        }
        let mut plain = plain.into_iter();
        let (Some(base_url), Some(access_token)) = (plain.next(), plain.next()) else {
            return Err("a base URL and an access token are needed".to_owned());
        };
        let rooms: Vec<_> = plain.collect();
        if rooms.is_empty() {
            return Err("a room is needed".to_owned());
        }
        Ok(Self { base_url, access_token, rooms, pages, page_size, scale, json })
    }
}
