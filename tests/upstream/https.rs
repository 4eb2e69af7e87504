//! A homeserver behind that speaks TLS, under an authority of the operator's own.
//!
//! *Unplug:* give `UpstreamClient` other roots than those it is handed: the first test fails. Let it take any certificate:
//! the second does.

use portcullis::homeserver::config::Config;

use crate::rig::{Front, GOOD, LIST, REMOTE_FILE, WHOAMI, config};
use crate::support::{Behaviour, PrivateCa, SeenRequest, TlsPeer};

async fn behind(ca: &PrivateCa, name: &str) -> TlsPeer {
    let says = |seen: &SeenRequest| {
        let body = if seen.target() == WHOAMI { r#"{"user_id":"@a:us.example"}"# } else { "{}" };
        let length = body.len();
        // It takes one request of each connection, and says so.
        format!("HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    TlsPeer::start(ca.server_config(&[name]), Behaviour::answers(says)).await
}

fn over_tls(peer: &TlsPeer) -> Config {
    let mut config = config(peer.address());
    config.upstream = Some(format!("https://{}", peer.address()).parse().unwrap());
    config
}

#[tokio::test]
async fn it_is_asked_over_tls() {
    let ca = PrivateCa::new();
    let behind = behind(&ca, "127.0.0.1").await;
    let front = Front::start(&over_tls(&behind), &ca);
    assert_eq!(front.get(LIST).await.status, 200);
    // The token is known; remote media is off.
    assert_eq!(front.get_as(REMOTE_FILE, GOOD).await.status, 404);
    let status = front.status();
    assert_eq!((status.passed_on.small.answered, status.token_questions.answered), (1, 1));
    assert_eq!(status.origin, format!("https://{}", behind.address()));
    front.comes_to_rest().await;
}

#[tokio::test]
async fn a_certificate_that_is_not_its_own_is_no_answer() {
    let (ours, others) = (PrivateCa::new(), PrivateCa::new());
    for (authority, name) in [(&others, "127.0.0.1"), (&ours, "127.0.0.2"), (&ours, "us.example")] {
        let behind = behind(authority, name).await;
        let front = Front::start(&over_tls(&behind), &ours);
        assert_eq!(front.get(LIST).await.status, 502, "{name}");
        assert_eq!(front.get_as(REMOTE_FILE, GOOD).await.status, 502, "{name}");
        assert_eq!(behind.requests().len(), 0, "{name}: no token is told to a stranger");
    }
}
