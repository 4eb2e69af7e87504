//! The tables of special-purpose addresses, row by row, and the operator's rules.

use super::*;

/// Addresses of the special-purpose blocks, their last ones, and IPv4 in IPv6 clothes.
const REFUSED: [&str; 74] = [
    "0.0.0.0",                              // address-01
    "10.0.0.1",                             // address-03
    "100.64.0.1",                           // address-05
    "100.100.100.200",                      // address-07
    "127.0.0.1",                            // address-08
    "169.254.0.1",                          // address-10
    "169.254.169.254",                      // address-11
    "172.16.0.1",                           // address-13
    "172.31.255.255",                       // address-14
    "192.0.0.1",                            // address-15
    "192.0.0.170",                          // address-17
    "192.0.0.9",                            // address-19
    "192.0.2.1",                            // address-21
    "192.88.99.1",                          // address-22
    "192.168.0.1",                          // address-24
    "198.18.0.1",                           // address-26
    "198.19.255.255",                       // address-27
    "198.51.100.1",                         // address-28
    "224.0.0.1",                            // address-30
    "240.0.0.1",                            // address-32
    "255.255.255.255",                      // address-34
    "192.31.196.1",                         // address-35
    "192.175.48.1",                         // address-37
    "::",                                   // address-38
    "::1",                                  // address-39
    "64:ff9b:1::1",                         // address-40
    "100:0:0:1::1",                         // address-42
    "2001:2::1",                            // address-43
    "2001:10::1",                           // address-44
    "2001:100::1",                          // address-46
    "2001:db8::1",                          // address-48
    "3fff::1",                              // address-49
    "fc00::1",                              // address-52
    "fd00:ec2::254",                        // address-53
    "fe80::1",                              // address-55
    "febf::1",                              // address-56
    "fec0::1",                              // address-57
    "ff02::1",                              // address-58
    "2001:20::1",                           // address-60
    "2001:1::1",                            // address-62
    "2001:3::1",                            // address-64
    "2620:4f:8000::1",                      // address-66
    "200::1",                               // address-68
    "::ffff:127.0.0.1",                     // embedded-01
    "::ffff:7f00:1",                        // embedded-02
    "::ffff:10.1.2.3",                      // embedded-03
    "::ffff:169.254.169.254",               // embedded-04
    "::ffff:0.0.0.0",                       // embedded-07
    "::ffff:8.8.8.8",                       // embedded-08
    "::127.0.0.1",                          // embedded-09
    "::8.8.8.8",                            // embedded-12
    "::ffff:0:127.0.0.1",                   // embedded-13
    "64:ff9b::127.0.0.1",                   // embedded-15
    "64:ff9b::a00:1",                       // embedded-16
    "64:ff9b::169.254.169.254",             // embedded-17
    "64:ff9b:1:fffe:a9fe:a9fe::",           // embedded-19
    "2002:7f00:1::1",                       // embedded-20
    "2002:a9fe:a9fe::1",                    // embedded-22
    "2001:0:4136:e378:8000:63bf:80ff:fffe", // embedded-24
    "2001:0:a00:1:8000:63bf:f7f7:fbfb",     // embedded-26
    "::ffff:c0a8:1",                        // mapped 192.168.0.1, hex
    "2001:30::1",                           // drone identifiers
    "192.52.193.1",                         // AMT
    "192.88.99.2",                          // 6a44
    "203.0.113.1",                          // TEST-NET-3
    "100::1",                               // discard only
    "5f00::1",                              // segment routing
    "4000::1",                              // outside 2000::/3
    "1fff:ffff::1",                         // just below 2000::/3
    "64:ff9b::192.168.0.1",                 // NAT64 around private
    "64:ff9b:0:0:0:1::",                    // outside the /96, outside 2000::/3
    "2001:db8:ffff::1",                     // documentation, end
    "3fff:fff:ffff::1",                     // documentation /20, end
    "2620:4f:8000:ffff::1",                 // AS112 /48, end
];

/// The neighbours of the blocks, and plain public addresses.
const ALLOWED: [&str; 27] = [
    "1.0.0.1",                  // boundary-01
    "9.255.255.255",            // boundary-02
    "11.0.0.0",                 // boundary-03
    "100.63.255.255",           // boundary-04
    "126.255.255.255",          // boundary-06
    "169.253.255.255",          // boundary-08
    "172.15.255.255",           // boundary-10
    "192.0.1.0",                // boundary-12
    "192.167.255.255",          // boundary-14
    "192.169.0.0",              // boundary-15
    "198.17.255.255",           // boundary-16
    "198.51.99.255",            // boundary-18
    "223.255.255.255",          // boundary-20
    "8.8.8.8",                  // boundary-21
    "2001:200::1",              // boundary-22
    "2001:db9::1",              // boundary-24
    "2001:4860:4860::8888",     // boundary-25
    "2003::1",                  // boundary-27
    "2a0e:fade:10::5efe:a00:1", // boundary-29
    "64:ff9b::8.8.8.8",         // embedded-28: NAT64 around a public address
    "3fff:1000::1",             // one above the documentation /20
    "2620:4f:8001::1",          // one above the AS112 /48
    "2620:4f:7fff::1",          // one below it
    "2000::1",                  // first of 2000::/3
    "44.128.10.1",              // the cases' own
    "2a0e:fade:10::1",          // the cases' own
    "101.0.0.1",                // one above the shared space's /8
];

fn allows(policy: &AddressPolicy, ip: &str) -> bool {
    policy.judge(SocketAddr::new(ip.parse().unwrap(), 8448)).is_ok()
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn special_purpose_addresses_are_refused_n01_n03_n10() {
    for ip in REFUSED {
        assert!(!allows(&AddressPolicy::default(), ip), "{ip}");
    }
}

#[test]
fn their_neighbours_and_public_addresses_are_allowed_n06() {
    for ip in ALLOWED {
        assert!(allows(&AddressPolicy::default(), ip), "{ip}");
    }
}

#[test]
fn both_ends_of_every_block_are_refused() {
    for block in SPECIAL_V4 {
        assert!(!is_ordinary(IpAddr::V4(block.network())) && !is_ordinary(IpAddr::V4(block.broadcast())), "{block}");
    }
    for block in SPECIAL_V6 {
        assert!(!is_ordinary(IpAddr::V6(block.network())) && !is_ordinary(IpAddr::V6(block.broadcast())), "{block}");
    }
}

#[test]
fn operator_rules_add_and_carve_out_n20() {
    let rows = [
        // (deny, allow, address, allowed)
        (&["168.63.129.16/32"][..], &[][..], "168.63.129.16", false), // operator-01
        (&[], &["10.1.0.0/16"], "10.1.2.3", true),                    // operator-03
        (&[], &["10.1.0.0/16"], "10.2.0.1", false),                   // operator-04
        (&[], &["10.1.0.0/16"], "::ffff:10.1.2.3", false),            // operator-05
        (&[], &["10.1.0.0/16"], "64:ff9b::10.1.2.3", false),
        (&["44.128.10.0/24"], &[], "64:ff9b::2c80:a01", false), // operator-07
        (&["44.128.10.0/24"], &[], "44.128.10.255", false),
        (&["44.128.10.0/24"], &[], "44.128.11.0", true),
        (&["44.128.10.0/24"], &["44.128.10.7/32"], "44.128.10.7", true),
        (&["44.128.10.0/24"], &["44.128.10.7/32"], "44.128.10.8", false),
        (&["44.128.10.0/24"], &["44.128.10.7/32"], "64:ff9b::44.128.10.7", false),
        (&["44.128.10.0/24"], &["::ffff:0:0/96"], "::ffff:44.128.10.7", true),
        (&[], &["127.0.0.0/8", "::1/128"], "127.0.0.1", true),
        (&[], &["127.0.0.0/8", "::1/128"], "::1", true),
        (&["2a0e:fade::/32"], &[], "2a0e:fade:10::1", false),
    ];
    for (deny, allow, ip, allowed) in rows {
        let policy = AddressPolicy::default().deny(nets(deny)).unwrap().allow(nets(allow)).unwrap();
        assert_eq!(allows(&policy, ip), allowed, "deny {deny:?} allow {allow:?}: {ip}");
    }
    let denied_v4 = AddressPolicy::default().deny(nets(&["44.128.10.0/24"])).unwrap();
    assert!(denied_v4.denies("::ffff:44.128.10.1".parse().unwrap()), "a deny rule covers the mapped spelling");
}

#[test]
fn a_rule_with_host_bits_set_is_an_error() {
    let crooked: IpNet = "10.1.2.3/16".parse().unwrap();
    assert_eq!(AddressPolicy::default().deny([crooked]).unwrap_err(), HostBitsSet(crooked));
    let crooked_v6: IpNet = "2a0e:fade::1/32".parse().unwrap();
    let error = AddressPolicy::default().allow([crooked_v6]).unwrap_err();
    assert_eq!(error.to_string(), "2a0e:fade::1/32 has host bits set; the network is 2a0e:fade::/32");
}

#[test]
fn one_refused_address_refuses_the_whole_set_and_so_does_an_empty_one_n09() {
    let policy = AddressPolicy::default();
    let mut answer: Vec<IpAddr> = vec!["44.128.10.9".parse().unwrap(); 40];
    assert_eq!(policy.judge_all(answer.clone(), 8448).unwrap().len(), 40);
    answer.push("10.0.0.1".parse().unwrap());
    assert_eq!(policy.judge_all(answer, 8448), Err(AddressRefused));
    assert_eq!(policy.judge_all([], 8448), Err(AddressRefused));
}

#[test]
fn port_zero_is_refused_and_the_scope_is_dropped() {
    let policy = AddressPolicy::default();
    assert_eq!(policy.judge("44.128.10.1:0".parse().unwrap()), Err(AddressRefused));
    let scoped = SocketAddr::V6(std::net::SocketAddrV6::new("2a0e:fade:10::1".parse().unwrap(), 8448, 7, 3));
    let judged = policy.judge(scoped).unwrap().socket_addr();
    assert_eq!(judged, "[2a0e:fade:10::1]:8448".parse().unwrap());
}
