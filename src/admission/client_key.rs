//! [`ClientKey`]: whose budget a request counts against, and [`TrustedProxies`]: whose word about that is taken.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;
use ipnet::IpNet;

use crate::limits::DEFAULT_IPV6_CLIENT_PREFIX;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The one a request counts against: an IPv4 address, an IPv6 network, or the bucket of those without an address.
///
/// Always: an IPv4-mapped IPv6 address is the IPv4 address (`k14_a_mapped_address_is_the_ipv4_one`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    V4(Ipv4Addr),
    V6 { network: Ipv6Addr, prefix: Ipv6ClientPrefix },
    Shared,
}

/// How many leading bits of an IPv6 address make one client: 1 to 128, by default 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6ClientPrefix(u8);

/// The networks whose `X-Forwarded-For` is believed. Empty: the header is ignored.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl ClientKey {
    /// The key of a request that came from `peer` with these headers. Infallible: what cannot be believed is ignored.
    ///
    /// From a listed proxy the `X-Forwarded-For` entries are read from the right: listed proxies are stepped over, the
    /// first other address is the client. An entry that is not an address ends the walk, and the peer itself is the key.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use portcullis::{ClientKey, Ipv6ClientPrefix, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::new(["10.0.0.0/8".parse().unwrap()]);
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-forwarded-for", "198.51.100.9, 203.0.113.7".parse().unwrap());
    /// let key = ClientKey::from_request("10.0.0.2".parse().unwrap(), &headers, &proxies, Ipv6ClientPrefix::default());
    /// assert_eq!(key.to_string(), "203.0.113.7"); // the left part is the client's own claim
    /// ```
    #[must_use]
    pub fn from_request(
        peer: IpAddr,
        headers: &HeaderMap,
        proxies: &TrustedProxies,
        ipv6_prefix: Ipv6ClientPrefix,
    ) -> Self {
        Self::vouched(client_address(peer, headers, proxies), ipv6_prefix)
    }

    /// The key of an address that the caller vouches for: it came from the socket or from a proxy the caller trusts.
    #[must_use]
    pub fn vouched(address: IpAddr, ipv6_prefix: Ipv6ClientPrefix) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => Kind::V4(address),
            IpAddr::V6(address) => Kind::V6 { network: ipv6_prefix.network_of(address), prefix: ipv6_prefix },
        })
    }

    /// Whether these headers are of somebody who speaks for others, believed or not.
    #[cfg(feature = "server")]
    pub(crate) fn speaks_for_others(headers: &HeaderMap) -> bool {
        headers.contains_key(FORWARDED_FOR)
    }

    /// The one bucket of all callers without an address (a Unix socket, say). It is capped like any client.
    #[must_use]
    pub fn shared() -> Self {
        Self(Kind::Shared)
    }
}

/// The address a request is from, as far as it can be believed.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &TrustedProxies) -> IpAddr {
    if !proxies.contains(peer) {
        return peer;
    }
    for value in headers.get_all(FORWARDED_FOR).iter().rev() {
        let Ok(value) = value.to_str() else { return peer };
        for entry in value.rsplit(',') {
            let Ok(address) = entry.trim().parse::<IpAddr>() else { return peer };
            if !proxies.contains(address) {
                return address;
            }
        }
    }
    peer
}

impl fmt::Display for ClientKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::V4(address) => write!(out, "{address}"),
            Kind::V6 { network, prefix } => write!(out, "{network}/{}", prefix.0),
            Kind::Shared => out.write_str("shared"),
        }
    }
}

impl Ipv6ClientPrefix {
    /// A prefix length of 1 to 128 bits; `None` outside. 0 would make all of IPv6 one client.
    #[must_use]
    pub fn new(bits: u8) -> Option<Self> {
        (1..=128).contains(&bits).then_some(Self(bits))
    }

    fn network_of(self, address: Ipv6Addr) -> Ipv6Addr {
        let host_bits = 128_u32.saturating_sub(u32::from(self.0));
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        Ipv6Addr::from_bits(address.to_bits() & mask)
    }
}

impl Default for Ipv6ClientPrefix {
    fn default() -> Self {
        Self(DEFAULT_IPV6_CLIENT_PREFIX)
    }
}

impl TrustedProxies {
    /// Believes `X-Forwarded-For` from these networks.
    #[must_use]
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// Whether this address is a listed proxy. An IPv4-mapped IPv6 address is looked for as the IPv4 one.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(peer: &str, forwarded: &[&str], proxies: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        let proxies = TrustedProxies::new(proxies.iter().map(|network| network.parse().unwrap()));
        ClientKey::from_request(peer.parse().unwrap(), &headers, &proxies, Ipv6ClientPrefix::default()).to_string()
    }

    const PROXY: &[&str] = &["10.0.0.0/8"];

    #[test]
    fn k01_an_unlisted_peer_speaks_for_nobody() {
        assert_eq!(key("192.0.2.1", &["203.0.113.7"], &[]), "192.0.2.1");
        assert_eq!(key("192.0.2.1", &["203.0.113.7"], PROXY), "192.0.2.1");
    }

    #[test]
    fn k02_the_walk_starts_at_the_right() {
        assert_eq!(key("10.0.0.1", &["198.51.100.1, 203.0.113.7"], PROXY), "203.0.113.7");
        assert_eq!(key("10.0.0.1", &["198.51.100.1, 203.0.113.7, 10.9.9.9"], PROXY), "203.0.113.7");
        assert_eq!(key("10.0.0.1", &["198.51.100.1", "203.0.113.7"], PROXY), "203.0.113.7");
    }

    #[test]
    fn k03_a_forged_left_part_changes_nothing() {
        let one = key("10.0.0.1", &["1.1.1.1, 203.0.113.7"], PROXY);
        let other = key("10.0.0.1", &["2.2.2.2, 3.3.3.3, 203.0.113.7"], PROXY);
        assert_eq!(one, other);
    }

    #[test]
    fn k06_an_entry_that_is_no_address_ends_the_walk() {
        for entry in ["unknown", "", "203.0.113.7:80", "203.0.113.7, ", "1.1.1.1, _hidden", "fe80::1%eth0"] {
            assert_eq!(key("10.0.0.1", &[entry], PROXY), "10.0.0.1", "{entry:?}");
        }
        assert_eq!(key("10.0.0.1", &["nonsense, 203.0.113.7"], PROXY), "203.0.113.7");
    }

    #[test]
    fn without_a_stranger_in_the_chain_the_peer_is_the_client() {
        assert_eq!(key("10.0.0.1", &[], PROXY), "10.0.0.1");
        assert_eq!(key("10.0.0.1", &["10.0.0.2, 10.0.0.3"], PROXY), "10.0.0.1");
    }

    #[test]
    fn k08_k09_clients_behind_a_proxy() {
        let through = |client, proxies| key("10.0.0.1", &[client], proxies);
        assert_ne!(through("203.0.113.7", PROXY), through("203.0.113.8", PROXY));
        assert_eq!(through("203.0.113.7", &[]), through("203.0.113.8", &[]));
    }

    #[test]
    fn k10_k11_ipv6_is_one_client_per_network() {
        assert_eq!(key("2001:db8:1:2:3:4:5:6", &[], &[]), "2001:db8:1:2::/64");
        assert_eq!(key("2001:db8:1:2::1", &[], &[]), key("2001:db8:1:2:ffff::1", &[], &[]));
        assert_ne!(key("2001:db8:1:2::1", &[], &[]), key("2001:db8:1:3::1", &[], &[]));
    }

    #[test]
    fn k14_a_mapped_address_is_the_ipv4_one() {
        assert_eq!(key("::ffff:203.0.113.7", &[], &[]), "203.0.113.7");
        assert_eq!(key("::ffff:10.0.0.1", &["::ffff:203.0.113.7"], PROXY), "203.0.113.7");
    }

    #[test]
    fn k16_ipv4_is_never_grouped() {
        assert_ne!(key("203.0.113.7", &[], &[]), key("203.0.113.8", &[], &[]));
    }

    #[test]
    fn the_prefix_length_is_honoured_and_bounded() {
        let address: IpAddr = "2001:db8:1:2:3:4:5:6".parse().unwrap();
        for (bits, shown) in [(1, "::/1"), (48, "2001:db8:1::/48"), (128, "2001:db8:1:2:3:4:5:6/128")] {
            assert_eq!(ClientKey::vouched(address, Ipv6ClientPrefix::new(bits).unwrap()).to_string(), shown);
        }
        assert_eq!(Ipv6ClientPrefix::new(0), None);
        assert_eq!(Ipv6ClientPrefix::new(129), None);
    }
}
