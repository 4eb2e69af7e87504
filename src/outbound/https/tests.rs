//! What [`HttpsTransport`] does with an attempt of an embedder's own making, over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::outbound::address_policy::AddressPolicy;
use crate::outbound::loopback::{PrivateCa, TlsPeer, json_answer};

const NOBODY_WAITS_SO_LONG: Duration = Duration::from_secs(60);

struct World {
    peer: TlsPeer,
    transport: HttpsTransport,
}

impl World {
    /// A peer whose certificate is good for two addresses and a name.
    async fn new() -> Self {
        let ca = PrivateCa::new();
        let tls = ca.server_config(&["127.0.0.1", "127.0.0.2", "them.example"]);
        let transport = HttpsTransport::new(TlsRoots::only(ca.pem().as_bytes()).unwrap()).unwrap();
        Self { peer: TlsPeer::answering(tls, json_answer(200, "{}")).await, transport }
    }

    /// Where the peer is, whose certificate is to carry `tls_name`.
    fn attempt(&self, tls_name: Host, uri: &'static str) -> Attempt {
        let policy = AddressPolicy::default().allow(["127.0.0.0/8".parse().unwrap()]).unwrap();
        let address: SocketAddr = self.peer.address();
        let mut request = http::Request::new(Bytes::new());
        *request.uri_mut() = Uri::from_static(uri);
        request.headers_mut().insert(HOST, HeaderValue::from_static("them.example"));
        Attempt { address: policy.judge(address).unwrap(), tls_name, connect_by: deadline(), request }
    }

    async fn status_of(&self, attempt: Attempt) -> Result<u16, TransportError> {
        Ok(self.transport.send(attempt, deadline()).await?.status().as_u16())
    }
}

fn deadline() -> OutboundDeadline {
    OutboundDeadline::after(NOBODY_WAITS_SO_LONG, Instant::now())
}

#[tokio::test]
async fn a_literal_is_dialled_at_itself_or_not_at_all() {
    let world = World::new().await;
    let own = Host::V4([127, 0, 0, 1].into());
    assert_eq!(world.status_of(world.attempt(own, "/")).await, Ok(200));
    // Good for the certificate, and still another place than the one that was judged.
    for other in [Host::V4([127, 0, 0, 2].into()), Host::V6("::ffff:127.0.0.1".parse().unwrap())] {
        assert_eq!(world.status_of(world.attempt(other, "/")).await, Err(NOT_BUILDABLE));
    }
    assert_eq!(world.peer.accepted(), 1);
}

#[tokio::test]
async fn nothing_is_dialled_for_a_request_that_names_no_host() {
    let world = World::new().await;
    let mut attempt = world.attempt(Host::Name("them.example".parse().unwrap()), "/");
    attempt.request.headers_mut().remove(HOST);
    assert_eq!(world.status_of(attempt).await, Err(NOT_BUILDABLE));
    assert_eq!(world.peer.accepted(), 0);
}

#[tokio::test]
async fn path_and_query_stand_in_the_first_line_and_nothing_else() {
    let world = World::new().await;
    let name = Host::Name("them.example".parse().unwrap());
    let attempt = world.attempt(name, "https://elsewhere.example:1/a/%2e?b=%20");
    assert_eq!(world.status_of(attempt).await, Ok(200));
    let seen = world.peer.only_request();
    assert_eq!((seen.line.as_str(), seen.only("host")), ("GET /a/%2e?b=%20 HTTP/1.1", "them.example"));
}
