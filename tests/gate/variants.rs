//! Variants of the main timeline: staggered callers, two instances, a server that gets well, and the hard bound.

use std::collections::VecDeque;
use std::time::Duration;

use portcullis::gate::{BreakerState, Happened};
use portcullis::{Outcome, Overload, Took};
use tokio::task::JoinHandle;

use crate::rig::{FAST, Rig, TIMED_OUT, hms, secs};

#[tokio::test(start_paused = true)]
async fn a_second_caller_ten_seconds_later_shifts_everything_by_ten_seconds() {
    let rig = Rig::new();
    rig.caller_for_ever("a", |_| (30_000, TIMED_OUT));
    rig.at(10).await;
    rig.caller_for_ever("b", |_| (30_000, TIMED_OUT));
    rig.at_ms(hms(0, 15, 30)).await;
    assert_eq!(rig.slots(), (1, 0, 1), "one hold is over, and one slot in use is not fewer than one");
    rig.at_ms(hms(0, 16, 10)).await;
    assert_eq!(rig.look().opened_at, Some(hms(0, 16, 10)));
    rig.at_ms(hms(2, 5, 0)).await;
    let expected = [
        0,
        10_000,
        hms(0, 15, 40),
        hms(0, 31, 10),
        hms(0, 46, 40),
        hms(1, 2, 10),
        hms(1, 17, 40),
        hms(1, 34, 10),
        hms(2, 4, 40),
    ];
    assert_eq!(rig.admission_times(), expected);
}

#[tokio::test(start_paused = true)]
async fn two_instances_in_phase_send_forty_four_calls_in_nine_hours() {
    let instances = [Rig::new(), Rig::new()];
    for rig in &instances {
        for caller in ["a", "b"] {
            rig.caller_for_ever(caller, |_| (30_000, TIMED_OUT));
        }
    }
    instances[0].at_ms(hms(9, 0, 0)).await;
    let times: Vec<u64> = instances.iter().flat_map(Rig::admission_times).collect();
    assert_eq!(times.len(), 44);
    assert_eq!(instances[0].admission_times(), instances[1].admission_times());
    let quarter = hms(0, 15, 0);
    for from in (quarter..hms(9, 0, 0)).step_by(1000) {
        let calls = times.iter().filter(|at| (from..from + quarter).contains(*at)).count();
        assert!(calls <= 2, "{calls} calls in the quarter hour from {from} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_gets_well_is_noticed_by_the_next_probe_and_the_limit_climbs() {
    let rig = Rig::new();
    for caller in ["a", "b", "c", "d", "e"] {
        rig.caller_for_ever(caller, |at| if at < hms(2, 10, 0) { (30_000, TIMED_OUT) } else { (840, FAST) });
    }
    rig.at_ms(hms(2, 5, 0)).await;
    assert_eq!(rig.breaker(), (BreakerState::Open, 6), "the probe of 2:04:30 still timed out");
    rig.at_ms(hms(2, 35, 0)).await;
    assert_eq!(rig.breaker(), (BreakerState::Probing, 6));
    for (at, limit) in
        [(hms(2, 35, 0) + 840, 1), (hms(2, 35, 9) + 240, 2), (hms(2, 35, 13) + 440, 3), (hms(2, 35, 16) + 800, 4)]
    {
        rig.at_ms(at - 1).await;
        assert_eq!(rig.limit(), limit - 1, "just before {at} ms");
        rig.at_ms(at).await;
        assert_eq!((rig.limit(), rig.breaker()), (limit, (BreakerState::Closed, 0)), "at {at} ms");
    }
}

/// Three hundred random runs of six hours: whatever the outcomes, four slots at most are in use, so in any fifteen minutes
/// four gated calls at most time out.
#[tokio::test(start_paused = true)]
async fn no_outcomes_bring_more_than_four_timeouts_in_a_quarter_of_an_hour() {
    for seed in 0..300_u64 {
        // How bad this run's server is, out of ten.
        let badness = mixed(seed) % 11;
        let rig = Rig::new();
        let mut tasks = Vec::new();
        for (index, caller) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
            let salt = mixed(seed ^ (u64::try_from(index).unwrap() << 40));
            tasks.push(rig.caller_for_ever(caller, move |at| chance(salt ^ at, badness)));
        }
        let mut timeouts = VecDeque::new();
        let mut events = rig.gate.events();
        while rig.now_ms() < hms(6, 0, 0) {
            tokio::time::sleep(secs(60)).await;
            let (_, active, held) = rig.slots();
            assert!(active + held <= 4, "seed {seed}: {active} active and {held} held");
            while let Some(event) = events.try_next() {
                if let Happened::Held { .. } = event.what {
                    timeouts.push_back(event.at);
                    if timeouts.len() > 4 {
                        let fifth_last = timeouts.pop_front().unwrap();
                        assert!(event.at >= fifth_last + secs(900), "seed {seed}");
                    }
                }
            }
        }
        tasks.iter().for_each(JoinHandle::abort);
    }
}

fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16
}

/// What a call that starts at this moment comes to: the moment is all the chance there is.
fn chance(moment: u64, badness: u64) -> (u64, Outcome) {
    let mixed = mixed(moment);
    if mixed % 10 >= badness {
        let takes_ms = 5_000 + mixed / 10 % 15_000;
        return (takes_ms, Outcome::success(Took { elapsed: Duration::from_millis(takes_ms), timeout: secs(30) }));
    }
    match mixed / 10 % 3 {
        0 | 1 => (30_000, TIMED_OUT),
        _ => (1_000, Outcome::Overloaded(Overload::ServerError)),
    }
}
