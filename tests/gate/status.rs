//! The status as JSON, and what it says besides the snapshots of the main timeline.

use portcullis::gate::DecidedBy;
use serde_json::{Value, json};

use crate::rig::{FAILED, Rig, TIMED_OUT};

/// The status, its Unix times as milliseconds since it was seen.
fn json_of(rig: &Rig) -> Value {
    let mut status = serde_json::to_value(rig.gate.status()).unwrap();
    let seen = status["seen_at_ms"].as_u64().unwrap();
    assert!(seen > 1_700_000_000_000, "Unix milliseconds");
    relative(&mut status, seen);
    status
}

fn relative(value: &mut Value, seen: u64) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| relative(field, seen)),
        Value::Array(elements) => elements.iter_mut().for_each(|element| relative(element, seen)),
        Value::Number(number) if number.as_u64().is_some_and(|number| number > 1_000_000_000_000) => {
            *value = json!(i64::try_from(number.as_u64().unwrap()).unwrap() - i64::try_from(seen).unwrap());
        }
        _ => {}
    }
}

fn without_counts(mut status: Value) -> Value {
    status.as_object_mut().unwrap().remove("counts");
    status
}

#[tokio::test(start_paused = true)]
async fn a_gate_nobody_has_used() {
    assert_eq!(
        without_counts(json_of(&Rig::new())),
        json!({
            "key": "https://matrix.example.org:443", "background_callers": true,
            "limit": 2, "active": 0, "held": 0, "held_until_ms": [],
            "waiting": 0, "waiting_by_kind": {"background": 0, "brief": 0, "long_poll": 0}, "oldest_wait_ms": null,
            "breaker": {
                "state": "closed", "opened_at_ms": null, "period_ends_at_ms": null, "next_probe_at_ms": null,
                "reopened": 0
            },
            "next_admission": {"at_ms": 0, "decided_by": "slot"},
            "seen_at_ms": 0,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn an_open_gate_with_a_hold_and_two_kinds_of_waiters() {
    let rig = Rig::starting_at(1);
    rig.admitted().await.finish(TIMED_OUT);
    rig.at(10).await;
    let _poll = rig.poller("poll").await;
    rig.at(20).await;
    let _waiter = rig.waiter("w").await;
    rig.at(30).await;
    assert_eq!(
        without_counts(json_of(&rig)),
        json!({
            "key": "https://matrix.example.org:443", "background_callers": true,
            "limit": 0, "active": 0, "held": 1, "held_until_ms": [870_000],
            "waiting": 2, "waiting_by_kind": {"background": 1, "brief": 0, "long_poll": 1}, "oldest_wait_ms": 20_000,
            "breaker": {
                "state": "open", "opened_at_ms": -30_000, "period_ends_at_ms": 30_000, "next_probe_at_ms": 870_000,
                "reopened": 0
            },
            "next_admission": {"at_ms": 870_000, "decided_by": "hold"},
            "seen_at_ms": 0,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_words_for_the_states_and_for_what_decides() {
    let rig = Rig::open().await;
    let words = |status: &Value| (status["breaker"]["state"].clone(), status["next_admission"]["decided_by"].clone());
    assert_eq!(words(&json_of(&rig)), (json!("open"), json!("cooldown")));
    rig.at(60).await;
    assert_eq!(words(&json_of(&rig)), (json!("open"), json!("probe")));
    let _probe = rig.admitted().await;
    assert_eq!(words(&json_of(&rig)), (json!("probing"), json!("probe")));
}

#[tokio::test(start_paused = true)]
async fn enough_holds_decide_even_while_a_call_is_out_and_too_few_do_not() {
    let rig = Rig::starting_at(4);
    let mut out = Vec::new();
    for _ in 0..4 {
        out.push(rig.admitted().await);
    }
    out.pop().unwrap().finish(TIMED_OUT);
    assert_eq!(rig.look().next, (None, DecidedBy::Slot), "three are out at a limit of two");
    rig.at(1).await;
    out.pop().unwrap().finish(TIMED_OUT);
    rig.at(2).await;
    out.pop().unwrap().finish(TIMED_OUT);
    assert_eq!(rig.slots(), (2, 1, 3));
    assert_eq!(rig.look().next, (Some(902_000), DecidedBy::Hold), "the third end makes room, at the latest");
}

#[tokio::test(start_paused = true)]
async fn the_counts_count() {
    let rig = Rig::starting_at(1);
    rig.polling().await.finish(portcullis::Outcome::Refused);
    drop(rig.admitted().await);
    rig.gate.interactive().report(TIMED_OUT);
    rig.admitted().await.finish(FAILED);
    assert!(rig.gate.acquire_within(crate::rig::secs(10)).await.is_none());
    rig.at(60).await;
    rig.admitted().await.finish(TIMED_OUT);
    rig.at(1_000).await;
    rig.admitted().await.finish(crate::rig::FAST);
    let counts = serde_json::to_value(rig.gate.status().counts).unwrap();
    assert_eq!(
        counts,
        json!({
            "admitted": 4, "polls": 1, "probes": 2, "interactive": 1, "counted": 3, "timed_out": 2, "overloaded": 1,
            "dropped": 1, "held": 1, "opened": 1, "reopened": 1, "closed": 1, "gave_up": 1
        })
    );
}
