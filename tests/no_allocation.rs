//! A flood of refusals costs no memory: not one allocation in a million, over a million distinct clients.

use std::net::{IpAddr, Ipv6Addr};

use portcullis::{ClientKey, Full, InFlightBudget, Ipv6ClientPrefix};

const FLOOD: u32 = 1_000_000;

/// The `n`th client: every one in a /64 of its own.
fn client(n: u32) -> ClientKey {
    let address = Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | (u128::from(n) << 64) | 1);
    ClientKey::vouched(IpAddr::V6(address), Ipv6ClientPrefix::default())
}

#[test]
fn a_million_refusals_at_the_global_cap_allocate_nothing() {
    let budget = InFlightBudget::new(4, 1);
    let _held: Vec<_> = (0..4).map(|n| budget.try_acquire(&client(FLOOD + n)).unwrap()).collect();
    let spent = allocation_counter::measure(|| {
        for n in 0..FLOOD {
            assert_eq!(budget.try_acquire(&client(n)).err(), Some(Full::Global));
        }
    });
    assert_eq!((spent.count_total, spent.bytes_total), (0, 0));
}

#[test]
fn a_million_refusals_by_key_and_a_million_admissions_allocate_nothing() {
    let budget = InFlightBudget::new(4, 1);
    let spent = allocation_counter::measure(|| {
        for n in 0..FLOOD {
            let slot = budget.try_acquire(&client(n));
            assert!(slot.is_ok());
            assert_eq!(budget.try_acquire(&client(n)).err(), Some(Full::Key));
        }
    });
    assert_eq!((spent.count_total, spent.bytes_total), (0, 0));
}

#[test]
fn the_counter_counts() {
    let spent = allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 64])));
    assert_eq!(spent.count_total, 1);
}
