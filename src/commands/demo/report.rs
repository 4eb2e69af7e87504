//! What the rehearsal saw: the JSON object, the tables, and whether every promise was kept.

use std::fmt::Write as _;
use std::time::Duration;

use portcullis::{ClientOutboundProxyPolicy, RouteClass};
use serde::Serialize;

/// Everything one rehearsal saw. Its JSON form is the contract of `portcullis demo --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) pool: usize,
    pub(crate) global_cap: usize,
    pub(crate) per_client_cap: usize,
    pub(crate) deadline_ms: u64,
    pub(crate) silent_peer: Attack,
    pub(crate) dripping_peer: Attack,
    pub(crate) dead_resolver: Attack,
    pub(crate) healthy_peer: Healthy,
    pub(crate) one_address: OneAddress,
    pub(crate) media: Media,
    pub(crate) switch_off: SwitchOff,
    pub(crate) slots_after: usize,
    pub(crate) threads_after: usize,
    pub(crate) kept: bool,
}

/// One attack: many strangers ask for something that never comes.
#[derive(Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the JSON contract")]
pub(crate) struct Attack {
    pub(crate) lookups: usize,
    pub(crate) timed_out_504: usize,
    pub(crate) refused_429: usize,
    pub(crate) peer_connections_peak: usize,
    pub(crate) refusal_ms_p99: f64,
    pub(crate) longest_hold_ms: f64,
    pub(crate) local_requests: usize,
    pub(crate) local_failed: usize,
    pub(crate) local_ms_p99_idle: f64,
    pub(crate) local_ms_p99_attack: f64,
}

/// Statuses of the three lookups at a healthy peer, and how many rooms its list had.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Healthy {
    pub(crate) public_rooms_get: u16,
    pub(crate) public_rooms_post: u16,
    pub(crate) alias: u16,
    pub(crate) rooms: usize,
}

/// Two lookups at once from one address.
#[derive(Debug, Default, Serialize)]
pub(crate) struct OneAddress {
    pub(crate) parallel: usize,
    pub(crate) admitted: usize,
    pub(crate) refused_429: usize,
}

/// A page of images, loaded by one client, and what silent servers did to everybody else.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Media {
    pub(crate) images: usize,
    pub(crate) clients: usize,
    pub(crate) ok: usize,
    pub(crate) refused_429: usize,
    pub(crate) origin_requests: usize,
    pub(crate) pool_threads_held_peak: usize,
    pub(crate) silent_origin: SilentOrigin,
}

/// Strangers send a server to others that never answer, for files.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SilentOrigin {
    pub(crate) held: usize,
    pub(crate) refused_429: usize,
    pub(crate) otherwise: usize,
    pub(crate) local_requests: usize,
    pub(crate) local_failed: usize,
    pub(crate) local_ms_p99_attack: f64,
    pub(crate) healthy_origin_ok: usize,
    pub(crate) longest_hold_ms: f64,
    pub(crate) slots_after: usize,
}

/// Every media route of a server that fetches no remote media.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SwitchOff {
    pub(crate) routes: usize,
    pub(crate) not_found: usize,
    pub(crate) dns_queries: usize,
    pub(crate) connections: usize,
    pub(crate) counted: u64,
}

/// Images of a healthy server that are loaded while others are silent.
pub(crate) const HEALTHY_IMAGES: usize = 20;
/// A refusal waits for nothing: this is room for a busy machine.
const REFUSAL_WITHIN_MS: f64 = 500.0;
/// A local request during the attack. *Source: the record's own test bound for `/versions`.*
const LOCAL_WITHIN_MS: f64 = 1500.0;

impl Report {
    /// The promises that were broken, in words. Empty: all were kept.
    pub(crate) fn broken_promises(&self, worker_margin: Duration) -> Vec<String> {
        let mut broken = Vec::new();
        let mut promise = |kept: bool, words: String| {
            if !kept {
                broken.push(words);
            }
        };
        let hold_limit = ms(Duration::from_millis(self.deadline_ms) + worker_margin);
        for (name, attack, peak_wanted) in [
            ("silent peer", &self.silent_peer, self.global_cap),
            ("dripping peer", &self.dripping_peer, self.global_cap),
            ("dead resolver", &self.dead_resolver, 0),
        ] {
            let refused = attack.lookups.saturating_sub(self.global_cap);
            let Attack { timed_out_504, refused_429, peer_connections_peak, .. } = *attack;
            promise(
                timed_out_504 == self.global_cap,
                format!("{name}: {timed_out_504} lookups ended 504, not {}", self.global_cap),
            );
            promise(refused_429 == refused, format!("{name}: {refused_429} lookups were refused, not {refused}"));
            promise(
                peer_connections_peak == peak_wanted,
                format!("{name}: {peer_connections_peak} connections at once, not {peak_wanted}"),
            );
            promise(
                attack.longest_hold_ms <= hold_limit,
                format!("{name}: a lookup was held {:.0} ms, over {hold_limit:.0} ms", attack.longest_hold_ms),
            );
            promise(
                attack.refusal_ms_p99 <= REFUSAL_WITHIN_MS,
                format!("{name}: refusals took {:.0} ms", attack.refusal_ms_p99),
            );
            promise(attack.local_requests > 0, format!("{name}: no local request was made while the slots were held"));
            promise(attack.local_failed == 0, format!("{name}: {} local requests failed", attack.local_failed));
            promise(
                attack.local_ms_p99_attack <= LOCAL_WITHIN_MS,
                format!("{name}: local requests took {:.0} ms", attack.local_ms_p99_attack),
            );
        }
        let Healthy { public_rooms_get, public_rooms_post, alias, rooms } = self.healthy_peer;
        promise(
            [public_rooms_get, public_rooms_post, alias] == [200; 3] && rooms > 0,
            format!("healthy peer: {public_rooms_get}, {public_rooms_post}, {alias}, {rooms} rooms"),
        );
        let OneAddress { admitted, refused_429, .. } = self.one_address;
        promise(admitted == 1 && refused_429 == 1, format!("one address: {admitted} admitted, {refused_429} refused"));
        let Media { images, ok, refused_429, origin_requests, pool_threads_held_peak, ref silent_origin, .. } =
            self.media;
        promise(ok == images && images > 0, format!("media: {ok} of {images} images came"));
        promise(refused_429 == 0, format!("media: {refused_429} images of one page were refused"));
        promise(
            origin_requests.saturating_mul(2) == images,
            format!("media: {origin_requests} requests at the origin for {images} images in two waves"),
        );
        promise(pool_threads_held_peak == 0, format!("media: {pool_threads_held_peak} request threads were held"));
        let SilentOrigin { held, otherwise, local_requests, local_failed, .. } = *silent_origin;
        promise(
            held > 0 && silent_origin.refused_429 > 0 && otherwise == 0,
            format!("silent origins: {held} held, {} refused, {otherwise} otherwise", silent_origin.refused_429),
        );
        promise(
            silent_origin.healthy_origin_ok == HEALTHY_IMAGES,
            format!("silent origins: {} of {HEALTHY_IMAGES} healthy images came", silent_origin.healthy_origin_ok),
        );
        promise(
            silent_origin.longest_hold_ms <= hold_limit,
            format!(
                "silent origins: a fetch was held {:.0} ms, over {hold_limit:.0} ms",
                silent_origin.longest_hold_ms
            ),
        );
        promise(
            local_requests > 0 && local_failed == 0 && silent_origin.local_ms_p99_attack <= LOCAL_WITHIN_MS,
            format!(
                "silent origins: {local_failed} of {local_requests} local requests failed, p99 {:.0} ms",
                silent_origin.local_ms_p99_attack
            ),
        );
        promise(
            silent_origin.slots_after == 0,
            format!("silent origins: {} slots are still held", silent_origin.slots_after),
        );
        let SwitchOff { routes, not_found, dns_queries, connections, counted } = self.switch_off;
        promise(
            not_found == routes && u64::try_from(routes) == Ok(counted) && routes > 0,
            format!("switch off: {not_found} of {routes} routes answered 404, {counted} were counted"),
        );
        promise(
            dns_queries == 0 && connections == 0,
            format!("switch off: {dns_queries} DNS questions, {connections} connections"),
        );
        promise(self.slots_after == 0, format!("{} slots are still held", self.slots_after));
        promise(
            self.threads_after == self.pool,
            format!("{} of {} request threads are left", self.threads_after, self.pool),
        );
        broken
    }

    /// The report for a person.
    pub(crate) fn render(&self, broken: &[String]) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "A pool of {} request threads: at most {} remote lookups in flight, {} per client, {:.1} s each (shortened\n\
             from {} s, so that this takes less time). Rows marked * are promises: they decide the exit status. The\n\
             others are information.\n",
            self.pool,
            self.global_cap,
            self.per_client_cap,
            ms(Duration::from_millis(self.deadline_ms)) / 1000.0,
            ClientOutboundProxyPolicy::for_pool(self.pool).deadline(RouteClass::Directory, None).as_secs()
        );
        let _ =
            writeln!(text, "{:<38}{:>14}{:>16}{:>16}", "the attack", "silent peer", "dripping peer", "dead resolver");
        let attacks = [&self.silent_peer, &self.dripping_peer, &self.dead_resolver];
        let mut row = |label: &str, cell: fn(&Attack) -> String| {
            let [silent, dripping, dead] = attacks.map(cell);
            let _ = writeln!(text, "{}", format!("{label:<38}{silent:>14}{dripping:>16}{dead:>16}").trim_end());
        };
        // A mark for every row that `broken_promises` looks at.
        row("  lookups, each from another address", |attack| attack.lookups.to_string());
        row("* ended by time (504)", |attack| attack.timed_out_504.to_string());
        row("* refused at once (429)", |attack| attack.refused_429.to_string());
        row("* connections to the peer at once", |attack| attack.peer_connections_peak.to_string());
        row("* refusal, p99", |attack| format!("{:.1} ms", attack.refusal_ms_p99));
        row("* longest hold of a request thread", |attack| format!("{:.0} ms", attack.longest_hold_ms));
        row("everybody else meanwhile", |_| String::new());
        row("* local requests", |attack| attack.local_requests.to_string());
        row("* of them failed", |attack| attack.local_failed.to_string());
        row("  p99 before the attack", |attack| format!("{:.1} ms", attack.local_ms_p99_idle));
        row("* p99 during the attack", |attack| format!("{:.1} ms", attack.local_ms_p99_attack));
        let Healthy { public_rooms_get, public_rooms_post, alias, rooms } = self.healthy_peer;
        let _ = writeln!(
            text,
            "\n* healthy peer   room list {public_rooms_get} (GET), {public_rooms_post} (POST), {rooms} rooms; alias {alias}"
        );
        let OneAddress { parallel, admitted, refused_429 } = self.one_address;
        let _ =
            writeln!(text, "* one address    {parallel} lookups at once: {admitted} admitted, {refused_429} refused");
        let Media { images, ok, refused_429, origin_requests, pool_threads_held_peak, ref silent_origin, .. } =
            self.media;
        let _ = writeln!(
            text,
            "* media          {images} images for one client, in two waves: {ok} came, {refused_429} refused, {origin_requests} requests at\n\
             *                their server, {pool_threads_held_peak} request threads held\n\
             * silent origins {} fetches held (longest {:.0} ms), {} refused; meanwhile {} of {HEALTHY_IMAGES} images of a healthy\n\
             *                server came, local p99 {:.1} ms, {} slots held afterwards",
            silent_origin.held,
            silent_origin.longest_hold_ms,
            silent_origin.refused_429,
            silent_origin.healthy_origin_ok,
            silent_origin.local_ms_p99_attack,
            silent_origin.slots_after,
        );
        let SwitchOff { routes, not_found, dns_queries, connections, counted } = self.switch_off;
        let _ = writeln!(
            text,
            "* switch off     {not_found} of {routes} media routes answered 404, {counted} counted, {dns_queries} DNS questions, {connections} connections"
        );
        let _ = writeln!(
            text,
            "* afterwards     {} slots held, {} of {} request threads ready\n",
            self.slots_after, self.threads_after, self.pool
        );
        if broken.is_empty() {
            text.push_str("Every promise was kept.\n");
        } else {
            for promise in broken {
                let _ = writeln!(text, "BROKEN: {promise}");
            }
        }
        text
    }
}

/// Milliseconds with a fraction.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The 99th percentile in milliseconds, by nearest rank; 0 of nothing.
pub(crate) fn p99_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let rank = times.len().saturating_mul(99).div_ceil(100).saturating_sub(1);
    times.get(rank).copied().map_or(0.0, |time| (ms(time) * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_the_nearest_rank() {
        let times: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert!((p99_ms(times) - 198.0).abs() < f64::EPSILON);
        assert!(p99_ms(Vec::new()).abs() < f64::EPSILON);
    }
}
