//! A million distinct names put to the caches directly: memory grows by what a full cache weighs, and no more.

use std::process::Command;

use super::dns_cache::{DnsCache, Looked};
use super::resolver::DnsError;
use super::single_flight::Places;
use crate::deadline::OutboundDeadline;
use crate::limits::{DNS_CACHE_ENTRIES, DNS_SRV_CACHE_ENTRIES, MEDIA_DEADLINE, WELL_KNOWN_CACHE_ENTRIES};
use crate::server_name::DnsName;
use std::net::IpAddr;
use tokio::time::Instant;

const MILLION: u32 = 1_000_000;
const ALLOWED_BYTES: u64 = 8 << 20;

fn name(n: u32) -> DnsName {
    format!("h{n}.junk.example").parse().unwrap()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_million_names_cost_the_caches_no_more_than_a_full_cache() {
    let test = "outbound::flood_tests::puts_a_million_names_to_the_caches";
    let child = Command::new(std::env::current_exe().unwrap()).args(["--ignored", "--exact", test]).output().unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by a_million_names_cost_the_caches_no_more_than_a_full_cache, where nobody else takes memory"]
async fn puts_a_million_names_to_the_caches() {
    // What is kept per host is of the size of a delegation; per question, of a denial.
    let hosts: Places<DnsName, [u8; 128]> = Places::new(WELL_KNOWN_CACHE_ENTRIES);
    let addresses: DnsCache<DnsName, IpAddr> = DnsCache::new(DNS_CACHE_ENTRIES);
    let services: DnsCache<DnsName, IpAddr> = DnsCache::new(DNS_SRV_CACHE_ENTRIES);
    let flood = async |names: std::ops::Range<u32>| {
        for n in names {
            let name = name(n);
            hosts.place(&name).await.remember([1; 128]);
            let deadline = OutboundDeadline::after(MEDIA_DEADLINE, Instant::now());
            let denied = || async { Looked { answer: Err(DnsError::NoRecords), ttl: None } };
            assert!(addresses.answer(name.clone(), deadline, denied).await.is_err());
            assert!(services.answer(name, deadline, denied).await.is_err());
        }
    };
    flood(0..100).await;
    let before = resident_bytes();
    flood(100..MILLION).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= ALLOWED_BYTES, "grown by {grown} bytes, {ALLOWED_BYTES} are allowed");
    assert!(hosts.len().await <= WELL_KNOWN_CACHE_ENTRIES && addresses.len().await <= DNS_CACHE_ENTRIES);
}
