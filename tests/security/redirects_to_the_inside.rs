//! A redirect that leads where the name itself could not.
//!
//! *Attack:* a public server answers the well-known lookup, or the call itself, with a redirect to an inside address, or to
//! a name that resolves to one. *Control:* `Web::judged` judges every hop (`src/outbound/web.rs`); an attempt is one request
//! on one connection (`src/outbound/https.rs`), and a reply is read as it is (`src/outbound/call.rs`). *Unplug:* let
//! `AddressPolicy::judge` allow everything: hops and delegations are dialled. Connect to where a `Location` leads in
//! `HttpsTransport::exchange`, or follow it by `Locate::elsewhere` in `FederationCall::request`: the second peer is connected to.

use std::net::SocketAddr;

use crate::rig::{
    Does, Names, Outside, PUBLIC, allowing, ask, assert_at_rest, https, list_of, portcullis, portcullis_of_eight,
};
use crate::support::{PrivateCa, TlsPeer};

#[tokio::test]
async fn a_well_known_redirect_to_the_inside_is_not_followed_on_any_hop() {
    for location in [
        "https://10.0.0.1/",
        "https://127.0.0.1:22/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://inside.example/",
        "https://inside.example:8443/x",
        "https://0x7f.1/",
        "https://127.1/",
        "https://public.example@10.0.0.1/",
        "https://10.0.0.1#.public.example/",
        "http://other.example/",
        "//10.0.0.1/",
        "https://us.example/",
    ] {
        for hops in [1, 2] {
            let names = Names::of(&[
                ("public.example", &[&[PUBLIC]]),
                ("other.example", &[&[PUBLIC]]),
                ("inside.example", &[&["10.0.0.1"]]),
                ("us.example", &[&[PUBLIC]]),
            ]);
            let outside = Outside::by(move |attempt| {
                let host = attempt.request.headers()["host"].to_str().unwrap().to_owned();
                match (hops, host.as_str()) {
                    (1, "public.example") | (2, "other.example") => Does::Redirects(location),
                    (2, "public.example") => Does::Redirects("https://other.example/hop"),
                    _ => Does::Answers(r#"{"m.server":"10.0.0.1:22"}"#),
                }
            });
            let portcullis = portcullis_of_eight(&names, &outside);
            ask(&portcullis, 1, &list_of("public.example", 1)).await;
            // The well-known file, once per hop that is allowed, and then the name itself at 8448: all of it public.
            let public = |port| SocketAddr::new(PUBLIC.parse().unwrap(), port);
            let dialled = outside.addresses();
            assert!(
                dialled.iter().all(|address| [public(443), public(8448)].contains(address)),
                "{location}: {dialled:?}"
            );
            assert_eq!(dialled.iter().filter(|address| address.port() == 443).count(), hops, "{location}");
            assert_at_rest(&portcullis);
        }
    }
}

#[tokio::test]
async fn a_delegation_to_the_inside_is_not_followed() {
    for delegate in [
        r#"{"m.server":"10.0.0.1:22"}"#,
        r#"{"m.server":"[::1]:22"}"#,
        r#"{"m.server":"inside.example:22"}"#,
        r#"{"m.server":"inside.example"}"#,
    ] {
        let names = Names::of(&[("public.example", &[&[PUBLIC]]), ("inside.example", &[&["192.168.0.1"]])]);
        let outside = Outside::by(move |_| Does::Answers(delegate));
        let portcullis = portcullis_of_eight(&names, &outside);
        assert_eq!(ask(&portcullis, 1, &list_of("public.example", 1)).await.0, 502, "{delegate}");
        let well_known = SocketAddr::new(PUBLIC.parse().unwrap(), 443);
        assert_eq!(outside.addresses(), [well_known], "{delegate}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_of_the_call_itself_is_not_followed_whoever_it_names() {
    let ca = PrivateCa::new();
    let tls = ca.server_config(&["127.0.0.2", "127.0.0.1", "peer.example"]);
    let elsewhere = TlsPeer::answering(tls.clone(), crate::rig::room_list()).await;
    let to = elsewhere.address();
    let names = Names::all_at([127, 0, 0, 1].into());
    let mut page = 0;
    for status in [301, 302, 303, 307, 308] {
        for location in [format!("https://{to}/"), format!("https://peer.example:{}/", to.port())] {
            let head = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            let peer = TlsPeer::answering(tls.clone(), head.into()).await;
            let portcullis = portcullis(8, names.clone(), https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
            page += 1;
            let (answer, _) = ask(&portcullis, 1, &list_of(&peer.address().to_string(), page)).await;
            assert_eq!((answer, peer.accepted(), elsewhere.accepted()), (502, 1, 0), "{status} {location}");
        }
    }
}
