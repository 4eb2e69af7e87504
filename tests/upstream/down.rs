//! A homeserver that is not there.
//!
//! *Unplug:* answer `Err(Unasked::Failed)` as a bad token in `Upstream::ask_whose`: users are logged out by a restart.

use portcullis::homeserver::upstream::UpstreamState;

use crate::rig::{Front, GOOD, LIST, REMOTE_FILE, config};
use crate::support::{Behaviour, PrivateCa, TlsPeer, json_answer, tls_peer::refusing_address};

#[tokio::test]
async fn what_needs_it_is_502_and_the_rest_goes_on() {
    let ca = PrivateCa::new();
    let alias = r#"{"room_id":"!a:them","servers":["them"]}"#;
    let peer =
        TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::answers(move |_| json_answer(200, alias))).await;
    let front = Front::start(&config(refusing_address()), &ca);
    for path in [
        LIST,
        "/_matrix/client/v3/directory/room/%23a:us.example",
        "/_matrix/client/v1/media/download/us.example/abc",
        "/_matrix/media/v3/thumbnail/us.example/abc?width=1&height=1",
        REMOTE_FILE,
    ] {
        let answer = front.get_as(path, GOOD).await;
        assert_eq!(answer.status, 502, "{path}");
        assert_eq!(answer.text(), r#"{"errcode":"M_UNKNOWN","error":"The homeserver does not answer"}"#, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
    let status = front.status();
    let silent = (status.passed_on.small.silent, status.passed_on.files.silent, status.token_questions.silent);
    assert_eq!(silent, (2, 2, 1));
    assert_eq!((status.state, status.last_answer_at_ms), (UpstreamState::Silent, None));
    assert!(status.last_silence_at_ms.is_some());
    let answer = front.get(&format!("/_matrix/client/v3/directory/room/%23a:{}", peer.address())).await;
    assert_eq!((answer.status, answer.text()), (200, alias));
    assert_eq!(front.get("/_matrix/client/versions").await.status, 200);
    assert_eq!(front.get("/_matrix/key/v2/server").await.status, 200);
    front.comes_to_rest().await;
}
