//! What may cross threads, and be held in a task.

use portcullis::Outcome;
use portcullis::gate::{
    GateEvents, GateKey, GateRegistry, GateStatus, HomeserverGate, InteractiveStart, Permit, PollTurn,
};

use crate::rig::{Rig, secs};

fn crosses_threads<T: Send + Sync + 'static>() {}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn handles_permits_and_snapshots_cross_threads() {
    crosses_threads::<HomeserverGate>();
    crosses_threads::<GateRegistry>();
    crosses_threads::<Permit>();
    crosses_threads::<PollTurn>();
    crosses_threads::<InteractiveStart>();
    crosses_threads::<GateEvents>();
    crosses_threads::<GateStatus>();
    crosses_threads::<GateKey>();
    crosses_threads::<Outcome>();
}

#[tokio::test(start_paused = true)]
async fn the_futures_may_be_spawned() {
    let rig = Rig::new();
    drop(is_send(rig.gate.acquire()));
    drop(is_send(rig.gate.acquire_within(secs(1))));
    drop(is_send(rig.gate.acquire_unless(std::future::ready(()))));
    drop(is_send(rig.gate.poll_turn()));
    drop(is_send(rig.gate.events().next()));
}
