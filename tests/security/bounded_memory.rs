//! Memory that grows with every stranger.
//!
//! *Attack:* come from a million addresses, and ask for a million names that do not exist; whatever is remembered of each
//! adds up. *Control:* the budget remembers whoever holds a slot and nobody else (`src/admission/budget.rs`); every cache has
//! a most number of entries (`limits::WELL_KNOWN_CACHE_ENTRIES`, `limits::DNS_CACHE_ENTRIES`,
//! `limits::DNS_SRV_CACHE_ENTRIES` in `src/limits.rs`, kept by `Places` in `src/outbound/single_flight.rs`); and a failed
//! lookup is not remembered (`src/proxy/remembered.rs`). *Unplug:* make `Places` a hundred times as large: the full
//! caches go on growing. Return at once from `Slot::drop`: the budget keeps its clients, and is full.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use portcullis::outbound::HickoryResolver;
use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy, Ipv6ClientPrefix, OutboundRoute};

use crate::rig::{
    Does, NameServer, Names, OWN_NAME, Outside, allowing, ask, in_a_process_of_its_own, list_of, portcullis,
    portcullis_of_eight,
};

const MILLION: u32 = 1_000_000;
const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_clients_with_a_million_names_cost_the_budget_nothing() {
    in_a_process_of_its_own("bounded_memory::puts_a_million_to_the_budget", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_do_not_exist_cost_the_caches_a_bounded_part_of_memory() {
    in_a_process_of_its_own("bounded_memory::asks_for_junk", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_the_dns_denies_cost_all_caches_together_a_bounded_part_of_memory() {
    in_a_process_of_its_own("bounded_memory::asks_the_dns_for_junk", &[]).await;
}

#[test]
#[ignore = "run by a_million_clients_with_a_million_names_cost_the_budget_nothing, where nobody else takes memory"]
fn puts_a_million_to_the_budget() {
    let door = Admission::new(OWN_NAME.parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    let put = |range: std::ops::Range<u32>| {
        for n in range {
            let route = OutboundRoute::PublicRooms { server: format!("h{n}.example").parse().unwrap() };
            let pass = door.admit(&stranger(n), route.clone()).unwrap();
            assert!(door.admit(&stranger(n), route).is_err());
            drop(pass);
        }
    };
    put(0..1_000);
    let before = resident_bytes();
    put(1_000..MILLION);
    assert_grown_by_at_most(MIB, before);
    assert_eq!(door.budget().tracked_keys(), 0);
}

#[tokio::test]
#[ignore = "run by names_that_do_not_exist_cost_the_caches_a_bounded_part_of_memory"]
async fn asks_for_junk() {
    let portcullis = portcullis_of_eight(&Names::none(), &Outside::that(Does::Refuses));
    let junk = async |range: std::ops::Range<usize>| {
        for n in range {
            assert_eq!(ask(&portcullis, 1, &list_of(&format!("h{n}.junk.example"), 1)).await.0, 502);
        }
    };
    grows_until_the_caches_are_full(junk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by names_that_the_dns_denies_cost_all_caches_together_a_bounded_part_of_memory"]
async fn asks_the_dns_for_junk() {
    let dns = NameServer::answering(|_| None).await;
    let resolver = Arc::new(HickoryResolver::with_name_servers(&[dns.address]).unwrap());
    let portcullis = portcullis(8, resolver, Outside::that(Does::Refuses), allowing(&[])).build().unwrap();
    // No port, so that each name goes through the whole of discovery: well-known, SRV and addresses.
    let junk = async |range: std::ops::Range<usize>| {
        for n in range {
            assert_eq!(ask(&portcullis, 1, &list_of(&format!("h{n}.junk.example"), 1)).await.0, 502);
        }
    };
    grows_until_the_caches_are_full(junk).await;
}

async fn grows_until_the_caches_are_full(junk: impl AsyncFn(std::ops::Range<usize>)) {
    junk(0..100).await;
    let before = resident_bytes();
    junk(100..FULL).await;
    assert_grown_by_at_most(8 * MIB, before);
    let full = resident_bytes();
    junk(FULL..FULL + MORE).await;
    assert_grown_by_at_most(MIB, full);
}

/// As many names as the caches hold, and some more.
const FULL: usize = 5_000;
/// As many again as tell a full cache from one that grows.
const MORE: usize = 3_000;

/// The `n`th client: every one in a /64 of its own.
fn stranger(n: u32) -> ClientKey {
    let address = Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | (u128::from(n) << 64) | 1);
    ClientKey::vouched(IpAddr::V6(address), Ipv6ClientPrefix::default())
}

pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

pub(crate) fn assert_grown_by_at_most(bytes: u64, since: u64) {
    let grown = resident_bytes().saturating_sub(since);
    println!("grown by {} KiB", grown / 1024);
    assert!(grown <= bytes, "grown by {grown} bytes, {bytes} are allowed");
}
