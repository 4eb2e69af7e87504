//! A zone whose name servers never answer.
//!
//! *Attack:* ask for a name whose DNS is a black hole: discovery asks four questions, and a resolver's own patience is
//! minutes. *Control:* DNS is inside the deadline: each question has its share (`Discovery::ask_service`,
//! `Discovery::ask_addresses` in `src/outbound/discover.rs`, `Fetcher::judged` in `src/outbound/well_known/fetch.rs`), and
//! `DnsCache::answer` (`src/outbound/dns_cache.rs`) and `FederationCall::located` (`src/outbound/call.rs`) cut again.
//! *Unplug:* await the work without the clock in `OutboundDeadline::cut` (`src/deadline.rs`): the thread gives up
//! after the margin, counted as an overrun, and the slot stays held. Any one of the cuts alone is covered by the next
//! one out.

use std::time::Duration;

use crate::rig::{Homeserver, NameServer, config, list_of, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolver_that_never_answers_costs_its_callers_the_deadline_and_the_others_nothing() {
    let dns = NameServer::silent().await;
    let homeserver = Homeserver::start(&config(2, Duration::from_secs(2), None, dns.address));
    let path = list_of("nobody.example", 1);
    let lookup = homeserver.get([127, 2, 0, 1], &path);
    let neighbour = async {
        until("the name is asked", || dns.asked() > 0).await;
        assert_eq!(homeserver.get([127, 2, 0, 2], "/_matrix/client/versions").await.status, 200);
        assert_eq!(homeserver.in_flight(), 1);
    };
    let (answer, ()) = tokio::join!(lookup, neighbour);
    assert_eq!(answer.status, 504, "{answer:?}");
    assert_eq!(homeserver.in_flight(), 0);
    homeserver.comes_to_rest(2).await;
}
