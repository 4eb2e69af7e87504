//! Whom a request counts against, whatever it says about itself.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use super::lines;
use crate::admission::{ClientKey, Ipv6ClientPrefix, TrustedProxies};

/// Any peer, proxies and headers: never panics; the key is the address that a plain walk from the right finds; what an
/// unlisted peer says changes nothing; and nothing written to the left of the address found changes the key.
///
/// Lines: the peer; the trusted networks, with blanks between; the IPv6 prefix length; then one `X-Forwarded-For` each.
pub fn client_key(input: &[u8]) {
    let lines = lines(input);
    let [peer, networks, prefix, forwarded @ ..] = lines.as_slice() else { return };
    let Ok(peer) = peer.parse::<IpAddr>() else { return };
    let networks: Vec<IpNet> = networks.split(' ').filter_map(|network| network.parse().ok()).collect();
    let prefix = prefix.parse().ok().and_then(Ipv6ClientPrefix::new).unwrap_or_default();
    let values: Vec<HeaderValue> = forwarded.iter().filter_map(|line| line.parse().ok()).collect();
    let proxies = TrustedProxies::new(networks.iter().copied());
    let key = |values: &[HeaderValue]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-forwarded-for", value.clone());
        }
        ClientKey::from_request(peer, &headers, &proxies, prefix)
    };

    let seen = key(&values);
    let (expected, to_the_end) = walk(peer, &networks, &values);
    assert_eq!(seen, ClientKey::vouched(expected, prefix));
    assert_eq!(seen.to_string(), ClientKey::vouched(expected.to_canonical(), prefix).to_string());
    if !is_in(&networks, peer) {
        assert_eq!(seen, key(&[]), "an unlisted peer spoke for somebody");
    }
    if !to_the_end {
        for forged in ["203.0.113.99", "nonsense", ""] {
            let forged: Vec<_> = std::iter::once(HeaderValue::from_static(forged)).chain(values.clone()).collect();
            assert_eq!(key(&forged), seen, "a forged left part changed the key");
        }
    }
}

/// The client's address, and whether the walk went through every entry without meeting one that decides.
fn walk(peer: IpAddr, networks: &[IpNet], values: &[HeaderValue]) -> (IpAddr, bool) {
    if !is_in(networks, peer) {
        return (peer, false);
    }
    // A line that cannot be read is one entry that is no address.
    let lines: Vec<&str> = values.iter().map(|value| value.to_str().unwrap_or("unreadable")).collect();
    for entry in lines.join(",").split(',').rev().skip(usize::from(lines.is_empty())) {
        match entry.trim().parse::<IpAddr>().ok() {
            None => return (peer, false),
            Some(address) if is_in(networks, address) => {}
            Some(address) => return (address, false),
        }
    }
    (peer, true)
}

fn is_in(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| match (network, address.to_canonical()) {
        (IpNet::V4(network), IpAddr::V4(address)) => {
            let shift = 32_u32.saturating_sub(network.prefix_len().into());
            let cut = |bits: u32| bits.checked_shr(shift).unwrap_or(0);
            cut(network.addr().to_bits()) == cut(address.to_bits())
        }
        (IpNet::V6(network), IpAddr::V6(address)) => {
            let shift = 128_u32.saturating_sub(network.prefix_len().into());
            let cut = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
            cut(network.addr().to_bits()) == cut(address.to_bits())
        }
        _ => false,
    })
}
