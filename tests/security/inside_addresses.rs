//! Which addresses are inside, row by row.
//!
//! *Attack:* find a block, or an IPv6 spelling of an IPv4 address, that the filter does not know. *Control:*
//! `AddressPolicy` (`src/outbound/address_policy.rs`). *Unplug:* let `judge` allow everything: every row but N06
//! fails.
//!
//! | row | pinned by |
//! |---|---|
//! | N01, N03, N05, N06, N09, N10, N20 | here, and block by block in `src/outbound/address_policy/tests.rs` |
//! | N07 | `n07_localhost_is_judged_by_its_answers_like_any_name` |
//! | N11, N13 | `a_name_that_could_be_read_in_two_ways_is_400_with_nothing_looked_up_and_nothing_dialled` |
//! | N12 | here; `an_address_as_name_that_is_not_the_judged_one_is_not_dialled` |
//! | N17 | `the_address_that_was_judged_is_the_one_that_is_dialled_and_the_next_answer_is_judged_again` |
//! | N18 | `n18_a_proxy_named_in_the_environment_sees_nothing` |
//! | N21 | `n21_a_peer_with_the_wrong_certificate_reads_nothing` |

use std::net::{IpAddr, SocketAddr};

use portcullis::outbound::AddressPolicy;

use crate::rig::{
    Does, NO_ROOMS, Names, Outside, PUBLIC, ask, assert_at_rest, list_of, portcullis, portcullis_of_eight,
};

fn is_allowed(policy: &AddressPolicy, address: &str) -> bool {
    policy.judge(SocketAddr::new(address.parse().unwrap(), 443)).is_ok()
}

fn assert_inside(addresses: &[&str]) {
    for address in addresses {
        assert!(!is_allowed(&AddressPolicy::default(), address), "{address}");
    }
}

fn assert_public(addresses: &[&str]) {
    for address in addresses {
        assert!(is_allowed(&AddressPolicy::default(), address), "{address}");
    }
}

#[test]
fn n01_n03_what_is_special_is_inside_from_its_first_address_to_its_last() {
    assert_inside(&["0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"]);
    assert_inside(&["127.0.0.0", "127.255.255.255", "169.254.0.0", "169.254.255.255", "172.16.0.0", "172.31.255.255"]);
    assert_inside(&["192.168.0.0", "192.168.255.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"]);
    assert_inside(&["::", "::1", "fc00::", "fdff::1", "fe80::1", "febf::1", "ff00::", "ff02::1"]);
}

#[test]
fn n05_n10_an_ipv4_address_in_ipv6_clothes_and_the_lesser_blocks_are_inside() {
    assert_inside(&["::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8"]);
    assert_inside(&["2002:7f00:1::", "2002:808:808::", "2001::1", "64:ff9b:1::1", "64:ff9b::10.0.0.1", "fec0::1"]);
    assert_inside(&["192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1"]);
    assert_inside(&["203.0.113.1", "2001:db8::1", "3fff::1", "100::1", "5f00::1", "4000::1"]);
}

#[test]
fn n06_what_lies_beside_is_public() {
    assert_public(&["8.8.8.8", "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.0.0.1"]);
    assert_public(&["128.0.0.1", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "223.255.255.255"]);
    assert_public(&["2001:4860:4860::8888", "2600::1", "64:ff9b::8.8.8.8"]);
}

#[tokio::test]
async fn n09_n12_a_name_without_addresses_is_not_dialled() {
    let (names, outside) = (Names::of(&[("empty.example", &[&[]])]), Outside::that(Does::Answers(NO_ROOMS)));
    let portcullis = portcullis_of_eight(&names, &outside);
    for name in ["empty.example:8448", "empty.example", "none.example:8448", "none.example"] {
        assert_eq!(ask(&portcullis, 1, &list_of(name, 1)).await.0, 502, "{name}");
    }
    assert_eq!(outside.dialled().len(), 0);
    assert!(AddressPolicy::default().judge_all(Vec::<IpAddr>::new(), 443).is_err());
    assert!(AddressPolicy::default().judge(SocketAddr::new(PUBLIC.parse().unwrap(), 0)).is_err());
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn n20_an_operators_rule_is_applied_where_connections_are_made() {
    let names = Names::of(&[("denied.example", &[&[PUBLIC]]), ("other.example", &[&["44.128.11.1"]])]);
    let outside = Outside::that(Does::Answers(NO_ROOMS));
    let policy = AddressPolicy::default().deny(["44.128.10.0/24".parse().unwrap()]).unwrap();
    let portcullis = portcullis(8, names, outside.clone(), policy).build().unwrap();
    for (name, status) in [("denied.example:8448", 502), (PUBLIC, 502), ("other.example:8448", 200)] {
        assert_eq!(ask(&portcullis, 1, &list_of(name, 1)).await.0, status, "{name}");
    }
    assert_eq!(outside.addresses(), ["44.128.11.1:8448".parse().unwrap()]);
}
