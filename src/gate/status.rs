//! [`GateStatus`]: why nothing moves at a homeserver, and until when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::gate::counts::GateCounts;
use crate::gate::key::GateKey;
use crate::gate::shared::Seen;
use crate::gate::snapshot::{BreakerSnapshot, DecidedBy, WaitingCounts};

/// One gate at one moment, to be shown as JSON: an element of `homeservers`. Times ending in `_at_ms` and `_until_ms` are
/// Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GateStatus {
    /// The homeserver.
    pub key: GateKey,
    /// Whether background calls may go through it; `false` for
    /// [those](crate::gate::HomeserverGate::without_background_callers) that only hear of what users wait for, and where
    /// nothing ever waits.
    pub background_callers: bool,
    /// Calls that may be out at once; 0 exactly while the breaker is not closed.
    pub limit: usize,
    /// Calls out that take a slot.
    pub active: usize,
    /// Slots kept for calls that timed out.
    pub held: usize,
    /// When each of those is free again, soonest first.
    pub held_until_ms: Vec<u64>,
    /// Who waits, long-polls included.
    pub waiting: usize,
    /// The same by kind.
    pub waiting_by_kind: WaitingCounts,
    /// How long the first of them has waited; null if nobody waits.
    pub oldest_wait_ms: Option<u64>,
    /// The breaker.
    pub breaker: BreakerStatus,
    /// When a call will be let in next, and what decides it.
    pub next_admission: NextAdmissionStatus,
    /// How often things happened since the gate was made.
    pub counts: GateCounts,
    /// When this was seen.
    pub seen_at_ms: u64,
}

/// The breaker at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BreakerStatus {
    /// Closed, open or probing.
    pub state: BreakerState,
    /// When it opened; null while it is closed.
    pub opened_at_ms: Option<u64>,
    /// When the open period is over; null unless it is open.
    pub period_ends_at_ms: Option<u64>,
    /// When it may probe next: the end of the period or of the last hold, whichever is later; null unless it is open.
    pub next_probe_at_ms: Option<u64>,
    /// How often a probe failed since it last closed.
    pub reopened: u32,
}

/// The states of the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls go out as the limit says.
    Closed,
    /// Nothing goes out.
    Open,
    /// One call is out.
    Probing,
}

/// When a call will be let in next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NextAdmissionStatus {
    /// At that time, or earlier if a call ends first; null if it depends on the end of calls alone.
    pub at_ms: Option<u64>,
    /// What it waits for.
    pub decided_by: DecidedBy,
}

impl GateStatus {
    pub(super) fn of(key: &GateKey, seen: &Seen) -> Self {
        let wall = WallClock { now: seen.now, unix_ms: unix_now_ms() };
        let snapshot = &seen.snapshot;
        let last_hold = snapshot.held.last().copied();
        Self {
            key: key.clone(),
            background_callers: seen.background_callers,
            limit: snapshot.limit,
            active: snapshot.active,
            held: snapshot.held.len(),
            held_until_ms: snapshot.held.iter().map(|end| wall.unix_ms(*end)).collect(),
            waiting: snapshot.waiting.total(),
            waiting_by_kind: snapshot.waiting,
            oldest_wait_ms: snapshot.waiting_since.map(|since| whole_ms(seen.now.saturating_sub(since))),
            breaker: BreakerStatus::of(snapshot.breaker, last_hold, wall),
            next_admission: NextAdmissionStatus {
                at_ms: seen.next.at.map(|at| wall.unix_ms(at)),
                decided_by: seen.next.decided_by,
            },
            counts: seen.counts,
            seen_at_ms: wall.unix_ms,
        }
    }
}

impl BreakerStatus {
    fn of(breaker: BreakerSnapshot, last_hold: Option<Duration>, wall: WallClock) -> Self {
        let at_rest = Self {
            state: BreakerState::Closed,
            opened_at_ms: None,
            period_ends_at_ms: None,
            next_probe_at_ms: None,
            reopened: 0,
        };
        match breaker {
            BreakerSnapshot::Closed => at_rest,
            BreakerSnapshot::Open { opened_at, period_ends, reopened } => Self {
                state: BreakerState::Open,
                opened_at_ms: Some(wall.unix_ms(opened_at)),
                period_ends_at_ms: Some(wall.unix_ms(period_ends)),
                next_probe_at_ms: Some(wall.unix_ms(last_hold.map_or(period_ends, |end| end.max(period_ends)))),
                reopened,
            },
            BreakerSnapshot::Probing { opened_at, reopened } => {
                Self { state: BreakerState::Probing, opened_at_ms: Some(wall.unix_ms(opened_at)), reopened, ..at_rest }
            }
        }
    }
}

/// Says what a moment of the gate's clock is on the wall, as of now. The wall's clock may be set; the gate's runs on.
#[derive(Clone, Copy)]
struct WallClock {
    now: Duration,
    unix_ms: u64,
}

impl WallClock {
    fn unix_ms(self, at: Duration) -> u64 {
        let later = self.unix_ms.saturating_add(whole_ms(at.saturating_sub(self.now)));
        later.saturating_sub(whole_ms(self.now.saturating_sub(at)))
    }
}

fn unix_now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, whole_ms)
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
