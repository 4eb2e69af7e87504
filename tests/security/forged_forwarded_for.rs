//! A client that names its own address.
//!
//! *Attack:* send a new `X-Forwarded-For` with each request, to be a new client each time; or a victim's address, to take
//! the victim's slot. *Control:* `ClientKey::from_request` (`src/admission/client_key.rs`) believes a listed proxy alone,
//! and reads from the right. *Unplug:* leave out the look at the peer in `client_address`: a hundred forged addresses
//! are a hundred clients. Take the leftmost entry: what a client writes there counts. Keep all bits in `network_of`:
//! an IPv6 subscriber is as many clients as it likes. Each fails its tests.

use std::net::IpAddr;

use bytes::Bytes;
use http::Request;
use portcullis::{Begun, Portcullis, TrustedProxies};

use crate::rig::{Does, Home, Names, Outside, PUBLIC, assert_at_rest, client, list_of, portcullis};

const PROXY: u8 = 9;

fn behind_a_proxy() -> Portcullis {
    let outside = Outside::that(Does::NothingEver);
    let proxies = TrustedProxies::new(["198.51.100.9/32".parse().unwrap()]);
    portcullis(16, Names::none(), outside, Default::default()).trusted_proxies(proxies).build().unwrap()
}

fn begin(portcullis: &Portcullis, peer: IpAddr, page: usize, forwarded: &[&str]) -> Begun {
    let mut request = Request::get(list_of(PUBLIC, page));
    for line in forwarded {
        request = request.header("x-forwarded-for", *line);
    }
    portcullis.begin(&Home, peer, &request.body(Bytes::new()).unwrap()).unwrap()
}

fn is_admitted(begun: &Begun) -> bool {
    matches!(begun, Begun::Call(_))
}

#[tokio::test]
async fn a_stranger_with_a_hundred_forged_addresses_is_one_client() {
    let portcullis = behind_a_proxy();
    let held = begin(&portcullis, client(1), 0, &["203.0.113.1"]);
    assert!(is_admitted(&held));
    for n in 1..=100 {
        let forged = format!("203.0.113.{n}");
        assert!(!is_admitted(&begin(&portcullis, client(1), n, &[&forged])), "{forged}");
    }
    assert_eq!(portcullis.admission().refused().client, 100);
    drop(held);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn what_a_client_writes_left_of_the_proxys_own_entry_changes_nothing() {
    let portcullis = behind_a_proxy();
    let held = begin(&portcullis, client(PROXY), 0, &["203.0.113.7"]);
    assert!(is_admitted(&held));
    for forged in [
        &["203.0.113.1, 203.0.113.7"][..],
        &["203.0.113.1", "203.0.113.7"],
        &["198.51.100.9, 203.0.113.7"],
        &["nonsense, 203.0.113.7"],
        &["203.0.113.7, 198.51.100.9"],
        &["::ffff:203.0.113.7"],
    ] {
        assert!(!is_admitted(&begin(&portcullis, client(PROXY), 1, forged)), "{forged:?}");
    }
    assert!(is_admitted(&begin(&portcullis, client(PROXY), 1, &["203.0.113.7, 203.0.113.8"])));
    drop(held);
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn a_victim_cannot_be_locked_out_by_naming_it() {
    let portcullis = behind_a_proxy();
    let _attack = begin(&portcullis, client(1), 0, &["203.0.113.7"]);
    let _through_the_proxy = begin(&portcullis, client(PROXY), 1, &["203.0.113.7, 203.0.113.66"]);
    assert!(is_admitted(&begin(&portcullis, client(PROXY), 2, &["203.0.113.7"])));
}

#[tokio::test]
async fn an_ipv6_subscriber_is_one_client_whatever_address_it_takes() {
    let portcullis = behind_a_proxy();
    let _held = begin(&portcullis, "2001:db8:1:2::1".parse().unwrap(), 0, &[]);
    for n in 2..=20 {
        let rotated: IpAddr = format!("2001:db8:1:2:{n:x}::{n:x}").parse().unwrap();
        assert!(!is_admitted(&begin(&portcullis, rotated, n, &[])), "{rotated}");
    }
    assert!(is_admitted(&begin(&portcullis, "2001:db8:1:3::1".parse().unwrap(), 1, &[])));
}
