//! What a load gate hears of lookups, and what it does not.

use super::*;
use crate::gate::{GateKey, GateRegistry, HomeserverGate};
use crate::limits::{GROW_AFTER, INITIAL_LIMIT, MAX_LIMIT};
use crate::outcome::Outcome;
use crate::proxy::watch::lines::Lines;

const THEM: &str = "https://them.example:8448";

/// A registry with the gate of `them.example`.
fn with_gate() -> (GateRegistry, HomeserverGate) {
    let gates = GateRegistry::default();
    let gate = gates.gate(&GateKey::from_base_url(THEM).unwrap()).unwrap();
    (gates, gate)
}

fn telling(gates: &GateRegistry, remote: &FakeRemote) -> Portcullis {
    builder(16, remote).gates(gates.clone()).build().unwrap()
}

fn signed_in(mut request: Request<Bytes>, token: &str) -> Request<Bytes> {
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    request
}

fn list() -> Request<Bytes> {
    list_of("them.example")
}

#[tokio::test(start_paused = true)]
async fn an_account_s_lookup_halves_the_limit_and_a_stranger_s_does_not() {
    let filter = post(&format!("{LIST}?server=them.example"), r#"{"filter":{"generic_search_term":"tea"}}"#);
    for (request, limit) in [
        (signed_in(list(), "good"), 1),
        (signed_in(alias("%23a:them.example"), "good"), 1),
        (signed_in(list_of("THEM.example:8448"), "good"), 1),
        (filter, 1),
        (list(), INITIAL_LIMIT),
        (alias("%23a:them.example"), INITIAL_LIMIT),
        (signed_in(list(), "bad"), INITIAL_LIMIT),
        (signed_in(list_of("them.example:8449"), "good"), INITIAL_LIMIT),
        (signed_in(list_of("other.example"), "good"), INITIAL_LIMIT),
    ] {
        let (gates, gate) = with_gate();
        let portcullis = telling(&gates, &FakeRemote::saying(503, "{}"));
        assert_eq!(ask(&portcullis, 1, &request).await.status, 502);
        assert_eq!((gate.status().limit, gates.len()), (limit, 1), "{request:?}");
        assert_at_rest(&portcullis);
    }
}

#[tokio::test(start_paused = true)]
async fn only_load_halves() {
    let say = |status, body: &str| Does::Say(status, body.to_owned());
    for (does, limit) in [
        (say(500, ""), 1),
        (say(503, ""), 1),
        (say(429, ""), 1),
        (Does::StaySilent, 1),
        (Does::Fail, 1),
        (say(200, NO_ROOMS), INITIAL_LIMIT),
        (say(200, "not JSON"), INITIAL_LIMIT),
        (say(403, ""), INITIAL_LIMIT),
        (say(404, ""), INITIAL_LIMIT),
        (Does::SayAfter(9 * SECOND, 200, NO_ROOMS.to_owned()), INITIAL_LIMIT),
    ] {
        let (gates, gate) = with_gate();
        let remote = FakeRemote::new({
            let does = does.clone();
            move |_| does.clone()
        });
        ask(&telling(&gates, &remote), 1, &signed_in(list(), "good")).await;
        assert_eq!(gate.status().limit, limit, "{does:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_lookup_makes_a_gate_and_what_nobody_heard_is_counted() {
    let gates = GateRegistry::default();
    let portcullis = telling(&gates, &FakeRemote::saying(503, "{}"));
    for (request, unheard) in [(signed_in(list(), "good"), 1), (list(), 1), (signed_in(list(), "good"), 2)] {
        assert_eq!(ask(&portcullis, 1, &request).await.status, 502);
        assert_eq!((gates.len(), gates.unheard_reports()), (0, unheard));
    }
    assert_eq!(portcullis.status().homeservers, []);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_heard_is_no_line_beside_that_of_the_lookup() {
    let (lines, _logging) = Lines::of_this_thread(tracing::Level::DEBUG);
    let gates = GateRegistry::default();
    ask(&telling(&gates, &FakeRemote::saying(503, "{}")), 1, &signed_in(list(), "good")).await;
    let targets: Vec<_> = lines.read().into_iter().map(|line| line["target"].clone()).collect();
    assert_eq!((targets, gates.unheard_reports()), (vec!["portcullis::proxy".into()], 1));
}

#[tokio::test(start_paused = true)]
async fn of_those_who_share_a_call_the_one_who_asks_reports() {
    for (tokens, unheard) in [(["good", "bad", "good"], 1), (["bad", "good", "good"], 0)] {
        let gates = GateRegistry::default();
        let remote = FakeRemote::new(|_| Does::SayAfter(SECOND, 503, String::new()));
        let portcullis = telling(&gates, &remote);
        let mut calls = Vec::new();
        for (peer, token) in (1..).zip(tokens) {
            calls.push(tokio::spawn(portcullis.handle(&Home, address(peer), &signed_in(list(), token))));
            tokio::task::yield_now().await;
        }
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().status(), 502);
        }
        assert_eq!((remote.opened(), gates.unheard_reports()), (1, unheard), "{tokens:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_left_says_nothing() {
    let (gates, gate) = with_gate();
    let portcullis = telling(&gates, &FakeRemote::new(|_| Does::StaySilent));
    for request in [list(), list_of("other.example")] {
        let call = portcullis.handle(&Home, address(1), &signed_in(request, "good"));
        assert!(tokio::time::timeout(9 * SECOND, call).await.is_err());
    }
    assert_eq!((gate.status().limit, gates.unheard_reports()), (INITIAL_LIMIT, 0));
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn lookups_that_were_out_together_halve_once() {
    let (gates, gate) = with_gate();
    while gate.status().limit < MAX_LIMIT {
        for _ in 0..GROW_AFTER {
            gate.acquire().await.finish(Outcome::FastSuccess);
        }
    }
    let remote = FakeRemote::new(|_| Does::SayAfter(SECOND, 503, String::new()));
    let portcullis = telling(&gates, &remote);
    let second = tokio::spawn({
        let later = portcullis.handle(&Home, address(2), &signed_in(alias("%23a:them.example"), "good"));
        async move {
            tokio::time::sleep(SECOND / 2).await;
            later.await
        }
    });
    ask(&portcullis, 1, &signed_in(list(), "good")).await;
    assert_eq!(gate.status().limit, MAX_LIMIT / 2);
    second.await.unwrap();
    assert_eq!((gate.status().limit, remote.opened()), (MAX_LIMIT / 2, 2), "it set out before the first was answered");
    ask(&portcullis, 1, &signed_in(list(), "good")).await;
    assert_eq!(gate.status().limit, MAX_LIMIT / 4);
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_gates() {
    let (gates, gate) = with_gate();
    let remote = FakeRemote::saying(503, "{}");
    let portcullis = telling(&gates, &remote);
    ask(&portcullis, 1, &signed_in(list(), "good")).await;
    let shown = serde_json::to_value(portcullis.status()).unwrap();
    assert_eq!(shown["homeservers"][0]["key"], THEM);
    assert_eq!(shown["homeservers"][0]["limit"], 1);
    assert_eq!(portcullis.status().homeservers.len(), 1);
    assert_eq!(gate.key().as_str(), THEM);
    let without = super::portcullis(2, &remote).status();
    assert_eq!(serde_json::to_value(without).unwrap()["homeservers"], serde_json::json!([]));
}
