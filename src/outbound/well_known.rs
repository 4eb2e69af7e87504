//! [`WellKnown`]: what a host's `/.well-known/matrix/server` says, asked as seldom as its owner wants.
//!
//! The file belongs to a stranger and so does the server that gives it: the fetch is judged, bounded and cut like every
//! other call, and whatever is wrong with the answer means the same, that there is none. A host that drops packets to
//! port 443 costs one call its share of time; the failure is remembered, so the next call does not wait again.

pub(crate) mod fetch;
mod known;
mod lifetime;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::{Expired, OutboundDeadline};
use crate::limits::{WELL_KNOWN_CACHE_ENTRIES, WELL_KNOWN_FAIR_TRIAL, WELL_KNOWN_LEAST_TRIAL, WELL_KNOWN_SHARE};
use crate::outbound::single_flight::{Place, Places};
use crate::outbound::web::Web;
use crate::server_name::{DnsName, ServerName};
pub(crate) use fetch::FetchFailure;
use fetch::Fetcher;
use known::{Advice, Known};

/// Fetches and remembers well-known files.
///
/// Always: at most [`WELL_KNOWN_CACHE_ENTRIES`] hosts are remembered; one fetch per host at a time; a fetch takes at most
/// one third of what is left of the call (`a_black_hole_at_443_costs_the_first_call_its_share_and_the_second_nothing`).
/// Never: a caller's expiry is remembered or handed to another caller.
pub(crate) struct WellKnown {
    fetcher: Fetcher,
    hosts: Places<DnsName, Known>,
}

/// What is known about a host's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delegation {
    /// It delegates to this name.
    To(ServerName),
    /// There is no valid file: discovery goes on with the name itself.
    None(FetchFailure),
}

impl WellKnown {
    pub(crate) fn new(web: Arc<Web>) -> Self {
        Self { fetcher: Fetcher { web }, hosts: Places::new(WELL_KNOWN_CACHE_ENTRIES) }
    }

    /// What the file of `host` says: remembered, or fetched within a third of what is left of `whole`. With
    /// `known_since`, only what was found out at that moment or later counts as remembered.
    ///
    /// *Cancel safety:* dropping the future lets the next waiter fetch; nothing is remembered then.
    pub(crate) async fn delegation(
        &self,
        host: &DnsName,
        whole: OutboundDeadline,
        known_since: Option<Instant>,
    ) -> Delegation {
        let share = whole.share(WELL_KNOWN_SHARE, Instant::now());
        let advise = |known: &Known| match known_since {
            Some(since) if known.found_out_at().is_none_or(|at| at < since) => Advice::Fetch,
            _ => known.advice(Instant::now()),
        };
        let place = self.hosts.place(host).await;
        let turn = match advise(&place.known().unwrap_or_default()) {
            Advice::Use(delegation) => return delegation,
            Advice::Refresh(delegation) => match place.turn_now() {
                Some(turn) => Some(turn),
                // Somebody is at it, and what we have is still good.
                None => return delegation,
            },
            Advice::Fetch => {
                let waited = share.cut(place.turn()).await;
                let known = place.known().unwrap_or_default();
                match (waited, advise(&known)) {
                    (_, Advice::Use(delegation)) => return delegation,
                    // Another call's fetch took all our share: no word on this host.
                    (Err(Expired), _) => return known.instead_of(FetchFailure::TimedOut, Instant::now()),
                    (Ok(turn), _) => turn,
                }
            }
        };
        let delegation = self.fetch(host, &place, share, fair_trial(whole)).await;
        drop(turn);
        delegation
    }

    /// Fetches, and remembers what came of it. Run by the holder of the turn alone.
    async fn fetch(
        &self,
        host: &DnsName,
        place: &Place<Known>,
        share: OutboundDeadline,
        fair_trial: Duration,
    ) -> Delegation {
        let trial = share.remaining(Instant::now()).unwrap_or_default();
        let fetched = share.cut(self.fetcher.fetch(host, share)).await.unwrap_or(Err(FetchFailure::TimedOut));
        let now = Instant::now();
        let known = place.known().unwrap_or_default();
        let known = match fetched {
            Ok(file) => Known::good(file, now),
            Err(failure) if failure.is_for_lack_of_time() && trial < fair_trial => {
                return known.instead_of(failure, now);
            }
            Err(failure) => known.failed(failure, now),
        };
        let delegation = known.delegation(now);
        place.remember(known);
        delegation
    }
}

/// How long a host must have had to answer, for its silence to count against it. Under a short `remote_timeout` that is
/// the better part of the share a fresh call gives: else a dead host would be waited for again by every call.
fn fair_trial(whole: OutboundDeadline) -> Duration {
    let fresh_share = whole.allowed() / WELL_KNOWN_SHARE;
    WELL_KNOWN_FAIR_TRIAL.min(fresh_share.mul_f32(0.9)).max(WELL_KNOWN_LEAST_TRIAL)
}

#[cfg(test)]
mod tests;
