//! The private network's own controls: its traps are live, so that a case which steps into none of them says something.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use serde_json::json;

use crate::world::dns::Zone;
use crate::world::namespace::{ASTRAY, ONLY_IN_HOSTS};
use crate::world::{Plan, World};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("the_machine_s_own_hosts_file_and_search_list_lead_astray_whoever_reads_them", hosts_and_search),
    ("the_wire_shows_every_dial_whether_answered_refused_or_lost", every_dial),
];

const PORT: u16 = 8448;

fn resolved_by_the_machine(name: &str) -> Vec<IpAddr> {
    let mut addresses: Vec<_> = (name, PORT).to_socket_addrs().unwrap().map(|address| address.ip()).collect();
    addresses.dedup();
    addresses
}

fn hosts_and_search() {
    let zone = Zone::of([(&"vault.corp.example A".to_owned(), &json!(["10.0.0.9"]))]);
    let _world = World::start(Plan { zone, ..Plan::default() });
    let (name, address) = ONLY_IN_HOSTS;
    assert_eq!(resolved_by_the_machine(name), [IpAddr::from(address)]);
    assert_eq!(resolved_by_the_machine("alpha.example"), [IpAddr::from(ASTRAY)]);
    assert_eq!(resolved_by_the_machine("vault"), [IpAddr::from([10, 0, 0, 9])]);
}

fn every_dial() {
    let [answered, lost, refused, refused_v6] =
        ["44.128.10.1:8448", "44.128.10.2:8448", "10.66.0.1:80", "[2a0e:fade:10::9]:443"]
            .map(|place| place.parse::<SocketAddr>().unwrap());
    let mut world = World::start(Plan { places: vec![answered], black_holes: vec![lost], ..Plan::default() });
    let dial = |place| TcpStream::connect_timeout(&place, Duration::from_millis(100)).is_ok();
    assert_eq!([answered, lost, refused, refused_v6].map(dial), [true, false, false, false]);
    assert_eq!(world.dialled(), [answered, lost, refused, refused_v6]);
    let stranger: SocketAddr = "8.8.8.8:53".parse().unwrap();
    UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"?", stranger).unwrap();
    assert_eq!(world.wire.strays(), [stranger]);
}
