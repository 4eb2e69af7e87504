//! How many connections there may be, in all and per client.

use std::net::IpAddr;

use super::limits::ListenerLimits;
use crate::admission::{ClientKey, Full, InFlightBudget, InFlightCaps, Ipv6ClientPrefix, Slot, TrustedProxies};

/// The places for connections. The same guard that counts outbound calls counts them.
#[derive(Debug)]
pub(super) struct ConnectionPlaces {
    all: InFlightBudget<()>,
    per_client: InFlightBudget<ClientKey>,
    trusted_proxies: TrustedProxies,
    ipv6_client_prefix: Ipv6ClientPrefix,
}

/// One connection's place. Dropping it gives the place back.
#[must_use = "dropping the place gives it back"]
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    _in_all: Slot<()>,
    _of_client: Option<Slot<ClientKey>>,
}

impl ConnectionPlaces {
    pub(super) fn new(limits: &ListenerLimits) -> Self {
        Self {
            all: InFlightBudget::new(InFlightCaps { global: limits.max_connections, per_key: limits.max_connections }),
            // One more than there are, so that a client's own cap is what it says whenever that is reached.
            per_client: InFlightBudget::new(InFlightCaps {
                global: limits.max_connections.saturating_add(1),
                per_key: limits.max_connections_per_client,
            }),
            trusted_proxies: limits.trusted_proxies.clone(),
            ipv6_client_prefix: limits.ipv6_client_prefix,
        }
    }

    /// A place for a connection from `peer`. A listed proxy is bound by the cap of all alone.
    ///
    /// *Errors:* [`Full`]; the client's own cap is looked at first.
    pub(super) fn take(&self, peer: IpAddr) -> Result<ConnectionPlace, Full> {
        let of_client = if self.trusted_proxies.contains(peer) {
            None
        } else {
            let client = ClientKey::vouched(peer, self.ipv6_client_prefix);
            Some(self.per_client.try_acquire(&client)?)
        };
        Ok(ConnectionPlace { _in_all: self.all.try_acquire(&()).map_err(|_| Full::Global)?, _of_client: of_client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(max: usize, per_client: usize) -> ConnectionPlaces {
        ConnectionPlaces::new(&ListenerLimits {
            max_connections: max,
            max_connections_per_client: per_client,
            trusted_proxies: TrustedProxies::new(["10.0.0.1/32".parse().unwrap()]),
            ..ListenerLimits::default()
        })
    }

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn t01_a_third_connection_of_one_client_is_refused_and_closing_one_frees_it() {
        let places = places(8, 2);
        let first = places.take(peer("192.0.2.1")).unwrap();
        let _second = places.take(peer("::ffff:192.0.2.1")).unwrap();
        assert_eq!(places.take(peer("192.0.2.1")).unwrap_err(), Full::Key);
        assert!(places.take(peer("192.0.2.2")).is_ok());
        drop(first);
        assert!(places.take(peer("192.0.2.1")).is_ok());
        assert_eq!(places.per_client.tracked_keys(), 1);
    }

    #[test]
    fn a_client_at_its_own_cap_is_told_so_also_when_all_places_are_taken() {
        let places = places(2, 1);
        let _held = (places.take(peer("192.0.2.1")).unwrap(), places.take(peer("192.0.2.2")).unwrap());
        assert_eq!(places.take(peer("192.0.2.1")).unwrap_err(), Full::Key);
        assert_eq!(places.take(peer("192.0.2.3")).unwrap_err(), Full::Global);
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let places = places(8, 1);
        let _held = places.take(peer("2001:db8:1:2::1")).unwrap();
        assert!(places.take(peer("2001:db8:1:2:ffff::1")).is_err());
        assert!(places.take(peer("2001:db8:1:3::1")).is_ok());
    }

    #[test]
    fn t03_a_listed_proxy_is_bound_by_the_cap_of_all_alone() {
        let places = places(3, 1);
        let held: Vec<_> = (0..3).map(|_| places.take(peer("10.0.0.1")).unwrap()).collect();
        assert_eq!(places.take(peer("10.0.0.1")).unwrap_err(), Full::Global);
        assert_eq!(places.take(peer("192.0.2.1")).unwrap_err(), Full::Global);
        assert_eq!(places.per_client.tracked_keys(), 0, "a refusal leaves nothing behind");
        drop(held);
        assert_eq!(places.all.in_flight(), 0);
    }
}
