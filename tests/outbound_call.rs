//! What goes out goes to the one judged address, as it was signed, and by no other way.
#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Ipv6Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use portcullis::outbound::{
    AddressPolicy, Attempt, HttpsTransport, JudgedAddress, RemoteBody, TlsRoots, Transport as _, TransportError,
    TransportPhase,
};
use portcullis::{Host, OutboundDeadline, limits};
use support::{Behaviour, PrivateCa, TlsPeer, json_answer};
use tokio::net::TcpListener;
use tokio::time::Instant;

#[cfg(test)]
mod support;

/// Never reached in a test that succeeds.
const AMPLE: Duration = Duration::from_secs(60);
const NAME: &str = "peer.example";
const SIGNED: &str = "/_matrix/federation/v1/query/directory?room_alias=%23a%2Fb%3Apeer.example";

struct Outbound {
    ca: PrivateCa,
    transport: HttpsTransport,
}

impl Outbound {
    fn new() -> Self {
        let ca = PrivateCa::new();
        let transport = HttpsTransport::new(TlsRoots::only(ca.pem().as_bytes()).unwrap()).unwrap();
        Self { ca, transport }
    }

    async fn peer(&self, answer: Vec<u8>) -> TlsPeer {
        TlsPeer::answering(self.ca.server_config(&[NAME]), answer).await
    }

    async fn send(&self, attempt: Attempt) -> Result<Response<RemoteBody>, TransportError> {
        self.transport.send(attempt, deadline(AMPLE)).await
    }

    async fn ask(&self, peer: &TlsPeer) -> Result<Response<RemoteBody>, TransportError> {
        self.send(attempt(name(), peer.address(), SIGNED)).await
    }
}

fn deadline(allowed: Duration) -> OutboundDeadline {
    OutboundDeadline::after(allowed, Instant::now())
}

fn name() -> Host {
    Host::Name(NAME.parse().unwrap())
}

/// The peers of these tests live on loopback, as those of a private federation might.
fn loopback_allowed() -> AddressPolicy {
    AddressPolicy::default().allow(["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]).unwrap()
}

fn judged(address: SocketAddr) -> JudgedAddress {
    loopback_allowed().judge(address).unwrap()
}

fn attempt(tls_name: Host, address: SocketAddr, path_and_query: &str) -> Attempt {
    let request = Request::get(path_and_query).header("host", "delegated.example").body(Bytes::new()).unwrap();
    Attempt { address: judged(address), tls_name, connect_by: deadline(AMPLE), request }
}

fn failed(phase: TransportPhase, timed_out: bool) -> TransportError {
    TransportError { phase, timed_out }
}

async fn whole(response: Response<RemoteBody>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

fn head(lines: &[String]) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{}\r\n\r\n{{}}", lines.join("\r\n")).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_line_the_host_and_the_tls_name_are_as_given() {
    let outbound = Outbound::new();
    let peer = outbound.peer(json_answer(200, "{}")).await;
    let response = outbound.ask(&peer).await.unwrap();
    assert_eq!(whole(response).await, "{}");
    let seen = peer.only_request();
    assert_eq!(seen.line, format!("GET {SIGNED} HTTP/1.1"));
    assert_eq!(seen.only("host"), "delegated.example");
    assert_eq!(seen.sni.as_deref(), Some(NAME));
    assert!(seen.values("accept-encoding").is_empty());
    peer.all_closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_as_name_is_asked_without_a_tls_name() {
    let outbound = Outbound::new();
    let tls = outbound.ca.server_config(&["127.0.0.1", "::1"]);
    for address in [SocketAddr::from(([127, 0, 0, 1], 0)), (Ipv6Addr::LOCALHOST, 0).into()] {
        let peer = TlsPeer::start_on(
            address,
            tls.clone(),
            Behaviour::Answers(std::sync::Arc::new(|_| json_answer(200, "{}"))),
        )
        .await;
        let literal = match address {
            SocketAddr::V4(address) => Host::V4(*address.ip()),
            SocketAddr::V6(address) => Host::V6(*address.ip()),
        };
        outbound.send(attempt(literal, peer.address(), SIGNED)).await.unwrap();
        assert_eq!(peer.only_request().sni, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_as_name_that_is_not_the_judged_one_is_not_dialled() {
    let outbound = Outbound::new();
    let tls = outbound.ca.server_config(&["127.0.0.1"]);
    let peer = TlsPeer::answering(tls, json_answer(200, "{}")).await;
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], peer.address().port()));
    let error = outbound.send(attempt(Host::V4([127, 0, 0, 1].into()), elsewhere, SIGNED)).await.unwrap_err();
    assert_eq!(error, failed(TransportPhase::Build, false));
    assert_eq!(peer.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_goes_out_as_it_was_signed_to_the_last_byte() {
    let outbound = Outbound::new();
    let peer = outbound.peer(json_answer(200, "{}")).await;
    let parsers_would_change = ["/a/../b", "/a/.", "/a/%2e%2E/b", "/{a}", "/a?b='c'"];
    for path in ["/", "/?", "//a", "/a%2e?b=%27|c&&d=%2E%2e/../", "/a?b=c?d"].into_iter().chain(parsers_would_change) {
        outbound.send(attempt(name(), peer.address(), path)).await.unwrap();
        assert_eq!(peer.requests().last().unwrap().target(), path);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_has_a_connection_of_its_own_which_ends_with_its_answer() {
    let outbound = Outbound::new();
    let peer = outbound.peer(json_answer(200, "{}")).await;
    for attempts in 1..=3 {
        whole(outbound.ask(&peer).await.unwrap()).await;
        peer.all_closed().await;
        assert_eq!(peer.accepted(), attempts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_dropped_unread_closes_its_connection() {
    let outbound = Outbound::new();
    let peer = TlsPeer::start(outbound.ca.server_config(&[NAME]), Behaviour::BodyDrip).await;
    let response = outbound.ask(&peer).await.unwrap();
    assert_eq!(peer.open(), 1);
    drop(response);
    peer.all_closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x20_a_redirect_is_handed_back_and_not_followed() {
    let outbound = Outbound::new();
    let elsewhere = outbound.peer(json_answer(200, "{}")).await;
    let location = format!("https://{NAME}:{}/", elsewhere.address().port());
    let redirect = format!("HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    let peer = outbound.peer(redirect.into()).await;
    assert_eq!(outbound.ask(&peer).await.unwrap().status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!((peer.accepted(), elsewhere.accepted()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_body_is_left_as_it_is() {
    let outbound = Outbound::new();
    let body = b"\x1f\x8b\x08\x00 not unpacked, whatever it holds";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    let peer = outbound.peer([head.as_bytes(), body].concat()).await;
    let response = outbound.ask(&peer).await.unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(whole(response).await, &body[..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_to_a_certificate_of_another_name_or_authority() {
    let outbound = Outbound::new();
    let other_name = TlsPeer::answering(outbound.ca.server_config(&["other.example"]), json_answer(200, "{}")).await;
    let other_authority = TlsPeer::answering(PrivateCa::new().server_config(&[NAME]), json_answer(200, "{}")).await;
    for peer in [other_name, other_authority] {
        assert_eq!(outbound.ask(&peer).await.unwrap_err(), failed(TransportPhase::Connect, false));
        assert_eq!((peer.accepted(), peer.requests().len()), (1, 0));
        peer.all_closed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_ends_with_its_share_and_the_answer_with_the_deadline() {
    let outbound = Outbound::new();
    let silent = TlsPeer::start(outbound.ca.server_config(&[NAME]), Behaviour::TcpSilent).await;
    let mut connecting = attempt(name(), silent.address(), SIGNED);
    connecting.connect_by = deadline(Duration::from_millis(200));
    assert_eq!(outbound.send(connecting).await.unwrap_err(), failed(TransportPhase::Connect, true));
    silent.all_closed().await;

    let drip = TlsPeer::start(outbound.ca.server_config(&[NAME]), Behaviour::HeaderDrip).await;
    let sending = outbound.transport.send(attempt(name(), drip.address(), SIGNED), deadline(Duration::from_secs(1)));
    assert_eq!(sending.await.unwrap_err(), failed(TransportPhase::Send, true));
    drip.all_closed().await;
}

#[tokio::test]
async fn a_share_that_is_over_dials_nobody() {
    let outbound = Outbound::new();
    let peer = outbound.peer(json_answer(200, "{}")).await;
    let mut late = attempt(name(), peer.address(), SIGNED);
    late.connect_by = deadline(Duration::ZERO);
    assert_eq!(outbound.send(late).await.unwrap_err(), failed(TransportPhase::Connect, true));
    assert_eq!(peer.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_is_bounded_in_lines_and_in_bytes() {
    let outbound = Outbound::new();
    // The peer's own Content-Length is a line too.
    let lines = |count| (1..count).map(|line| format!("X-{line}: x")).collect::<Vec<_>>();
    let bytes = |count: usize| vec![format!("X: {}", "x".repeat(count - "Content-Length: 2\r\nX: \r\n".len()))];
    for (head, accepted) in [
        (head(&lines(limits::MAX_REMOTE_HEADER_LINES)), true),
        (head(&lines(limits::MAX_REMOTE_HEADER_LINES + 1)), false),
        (head(&bytes(limits::MAX_REMOTE_HEADER_BYTES)), true),
        (head(&bytes(limits::MAX_REMOTE_HEADER_BYTES + 1)), false),
        (head(&bytes(limits::MAX_REMOTE_HEADER_BYTES * 32)), false),
    ] {
        let peer = outbound.peer(head).await;
        let outcome = outbound.ask(&peer).await.map(drop);
        assert_eq!(outcome, if accepted { Ok(()) } else { Err(failed(TransportPhase::Send, false)) });
        peer.all_closed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_named_in_the_environment_are_ignored() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--ignored", "--exact", "asks_a_healthy_peer"]).stdout(Stdio::piped()).kill_on_drop(true);
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"] {
        child.env(variable, &url);
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    tokio::select! {
        output = child.output() => {
            let output = output.unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
        _ = proxy.accept() => panic!("the proxy was asked"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by proxies_named_in_the_environment_are_ignored, with proxies in its environment"]
async fn asks_a_healthy_peer() {
    let outbound = Outbound::new();
    let peer = outbound.peer(json_answer(200, "{}")).await;
    assert_eq!(outbound.ask(&peer).await.unwrap().status(), StatusCode::OK);
}
