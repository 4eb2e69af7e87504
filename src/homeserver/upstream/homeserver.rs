//! [`Upstream`]: the homeserver behind, and what happens to a request before it is given a request thread.
//!
//! ```text
//!  sorted ─► our own data ─► slot, small or file (503) ─► rebuilt ─► sent, 10 s to the head (502) ─► its answer, as it comes
//!        ├─► needs a token ─► whose is it? (503, 502, 401) ─► request thread
//!        └─► anything else ─────────────────────────────────► request thread
//! ```

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Body as _;
use parking_lot::Mutex;

use super::super::fair_budget::FairBudget;
use super::super::runtime::Before;
use super::body::PacedBody;
use super::client::{ClientError, UpstreamClient, head_deadline, without_hop_by_hop};
use super::origin::UpstreamOrigin;
use super::published_key::OwnKey;
use super::rebuild::{Asker, NotPassedOn, Rebuilt, came_through, rebuild};
use super::report::{AccountReport, UpstreamGate};
use super::status::{Kind, UpstreamCounts, UpstreamStatus};
use super::tokens::{NotKnown, TokenDesk, TokenQuestion};
use super::view::Vouched;
use super::whoami::{WhoamiOverHttp, WhoamiParts};
use crate::admission::{ClientKey, InFlightCaps, InvalidRoute, Ipv6ClientPrefix, Slot, TrustedProxies, client_address};
use crate::gate::{GateRegistry, RegistryFull};
use crate::limits::{UPSTREAM_FILES, UPSTREAM_FILES_PER_CLIENT, UPSTREAM_SMALL, UPSTREAM_SMALL_PER_CLIENT};
use crate::outbound::TlsRoots;
use crate::portcullis::sorted::{OwnData, Sorted};
use crate::portcullis::token::bearer_token;
use crate::proxy::answer::ResponseBody;
use crate::proxy::answer::homeserver::upstream::{TokenVerdict, circle, is_final, passed_on, silent};
use crate::proxy::answer::homeserver::{busy, unrecognised_method};
use crate::server_name::ServerName;

/// The homeserver behind this one: its lists, aliases and files are its own, and its tokens are.
///
/// Never: a request thread waits for it (`tests/upstream/stopped.rs`).
pub struct Upstream {
    own_name: ServerName,
    pub(super) own_key: OwnKey,
    pub(super) client: Arc<UpstreamClient>,
    desk: Arc<TokenDesk>,
    /// Lists and aliases on their way.
    small: FairBudget,
    /// Files on their way: how long one takes is the client's doing, so they have a budget of their own.
    files: FairBudget,
    gate: UpstreamGate,
    trusted_proxies: TrustedProxies,
    ipv6_prefix: Ipv6ClientPrefix,
    /// By which a request is known that comes back.
    mark: String,
    pub(super) via: HeaderValue,
    counts: Arc<UpstreamCounts>,
}

/// What an [`Upstream`] is made of.
pub(crate) struct UpstreamParts<'a> {
    pub(crate) origin: &'a UpstreamOrigin,
    pub(crate) own_key: OwnKey,
    pub(crate) roots: TlsRoots,
    pub(crate) gates: &'a GateRegistry,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) ipv6_prefix: Ipv6ClientPrefix,
}

/// Why it cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// Its client.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// Its gate.
    #[error("{0}")]
    Gate(#[from] RegistryFull),
}

impl Upstream {
    /// The homeserver of those parts. Its gate is made here, so that what users see of it is heard from the start.
    pub(crate) fn new(parts: UpstreamParts<'_>) -> Result<Self, UpstreamError> {
        let UpstreamParts { origin, own_key, roots, gates, trusted_proxies, ipv6_prefix } = parts;
        let own_name = own_key.server_name.clone();
        let gate = UpstreamGate::of(origin, gates)?;
        let client = Arc::new(UpstreamClient::new(origin, roots)?);
        let mark = format!("portcullis-{:016x}", rand::random::<u64>());
        // Letters and digits.
        let via =
            HeaderValue::try_from(format!("1.1 {mark}")).unwrap_or_else(|_| HeaderValue::from_static("1.1 portcullis"));
        let counts = Arc::new(UpstreamCounts::at(client.origin()));
        let whoami = WhoamiOverHttp::new(WhoamiParts {
            client: Arc::clone(&client),
            gate: gate.clone(),
            own_name: own_name.clone(),
            via: via.clone(),
            counts: Arc::clone(&counts),
            no_sense: Mutex::default(),
        });
        Ok(Self {
            own_name,
            own_key,
            client,
            desk: TokenDesk::new(Arc::new(whoami)),
            small: FairBudget::new(InFlightCaps { global: UPSTREAM_SMALL, per_key: UPSTREAM_SMALL_PER_CLIENT }),
            files: FairBudget::new(InFlightCaps { global: UPSTREAM_FILES, per_key: UPSTREAM_FILES_PER_CLIENT }),
            gate,
            trusted_proxies,
            ipv6_prefix,
            mark,
            via,
            counts,
        })
    }

    /// What `request` does first, as it was sorted. *Blocking:* no. *Panics:* never, inside a tokio runtime.
    pub(crate) fn before(
        self: &Arc<Self>,
        sorted: Result<Sorted, InvalidRoute>,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Before {
        match sorted {
            Ok(Sorted::Here { needs_token: true }) => self.ask_whose(peer, request),
            Ok(Sorted::Here { needs_token: false }) => Before::Pool(Some(self.vouched(None))),
            Ok(Sorted::Own(own)) => self.pass_on(&own, peer, request),
            Err(invalid) => answered(invalid.into_response().map(ResponseBody::from)),
        }
    }

    fn vouched(&self, user: Option<Box<str>>) -> Vouched {
        Vouched::new(Arc::clone(&self.desk), user)
    }

    fn ask_whose(self: &Arc<Self>, peer: IpAddr, request: &Request<Bytes>) -> Before {
        let headers = request.headers();
        // Without one the request thread says so.
        let Some(token) = bearer_token(headers) else { return Before::Pool(Some(self.vouched(None))) };
        let question = TokenQuestion {
            token: token.into(),
            from: client_address(peer, headers, &self.trusted_proxies),
            user_agent: headers.get(USER_AGENT).cloned(),
            was_good: false,
        };
        let (upstream, client) = (Arc::clone(self), self.client_of(peer, headers));
        Before::Ask(Box::pin(async move {
            match upstream.desk.verdict(question, client).await {
                Ok(TokenVerdict::Good(user)) => Ok(upstream.vouched(Some(user))),
                Ok(TokenVerdict::Bad(bad)) => Err(bad.into_response()),
                Err(NotKnown::Busy) => {
                    upstream.counts.question_refused();
                    Err(busy())
                }
                Err(NotKnown::Crowded) => Err(busy()),
                Err(NotKnown::Silent) => Err(upstream.counts.silence(Kind::TokenQuestion)),
            }
        }))
    }

    fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> ClientKey {
        ClientKey::from_request(peer, headers, &self.trusted_proxies, self.ipv6_prefix)
    }

    fn pass_on(self: &Arc<Self>, own: &OwnData, peer: IpAddr, request: &Request<Bytes>) -> Before {
        let headers = request.headers();
        if came_through(headers, &self.mark) {
            tracing::error!(
                target: "portcullis::upstream",
                "a request that was passed on to homeserver.upstream came back here: it leads to this server, not to the \
                 homeserver behind it"
            );
            return answered(circle());
        }
        let asker = Asker {
            address: client_address(peer, headers, &self.trusted_proxies),
            through_trusted_proxy: self.trusted_proxies.contains(peer),
        };
        let rebuilt = match rebuild(own, &self.own_name, &asker, &self.via, request) {
            Ok(rebuilt) => rebuilt,
            Err(NotPassedOn::Invalid(invalid)) => return answered(invalid.into_response().map(ResponseBody::from)),
            // With an account aliases are made and deleted, which only the homeserver behind does.
            Err(NotPassedOn::Method) if matches!(own, OwnData::Alias(_)) => {
                return answered(unrecognised_method("GET, HEAD, PUT, DELETE, OPTIONS"));
            }
            // The request thread knows which methods there are.
            Err(NotPassedOn::Method) => return Before::Pool(Some(self.vouched(None))),
        };
        let (kind, budget) = match own {
            OwnData::RoomList | OwnData::Alias(_) => (Kind::Small, &self.small),
            OwnData::Media(_) => (Kind::File, &self.files),
        };
        let Ok(slot) = budget.try_acquire(&self.client_of(peer, headers)) else { return answered(busy()) };
        let is_account = bearer_token(headers).is_some_and(|token| self.desk.user_of(token).is_some());
        let report = self.gate.starts(is_account);
        let (client, counts) = (Arc::clone(&self.client), Arc::clone(&self.counts));
        let answer = Box::pin(async move { send(&client, rebuilt, kind, slot, report, &counts).await });
        match kind {
            Kind::Small => Before::Soon(answer),
            Kind::File | Kind::TokenQuestion => Before::Later(answer),
        }
    }

    /// How it stands. *Blocking:* no.
    #[must_use]
    pub fn status(&self) -> UpstreamStatus {
        self.counts.status(&self.desk, &self.small, &self.files)
    }
}

async fn send(
    client: &UpstreamClient,
    request: Rebuilt,
    kind: Kind,
    slot: Slot<ClientKey>,
    report: AccountReport,
    counts: &UpstreamCounts,
) -> Response<ResponseBody> {
    let is_head = request.method == Method::HEAD;
    let answer = client.send(request, head_deadline()).await;
    report.ended(answer.as_ref().map(Response::status).map_err(|failure| *failure));
    match answer {
        Ok(answer) if is_final(answer.status()) => {
            counts.answered(kind);
            let (mut head, body) = answer.into_parts();
            // Of a HEAD that is the length of what is not sent.
            let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
            without_hop_by_hop(&mut head.headers);
            if is_head {
                return passed_on(head, announced, ResponseBody::default());
            }
            let length = body.size_hint().exact();
            passed_on(head, length, ResponseBody::streamed(PacedBody::new(body, slot)))
        }
        Ok(_) | Err(_) => counts.silence(kind),
    }
}

fn answered(answer: Response<ResponseBody>) -> Before {
    Before::Soon(Box::pin(std::future::ready(answer)))
}

impl UpstreamCounts {
    fn silence(&self, kind: Kind) -> Response<ResponseBody> {
        self.silent(kind);
        silent()
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Upstream")
            .field("client", &self.client)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
