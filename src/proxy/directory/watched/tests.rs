//! What an operator reads about a call: one count, and one line if it failed.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
use crate::outbound::discover::DiscoveryError;
use crate::outbound::transport::{TransportError, TransportPhase};
use crate::proxy::directory::fake::{Does, FakeRemote};
use crate::proxy::directory::{About, Directory, Question, RemoteDirectory};
use crate::proxy::local_view::RoomListQuery;
use crate::proxy::watch::CallCounts;
use crate::proxy::watch::lines::Lines;

/// A remote whose every request ends with one error.
struct Broken(CallError);

struct BrokenCall(CallError);

impl RemoteDirectory for Broken {
    fn open(&self, _: crate::admission::Admitted) -> Box<dyn DirectoryCall> {
        Box::new(BrokenCall(self.0))
    }
}

impl DirectoryCall for BrokenCall {
    fn base_url(&mut self) -> BoxFuture<'_, Result<String, CallError>> {
        Box::pin(std::future::ready(Err(self.0)))
    }

    fn request<'a>(&'a mut self, _: &'a Endpoint) -> BoxFuture<'a, Result<RemoteReply, CallError>> {
        Box::pin(std::future::ready(Err(self.0)))
    }
}

/// Asks `remote` once for `them.example`'s room list, patient for `patience`: the log at `level`, and the counts
/// (answered, timed out, failed).
async fn asked(
    remote: Box<dyn RemoteDirectory>,
    level: tracing::Level,
    patience: Duration,
) -> (Vec<Value>, (u64, u64, u64)) {
    let (lines, _logging) = Lines::of_this_thread(level);
    let door = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    let uri = "/_matrix/client/v3/publicRooms?server=THEM.example".parse().unwrap();
    let route = OutboundRoute::classify(&http::Method::GET, &uri).unwrap().unwrap();
    let question = Question::new(route.destination(), About::RoomList(RoomListQuery::default()));
    let pass = door.admit(&ClientKey::shared(), route).unwrap();
    let directory = Directory::new(remote, None);
    let _ = tokio::time::timeout(patience, directory.look_up(pass, question, Report::Nobody)).await;
    let CallCounts { answered, timed_out, failed } = directory.calls();
    (lines.read(), (answered, timed_out, failed))
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_is_one_line_that_says_which_server_which_step_and_why() {
    let transport = |phase, timed_out| CallError::from(TransportError { phase, timed_out });
    for (error, phase, reason, timed_out) in [
        (DiscoveryError::NoAddresses.into(), "discover", "no-addresses", false),
        (DiscoveryError::AddressRefused.into(), "discover", "address-refused", false),
        (DiscoveryError::SrvRefused.into(), "discover", "srv-refused", false),
        (DiscoveryError::OwnServer.into(), "discover", "own-server", false),
        (DiscoveryError::DnsFailure.into(), "discover", "dns-failure", false),
        (DiscoveryError::OutOfTime.into(), "discover", "out-of-time", true),
        (transport(TransportPhase::Connect, false), "connect", "connect-failed", false),
        (transport(TransportPhase::Send, true), "send", "response-timed-out", true),
        (transport(TransportPhase::Body, false), "body", "body-cut", false),
    ] {
        let (lines, counts) = asked(Box::new(Broken(error)), tracing::Level::DEBUG, LONG).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        let fields = &lines[0]["fields"];
        assert_eq!(fields["message"], "lookup failed");
        assert_eq!((&fields["server"], &fields["route"]), (&"them.example".into(), &"room-list".into()));
        assert_eq!((&fields["phase"], &fields["reason"]), (&phase.into(), &reason.into()));
        assert_eq!(fields["ms"], 0);
        assert_eq!(counts, (0, u64::from(timed_out), u64::from(!timed_out)), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_peer_said_is_told_by_its_status_and_never_by_its_bytes() {
    for (status, body, reason, counts) in [
        (200, "hush", Some("answer-malformed"), (0, 0, 1)),
        (418, "hush", Some("unexpected-status"), (0, 0, 1)),
        (429, "hush", Some("overloaded"), (0, 0, 1)),
        (500, "hush", Some("overloaded"), (0, 0, 1)),
        (403, "hush", Some("forbidden"), (1, 0, 0)),
        (200, r#"{"chunk":[]}"#, None, (1, 0, 0)),
    ] {
        let (lines, counted) = asked(Box::new(FakeRemote::saying(status, body)), tracing::Level::DEBUG, LONG).await;
        assert_eq!(counted, counts, "{status} {body}");
        let told: Vec<_> = lines.iter().map(|line| line["fields"]["reason"].as_str().unwrap()).collect();
        assert_eq!(told, reason.into_iter().collect::<Vec<_>>());
        assert!(lines.iter().all(|line| line["fields"]["status"] == status && !line.to_string().contains("hush")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_counted_and_told_once_also_when_it_is_cut() {
    let silent = || Box::new(FakeRemote::new(|_| Does::StaySilent));
    let (lines, counts) = asked(silent(), tracing::Level::DEBUG, LONG).await;
    assert_eq!((lines.len(), counts), (1, (0, 1, 0)));
    assert_eq!(lines[0]["fields"]["ms"], 10_000);
    let (lines, counts) = asked(silent(), tracing::Level::DEBUG, Duration::from_secs(1)).await;
    assert_eq!((lines.len(), counts), (1, (0, 0, 1)));
    assert_eq!((&lines[0]["fields"]["reason"], &lines[0]["fields"]["ms"]), (&"cut-short".into(), &1000.into()));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_writes_no_line_above_debug() {
    let error = DiscoveryError::DnsFailure.into();
    let (lines, counts) = asked(Box::new(Broken(error)), tracing::Level::INFO, LONG).await;
    assert_eq!((lines.len(), counts), (0, (0, 0, 1)));
}
