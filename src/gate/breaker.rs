//! Whether anything goes out at all: closed, open, probing.
//!
//! ```text
//!              the limit reaches 0                period over, no hold left, somebody waits
//!   CLOSED ───────────────────────────► OPEN ◄──────────────────────────────────► PROBING
//!      ▲                                    a probe that failed (n + 1) or taught         │
//!      │                                    nothing (period over, n as it was)           │
//!      └──────────────────────── the probe was answered: limit 1, n = 0 ◄───────────────┘
//! ```

use std::time::Duration;

use crate::gate::constants::GateConstants;

/// The breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Breaker {
    Closed,
    Open(Outage),
    Probing(Outage),
}

/// From the moment the breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Outage {
    pub(super) opened_at: Duration,
    /// The open period is over *at* this moment.
    pub(super) period_ends: Duration,
    /// How often a probe failed since the breaker last closed.
    pub(super) reopened: u32,
}

impl Breaker {
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Opens at `now`: for the first time since it closed, or once more after a probe that failed.
    pub(super) fn open(&mut self, now: Duration, constants: &GateConstants) -> Outage {
        let reopened = match self {
            Self::Probing(outage) => outage.reopened.saturating_add(1),
            Self::Closed | Self::Open(_) => 0,
        };
        let period_ends = now.saturating_add(constants.open_period(reopened));
        let outage = Outage { opened_at: now, period_ends, reopened };
        *self = Self::Open(outage);
        outage
    }

    /// The probe is out.
    pub(super) fn probe(&mut self) {
        if let Self::Open(outage) = *self {
            *self = Self::Probing(outage);
        }
    }

    /// The probe ended and taught nothing: open, with a period that is over already.
    pub(super) fn pass_on(&mut self) {
        if let Self::Probing(outage) = *self {
            *self = Self::Open(outage);
        }
    }

    pub(super) fn close(&mut self) {
        *self = Self::Closed;
    }

    /// The same with its times counted from `now`, and without what only a reader cares about.
    pub(super) fn canonical(&self, now: Duration, constants: &GateConstants) -> Self {
        let from_now = |outage: Outage| Outage {
            opened_at: Duration::ZERO,
            period_ends: outage.period_ends.saturating_sub(now),
            reopened: (0..outage.reopened)
                .find(|n| constants.open_period(*n) == constants.cooldown_max)
                .unwrap_or(outage.reopened),
        };
        match *self {
            Self::Closed => Self::Closed,
            Self::Open(outage) => Self::Open(from_now(outage)),
            Self::Probing(outage) => Self::Probing(from_now(outage)),
        }
    }
}
