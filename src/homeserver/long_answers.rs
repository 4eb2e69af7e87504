//! [`LongAnswers`]: how many connections may be taken by what may hold one for long, so that lookups find some.
//!
//! A connection whose request is worked on, or whose answer comes, is not ended for a newcomer. A file waits for another
//! server up to half a minute and is read for many more, a question about a token waits for the homeserver behind: each
//! has caps of its own, and those together are more than there are connections. A lookup has a request thread, and is over
//! by its deadline.
//!
//! ```text
//!  connections:  files, requests passed on, questions about tokens │ lists and aliases passed on │ lookups, versions, keys
//!                └──────────────────────── long answers ─────────────────────────────────────────┘
//! ```

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};

use super::fair_budget::{FairBudget, FairBudgetStatus};
use super::listener::ListenerLimits;
use crate::admission::{ClientKey, InFlightCaps, Ipv6ClientPrefix, Slot, TrustedProxies};
use crate::limits::{CONNECTIONS_FOR_LOOKUPS_PART, CONNECTIONS_PER_LOOKUP, LONG_ANSWERS_FOR_SMALL_PART};
use crate::proxy::answer::ResponseBody;
use crate::proxy::response_body::BodyCut;

/// The places of answers that may take long.
///
/// Always: a reserve of the connections is left to what is none of them
/// (`what_takes_long_leaves_connections_to_lookups`). Clones share the same places.
#[derive(Clone, Debug)]
pub struct LongAnswers {
    places: FairBudget,
    trusted_proxies: TrustedProxies,
    ipv6_client_prefix: Ipv6ClientPrefix,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerSize {
    /// A list or an alias: a part of the places is for these alone.
    Small,
    /// Everything else.
    Any,
}

/// One answer's place, free once this is dropped.
#[must_use = "dropping the place gives it to others"]
#[derive(Debug)]
pub(super) struct LongAnswer(#[expect(dead_code, reason = "held, not read")] Slot<ClientKey>);

impl LongAnswers {
    /// The places under a listener of these `limits`, where `lookups` may be in flight at once.
    ///
    /// An eighth of the connections is no place for these, or two for each lookup if that is more; half of them at most. One
    /// client may have as many as it may have connections, also where a proxy brings it.
    #[must_use]
    pub fn within(limits: &ListenerLimits, lookups: usize) -> Self {
        let connections = limits.max_connections;
        let reserve = (connections / CONNECTIONS_FOR_LOOKUPS_PART).max(lookups.saturating_mul(CONNECTIONS_PER_LOOKUP));
        let places = connections.saturating_sub(reserve.min(connections / 2)).max(1);
        Self {
            places: FairBudget::new(InFlightCaps { global: places, per_key: limits.max_connections_per_client }),
            trusted_proxies: limits.trusted_proxies.clone(),
            ipv6_client_prefix: limits.ipv6_client_prefix,
        }
    }

    /// Who asks.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientKey {
        ClientKey::from_request(peer, headers, &self.trusted_proxies, self.ipv6_client_prefix)
    }

    /// A place for an answer to `client`; `None`, which is counted: there is none.
    pub(super) fn place(&self, client: &ClientKey, size: AnswerSize) -> Option<LongAnswer> {
        let kept = match size {
            AnswerSize::Small => 0,
            AnswerSize::Any => self.status().cap / LONG_ANSWERS_FOR_SMALL_PART,
        };
        self.places.try_acquire_beside(client, kept).ok().map(LongAnswer)
    }

    /// How it stands. *Blocking:* no.
    #[must_use]
    pub fn status(&self) -> FairBudgetStatus {
        self.places.status()
    }
}

impl LongAnswer {
    /// The answer, with this place held until it has ended.
    pub(super) fn until_the_end_of(self, answer: Response<ResponseBody>) -> Response<ResponseBody> {
        // One in memory gives its connection up for a newcomer.
        if !answer.body().is_streamed() || answer.body().is_end_stream() {
            return answer;
        }
        answer.map(|body| ResponseBody::streamed(PlacedBody { body, place: Some(self) }))
    }
}

/// A body with the place of its answer.
struct PlacedBody {
    body: ResponseBody,
    place: Option<LongAnswer>,
}

impl Body for PlacedBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.place = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn within(connections: usize, lookups: usize) -> LongAnswers {
        let limits = ListenerLimits { max_connections: connections, ..ListenerLimits::default() };
        LongAnswers::within(&limits, lookups)
    }

    fn client(number: u16) -> ClientKey {
        let [high, low] = number.to_be_bytes();
        ClientKey::vouched([192, 0, high, low].into(), Default::default())
    }

    fn taken(answers: &LongAnswers, size: AnswerSize) -> Vec<LongAnswer> {
        (0..600).filter_map(|number| answers.place(&client(number), size)).collect()
    }

    #[test]
    fn what_takes_long_leaves_connections_to_lookups() {
        for (connections, lookups, places) in
            [(512, 8, 448), (512, 64, 384), (512, 128, 256), (100, 8, 84), (16, 8, 8), (1, 1, 1)]
        {
            let seen = within(connections, lookups).status();
            assert_eq!((seen.cap, seen.per_client), (places, 72), "{connections} connections, {lookups} lookups");
        }
    }

    #[test]
    fn a_part_of_the_places_is_for_lists_and_aliases_alone() {
        let answers = within(512, 8);
        let large = taken(&answers, AnswerSize::Any);
        assert_eq!(large.len(), 448 - 56);
        let small = taken(&answers, AnswerSize::Small);
        assert_eq!((small.len(), answers.status().in_flight), (56, 448));
        drop(large);
        assert_eq!(answers.status().in_flight, 56);
    }

    #[test]
    fn one_client_has_as_many_as_it_may_have_connections() {
        let answers = within(512, 8);
        let held: Vec<_> = (0..100).filter_map(|_| answers.place(&client(1), AnswerSize::Any)).collect();
        assert_eq!((held.len(), answers.status().refused), (72, 28));
    }

    #[tokio::test]
    async fn the_place_is_held_to_the_end_of_what_is_streamed_and_no_longer() {
        let answers = within(512, 8);
        let place = || answers.place(&client(1), AnswerSize::Any).unwrap();
        let whole = place().until_the_end_of(Response::new(ResponseBody::from(Bytes::from_static(b"x"))));
        assert_eq!(answers.status().in_flight, 0, "it is in memory");
        let streamed = || {
            let full = Full::new(Bytes::from_static(b"abc")).map_err(|never| match never {});
            place().until_the_end_of(Response::new(ResponseBody::streamed(full))).into_body()
        };
        let mut read = streamed();
        let left = streamed();
        assert_eq!((answers.status().in_flight, read.size_hint().exact()), (2, Some(3)));
        assert_eq!(read.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
        assert!(read.frame().await.is_none());
        assert_eq!(answers.status().in_flight, 1, "it has ended, whoever still holds it");
        drop((left, whole));
        assert_eq!(answers.status().in_flight, 0);
    }
}
