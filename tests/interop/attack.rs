//! The attack that started all this, against `serve` with a real Synapse behind it: remotes that accept and never answer, or
//! drip. Local requests must not notice, neither through us nor straight to Synapse.

use std::time::Duration;

use serde_json::Value;

use crate::rig::{Attackers, Latencies, Serve, Setup, Stall, ask_locally};
use crate::world::World;

/// Many more than the pool has threads.
const ATTACKERS: usize = 64;
/// On each road, while the attack is on. With the pauses between them they take longer than the deadline of a lookup.
const REQUESTS: usize = 1_000;
/// On each road, before it.
const IDLE_REQUESTS: usize = 500;
/// Honest clients side by side.
const CALLERS: usize = 2;
/// Other processes can spoil a measurement, never make it better.
const ATTEMPTS: usize = 5;
/// How much longer half of the requests, and all but one in a hundred, may take; the latter up to a time that nobody notices.
const MEDIAN_FACTOR: f64 = 1.5;
const TAIL_FACTOR: f64 = 3.0;
const TAIL_AT_LEAST: Duration = Duration::from_millis(50);
/// When a slot has to be back: the longest deadline, its margin, and a loaded machine.
const BACK_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn silent_remotes_slow_nobody_down(world: &World) {
    nobody_notices(world, ["never-answer", "tls-silent"]).await;
}

pub(crate) async fn dripping_remotes_slow_nobody_down(world: &World) {
    nobody_notices(world, ["tls-drip", "body-drip"]).await;
}

async fn nobody_notices(world: &World, modes: [&str; 2]) {
    let serve = Serve::start(&Setup::in_front_of(&world.home).media("legacy_endpoints = true"));
    let roads = [("through us", serve.address()), ("straight to Synapse", world.home.address())];
    for attempt in 1..=ATTEMPTS {
        let mut idle = Vec::new();
        for (_, server) in roads {
            // What is asked for the first time takes longer.
            ask_locally(server, 50, CALLERS).await;
            idle.push(ask_locally(server, IDLE_REQUESTS, CALLERS).await.latencies);
        }
        let remotes = modes.map(|mode| Stall::start(mode, world.away.tls(), &[]));
        let attack = begin(&serve, &remotes);
        every_slot_taken(&serve).await;
        let mut kept = true;
        for ((road, server), idle) in roads.into_iter().zip(&idle) {
            let load = ask_locally(server, REQUESTS, CALLERS).await;
            assert_eq!((load.failed, load.latencies.count()), (0, REQUESTS), "{road}: none may fail");
            kept &= within(road, idle, &load.latencies);
        }
        // It goes on to the end: whoever was given up came back.
        every_slot_taken(&serve).await;
        let tally = attack.tally();
        println!("    the attackers were told {:?}, the longest wait {:.1?}", tally.statuses, tally.longest);
        for (mode, remote) in modes.iter().zip(&remotes) {
            let counters = remote.counters();
            println!("    {mode}: {} connections, {} at once", counters.accepted, counters.max_open);
            assert!(counters.max_open > 0, "{mode} was never asked");
        }
        assert!(tally.statuses.contains_key(&504), "no lookup was out as long as it may be");
        drop(attack);
        every_slot_free(&serve).await;
        if kept {
            return;
        }
        println!("    attempt {attempt} of {ATTEMPTS} was too slow");
    }
    panic!("local requests were slower than they may be, {ATTEMPTS} times");
}

/// Half of the attackers ask for room lists and aliases, the others for files on the paths that need no token.
fn begin(serve: &Serve, remotes: &[Stall; 2]) -> Attackers {
    let names = [remotes[0].server_name(), remotes[1].server_name()];
    Attackers::begin(serve.address(), ATTACKERS, move |number, round| {
        let server = &names[number / 4 % names.len()];
        let unique = format!("{number}x{round}");
        match number % 4 {
            0 => format!("/_matrix/client/v3/publicRooms?server={server}&since={unique}"),
            1 => format!("/_matrix/client/v3/directory/room/%23{unique}:{server}"),
            _ => format!("/_matrix/media/v3/download/{server}/{unique}"),
        }
    })
}

fn within(road: &str, idle: &Latencies, during: &Latencies) -> bool {
    let [median, tail] = [50, 99].map(|percent| (idle.percentile(percent), during.percentile(percent)));
    println!(
        "    {road}: p50 {:.1?} idle, {:.1?} during; p99 {:.1?} idle, {:.1?} during",
        median.0, median.1, tail.0, tail.1
    );
    median.1 <= median.0.mul_f64(MEDIAN_FACTOR) && tail.1 <= tail.0.mul_f64(TAIL_FACTOR).max(TAIL_AT_LEAST)
}

async fn every_slot_taken(serve: &Serve) {
    wait_until(serve, "every slot is taken", |status| in_flight(status) == cap(status)).await;
}

async fn every_slot_free(serve: &Serve) {
    let media = |status: &Value| status["budgets"]["media"]["in_flight"].as_u64().unwrap();
    wait_until(serve, "every slot is free", |status| in_flight(status) + media(status) == 0).await;
}

async fn wait_until(serve: &Serve, what: &str, is_so: impl Fn(&Value) -> bool) {
    let waiting = async {
        while !is_so(&serve.status().await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(BACK_WITHIN, waiting).await.is_ok(), "{what}: {}", serve.status().await);
}

fn in_flight(status: &Value) -> u64 {
    status["budgets"]["directory"]["in_flight"].as_u64().unwrap()
}

fn cap(status: &Value) -> u64 {
    status["budgets"]["directory"]["cap"].as_u64().unwrap()
}
