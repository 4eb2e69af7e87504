//! One call: what is signed, which address is tried, when it is asked afresh, what ends it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use tokio::time::Instant;

#[cfg(feature = "server")]
mod sockets;

use super::*;
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
use crate::limits::{MAX_CONNECT_ATTEMPTS, MAX_ROOM_LIST_BYTES};
use crate::outbound::address_policy::{AddressPolicy, JudgedAddress};
use crate::outbound::destination::Source;
use crate::outbound::endpoint::RoomListParameters;
use crate::outbound::error::{CallFailure, CallPhase};
use crate::outbound::fake_world::World as FakeWorld;
use crate::outbound::signing::SigningError;
use crate::outbound::transport::{Attempt, TransportError, TransportPhase};
use crate::server_name::Host;

const SECOND: Duration = Duration::from_secs(1);

/// What becomes of a connection to an address.
#[derive(Clone)]
enum Fate {
    Refuses,
    /// The handshake never ends.
    Hangs,
    Resets,
    /// Connects and never answers.
    Silent,
    /// Neither answers nor keeps to the deadline it was given.
    Overstays,
    Answers(StatusCode, usize),
}

#[derive(Default)]
struct Net {
    fates: HashMap<SocketAddr, Fate>,
    attempts: Mutex<Vec<(SocketAddr, Duration)>>,
    requests: Mutex<Vec<http::Request<Bytes>>>,
}

impl Transport for Net {
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<http::Response<RemoteBody>, TransportError>> {
        Box::pin(async move {
            let address = attempt.address.socket_addr();
            let connect_in = attempt.connect_by.remaining(Instant::now()).unwrap();
            self.attempts.lock().push((address, connect_in));
            let failed = |phase, timed_out| Err(TransportError { phase, timed_out });
            match self.fates[&address].clone() {
                Fate::Refuses => failed(TransportPhase::Connect, false),
                Fate::Hangs => {
                    tokio::time::sleep_until(attempt.connect_by.expires_at()).await;
                    failed(TransportPhase::Connect, true)
                }
                Fate::Resets => failed(TransportPhase::Send, false),
                Fate::Silent => {
                    tokio::time::sleep_until(deadline.expires_at()).await;
                    failed(TransportPhase::Send, true)
                }
                Fate::Overstays => std::future::pending().await,
                Fate::Answers(status, bytes) => {
                    self.requests.lock().push(attempt.request);
                    let body = RemoteBody::new(Full::from(vec![b' '; bytes]).map_err(|never| match never {}));
                    Ok(http::Response::builder().status(status).body(body).unwrap())
                }
            }
        })
    }
}

#[derive(Default)]
struct Directory {
    remembered: Option<Located>,
    afresh: Option<Located>,
    asked: AtomicUsize,
    asked_afresh: AtomicUsize,
}

impl Locate for Directory {
    fn destination<'a>(&'a self, _: &'a ServerName, _: OutboundDeadline) -> BoxFuture<'a, Located> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        answer_or_hang(self.remembered.clone())
    }

    fn destination_afresh<'a>(&'a self, _: &'a ServerName, _: OutboundDeadline) -> BoxFuture<'a, Located> {
        self.asked_afresh.fetch_add(1, Ordering::Relaxed);
        answer_or_hang(self.afresh.clone())
    }

    fn elsewhere<'a>(&'a self, _: &'a Target, _: OutboundDeadline) -> BoxFuture<'a, Fetched> {
        Box::pin(async { Err(WebError::AddressRefused) })
    }
}

fn answer_or_hang(answer: Option<Located>) -> BoxFuture<'static, Located> {
    Box::pin(async move {
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    })
}

/// Signs with a fixed word, or not at all.
struct Stamp(Result<&'static str, SigningError>, ServerName);

fn stamp(word: Result<&'static str, SigningError>) -> Arc<dyn RequestSigner> {
    Arc::new(Stamp(word, "us.example".parse().unwrap()))
}

fn agent() -> HeaderValue {
    HeaderValue::from_static("call-tests")
}

impl RequestSigner for Stamp {
    fn own_name(&self) -> &ServerName {
        &self.1
    }

    fn authorization(
        &self,
        destination: &ServerName,
        _: &Method,
        path_and_query: &PathAndQuery,
        _: Option<&[u8]>,
    ) -> Result<HeaderValue, SigningError> {
        self.0.map(|word| format!("{word} {destination} {path_and_query}").parse().unwrap())
    }
}

fn address(last: u8) -> SocketAddr {
    (Ipv4Addr::new(44, 128, 10, last), 8448).into()
}

fn judged(last: u8) -> JudgedAddress {
    AddressPolicy::default().judge(address(last)).unwrap()
}

fn destination(lasts: &[u8]) -> Destination {
    Destination {
        source: Source::Default,
        delegated_to: None,
        host_header: "them.example".to_owned(),
        tls_name: Host::Name("them.example".parse().unwrap()),
        addresses: lasts.iter().copied().map(judged).collect(),
    }
}

fn delegated(lasts: &[u8]) -> Destination {
    Destination { delegated_to: Some("fed.them.example".parse().unwrap()), ..destination(lasts) }
}

struct World {
    net: Arc<Net>,
    directory: Arc<Directory>,
    admission: Admission,
    signer: Arc<dyn RequestSigner>,
}

impl World {
    fn new(fates: &[(u8, Fate)], remembered: Option<Located>, afresh: Option<Located>) -> Self {
        let fates = fates.iter().map(|(last, fate)| (address(*last), fate.clone())).collect();
        Self {
            net: Arc::new(Net { fates, ..Default::default() }),
            directory: Arc::new(Directory { remembered, afresh, ..Default::default() }),
            admission: Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(2)),
            signer: stamp(Ok("signed")),
        }
    }

    fn found(fates: &[(u8, Fate)]) -> Self {
        let lasts: Vec<u8> = fates.iter().map(|(last, _)| *last).collect();
        Self::new(fates, Some(Ok(destination(&lasts))), None)
    }

    fn open(&self) -> FederationCall {
        let route = OutboundRoute::PublicRooms { server: "them.example".parse().unwrap() };
        let pass = self.admission.admit(&ClientKey::shared(), route).unwrap();
        let locate: Arc<dyn Locate> = Arc::<Directory>::clone(&self.directory);
        let net: Arc<dyn Transport> = Arc::<Net>::clone(&self.net);
        FederationClient::locating_with(locate, Arc::clone(&self.signer), net, agent()).open(pass)
    }

    async fn ask(&self) -> Result<RemoteReply, CallError> {
        let mut call = self.open();
        assert_eq!(self.admission.budget().in_flight(), 1);
        let outcome = tokio::time::timeout(60 * SECOND, call.request(&list())).await.expect("ends at its deadline");
        drop(call);
        assert_eq!(self.admission.budget().in_flight(), 0);
        outcome
    }

    fn tried(&self) -> Vec<u8> {
        self.net
            .attempts
            .lock()
            .iter()
            .map(|(address, _)| address.ip().to_string().rsplit('.').next().unwrap().parse().unwrap())
            .collect()
    }
}

fn list() -> Endpoint {
    Endpoint::public_rooms_get(&RoomListParameters { limit: Some(3), ..Default::default() }).unwrap()
}

fn exchange(phase: CallPhase, timed_out: bool) -> CallError {
    CallError { phase, failure: CallFailure::Exchange, timed_out }
}

const OK: Fate = Fate::Answers(StatusCode::OK, 2);

#[tokio::test(start_paused = true)]
async fn an_alias_is_asked_of_its_own_server_alone() {
    let world = World::found(&[(1, OK)]);
    let mut call = world.open();
    let of = |alias: &str| Endpoint::query_directory(&alias.parse().unwrap());
    for elsewhere in ["#hall:elsewhere.example", "#hall:them.example:8449"] {
        let error = call.request(&of(elsewhere)).await.unwrap_err();
        assert_eq!((error.phase, error.failure), (CallPhase::Prepare, CallFailure::AnotherServer), "{elsewhere}");
    }
    assert_eq!((world.net.requests.lock().len(), world.tried().len()), (0, 0));
    for theirs in ["#hall:them.example", "#hall:THEM.example:8448"] {
        assert!(call.request(&of(theirs)).await.is_ok(), "{theirs}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_goes_out_as_it_was_signed_under_the_name_before_delegation() {
    let world = World::new(&[(1, OK)], Some(Ok(delegated(&[1]))), None);
    assert_eq!(world.ask().await.unwrap(), RemoteReply { status: StatusCode::OK, body: "  ".into() });
    let sent = world.net.requests.lock();
    let path = "/_matrix/federation/v1/publicRooms?limit=3";
    assert_eq!(sent[0].uri(), path);
    assert_eq!(sent[0].headers()["authorization"], format!("signed them.example {path}"));
    assert_eq!(sent[0].headers()["host"], "them.example");
    assert_eq!(sent[0].headers()["user-agent"], agent());
    assert!(!sent[0].headers().contains_key("content-type"));
}

#[tokio::test(start_paused = true)]
async fn every_address_gets_a_third_of_what_is_left() {
    let start = Instant::now();
    let world = World::found(&[(1, Fate::Hangs), (2, Fate::Hangs), (3, OK)]);
    assert!(world.ask().await.is_ok());
    let (first, second, third) = (10 * SECOND / 3, 20 * SECOND / 9, 40 * SECOND / 27);
    let shares: Vec<Duration> = world.net.attempts.lock().iter().map(|(_, share)| *share).collect();
    for (share, expected) in shares.iter().zip([first, second, third]) {
        // The timer ends a millisecond late at most.
        assert!(expected.abs_diff(*share) <= Duration::from_millis(1), "{share:?} of {expected:?}");
    }
    assert!(start.elapsed().abs_diff(first + second) <= Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_timed_out_only_if_its_last_address_was() {
    let world = World::found(&[(1, Fate::Refuses), (2, Fate::Hangs)]);
    assert_eq!(world.ask().await, Err(exchange(CallPhase::Connect, true)));
    let world = World::found(&[(1, Fate::Hangs), (2, Fate::Refuses)]);
    assert_eq!(world.ask().await, Err(exchange(CallPhase::Connect, false)));
}

#[tokio::test(start_paused = true)]
async fn no_other_address_is_tried_once_something_was_sent() {
    for (fate, timed_out) in [(Fate::Resets, false), (Fate::Silent, true)] {
        let world = World::found(&[(1, fate), (2, OK)]);
        assert_eq!(world.ask().await, Err(exchange(CallPhase::Send, timed_out)));
        assert_eq!(world.tried(), [1]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_step_ends_at_the_deadline_also_one_that_does_not_keep_it() {
    for (world, phase) in [
        (World::found(&[(1, Fate::Silent)]), CallPhase::Send),
        (World::found(&[(1, Fate::Overstays)]), CallPhase::Send),
        (World::new(&[], None, None), CallPhase::Discover),
        (World::new(&[(1, Fate::Refuses)], Some(Ok(delegated(&[1]))), None), CallPhase::Discover),
    ] {
        let start = Instant::now();
        let error = world.ask().await.unwrap_err();
        assert_eq!((error.phase, error.timed_out), (phase, true));
        assert_eq!(start.elapsed(), 10 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_says_why_and_whether_time_ended_it() {
    for (why, timed_out) in [(DiscoveryError::OutOfTime, true), (DiscoveryError::SrvRefused, false)] {
        let error = World::new(&[], Some(Err(why)), None).ask().await.unwrap_err();
        assert_eq!(error.failure, CallFailure::Discovery(why));
        assert_eq!((error.phase, error.timed_out), (CallPhase::Discover, timed_out));
    }
}

#[test]
fn a_signer_and_a_discovery_of_two_servers_make_no_client() {
    let discovery = FakeWorld::new().discovery();
    let kept_out: ServerName = "hs.self.example".parse().unwrap();
    for other in ["us.example", "HS.self.example", "hs.self.example:8448"] {
        let signer = Arc::new(Stamp(Ok("signed"), other.parse().unwrap()));
        let differ = FederationClient::new(signer, discovery.clone()).unwrap_err();
        assert_eq!(differ, OwnNamesDiffer { signer: other.parse().unwrap(), discovery: kept_out.clone() });
    }
    let signer = Arc::new(Stamp(Ok("signed"), kept_out.clone()));
    let client = FederationClient::new(signer, discovery).unwrap();
    assert_eq!(client.own_name(), &kept_out);
    // The user agent is the one of discovery.
    let request = client.unsigned(&Method::GET, &PathAndQuery::from_static("/"), None);
    assert_eq!(request.headers()[USER_AGENT], "portcullis-test");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_signed_looks_nothing_up() {
    let mut world = World::found(&[(1, OK)]);
    world.signer = stamp(Err(SigningError::KeyUnavailable));
    let error = world.ask().await.unwrap_err();
    assert_eq!((error.phase, error.failure), (CallPhase::Prepare, CallFailure::Unsignable));
    assert_eq!(world.directory.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_delegation_is_asked_for_afresh_once_and_its_dead_addresses_are_not_tried_again() {
    let fates = [(1, Fate::Refuses), (2, Fate::Refuses), (3, OK)];
    let world = World::new(&fates, Some(Ok(delegated(&[1, 2]))), Some(Ok(delegated(&[2, 3]))));
    assert!(world.ask().await.is_ok());
    assert_eq!(world.tried(), [1, 2, 3]);

    let world = World::new(&fates, Some(Ok(delegated(&[1]))), Some(Ok(delegated(&[1]))));
    let mut call = world.open();
    for _ in 0..2 {
        assert_eq!(call.request(&list()).await, Err(exchange(CallPhase::Connect, false)));
    }
    assert_eq!(world.directory.asked_afresh.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_address_under_another_name_counts_as_moved() {
    let mut moved = delegated(&[1]);
    moved.tls_name = Host::Name("new.them.example".parse().unwrap());
    let world = World::new(&[(1, Fate::Refuses)], Some(Ok(delegated(&[1]))), Some(Ok(moved)));
    assert!(world.ask().await.is_err());
    assert_eq!(world.tried(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_address_without_delegation_and_a_reset_do_not_ask_afresh() {
    let dead = World::found(&[(1, Fate::Refuses)]);
    let reset = World::new(&[(1, Fate::Resets)], Some(Ok(delegated(&[1]))), None);
    for world in [dead, reset] {
        assert!(world.ask().await.is_err());
        assert_eq!(world.directory.asked_afresh.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegation_that_cannot_be_asked_afresh_leaves_the_first_error() {
    let gone = Some(Err(DiscoveryError::NoAddresses));
    let world = World::new(&[(1, Fate::Refuses)], Some(Ok(delegated(&[1]))), gone);
    assert_eq!(world.ask().await, Err(exchange(CallPhase::Connect, false)));
}

#[tokio::test(start_paused = true)]
async fn a_zone_with_hundreds_of_addresses_gets_a_bounded_number_of_connects() {
    let fates: Vec<_> = (0..=200).map(|last| (last, Fate::Refuses)).collect();
    let (first, rest): (Vec<u8>, Vec<u8>) = (0..=200).partition(|last| *last < 10);
    let world = World::new(&fates, Some(Ok(delegated(&first))), Some(Ok(delegated(&rest))));
    assert_eq!(world.ask().await, Err(exchange(CallPhase::Connect, false)));
    assert_eq!(world.tried().len(), MAX_CONNECT_ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn a_second_request_reuses_the_destination_and_skips_its_dead_addresses() {
    let world = World::found(&[(1, Fate::Hangs), (2, OK)]);
    let mut call = world.open();
    for _ in 0..2 {
        assert!(call.request(&list()).await.is_ok());
    }
    assert_eq!(world.tried(), [1, 2, 2]);
    assert_eq!(world.directory.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_says_where_it_goes_and_looks_it_up_once() {
    let moved = Destination { tls_name: Host::Name("fed.them.example".parse().unwrap()), ..delegated(&[1]) };
    let literal = Destination { tls_name: Host::V6("2001:db8::1".parse().unwrap()), ..destination(&[1]) };
    for (destination, base_url) in [
        (destination(&[1]), "https://them.example:8448"),
        (moved, "https://fed.them.example:8448"),
        (literal, "https://[2001:db8::1]:8448"),
    ] {
        let world = World::new(&[(1, OK)], Some(Ok(destination)), None);
        let mut call = world.open();
        assert_eq!(call.base_url().await.unwrap(), base_url);
        assert!(world.tried().is_empty());
        assert!(call.request(&list()).await.is_ok());
        assert_eq!(call.base_url().await.unwrap(), base_url);
        assert_eq!((world.directory.asked.load(Ordering::Relaxed), world.tried()), (1, vec![1]));
    }

    let nowhere = World::new(&[], Some(Err(DiscoveryError::NoAddresses)), None);
    assert_eq!(nowhere.open().base_url().await, Err(DiscoveryError::NoAddresses.into()));
    let silent = World::new(&[], None, None);
    let start = Instant::now();
    assert_eq!(silent.open().base_url().await, Err(DiscoveryError::OutOfTime.into()));
    assert_eq!(start.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_bounded_and_an_error_page_of_any_size_keeps_its_status() {
    let too_large = World::found(&[(1, Fate::Answers(StatusCode::OK, MAX_ROOM_LIST_BYTES + 1))]);
    let error = too_large.ask().await.unwrap_err();
    assert_eq!((error.phase, error.failure, error.timed_out), (CallPhase::Body, CallFailure::TooLarge, false));
    for (bytes, kept) in [(MAX_ERROR_BODY_BYTES, MAX_ERROR_BODY_BYTES), (MAX_ERROR_BODY_BYTES + 1, 0)] {
        let reply = World::found(&[(1, Fate::Answers(StatusCode::NOT_FOUND, bytes))]).ask().await.unwrap();
        assert_eq!((reply.status, reply.body.len()), (StatusCode::NOT_FOUND, kept));
    }
}
