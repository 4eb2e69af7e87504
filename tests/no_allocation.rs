//! A flood of refusals costs no memory: not one allocation in a million, over a million distinct clients. Nor does a call
//! that a gate lets in at once.

use std::net::{IpAddr, Ipv6Addr};

use portcullis::{ClientKey, Full, InFlightBudget, InFlightCaps, Ipv6ClientPrefix};

const FLOOD: u32 = 1_000_000;

/// The `n`th client: every one in a /64 of its own.
fn client(n: u32) -> ClientKey {
    let address = Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | (u128::from(n) << 64) | 1);
    ClientKey::vouched(IpAddr::V6(address), Ipv6ClientPrefix::default())
}

#[test]
fn a_million_refusals_at_the_global_cap_allocate_nothing() {
    let budget = InFlightBudget::new(InFlightCaps { global: 4, per_key: 1 });
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
    let budget = InFlightBudget::new(InFlightCaps { global: 4, per_key: 1 });
    let spent = allocation_counter::measure(|| {
        for n in 0..FLOOD {
            let slot = budget.try_acquire(&client(n));
            assert!(slot.is_ok());
            assert_eq!(budget.try_acquire(&client(n)).err(), Some(Full::Key));
        }
    });
    assert_eq!((spent.count_total, spent.bytes_total), (0, 0));
}

#[cfg(all(feature = "gate", not(any(portcullis_loom, portcullis_shuttle))))]
#[test]
fn a_hundred_thousand_calls_that_a_gate_lets_in_at_once_allocate_nothing() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use portcullis::Outcome;
    use portcullis::gate::{GateKey, HomeserverGate};

    let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org").unwrap());
    let mut context = Context::from_waker(Waker::noop());
    let spent = allocation_counter::measure(|| {
        for round in 0..100_000 {
            let Poll::Ready(permit) = pin!(gate.acquire()).poll(&mut context) else { panic!("a slot is free") };
            permit.finish(if round % 2 == 0 { Outcome::FastSuccess } else { Outcome::Refused });
            drop(gate.interactive());
            let Poll::Ready(turn) = pin!(gate.poll_turn()).poll(&mut context) else { panic!("the breaker is closed") };
            turn.finish(Outcome::SlowSuccess);
        }
    });
    assert_eq!((spent.count_total, spent.bytes_total), (0, 0));
}

#[test]
fn the_counter_counts() {
    let spent = allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 64])));
    assert_eq!(spent.count_total, 1);
}
