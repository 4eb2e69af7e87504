//! A private world for tests: a network namespace in which every address exists, the only name server there is, and TLS
//! servers on the real ports of whoever a test needs. Our side runs in it as it is, with nothing injected.
//!
//! ```text
//!  cargo test ─► main ─► namespace::enter ─► unshare -rnm this binary ─► main, inside ─► World, one per test
//!                                                                           │
//!       Us: HickoryResolver::from_system, HttpsTransport, Portcullis        │  FakeDns  127.0.0.1:53, UDP and TCP
//!                              └──────────────── lo ────────────────────────┴─ Fakes   any address, any port
//!                                                 └── Wire: every SYN, seen as it leaves
//! ```
//!
//! A namespace has one port 53, so tests run one at a time. The binary needs `harness = false` and enters first thing.

pub(crate) mod dns;
pub(crate) mod fakes;
#[expect(dead_code, reason = "the cases send files in one shape only")]
#[path = "../support/media.rs"]
pub(crate) mod media;
pub(crate) mod namespace;
#[path = "../support/private_ca.rs"]
mod private_ca;
pub(crate) mod reply;
pub(crate) mod us;
pub(crate) mod wire;
pub(crate) mod x_matrix;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use dns::{FakeDns, Zone};
use fakes::{BlackHole, Fakes, Site};
use wire::{Dial, Wire};

/// What a world is to be.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) zone: Zone,
    pub(crate) site: Site,
    /// Where the site is served.
    pub(crate) places: Vec<SocketAddr>,
    /// Where a SYN is not answered.
    pub(crate) black_holes: Vec<SocketAddr>,
}

impl Plan {
    /// Serves the site on all these ports of all these addresses.
    pub(crate) fn serve(&mut self, addresses: &[IpAddr], ports: &[u16]) {
        for address in addresses {
            for port in ports {
                let place = SocketAddr::new(*address, *port);
                if !self.places.contains(&place) {
                    self.places.push(place);
                }
            }
        }
    }
}

/// A world of one test. Everything in it ends with it.
pub(crate) struct World {
    pub(crate) dns: FakeDns,
    pub(crate) fakes: Fakes,
    pub(crate) wire: Wire,
    runtime: Runtime,
    _black_holes: Vec<BlackHole>,
}

/// How long a closed connection may take to be seen closed at the other end.
const PATIENCE: Duration = Duration::from_secs(10);

impl World {
    pub(crate) fn start(plan: Plan) -> Self {
        let Plan { zone, site, places, black_holes } = plan;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut wire = Wire::tap();
        let places: Vec<_> = places.into_iter().filter(|place| !black_holes.contains(place)).collect();
        let (dns, fakes) = runtime.block_on(async { (FakeDns::start(zone).await, Fakes::start(site, &places).await) });
        let black_holes: Vec<_> = black_holes.into_iter().map(BlackHole::dig).collect();
        for hole in &black_holes {
            wire.ignore(hole.filler_port());
        }
        wire.clear();
        Self { dns, fakes, wire, runtime, _black_holes: black_holes }
    }

    /// Runs our side's part of the test.
    pub(crate) fn run<T>(&self, part: impl Future<Output = T>) -> T {
        self.runtime.block_on(part)
    }

    /// Starts a part of the test that goes on beside the others.
    pub(crate) fn spawn<T: Send + 'static>(&self, part: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.runtime.spawn(part)
    }

    /// Waits until no connection to a fake is open.
    pub(crate) fn wait_until_closed(&self) {
        let all_closed = async {
            while self.fakes.open() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let closed = self.run(async { tokio::time::timeout(PATIENCE, all_closed).await });
        assert!(closed.is_ok(), "{} connections stay open", self.fakes.open());
    }

    /// Every dial so far, in order.
    pub(crate) fn dials(&mut self) -> Vec<Dial> {
        self.wire.dials()
    }

    /// Where was dialled so far, in order.
    pub(crate) fn dialled(&mut self) -> Vec<SocketAddr> {
        self.dials().into_iter().map(|dial| dial.to).collect()
    }

    /// *Panics* if a connection stays open, or if anybody but the name server was sent a datagram.
    pub(crate) fn assert_at_rest(&mut self) {
        self.wait_until_closed();
        assert_eq!(self.wire.strays(), [], "datagrams to strangers");
    }
}

/// Where a dial to this address would end up: a mapped address is IPv4 to the kernel, and nowhere is here.
pub(crate) fn reached_by(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(v6) if v6.is_unspecified() => "::1".parse().unwrap(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether a server can be started there: not on a multicast, broadcast or link-local address.
pub(crate) fn can_be_served(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unicast_link_local(),
    }
}
