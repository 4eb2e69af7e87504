//! The gate of the homeserver behind: there from the start, and moved by nobody without an account.
//!
//! *Unplug:* report whatever is asked in `UpstreamGate::starts`: the strangers' part fails. Leave out the call there: the
//! account's does.

use portcullis::gate::GateStatus;

use crate::rig::{Behind, Front, GOOD, LIST, REMOTE_FILE, json};

fn gate(front: &Front) -> GateStatus {
    let mut gates = front.runtime.outbound().status().homeservers;
    assert_eq!(gates.len(), 1);
    gates.remove(0)
}

#[tokio::test]
async fn it_is_there_from_the_start_and_says_that_nothing_waits_at_it() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    let gate = gate(&front);
    assert_eq!(gate.key.to_string(), format!("http://{}", behind.address));
    assert_eq!((gate.background_callers, gate.limit), (false, 2));
}

#[tokio::test]
async fn it_hears_of_accounts_and_of_nobody_else() {
    let behind = Behind::with(|_| json(500, "{}")).await;
    let front = Front::of(&behind);
    for token in [None, Some("made-up"), Some(GOOD)] {
        // Nobody vouched for any of them so far, the good one included.
        let answer = match token {
            None => front.get(LIST).await,
            Some(token) => front.get_as(LIST, token).await,
        };
        assert_eq!(answer.status, 500);
    }
    assert_eq!(front.get_as(REMOTE_FILE, "made-up").await.status, 401);
    assert_eq!(front.get_as(LIST, "made-up").await.status, 500);
    assert_eq!(gate(&front).limit, 2);
    assert_eq!(front.get_as(REMOTE_FILE, GOOD).await.status, 404);
    assert_eq!(gate(&front).limit, 2);
    assert_eq!(front.get_as(LIST, GOOD).await.status, 500);
    assert_eq!(gate(&front).limit, 1);
}
