//! A signature, or a client's token, in the wrong hands.
//!
//! *Attack:* lead a signed request to another server, by a redirect or by an answer of the DNS, or read from it what the
//! client sent us. *Control:* the certificate is verified before the first byte (`src/outbound/tls_roots.rs`,
//! `src/outbound/https.rs`); nothing is followed; the request is made anew, from nothing of the client's
//! (`FederationClient::signed` in `src/outbound/call.rs`). *Unplug:* accept any certificate: the wrong peer reads a
//! request. Follow a `Location` in `FederationCall::request`: the second peer is connected to. Put a header of the client's
//! on the request in `signed` (a constant `Cookie` will do): the remote reads it. Leave `X-Matrix` on a well-known lookup:
//! the third test reads it.

use std::time::Duration;

use crate::rig::{
    CaFile, Does, Homeserver, NO_ROOMS, Names, Outside, PUBLIC, allowing, ask, config, https, list_of, no_name_server,
    portcullis, portcullis_of_eight, room_list,
};
use crate::support::{PrivateCa, TlsPeer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n21_a_peer_with_the_wrong_certificate_reads_nothing() {
    let ca = PrivateCa::new();
    let other_name = TlsPeer::answering(ca.server_config(&["other.example"]), room_list()).await;
    let other_address = TlsPeer::answering(ca.server_config(&["127.0.0.9"]), room_list()).await;
    let other_authority = TlsPeer::answering(PrivateCa::new().server_config(&["127.0.0.1"]), room_list()).await;
    for peer in [other_name, other_address, other_authority] {
        let portcullis = portcullis(8, Names::none(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
        assert_eq!(ask(&portcullis, 1, &list_of(&peer.address().to_string(), 1)).await.0, 502);
        peer.all_closed().await;
        // The handshake failed on the peer's side too: it holds no key to read anything with.
        assert_eq!((peer.accepted(), peer.requests().len()), (1, 0));
    }
    let right = TlsPeer::answering(ca.server_config(&["127.0.0.1"]), room_list()).await;
    let portcullis = portcullis(8, Names::none(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
    assert_eq!(ask(&portcullis, 1, &list_of(&right.address().to_string(), 1)).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_target_is_sent_nothing() {
    let ca = PrivateCa::new();
    let tls = ca.server_config(&["127.0.0.1"]);
    let target = TlsPeer::answering(tls.clone(), room_list()).await;
    let location = format!("HTTP/1.1 307 X\r\nLocation: https://{}/\r\nContent-Length: 0\r\n\r\n", target.address());
    let peer = TlsPeer::answering(tls, location.into()).await;
    let portcullis = portcullis(8, Names::none(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
    assert_eq!(ask(&portcullis, 1, &list_of(&peer.address().to_string(), 1)).await.0, 502);
    assert!(peer.only_request().only("authorization").starts_with("X-Matrix "));
    assert_eq!(target.accepted(), 0);
}

#[tokio::test]
async fn a_well_known_lookup_is_not_signed() {
    let outside = Outside::by(|attempt| match attempt.address.socket_addr().port() {
        443 => Does::Redirects("https://other.example/file"),
        _ => Does::Answers(NO_ROOMS),
    });
    let portcullis = portcullis_of_eight(&Names::all_at(PUBLIC.parse().unwrap()), &outside);
    assert_eq!(ask(&portcullis, 1, &list_of("them.example", 1)).await.0, 200);
    let dialled = outside.dialled();
    let (call, lookups) = dialled.split_last().unwrap();
    assert!(call.headers.contains_key("authorization") && lookups.len() == 2);
    for lookup in lookups {
        assert!(!lookup.headers.contains_key("authorization"), "{lookup:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_sent_never_reaches_the_remote() {
    let ca = PrivateCa::new();
    let peer = TlsPeer::answering(ca.server_config(&["127.0.0.1"]), room_list()).await;
    let file = CaFile::of(&ca);
    let homeserver = Homeserver::start(&config(2, Duration::from_secs(5), Some(&file), no_name_server()));
    let secrets = "Authorization: Bearer secret-token\r\nCookie: secret-cookie\r\nX-Forwarded-For: 203.0.113.77\r\n\
                   Forwarded: for=203.0.113.77\r\nReferer: https://secret.example/\r\nX-Secret: secret\r\n\
                   User-Agent: secret-browser\r\nOrigin: https://secret.example\r\nX-Real-IP: 203.0.113.77\r\n";
    let path = format!("{}&access_token=secret-token", list_of(&peer.address().to_string(), 1));
    assert_eq!(homeserver.get_with([127, 2, 0, 77], &path, secrets).await.status, 200);
    let seen = peer.only_request();
    let sent = format!("{seen:?}");
    for secret in ["secret", "203.0.113", "127.2.0.77"] {
        assert!(!sent.contains(secret), "{sent}");
    }
    let mut names: Vec<_> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "authorization", "host", "user-agent"]);
}
