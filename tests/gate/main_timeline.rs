//! Everything times out at 30 s, three callers for ever: nine hours, admission by admission.

use portcullis::gate::{BreakerState, DecidedBy};

use crate::rig::{Admission, Look, Rig, TIMED_OUT, hms};

const NINE_HOURS: u64 = hms(9, 0, 0);

/// Every admission in nine hours; all from the fourth on are probes.
const ADMISSIONS: [u64; 22] = [
    0,
    0,
    hms(0, 15, 30),
    hms(0, 31, 0),
    hms(0, 46, 30),
    hms(1, 2, 0),
    hms(1, 17, 30),
    hms(1, 34, 0),
    hms(2, 4, 30),
    hms(2, 35, 0),
    hms(3, 5, 30),
    hms(3, 36, 0),
    hms(4, 6, 30),
    hms(4, 37, 0),
    hms(5, 7, 30),
    hms(5, 38, 0),
    hms(6, 8, 30),
    hms(6, 39, 0),
    hms(7, 9, 30),
    hms(7, 40, 0),
    hms(8, 10, 30),
    hms(8, 41, 0),
];

/// Starts a, b and c; each for ever acquires, times out after 30 s, acquires again.
fn three_callers() -> Rig {
    let rig = Rig::new();
    for caller in ["a", "b", "c"] {
        rig.caller_for_ever(caller, |_| (30_000, TIMED_OUT));
    }
    rig
}

#[tokio::test(start_paused = true)]
async fn nine_hours_see_these_twenty_two_admissions() {
    let rig = three_callers();
    rig.at_ms(NINE_HOURS).await;
    assert_eq!(rig.admission_times(), ADMISSIONS);
    let probes: Vec<bool> = rig.admissions().iter().map(|admission| admission.probe).collect();
    assert_eq!(probes, (0..22).map(|index| index >= 3).collect::<Vec<_>>());
    let look = rig.look();
    assert_eq!((look.reopened, look.opened_at, look.next_probe), (19, Some(hms(8, 41, 30)), Some(hms(9, 11, 30))));
    rig.at_ms(hms(9, 11, 30)).await;
    assert_eq!(rig.admission_times().last(), Some(&hms(9, 11, 30)));
}

#[tokio::test(start_paused = true)]
async fn after_the_kth_probe_the_breaker_has_reopened_k_times() {
    let rig = three_callers();
    for (index, probe_at) in ADMISSIONS[3..].iter().enumerate() {
        rig.at_ms(probe_at + 30_000).await;
        let look = rig.look();
        let k = u32::try_from(index + 1).unwrap();
        assert_eq!((look.state, look.reopened), (BreakerState::Open, k), "after the probe at {probe_at} ms");
        let period = hms(0, 1, 0) << k;
        assert_eq!(look.period_ends, Some(probe_at + 30_000 + period.min(hms(0, 30, 0))));
    }
}

#[tokio::test(start_paused = true)]
async fn callers_are_served_in_the_order_they_came_and_wait_this_long() {
    let rig = three_callers();
    rig.at_ms(NINE_HOURS).await;
    let found = rig.admissions();
    let order: String = found.iter().map(|admission| admission.caller).collect();
    assert_eq!(order, "abcabcabcabcabcabcabca");
    let waits = [
        0,
        0,
        hms(0, 15, 30),
        hms(0, 30, 30),
        hms(0, 46, 0),
        hms(0, 46, 0),
        hms(0, 46, 0),
        hms(0, 47, 0),
        hms(1, 2, 0),
        hms(1, 17, 0),
    ];
    let found_waits: Vec<u64> = found.iter().take(waits.len()).map(|admission| admission.waited_ms).collect();
    assert_eq!(found_waits, waits);
    assert_eq!(found[2], Admission { caller: "c", at_ms: hms(0, 15, 30), waited_ms: hms(0, 15, 30), probe: false });
}

#[tokio::test(start_paused = true)]
async fn the_status_says_at_each_moment_what_is_waited_for_and_until_when() {
    let rig = three_callers();
    let closed = |slots, next, waiting, oldest_wait, held_until| Look {
        state: BreakerState::Closed,
        slots,
        opened_at: None,
        reopened: 0,
        period_ends: None,
        next_probe: None,
        next,
        waiting,
        oldest_wait: Some(oldest_wait),
        held_until,
    };
    let open = |held_until: Vec<u64>, opened_at, reopened, period_ends, next, oldest_wait| Look {
        state: BreakerState::Open,
        slots: (0, 0, held_until.len()),
        opened_at: Some(opened_at),
        reopened,
        period_ends: Some(period_ends),
        next_probe: Some(next),
        next: (Some(next), if next == period_ends { DecidedBy::Cooldown } else { DecidedBy::Hold }),
        waiting: 3,
        oldest_wait: Some(oldest_wait),
        held_until,
    };
    let snapshots = [
        (hms(0, 0, 10), closed((2, 2, 0), (None, DecidedBy::Slot), 1, 10_000, vec![])),
        (
            hms(0, 10, 0),
            closed((1, 0, 2), (Some(hms(0, 15, 30)), DecidedBy::Hold), 3, hms(0, 10, 0), vec![hms(0, 15, 30); 2]),
        ),
        (hms(0, 15, 40), closed((1, 1, 0), (None, DecidedBy::Slot), 2, hms(0, 15, 10), vec![])),
        (hms(0, 20, 0), open(vec![hms(0, 31, 0)], hms(0, 16, 0), 0, hms(0, 17, 0), hms(0, 31, 0), hms(0, 19, 30))),
        (
            hms(0, 31, 10),
            Look {
                state: BreakerState::Probing,
                slots: (0, 1, 0),
                opened_at: Some(hms(0, 16, 0)),
                reopened: 0,
                period_ends: None,
                next_probe: None,
                next: (None, DecidedBy::Probe),
                waiting: 2,
                oldest_wait: Some(hms(0, 30, 40)),
                held_until: vec![],
            },
        ),
        (hms(1, 20, 0), open(vec![hms(1, 33, 0)], hms(1, 18, 0), 4, hms(1, 34, 0), hms(1, 34, 0), hms(0, 33, 0))),
        (hms(1, 33, 30), open(vec![], hms(1, 18, 0), 4, hms(1, 34, 0), hms(1, 34, 0), hms(0, 46, 30))),
        (hms(2, 10, 0), open(vec![hms(2, 20, 0)], hms(2, 5, 0), 6, hms(2, 35, 0), hms(2, 35, 0), hms(0, 52, 0))),
    ];
    for (at, expected) in snapshots {
        rig.at_ms(at).await;
        assert_eq!(rig.look(), expected, "at {at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_is_shut_by_its_holds_before_the_breaker_ever_opens() {
    let rig = three_callers();
    rig.at(30).await;
    assert_eq!((rig.slots(), rig.breaker()), ((1, 0, 2), (BreakerState::Closed, 0)));
    rig.at_ms(hms(0, 15, 30) - 1).await;
    assert_eq!((rig.slots(), rig.admissions().len()), ((1, 0, 2), 2));
    rig.at_ms(hms(0, 15, 30)).await;
    assert_eq!((rig.slots(), rig.admissions().len()), ((1, 1, 0), 3));
    rig.at_ms(hms(0, 16, 0)).await;
    assert_eq!((rig.slots(), rig.breaker()), ((0, 0, 1), (BreakerState::Open, 0)));
}
