//! A small answer that unpacks into a large one.
//!
//! *Attack:* send a gzip bomb with `Content-Encoding: gzip`; a limit on what is read says nothing about what it becomes.
//! *Control:* nothing is ever unpacked, and no encoding asked for: `HttpsTransport` (`src/outbound/https.rs`) gives a bare
//! connection to the HTTP library, where no feature of another crate can switch a decoder on. *Unplug:* ask
//! for `gzip` in `as_signed`: the peer hears of it. Unpack what begins as gzip does in `read_bounded` (`src/outbound/body.rs`):
//! the packed list below, a proper one, is answered 200.

use crate::rig::{Names, allowing, ask, https, list_of, portcullis};
use crate::support::{PrivateCa, TlsPeer};

/// An empty room list, packed.
const PACKED: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x4a\xce\x28\xcd\xcb\x56\xb2\x8a\x8e\xad\x05\x00\xf1\x95\x43\x15\x0c\x00\x00\x00";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packed_answer_is_not_asked_for_and_never_unpacked() {
    let ca = PrivateCa::new();
    for encoding in ["gzip", "x-gzip", "deflate", "br", "zstd", "identity"] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {encoding}\r\n\
             Content-Length: {}\r\n\r\n",
            PACKED.len()
        );
        let answer = [head.as_bytes(), PACKED].concat();
        let peer = TlsPeer::answering(ca.server_config(&["127.0.0.1"]), answer).await;
        let portcullis = portcullis(8, Names::none(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
        assert_eq!(ask(&portcullis, 1, &list_of(&peer.address().to_string(), 1)).await.0, 502, "{encoding}");
        assert!(peer.only_request().values("accept-encoding").is_empty());
    }
}
