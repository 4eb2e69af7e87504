//! A fetch over real loopback sockets and TLS: which ends of a connection are ends of a file, and that nothing is left open.

use http::HeaderValue;

use super::*;
use crate::outbound::address_policy::AddressPolicy;
use crate::outbound::discover::Discovery;
use crate::outbound::error::CallPhase;
use crate::outbound::https::HttpsTransport;
use crate::outbound::loopback::{Behaviour, PrivateCa, TlsPeer};
use crate::outbound::tls_roots::TlsRoots;
use crate::outbound::transport::Transport;

const BODY: &str = "--b\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b";

/// What becomes of the connection after the answer.
#[derive(Clone, Copy, Debug)]
enum Then {
    StaysOpen,
    EndsCleanly,
    Breaks,
}
use Then::{Breaks, EndsCleanly, StaysOpen};

impl Then {
    fn after(self, answer: Vec<u8>) -> Behaviour {
        match self {
            StaysOpen => Behaviour::answers(move |_| answer.clone()),
            EndsCleanly => Behaviour::EndsAfter(answer),
            Breaks => Behaviour::BreaksAfter(answer),
        }
    }
}

fn answer(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {MULTIPART}\r\n{headers}\r\n{body}").into_bytes()
}

/// The body in one chunk, without the one that says it is the last.
fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// Fetches from a server at `them`; `cdn.gamma.example` is on the same machine.
async fn fetched_from(them: &TlsPeer, ca: &PrivateCa) -> Result<Came, MediaCallError> {
    let world = World::new();
    world.name("cdn.gamma.example", &["127.0.0.1"]);
    let own_name: crate::server_name::ServerName = "hs.self.example".parse().unwrap();
    let roots = TlsRoots::only(ca.pem().as_bytes()).unwrap();
    let transport: Arc<dyn Transport> = Arc::new(HttpsTransport::new(roots).unwrap());
    let policy = AddressPolicy::default().allow(["127.0.0.0/8".parse().unwrap()]).unwrap();
    let user_agent = HeaderValue::from_static("portcullis-test");
    let discovery = Discovery::new(own_name.clone(), world, transport, policy, user_agent);
    let client = FederationClient::new(Arc::new(Ed25519Signer::generate(own_name)), discovery).unwrap();
    let mut call = RemoteMediaSource::open(&client, pass(&them.address().to_string()));
    let media = call.fetch(&download()).await?;
    let came = came(media).await;
    them.all_closed().await;
    Ok(came)
}

#[tokio::test]
async fn p6_r12_br28_br30_an_end_of_the_connection_is_an_end_of_the_file_only_where_it_is_clean() {
    let ca = PrivateCa::new();
    let tls = ca.server_config(&["127.0.0.1"]);
    let (length, chunks) = ("Content-Length: ", "Transfer-Encoding: chunked\r\n");
    let exactly = format!("{length}{}\r\n", BODY.len());
    let longer = format!("{length}{}\r\n", BODY.len() + 50);
    let in_chunks = chunked(BODY);
    let broken = |error: MediaCallError| matches!(error, MediaCallError::Call(call) if call.phase == CallPhase::Body);
    for (headers, body, then, whole) in [
        // Without closing hyphens: where the body as a whole ends cleanly, and there alone.
        (exactly.as_str(), BODY.to_owned(), StaysOpen, true),
        (chunks, format!("{in_chunks}0\r\n\r\n"), StaysOpen, true),
        ("", BODY.to_owned(), EndsCleanly, true),
        ("", BODY.to_owned(), Breaks, false),
        (chunks, in_chunks.clone(), EndsCleanly, false),
        (longer.as_str(), BODY.to_owned(), EndsCleanly, false),
        // With them, nothing else is waited for.
        (longer.as_str(), format!("{BODY}--"), StaysOpen, true),
        (longer.as_str(), format!("{BODY}--"), EndsCleanly, true),
        (chunks, chunked(&format!("{BODY}--")), StaysOpen, true),
        ("", format!("{BODY}--"), Breaks, true),
    ] {
        let them = TlsPeer::start(Arc::clone(&tls), then.after(answer(headers, &body))).await;
        let came = fetched_from(&them, &ca).await.unwrap();
        match came.file {
            Ok(file) => assert!(whole && file == "PNG", "{headers:?} {then:?}"),
            Err(error) => assert!(!whole && broken(error), "{headers:?} {then:?}: {error:?}"),
        }
        assert_eq!((them.accepted(), them.open()), (1, 0));
    }
}

#[tokio::test]
async fn a_location_is_followed_over_a_connection_of_its_own() {
    let ca = PrivateCa::new();
    let file = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\nPNG".to_vec();
    let cdn = TlsPeer::answering(ca.server_config(&["cdn.gamma.example"]), file).await;
    let port = cdn.address().port();
    let part = format!("--b\r\n\r\n{{}}\r\n--b\r\nLocation: https://cdn.gamma.example:{port}/f?a=b\r\n\r\n\r\n--b--");
    let length = format!("Content-Length: {}\r\n", part.len());
    let them = TlsPeer::answering(ca.server_config(&["127.0.0.1"]), answer(&length, &part)).await;

    assert_eq!(fetched_from(&them, &ca).await, Ok(png(Some(3), b"PNG")));
    cdn.all_closed().await;
    let (signed, unsigned) = (them.only_request(), cdn.only_request());
    assert!(signed.only("authorization").starts_with("X-Matrix "));
    assert!(signed.line.starts_with("GET /_matrix/federation/v1/media/download/abc?timeout_ms="));
    assert_eq!(
        (unsigned.line.as_str(), unsigned.only("host")),
        ("GET /f?a=b HTTP/1.1", &*format!("cdn.gamma.example:{port}"))
    );
    for name in ["authorization", "cookie", "referer", "proxy-authorization"] {
        assert!(unsigned.values(name).is_empty(), "{name}");
    }
    assert_eq!(unsigned.only("accept-encoding"), "identity");
}
