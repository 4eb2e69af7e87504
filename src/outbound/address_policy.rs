//! [`AddressPolicy`]: which addresses may be connected to.
//!
//! A stranger chooses the names we look up, so a stranger chooses the addresses too. Whatever is not an ordinary address
//! of the public internet is refused, by one rule for literals, answers of the DNS, redirects and delegations alike; what
//! passes becomes a [`JudgedAddress`], and nothing else can be dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A socket address that an [`AddressPolicy`] allowed. Nothing else can be dialled.
///
/// ```
/// use portcullis::outbound::AddressPolicy;
///
/// let judged = AddressPolicy::default().judge("[2a0e:fade:10::1]:8448".parse().unwrap()).unwrap();
/// assert_eq!(judged.socket_addr().port(), 8448);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JudgedAddress(SocketAddr);

impl JudgedAddress {
    /// The address.
    #[must_use]
    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }
}

/// Which addresses may be connected to.
///
/// In this order: an `allow` rule wins; a `deny` rule refuses; then IPv4 outside every special-purpose block is allowed,
/// and IPv6 in `2000::/3` outside every such block. `64:ff9b::/96` (NAT64) is judged by the IPv4 address inside. Blocks
/// that the registry marks globally reachable are refused too: they name infrastructure, never a homeserver. Mapped,
/// compatible and translated spellings of IPv4, 6to4 and Teredo are refused whatever they hold.
///
/// A host inside the own network that has a global address looks like any other host of the internet: `deny` its network.
///
/// Always: an IPv4 `deny` rule also covers the mapped and NAT64 spellings, an IPv4 `allow` rule covers IPv4 alone
/// (`operator_rules_add_and_carve_out_n20`).
///
/// ```
/// use portcullis::outbound::AddressPolicy;
///
/// let internal_hosts = ["2000:1::/32".parse().unwrap()]; // global addresses of our own network
/// let private_federation = ["10.1.0.0/16".parse().unwrap()];
/// let policy = AddressPolicy::default().deny(internal_hosts).unwrap().allow(private_federation).unwrap();
///
/// assert!(policy.judge("10.1.2.3:8448".parse().unwrap()).is_ok());
/// assert!(policy.judge("10.2.0.1:8448".parse().unwrap()).is_err());
/// assert!(policy.judge("[2000:1::7]:8448".parse().unwrap()).is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy {
    deny: Vec<IpNet>,
    allow: Vec<IpNet>,
}

/// The policy does not allow an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address is not allowed")]
pub struct AddressRefused;

/// A rule has bits set past its prefix length: `10.1.2.3/16` may mean one address or a network, so it means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} has host bits set; the network is {network}", network = .0.trunc())]
pub struct HostBitsSet(pub IpNet);

impl AddressPolicy {
    /// Adds networks that are refused.
    ///
    /// *Errors:* [`HostBitsSet`] with the first rule that has bits set past its prefix length.
    pub fn deny(mut self, networks: impl IntoIterator<Item = IpNet>) -> Result<Self, HostBitsSet> {
        for network in networks {
            self.deny.push(without_host_bits(network)?);
        }
        Ok(self)
    }

    /// Adds networks that are allowed, whatever else is said about them: private federations, tests.
    ///
    /// *Errors:* [`HostBitsSet`] with the first rule that has bits set past its prefix length.
    pub fn allow(mut self, networks: impl IntoIterator<Item = IpNet>) -> Result<Self, HostBitsSet> {
        for network in networks {
            self.allow.push(without_host_bits(network)?);
        }
        Ok(self)
    }

    /// Judges one address. Scope and flow of an IPv6 socket address are dropped; port 0 is refused.
    ///
    /// *Errors:* [`AddressRefused`]. *Panics:* never. *Blocking:* no.
    pub fn judge(&self, address: SocketAddr) -> Result<JudgedAddress, AddressRefused> {
        let ip = address.ip();
        let allowed = address.port() != 0 && (contains(&self.allow, ip) || (!self.denies(ip) && is_ordinary(ip)));
        if allowed { Ok(JudgedAddress(SocketAddr::new(ip, address.port()))) } else { Err(AddressRefused) }
    }

    /// Judges the whole answer for one name: one refused address refuses the set. The order is kept.
    ///
    /// *Errors:* [`AddressRefused`]; an empty set is refused as well.
    ///
    /// For a client that looks names up by itself. It may connect to what comes back, and look nothing up again: a second
    /// answer may be another one.
    ///
    /// ```
    /// use std::net::IpAddr;
    ///
    /// use portcullis::outbound::{AddressPolicy, AddressRefused};
    ///
    /// let policy = AddressPolicy::default();
    /// let [outside, inside] = ["44.128.10.7", "10.0.0.7"].map(|ip| ip.parse::<IpAddr>().unwrap()); // what the DNS says
    /// let judged = policy.judge_all([outside], 8448).unwrap();
    /// assert_eq!(judged[0].socket_addr(), "44.128.10.7:8448".parse().unwrap()); // for `TcpStream::connect`
    /// assert_eq!(policy.judge_all([outside, inside], 8448), Err(AddressRefused));
    /// ```
    pub fn judge_all(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
        port: u16,
    ) -> Result<Vec<JudgedAddress>, AddressRefused> {
        let judged: Vec<_> =
            addresses.into_iter().map(|ip| self.judge(SocketAddr::new(ip, port))).collect::<Result<_, _>>()?;
        if judged.is_empty() { Err(AddressRefused) } else { Ok(judged) }
    }

    fn denies(&self, ip: IpAddr) -> bool {
        let inside = match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => v6.to_ipv4_mapped().or_else(|| translated_by_nat64(v6)),
        };
        contains(&self.deny, ip) || inside.is_some_and(|v4| contains(&self.deny, IpAddr::V4(v4)))
    }
}

fn without_host_bits(network: IpNet) -> Result<IpNet, HostBitsSet> {
    if network == network.trunc() { Ok(network) } else { Err(HostBitsSet(network)) }
}

fn contains(networks: &[IpNet], ip: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&ip))
}

/// Whether this is an ordinary address of the public internet.
fn is_ordinary(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_ordinary_v4(v4),
        IpAddr::V6(v6) => match translated_by_nat64(v6) {
            Some(v4) => is_ordinary_v4(v4),
            None => GLOBAL_UNICAST.contains(&v6) && !SPECIAL_V6.iter().any(|block| block.contains(&v6)),
        },
    }
}

fn is_ordinary_v4(v4: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|block| block.contains(&v4))
}

/// The IPv4 address inside `64:ff9b::/96`: how a host without IPv4 reaches IPv4 servers.
fn translated_by_nat64(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = v6.octets();
    NAT64.contains(&v6).then(|| Ipv4Addr::new(a, b, c, d))
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

/// A block from its first four groups; the others are zero.
const fn v6(a: u16, b: u16, c: u16, d: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

/// The only part of IPv6 that is handed out to hosts of the internet (RFC 4291, section 2.4).
const GLOBAL_UNICAST: Ipv6Net = v6(0x2000, 0, 0, 0, 3);

/// RFC 6052: judged by the IPv4 address inside.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 0, 96);

/// The IANA IPv4 special-purpose registry as of 9 October 2025, and multicast, which has a registry of its own.
const SPECIAL_V4: [Ipv4Net; 25] = [
    v4(0, 0, 0, 0, 8),          // this network (RFC 791); most kernels connect 0.0.0.0 to loopback
    v4(10, 0, 0, 0, 8),         // private use (RFC 1918)
    v4(100, 64, 0, 0, 10),      // shared address space of carriers (RFC 6598)
    v4(127, 0, 0, 0, 8),        // loopback (RFC 1122)
    v4(169, 254, 0, 0, 16),     // link local, metadata services among them (RFC 3927)
    v4(172, 16, 0, 0, 12),      // private use (RFC 1918)
    v4(192, 0, 0, 0, 24),       // IETF protocol assignments (RFC 6890), with its parts:
    v4(192, 0, 0, 0, 29),       //   IPv4 service continuity (RFC 7335)
    v4(192, 0, 0, 8, 32),       //   dummy address (RFC 7600)
    v4(192, 0, 0, 9, 32),       //   port control protocol anycast (RFC 7723)
    v4(192, 0, 0, 10, 32),      //   TURN anycast (RFC 8155)
    v4(192, 0, 0, 170, 31),     //   NAT64 and DNS64 discovery (RFC 8880)
    v4(192, 0, 2, 0, 24),       // documentation (RFC 5737)
    v4(192, 31, 196, 0, 24),    // AS112 (RFC 7535)
    v4(192, 52, 193, 0, 24),    // automatic multicast tunnelling (RFC 7450)
    v4(192, 88, 99, 0, 24),     // 6to4 relay anycast, withdrawn (RFC 7526)
    v4(192, 88, 99, 2, 32),     //   6a44 relay anycast (RFC 6751)
    v4(192, 168, 0, 0, 16),     // private use (RFC 1918)
    v4(192, 175, 48, 0, 24),    // AS112, direct delegation (RFC 7534)
    v4(198, 18, 0, 0, 15),      // benchmarking (RFC 2544)
    v4(198, 51, 100, 0, 24),    // documentation (RFC 5737)
    v4(203, 0, 113, 0, 24),     // documentation (RFC 5737)
    v4(224, 0, 0, 0, 4),        // multicast (RFC 5771)
    v4(240, 0, 0, 0, 4),        // reserved (RFC 1112)
    v4(255, 255, 255, 255, 32), // limited broadcast (RFC 919)
];

/// The IANA IPv6 special-purpose registry as of 9 October 2025, as far as it lies in [`GLOBAL_UNICAST`]. What lies outside
/// (loopback, mapped, unique local, link local, multicast, `64:ff9b:1::/48`, `100::/64`, `5f00::/16` and the rest) is
/// refused for lying outside.
const SPECIAL_V6: [Ipv6Net; 15] = [
    v6(0x2001, 0, 0, 0, 23), // IETF protocol assignments (RFC 2928), with its parts:
    v6(0x2001, 0, 0, 0, 32), //   Teredo (RFC 4380)
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 1), 128), //   port control protocol anycast (RFC 7723)
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 2), 128), //   TURN anycast (RFC 8155)
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 3), 128), //   service registration anycast (RFC 9665)
    v6(0x2001, 2, 0, 0, 48), //   benchmarking (RFC 5180)
    v6(0x2001, 3, 0, 0, 32), //   automatic multicast tunnelling (RFC 7450)
    v6(0x2001, 4, 0x112, 0, 48), //   AS112 (RFC 7535)
    v6(0x2001, 0x10, 0, 0, 28), //   ORCHID, withdrawn (RFC 4843)
    v6(0x2001, 0x20, 0, 0, 28), //   ORCHIDv2 (RFC 7343)
    v6(0x2001, 0x30, 0, 0, 28), //   drone remote identification (RFC 9374)
    v6(0x2001, 0xdb8, 0, 0, 32), // documentation (RFC 3849)
    v6(0x2002, 0, 0, 0, 16), // 6to4 (RFC 3056)
    v6(0x2620, 0x4f, 0x8000, 0, 48), // AS112, direct delegation (RFC 7534)
    v6(0x3fff, 0, 0, 0, 20), // documentation (RFC 9637)
];

#[cfg(test)]
mod tests;
