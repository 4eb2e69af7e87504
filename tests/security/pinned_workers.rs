//! Eight requests, and no thread is left.
//!
//! *Attack:* without an account, from many addresses, ask for room lists at a server that accepts and never answers; each
//! request holds a thread of the pool. *Control:* `ClientOutboundProxyPolicy::for_pool` and `InFlightBudget::try_acquire`
//! (`src/admission/policy.rs`, `src/admission/budget.rs`), asked by `Admission::admit`. *Unplug:* give `for_pool` the
//! whole pool as its cap: eight lookups are out at once, and the test fails.

use std::time::Duration;

use crate::rig::{CaFile, Homeserver, OWN_NAME, config, list_of, no_name_server, until};
use crate::support::{Behaviour, PrivateCa, TlsPeer};

const POOL: usize = 8;
const HALF: usize = 4;
const STRANGERS: u8 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f03_a_silent_peer_and_twenty_addresses_hold_half_the_pool_and_local_requests_are_answered() {
    let ca = PrivateCa::new();
    let peer = TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::TlsSilent).await;
    let name = peer.address().to_string();
    let file = CaFile::of(&ca);
    let homeserver = Homeserver::start(&config(POOL, Duration::from_secs(5), Some(&file), no_name_server()));

    let strangers = async {
        let lookups = (1..=STRANGERS).map(async |n| {
            let answer = homeserver.get([127, 2, 0, n], &list_of(&name, n.into())).await;
            assert!(homeserver.in_flight() <= HALF);
            answer.status
        });
        futures_util::future::join_all(lookups).await
    };
    let neighbours = async {
        until("half the pool is out", || homeserver.in_flight() == HALF && peer.open() == HALF).await;
        for path in ["/_matrix/client/versions", "/_matrix/client/v3/publicRooms", &list_of(OWN_NAME, 1)] {
            assert_eq!(homeserver.get([127, 2, 1, 1], path).await.status, 200, "{path}");
        }
        // Answered while the slots were held, so beside them.
        assert_eq!(homeserver.in_flight(), HALF);
    };
    let (statuses, ()) = tokio::join!(strangers, neighbours);

    let count = |status| statuses.iter().filter(|seen| **seen == status).count();
    assert_eq!((count(504), count(429)), (HALF, usize::from(STRANGERS) - HALF), "{statuses:?}");
    assert_eq!(peer.accepted(), HALF);
    homeserver.comes_to_rest(POOL).await;
}
