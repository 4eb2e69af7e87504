//! [`AdminHosts`]: under which names the operator's socket answers.
//!
//! A page in the operator's browser may make a name of its own point at this machine and then read what it is answered
//! under it (DNS rebinding). So none is answered that could be made to point anywhere: only addresses, and `localhost`,
//! which is not looked up in the DNS.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr as _;

use bytes::Bytes;
use http::uri::Authority;
use http::{Request, header};

/// The names of a socket: `localhost`, any loopback address, and the address it is bound to; any address where it is bound
/// to all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdminHosts {
    bound: IpAddr,
}

impl AdminHosts {
    pub(super) fn of(bound: SocketAddr) -> Self {
        Self { bound: bound.ip().to_canonical() }
    }

    /// Whether `request` asks under one of them. Whoever writes the whole URI into the request line asks under that name
    /// too, whatever `Host` says.
    pub(super) fn are_asked(self, request: &Request<Bytes>) -> bool {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(Authority::as_str);
        host.is_some_and(|host| self.contain(host)) && authority.is_none_or(|host| self.contain(host))
    }

    fn contain(self, host: &str) -> bool {
        let host = match host.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => host,
        };
        host.eq_ignore_ascii_case("localhost") || literal(host).is_some_and(|address| self.is_ours(address))
    }

    fn is_ours(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.bound.is_unspecified() || address == self.bound
    }
}

/// An address as a `Host` has it.
fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => Ipv6Addr::from_str(host).ok().map(IpAddr::V6),
        None => IpAddr::from_str(host).ok().filter(IpAddr::is_ipv4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bound: &str) -> AdminHosts {
        AdminHosts::of(bound.parse().unwrap())
    }

    #[test]
    fn loopback_and_the_bound_address_are_ours() {
        let ours = ["localhost", "LOCALHOST:9009", "127.0.0.1", "127.0.0.1:9009", "127.1.2.3", "[::1]", "[::1]:9009"];
        for bound in ["127.0.0.1:9009", "[::1]:9009", "192.0.2.7:9009", "0.0.0.0:9009", "[::]:0"] {
            assert!(ours.iter().all(|host| at(bound).contain(host)), "{bound}");
        }
        for (bound, host, is_ours) in [
            ("192.0.2.7:9009", "192.0.2.7:9009", true),
            ("192.0.2.7:9009", "192.0.2.8:9009", false),
            ("127.0.0.1:9009", "192.0.2.7", false),
            ("[2001:db8::7]:9009", "[2001:DB8:0::7]:9009", true),
            ("[::ffff:192.0.2.7]:9009", "192.0.2.7", true),
            ("0.0.0.0:9009", "192.0.2.7:9009", true),
            ("[::]:9009", "[2001:db8::7]:9009", true),
        ] {
            assert_eq!(at(bound).contain(host), is_ours, "{host} at {bound}");
        }
    }

    #[test]
    fn what_could_be_made_to_point_here_is_not_ours() {
        let others = [
            "evil.example",
            "evil.example:9009",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "user@localhost",
            "127.1",
            "0x7f.0.0.1",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "localhost:",
            "a:b:9009",
            "",
        ];
        for bound in ["127.0.0.1:9009", "0.0.0.0:9009"] {
            for host in others {
                assert!(!at(bound).contain(host), "{host:?} at {bound}");
            }
        }
    }
}
