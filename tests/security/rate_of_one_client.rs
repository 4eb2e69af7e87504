//! One client, one slot, and a server of its own that answers at once.
//!
//! *Attack:* ask for one room list after another at a server of one's own: one call is in flight at a time, as allowed, and
//! thousands a minute go out, each of them signed. *Control:* `Admission::with_client_rate`
//! (`src/admission/client_rate.rs`), set by `serve`. *Unplug:* let `ClientRate::take` always say yes: every lookup goes
//! out, and both tests fail. Take before the answers are looked at that are remembered: the first test fails.

use std::time::Duration;

use portcullis::{RateCaps, RateLimit, RouteClass};

use crate::loopback::media::download;
use crate::loopback::{World, client};
use crate::rig::{CaFile, Homeserver, OWN_NAME, config, list_of, no_name_server, room_list};
use crate::support::{Behaviour, PrivateCa, SentFile, TlsPeer};

const BURST: u32 = 5;

/// The next one would come a minute later: nobody has to hurry.
fn slow() -> RateLimit {
    RateLimit::new(RateCaps { per_minute: 1, burst: BURST }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_quick_server_has_its_burst_of_lookups_and_then_waits() {
    let ca = PrivateCa::new();
    let peer = TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::answers(|_| room_list())).await;
    let name = peer.address().to_string();
    let file = CaFile::of(&ca);
    let mut config = config(8, Duration::from_secs(10), Some(&file), no_name_server());
    config.federation.lookup_rate = slow();
    let homeserver = Homeserver::start(&config);

    let (stranger, neighbour) = ([127, 2, 0, 1], [127, 2, 0, 2]);
    let mut statuses = Vec::new();
    for page in 1..=40 {
        // What is answered here, or was asked before, is not counted.
        assert_eq!(homeserver.get(stranger, &list_of(OWN_NAME, page)).await.status, 200);
        statuses.push(homeserver.get(stranger, &list_of(&name, page)).await.status);
        assert_eq!(homeserver.get(stranger, &list_of(&name, 1)).await.status, 200, "a remembered answer");
    }
    let out = usize::try_from(BURST).unwrap();
    assert_eq!(statuses, [vec![200; out], vec![429; 40 - out]].concat());
    assert_eq!(peer.accepted(), out);

    let refused = homeserver.get(stranger, &list_of(&name, 99)).await;
    let content: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(content["errcode"], "M_LIMIT_EXCEEDED");
    let wait_ms = content["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait_ms), "{wait_ms}");
    assert!(refused.headers.contains(&format!("retry-after: {}", wait_ms.div_ceil(1000))), "{refused:?}");
    // Another address is none of its business.
    assert_eq!(homeserver.get(neighbour, &list_of(&name, 99)).await.status, 200);

    let counted = homeserver.runtime.outbound().status().budgets.directory.refused;
    assert_eq!((counted.rate, counted.client, counted.global), (41 - u64::from(BURST), 0, 0));
    homeserver.comes_to_rest(8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_quick_server_has_its_burst_of_files_and_then_waits() {
    let world = World::new().await;
    let answer = SentFile::png(b"a picture").answer();
    let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await;
    let home = world.media_with(|builder| builder.client_rate(RouteClass::Media, slow()));
    let mut fetched = 0;
    for n in 0..40 {
        let answer = home.ask(client(1), &download(&server, &format!("file{n}"))).await;
        if answer.status == 200 {
            fetched += 1;
        } else {
            assert_eq!(answer.error(), (429, "M_LIMIT_EXCEEDED".to_owned()));
        }
        home.at_rest().await;
        // What is stored is not fetched, and not counted.
        home.ask(client(1), &download(&server, "file0")).await.assert_file(b"a picture");
    }
    assert_eq!((fetched, peer.accepted()), (BURST, BURST.try_into().unwrap()));
    home.ask(client(2), &download(&server, "file39")).await.assert_file(b"a picture");
    assert_eq!(home.portcullis.status().budgets.media.refused.rate, 40 - u64::from(BURST));
    home.at_rest().await;
}
