//! One gate per homeserver, never two, and never more than there is room for.

use portcullis::gate::{GateConstants, GateKey, GateRegistry, RegistryFull};

use crate::rig::{FAILED, FAST, TIMED_OUT, secs};

fn key(name: &str) -> GateKey {
    GateKey::from_base_url(&format!("https://{name}.example.org")).unwrap()
}

/// Room for two, and the second place is taken by a gate that stays.
fn nearly_full() -> (GateRegistry, portcullis::gate::HomeserverGate) {
    let registry = GateRegistry::new(2);
    let held = registry.gate(&key("held")).unwrap();
    (registry, held)
}

#[tokio::test(start_paused = true)]
async fn two_names_that_lead_to_one_base_url_share_a_gate_and_two_base_urls_do_not() {
    let registry = GateRegistry::new(8);
    let gate = |base_url| registry.gate(&GateKey::from_base_url(base_url).unwrap()).unwrap();
    gate("https://matrix.example.org").acquire().await.finish(FAILED);
    assert_eq!(gate("HTTPS://Matrix.example.org:443/_matrix/").status().limit, 1);
    assert_eq!(gate("http://synapse.internal:8008").status().limit, 2);
    assert_eq!(registry.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_registry_of_gates_in_use_makes_no_more() {
    let (registry, _held) = nearly_full();
    let _other = registry.gate(&key("other")).unwrap();
    assert_eq!(registry.gate(&key("third")).unwrap_err(), RegistryFull);
    assert!(registry.gate(&key("other")).is_ok(), "those it has it gives");
    assert_eq!(registry.len(), 2);
    assert_eq!(GateRegistry::new(0).gate(&key("any")).unwrap_err(), RegistryFull);
}

#[tokio::test(start_paused = true)]
async fn there_is_room_for_1024_homeservers() {
    let registry = GateRegistry::default();
    let _held: Vec<_> = (0..1_024).map(|n| registry.gate(&key(&format!("n{n}"))).unwrap()).collect();
    assert_eq!(registry.gate(&key("one-more")).unwrap_err(), RegistryFull);
}

#[tokio::test(start_paused = true)]
async fn a_gate_at_rest_that_nobody_holds_makes_room() {
    let (registry, _held) = nearly_full();
    drop(registry.gate(&key("idle")).unwrap());
    assert!(registry.gate(&key("third")).is_ok());
    assert!(registry.existing(&key("idle")).is_none());
    assert!(registry.existing(&key("held")).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_one_that_was_asked_for_least_recently_goes_first() {
    let registry = GateRegistry::new(3);
    for name in ["a", "b", "c"] {
        drop(registry.gate(&key(name)).unwrap());
    }
    drop(registry.gate(&key("a")).unwrap());
    drop(registry.gate(&key("d")).unwrap());
    assert!(registry.existing(&key("b")).is_none());
    assert!(["a", "c", "d"].iter().all(|name| registry.existing(&key(name)).is_some()));
}

#[tokio::test(start_paused = true)]
async fn whoever_has_a_permit_a_turn_a_start_or_a_place_in_line_keeps_the_gate() {
    let (registry, _held) = nearly_full();
    let full = |what: &str| assert_eq!(registry.gate(&key("third")).unwrap_err(), RegistryFull, "{what}");
    let idle = || registry.gate(&key("idle")).unwrap();
    let permit = idle().acquire().await;
    full("a permit");
    drop(permit);
    let turn = idle().poll_turn().await;
    full("a poll's turn");
    turn.finish(FAST);
    let start = idle().interactive();
    full("a start");
    start.report(FAST);
    let events = idle().events();
    full("a reader");
    drop(events);
    let gate = idle();
    let out = [gate.acquire().await, gate.acquire().await];
    let waiting = tokio::spawn(async move { gate.acquire().await });
    crate::rig::settle().await;
    drop(out);
    full("one who has just been let in");
    drop(crate::rig::ended(waiting).await);
    assert!(registry.gate(&key("third")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_remembers_trouble_is_not_forgotten() {
    let (registry, _held) = nearly_full();
    let idle = || registry.gate(&key("idle")).unwrap();
    idle().acquire().await.finish(FAILED);
    assert_eq!(registry.gate(&key("third")).unwrap_err(), RegistryFull, "its limit is below the start");
    for _ in 0..10 {
        idle().acquire().await.finish(FAST);
    }
    idle().acquire().await.finish(TIMED_OUT);
    for _ in 0..10 {
        // A hold fills the limit of one, so only another kind of call could go out; none does.
        assert_eq!(registry.gate(&key("third")).unwrap_err(), RegistryFull);
    }
    tokio::time::sleep(secs(900)).await;
    assert_eq!(registry.gate(&key("third")).unwrap_err(), RegistryFull, "its limit is one");
    for _ in 0..10 {
        idle().acquire().await.finish(FAST);
    }
    assert!(registry.gate(&key("third")).is_ok(), "its limit is two again");
}

#[tokio::test(start_paused = true)]
async fn a_hold_keeps_a_gate_until_its_very_end() {
    let constants = GateConstants { initial_limit: 1, max_limit: 4, ..GateConstants::default() };
    let registry = GateRegistry::with_dangerous_constants(1, constants);
    let gate = registry.gate(&key("idle")).unwrap();
    for _ in 0..10 {
        gate.acquire().await.finish(FAST);
    }
    gate.acquire().await.finish(TIMED_OUT);
    assert_eq!((gate.status().limit, gate.status().held), (1, 1));
    drop(gate);
    tokio::time::sleep(std::time::Duration::from_millis(899_999)).await;
    assert_eq!(registry.gate(&key("other")).unwrap_err(), RegistryFull);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(registry.gate(&key("other")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_is_not_forgotten() {
    let registry =
        GateRegistry::with_dangerous_constants(1, GateConstants { initial_limit: 1, ..GateConstants::default() });
    registry.gate(&key("idle")).unwrap().acquire().await.finish(FAILED);
    tokio::time::sleep(secs(86_400)).await;
    assert_eq!(registry.gate(&key("other")).unwrap_err(), RegistryFull);
}

#[tokio::test(start_paused = true)]
async fn the_sums_do_not_go_down_when_a_gate_is_forgotten() {
    let registry = GateRegistry::new(1);
    registry.gate(&key("a")).unwrap().acquire().await.finish(FAST);
    registry.gate(&key("b")).unwrap().acquire().await.finish(FAST);
    assert_eq!((registry.len(), registry.counts().admitted, registry.counts().counted), (1, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn the_status_lists_every_gate_by_key() {
    let registry = GateRegistry::new(8);
    for name in ["b", "c", "a"] {
        drop(registry.gate(&key(name)).unwrap());
    }
    let keys: Vec<_> = registry.status().into_iter().map(|status| status.key.to_string()).collect();
    assert_eq!(keys, ["https://a.example.org:443", "https://b.example.org:443", "https://c.example.org:443"]);
}

#[tokio::test(start_paused = true)]
async fn many_threads_asking_for_one_key_get_one_gate() {
    let registry = GateRegistry::new(4);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let registry = registry.clone();
            std::thread::spawn(move || {
                for _ in 0..200 {
                    registry.gate(&key("one")).unwrap().interactive().report(TIMED_OUT);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((registry.len(), registry.counts().interactive), (1, 1_600));
}
