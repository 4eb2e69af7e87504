//! The whole call over real loopback sockets and TLS: what goes over the wire, and that nothing is left open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ruma::api::federation::authentication::XMatrix;

use super::super::*;
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute, RemoteTimeout};
use crate::outbound::address_policy::AddressPolicy;
use crate::outbound::destination::Source;
use crate::outbound::endpoint::{RoomListFilter, RoomListParameters};
use crate::outbound::error::{CallFailure, CallPhase};
use crate::outbound::https::HttpsTransport;
use crate::outbound::loopback::tls_peer::refusing_address;
use crate::outbound::loopback::{Behaviour, PrivateCa, SeenRequest, TlsPeer, json_answer};
use crate::outbound::signing::Ed25519Signer;
use crate::outbound::tls_roots::TlsRoots;
use crate::server_name::Host;

/// For calls that time ends: long enough for a handshake on a busy machine in a third of it, short enough to be waited for.
const SHORT: Duration = Duration::from_secs(4);

struct World {
    ca: PrivateCa,
    admission: Admission,
    signer: Arc<Ed25519Signer>,
}

struct Fixed(Destination);

impl Locate for Fixed {
    fn destination<'a>(&'a self, _: &'a ServerName, _: OutboundDeadline) -> BoxFuture<'a, Located> {
        Box::pin(async { Ok(self.0.clone()) })
    }

    fn destination_afresh<'a>(&'a self, name: &'a ServerName, deadline: OutboundDeadline) -> BoxFuture<'a, Located> {
        self.destination(name, deadline)
    }

    fn elsewhere<'a>(&'a self, _: &'a Target, _: OutboundDeadline) -> BoxFuture<'a, Fetched> {
        Box::pin(async { Err(WebError::AddressRefused) })
    }
}

impl World {
    /// Calls have the time of the design, which is enough on any machine.
    fn new() -> Self {
        let own_name: ServerName = "us.example".parse().unwrap();
        let admission = Admission::new(own_name.clone(), ClientOutboundProxyPolicy::for_pool(2));
        Self { ca: PrivateCa::new(), admission, signer: Arc::new(Ed25519Signer::generate(own_name)) }
    }

    /// The same with less time, for calls that nothing else ends.
    fn of_short_calls() -> Self {
        let world = Self::new();
        Self { admission: world.admission.with_remote_timeout(RemoteTimeout::new(SHORT).unwrap()), ..world }
    }

    async fn peer(&self, behaviour: Behaviour) -> TlsPeer {
        TlsPeer::start(self.ca.server_config(&["fed.them.example"]), behaviour).await
    }

    async fn healthy(&self) -> TlsPeer {
        TlsPeer::answering(self.ca.server_config(&["fed.them.example"]), json_answer(200, "{}")).await
    }

    /// A call to `them.example`, delegated to a name whose SRV record leads to `addresses`.
    fn open(&self, addresses: &[SocketAddr]) -> FederationCall {
        let policy = AddressPolicy::default().allow(["127.0.0.0/8".parse().unwrap()]).unwrap();
        let destination = Destination {
            source: Source::Srv,
            delegated_to: Some("fed.them.example".parse().unwrap()),
            host_header: "fed.them.example".to_owned(),
            tls_name: Host::Name("fed.them.example".parse().unwrap()),
            addresses: addresses.iter().map(|address| policy.judge(*address).unwrap()).collect(),
        };
        let transport = HttpsTransport::new(TlsRoots::only(self.ca.pem().as_bytes()).unwrap()).unwrap();
        let signer: Arc<dyn RequestSigner> = Arc::<Ed25519Signer>::clone(&self.signer);
        let route = OutboundRoute::PublicRooms { server: "them.example".parse().unwrap() };
        let pass = self.admission.admit(&ClientKey::shared(), route).unwrap();
        FederationClient::locating_with(Arc::new(Fixed(destination)), signer, Arc::new(transport), super::agent())
            .open(pass)
    }

    async fn ask(&self, addresses: &[SocketAddr]) -> Result<RemoteReply, CallError> {
        self.open(addresses).request(&list()).await
    }

    /// Whether what came over the wire is what was signed, for `them.example`.
    fn verifies(&self, seen: &SeenRequest) -> bool {
        let mut request = http::Request::new(seen.body.clone());
        *request.method_mut() = seen.line.split(' ').next().unwrap().parse().unwrap();
        *request.uri_mut() = seen.target().parse().unwrap();
        let key = ruma::serde::Base64::parse(self.signer.verify_key()).unwrap();
        let keys = [("us.example".to_owned(), [(self.signer.key_id().to_owned(), key)].into())].into();
        let authorization = XMatrix::parse(seen.only("authorization")).unwrap();
        let them = <&ruma::ServerName>::try_from("them.example").unwrap();
        authorization.destination.as_deref() == Some(them)
            && authorization.verify_http_request(&request, them, &keys).is_ok()
    }

    /// No slot held here, no socket open there.
    async fn nothing_is_left(&self, peers: &[&TlsPeer]) {
        assert_eq!(self.admission.budget().in_flight(), 0);
        for peer in peers {
            peer.all_closed().await;
        }
    }
}

fn list() -> Endpoint {
    let parameters = RoomListParameters { since: Some("t/1 ?&=+#%\u{fc}"), limit: Some(20), ..Default::default() };
    Endpoint::public_rooms_get(&parameters).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_over_the_wire_is_what_was_signed() {
    let world = World::new();
    let peer = world.healthy().await;
    let mut call = world.open(&[peer.address()]);
    let types = [None, Some("m.space".to_owned())];
    let filter = RoomListFilter { generic_search_term: Some("t\u{e9}a"), room_types: Some(&types) };
    for endpoint in [
        list(),
        Endpoint::public_rooms_post(&Default::default(), &filter),
        Endpoint::query_directory(&"#a b%41/\u{fc}:them.example".parse().unwrap()),
    ] {
        let reply = call.request(&endpoint).await.unwrap();
        assert_eq!((reply.status, &reply.body[..]), (StatusCode::OK, &b"{}"[..]));
        let seen = peer.requests().pop().unwrap();
        assert_eq!(seen.line, format!("{} {} HTTP/1.1", endpoint.method, endpoint.path_and_query));
        assert_eq!(seen.body, endpoint.content.unwrap_or_default());
        assert!(world.verifies(&seen), "{seen:?}");
        // The port the SRV record led to is in neither name; the content type comes with a content only.
        assert_eq!(seen.only("host"), "fed.them.example");
        assert_eq!(seen.sni.as_deref(), Some("fed.them.example"));
        let content_types = if seen.body.is_empty() { vec![] } else { vec!["application/json"] };
        assert_eq!(seen.values("content-type"), content_types);
        assert_eq!(seen.only("user-agent"), "call-tests");
    }
    assert_eq!(peer.accepted(), 3);
    drop(call);
    world.nothing_is_left(&[&peer]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_address_is_tried_while_nothing_was_sent() {
    let world = World::new();
    let stranger = TlsPeer::answering(world.ca.server_config(&["other.example"]), json_answer(200, "{}")).await;
    let healthy = world.healthy().await;
    let addresses = [refusing_address(), stranger.address(), healthy.address()];
    assert_eq!(world.ask(&addresses).await.unwrap().status, StatusCode::OK);
    assert_eq!((stranger.accepted(), stranger.requests().len()), (1, 0));
    assert_eq!(healthy.requests().len(), 1);
    world.nothing_is_left(&[&stranger, &healthy]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_handshake_costs_a_share_and_the_next_address_answers() {
    let world = World::new();
    let silent = world.peer(Behaviour::TcpSilent).await;
    let healthy = world.healthy().await;
    assert_eq!(world.ask(&[silent.address(), healthy.address()]).await.unwrap().status, StatusCode::OK);
    world.nothing_is_left(&[&silent, &healthy]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_peer_ends_in_its_own_error_and_leaves_nothing_open() {
    let huge = json_answer(200, &" ".repeat(crate::limits::MAX_ROOM_LIST_BYTES + 1));
    let hostile = [
        (Behaviour::TcpSilent, CallPhase::Connect, CallFailure::Exchange, true),
        (Behaviour::TlsSilent, CallPhase::Send, CallFailure::Exchange, true),
        (Behaviour::HeaderDrip, CallPhase::Send, CallFailure::Exchange, true),
        (Behaviour::BodyDrip, CallPhase::Body, CallFailure::Exchange, true),
        (Behaviour::EndlessChunks, CallPhase::Body, CallFailure::TooLarge, false),
        (Behaviour::Answers(Arc::new(move |_| huge.clone())), CallPhase::Body, CallFailure::TooLarge, false),
        (Behaviour::Truncated, CallPhase::Body, CallFailure::Exchange, false),
        (Behaviour::Reset, CallPhase::Send, CallFailure::Exchange, false),
    ];
    join_all(hostile.map(async |(behaviour, phase, failure, timed_out)| {
        // What does not end in time has all of it, or a busy machine would decide what the error is.
        let world = if timed_out { World::of_short_calls() } else { World::new() };
        let hostile = world.peer(behaviour).await;
        let spare = world.healthy().await;
        let mut addresses = vec![hostile.address()];
        // Where something was sent, nobody else may be asked.
        if phase != CallPhase::Connect {
            addresses.push(spare.address());
        }
        assert_eq!(world.ask(&addresses).await, Err(CallError { phase, failure, timed_out }));
        assert_eq!((hostile.accepted(), spare.accepted()), (1, 0), "{phase:?}");
        world.nothing_is_left(&[&hostile]).await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_closes_the_connection_and_frees_the_slot() {
    let world = World::new();
    let silent = world.peer(Behaviour::TlsSilent).await;
    let mut call = world.open(&[silent.address()]);
    let calling = tokio::spawn(async move { call.request(&list()).await });
    silent.asked().await;
    assert_eq!((world.admission.budget().in_flight(), silent.open()), (1, 1));
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    world.nothing_is_left(&[&silent]).await;
}
