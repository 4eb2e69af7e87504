//! A world for tests: names, well-known files, and a record of who was asked what. Time is the runtime's own, so a test
//! that pauses it decides how long everything takes.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::address_policy::AddressPolicy;
use crate::outbound::discover::Discovery;
use crate::outbound::resolver::{DnsError, Resolve, SrvRecord, SrvService, SrvTarget};
use crate::outbound::transport::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};
use crate::server_name::DnsName;

/// What the DNS says about one name and kind (`A`: both families).
#[derive(Clone)]
pub(crate) enum Zone {
    Addresses(Vec<IpAddr>),
    Services(Vec<SrvRecord>),
    Error(DnsError),
    Silence,
}

/// What happens at one URL.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    Answer {
        status: u16,
        headers: Vec<(&'static str, Vec<u8>)>,
        body: Vec<Bytes>,
        /// Before each piece of the body.
        pause: Duration,
        /// Before the response head.
        delay: Duration,
    },
    /// The connection breaks where the body should end.
    Cut(Box<Self>),
    Refused,
    /// Packets are dropped.
    BlackHole,
    /// Accepted, and then nothing.
    Mute,
}

/// One request as the transport was given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialled {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    pub(crate) tls_name: String,
    pub(crate) headers: http::HeaderMap,
}

#[derive(Default)]
pub(crate) struct World {
    zones: Mutex<HashMap<String, Zone>>,
    pages: Mutex<HashMap<String, Page>>,
    asked: Mutex<Vec<String>>,
    dialled: Mutex<Vec<Dialled>>,
    body_bytes: Arc<Mutex<usize>>,
    open_bodies: Arc<()>,
}

impl Page {
    pub(crate) fn answer(status: u16, body: &str) -> Self {
        let body = vec![Bytes::copy_from_slice(body.as_bytes())];
        Self::Answer { status, headers: Vec::new(), body, pause: Duration::ZERO, delay: Duration::ZERO }
    }

    pub(crate) fn delegates_to(name: &str) -> Self {
        Self::answer(200, &format!("{{\"m.server\": \"{name}\"}}"))
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        Self::answer(status, "").with("location", location)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name, value.as_ref().to_owned()));
        }
        self
    }

    pub(crate) fn in_pieces(mut self, pieces: Vec<Bytes>, pause_between: Duration) -> Self {
        if let Self::Answer { body, pause, .. } = &mut self {
            *body = pieces;
            *pause = pause_between;
        }
        self
    }

    pub(crate) fn cut(self) -> Self {
        Self::Cut(Box::new(self))
    }

    pub(crate) fn after(mut self, wait: Duration) -> Self {
        if let Self::Answer { delay, .. } = &mut self {
            *delay = wait;
        }
        self
    }
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The addresses of `name`.
    pub(crate) fn name(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.zone(&format!("{name} A"), Zone::Addresses(addresses));
    }

    /// SRV records `(priority, weight, port, target)` at `owner`, service label included.
    pub(crate) fn srv(&self, owner: &str, records: &[(u16, u16, u16, &str)]) {
        let records = records.iter().map(|&(priority, weight, port, target)| {
            let target = match target {
                "." => SrvTarget::Root,
                name => name.trim_end_matches('.').parse().map_or(SrvTarget::Unusable, SrvTarget::Name),
            };
            SrvRecord { priority, weight, port, target }
        });
        self.zone(&format!("{owner} SRV"), Zone::Services(records.collect()));
    }

    /// `key` is the name and `A` or `SRV`.
    pub(crate) fn zone(&self, key: &str, zone: Zone) {
        self.zones.lock().insert(key.to_ascii_lowercase(), zone);
    }

    pub(crate) fn page(&self, url: &str, page: Page) {
        self.pages.lock().insert(url.to_owned(), page);
    }

    /// The well-known file of `host`.
    pub(crate) fn well_known(&self, host: &str, page: Page) {
        self.page(&format!("https://{host}/.well-known/matrix/server"), page);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    pub(crate) fn dialled(&self) -> Vec<Dialled> {
        self.dialled.lock().clone()
    }

    /// How many requests went to well-known files and whatever they redirect to.
    pub(crate) fn fetches(&self) -> usize {
        self.dialled.lock().len()
    }

    /// Body bytes that were read.
    pub(crate) fn body_bytes(&self) -> usize {
        *self.body_bytes.lock()
    }

    /// Response bodies that were neither read to their end nor dropped.
    pub(crate) fn open_bodies(&self) -> usize {
        Arc::strong_count(&self.open_bodies) - 1
    }

    /// Discovery in this world, for the server `hs.self.example`.
    pub(crate) fn discovery(self: &Arc<Self>) -> Discovery {
        self.discovery_under(AddressPolicy::default())
    }

    pub(crate) fn discovery_under(self: &Arc<Self>, policy: AddressPolicy) -> Discovery {
        let own_name = "hs.self.example".parse().unwrap();
        let user_agent = HeaderValue::from_static("portcullis-test");
        Discovery::new(own_name, self.clone(), self.clone(), policy, user_agent)
    }

    async fn look_up(&self, key: String, deadline: OutboundDeadline) -> Result<Zone, DnsError> {
        let zone = self.zones.lock().get(&key).cloned();
        self.asked.lock().push(key);
        match zone {
            None => Err(DnsError::NoRecords),
            Some(Zone::Error(error)) => Err(error),
            Some(Zone::Silence) => {
                sleep_until(deadline.expires_at()).await;
                Err(DnsError::TimedOut)
            }
            Some(zone) => Ok(zone),
        }
    }
}

/// Ten seconds from now.
pub(crate) fn ten_seconds() -> OutboundDeadline {
    OutboundDeadline::after(Duration::from_secs(10), Instant::now())
}

impl Resolve for World {
    fn addresses<'a>(
        &'a self,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        Box::pin(async move {
            match self.look_up(format!("{name} a"), deadline).await? {
                Zone::Addresses(addresses) => Ok(addresses),
                _ => Err(DnsError::NoRecords),
            }
        })
    }

    fn service<'a>(
        &'a self,
        service: SrvService,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        let label = match service {
            SrvService::MatrixFed => "_matrix-fed",
            SrvService::Matrix => "_matrix",
        };
        Box::pin(async move {
            match self.look_up(format!("{label}._tcp.{name} srv"), deadline).await? {
                Zone::Services(records) => Ok(records),
                _ => Err(DnsError::NoRecords),
            }
        })
    }
}

impl Transport for World {
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<Response<RemoteBody>, TransportError>> {
        let failed = |phase, timed_out| Err(TransportError { phase, timed_out });
        Box::pin(async move {
            let host = attempt.request.headers()["host"].to_str().unwrap().to_owned();
            let url = format!("https://{host}{}", attempt.request.uri());
            self.dialled.lock().push(Dialled {
                address: attempt.address.socket_addr(),
                url: url.clone(),
                tls_name: format!("{:?}", attempt.tls_name),
                headers: attempt.request.headers().clone(),
            });
            let page = self.pages.lock().get(&url).cloned().unwrap_or_else(|| Page::answer(404, "not here"));
            let (page, end) = match page {
                Page::Cut(page) => (*page, Some(Err(TransportError { phase: TransportPhase::Body, timed_out: false }))),
                page => (page, None),
            };
            match page {
                Page::Refused => failed(TransportPhase::Connect, false),
                Page::BlackHole => {
                    sleep_until(attempt.connect_by.expires_at()).await;
                    failed(TransportPhase::Connect, true)
                }
                Page::Mute => {
                    sleep_until(deadline.expires_at()).await;
                    failed(TransportPhase::Send, true)
                }
                Page::Cut(_) => unreachable!("nothing is cut twice"),
                Page::Answer { status, headers, body, pause, delay } => {
                    sleep(delay).await;
                    let read = Arc::clone(&self.body_bytes);
                    let open = Arc::clone(&self.open_bodies);
                    let frames = futures_util::stream::iter(body).then(move |piece| {
                        let (read, _open) = (Arc::clone(&read), Arc::clone(&open));
                        async move {
                            sleep(pause).await;
                            *read.lock() += piece.len();
                            Ok(Frame::data(piece))
                        }
                    });
                    let frames = frames.chain(futures_util::stream::iter(end));
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    Ok(response.body(StreamBody::new(frames).boxed_unsync()).unwrap())
                }
            }
        })
    }
}
