//! [`ProxyWatch`]: tells the operator of a proxy in front that is not listed, whose clients all count as one.
//!
//! Two signs, each told in one line: the header of a proxy from somebody who is not listed, and one client that is refused
//! again and again. Nothing of a header's text is ever written.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::listener::{BadRequest, Handler};
use crate::admission::{ClientKey, Ipv6ClientPrefix, TrustedProxies};
use crate::limits::{
    STEADY_REFUSALS, STEADY_REFUSALS_WITHIN, WATCH_LINE_INTERVAL, WATCH_LINES_AT_MOST, WATCHED_CLIENTS,
};
use crate::outbound::BoxFuture;
use crate::proxy::answer::{self, ResponseBody};

/// A handler whose clients are watched for those two signs.
pub struct ProxyWatch<H> {
    inner: Arc<H>,
    signs: Arc<Signs>,
}

/// Whose word is believed, and what was seen.
struct Signs {
    proxies: TrustedProxies,
    ipv6_prefix: Ipv6ClientPrefix,
    unlisted: Mutex<UnlistedProxies>,
    refused: Mutex<SteadyRefusals>,
}

/// Who sent the header of a proxy without being one. Each is told of once, and so many in all.
#[derive(Default)]
struct UnlistedProxies(Vec<IpAddr>);

/// Who is refused how often.
///
/// Always: at most [`WATCHED_CLIENTS`] are counted, and a line is due once in [`WATCH_LINE_INTERVAL`] at most. In a flood of
/// clients some are not counted to the end, and that is all that is lost.
#[derive(Default)]
struct SteadyRefusals {
    counts: Vec<Count>,
    told_at: Option<Instant>,
}

struct Count {
    client: ClientKey,
    since: Instant,
    refusals: u32,
}

impl<H: Handler> ProxyWatch<H> {
    /// Watches the clients of `inner`, told apart as its routes tell them apart.
    pub fn over(inner: Arc<H>, proxies: TrustedProxies, ipv6_prefix: Ipv6ClientPrefix) -> Self {
        let (unlisted, refused) = (Mutex::default(), Mutex::default());
        Self { inner, signs: Arc::new(Signs { proxies, ipv6_prefix, unlisted, refused }) }
    }
}

impl<H: Handler> Handler for ProxyWatch<H> {
    fn handle(&self, peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        self.signs.see_headers(peer, request.headers());
        let client = ClientKey::from_request(peer, request.headers(), &self.signs.proxies, self.signs.ipv6_prefix);
        let (answer, signs) = (self.inner.handle(peer, request), Arc::clone(&self.signs));
        Box::pin(async move {
            let answer = answer.await;
            if answer::homeserver::says_too_much(&answer) {
                signs.see_refusal(client);
            }
            answer
        })
    }

    fn refuse(&self, problem: BadRequest) -> Response<ResponseBody> {
        self.inner.refuse(problem)
    }
}

impl Signs {
    fn see_headers(&self, peer: IpAddr, headers: &HeaderMap) {
        if ClientKey::speaks_for_others(headers) && !self.proxies.contains(peer) && self.unlisted.lock().is_news(peer) {
            tracing::warn!(
                target: "portcullis::serve",
                "X-Forwarded-For came from {peer}, which trusted_proxies does not list, and was ignored: if that is your \
                 proxy, all its clients count as one; add \"{peer}\" to trusted_proxies"
            );
        }
    }

    fn see_refusal(&self, client: ClientKey) {
        if self.refused.lock().is_news(client, Instant::now()) {
            let within = STEADY_REFUSALS_WITHIN.as_secs();
            tracing::warn!(
                target: "portcullis::serve",
                "{client} was refused {STEADY_REFUSALS} times within {within} s (429): one client asks too much, or it is a \
                 proxy whose clients count as one; then list it in trusted_proxies and let it send X-Forwarded-For"
            );
        }
    }
}

impl UnlistedProxies {
    fn is_news(&mut self, peer: IpAddr) -> bool {
        let news = self.0.len() < WATCH_LINES_AT_MOST && !self.0.contains(&peer);
        if news {
            self.0.push(peer);
        }
        news
    }
}

impl SteadyRefusals {
    /// Counts a refusal. True if this makes it a sign that was not told lately.
    fn is_news(&mut self, client: ClientKey, now: Instant) -> bool {
        self.counts.retain(|count| now.duration_since(count.since) < STEADY_REFUSALS_WITHIN);
        let place = match self.counts.iter().position(|count| count.client == client) {
            Some(place) => place,
            None => self.place_for(client, now),
        };
        let Some(count) = self.counts.get_mut(place) else { return false };
        count.refusals = count.refusals.saturating_add(1);
        if count.refusals < STEADY_REFUSALS
            || self.told_at.is_some_and(|at| now.duration_since(at) < WATCH_LINE_INTERVAL)
        {
            return false;
        }
        self.told_at = Some(now);
        true
    }

    /// A free place, or that of whoever was refused least.
    fn place_for(&mut self, client: ClientKey, now: Instant) -> usize {
        if self.counts.len() >= WATCHED_CLIENTS {
            let least = self.counts.iter().enumerate().min_by_key(|(_, count)| count.refusals).map(|(place, _)| place);
            if let Some(least) = least {
                self.counts.swap_remove(least);
            }
        }
        self.counts.push(Count { client, since: now, refusals: 0 });
        self.counts.len().saturating_sub(1)
    }
}

impl<H> fmt::Debug for ProxyWatch<H> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProxyWatch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
