//! A fault of ours, or of an integrator's resolver or transport, that a stranger can reach.
//!
//! *Attack:* find an answer that makes the code of a call panic, and repeat it until no slot or thread is left. *Control:* the
//! call is a task of its own: `FederationWorker::wait` (`src/federation_worker.rs`) turns its end without an answer into a
//! failure, and unwinding drops the `Slot` (`src/admission/budget.rs`). *Unplug:* drive the call with `block_on` on
//! the request's own thread in `wait`: the panic is a 500 of the homeserver. Return at once from `Slot::drop`: the
//! slot never comes back.

use std::net::IpAddr;
use std::sync::Arc;

use portcullis::outbound::{BoxFuture, DnsError, Resolve, SrvRecord, SrvService};
use portcullis::{DnsName, OutboundDeadline, Portcullis};

use crate::rig::{
    Does, Home, Homeserver, NO_ROOMS, Names, Outside, assert_at_rest, client, get, list_of, portcullis,
    portcullis_of_eight,
};

/// Knows one name; panics at any other.
struct Panics;

impl Resolve for Panics {
    fn addresses<'a>(&'a self, name: &'a DnsName, _: OutboundDeadline) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        Box::pin(async move {
            assert_eq!(name.as_str(), "healthy.example", "on purpose");
            Ok(vec![[44, 128, 10, 1].into()])
        })
    }

    fn service<'a>(
        &'a self,
        _: SrvService,
        _: &'a DnsName,
        _: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        Box::pin(async { panic!("on purpose") })
    }
}

async fn goes_on_after_panics(portcullis: Portcullis) {
    let homeserver = Homeserver::around(portcullis, 4);
    for page in 1..=20 {
        let answer = homeserver.get([127, 2, 0, 1], &list_of("broken.example:8448", page)).await;
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(answer.body.contains("M_UNKNOWN"));
        assert_eq!(homeserver.in_flight(), 0);
    }
    assert_eq!(homeserver.get([127, 2, 0, 1], &list_of("healthy.example:8448", 1)).await.status, 200);
    homeserver.comes_to_rest(4).await;
    assert_eq!((homeserver.runtime.panicked(), homeserver.pool.panicked()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transport_that_panics_is_a_502_and_the_server_goes_on() {
    let outside = Outside::by(|attempt| match attempt.request.headers()["host"].to_str().unwrap() {
        "healthy.example:8448" => Does::Answers(NO_ROOMS),
        _ => Does::Panics,
    });
    goes_on_after_panics(portcullis_of_eight(&Names::all_at([44, 128, 10, 1].into()), &outside)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolver_that_panics_is_a_502_and_the_server_goes_on() {
    let outside = Outside::that(Does::Answers(NO_ROOMS));
    goes_on_after_panics(portcullis(8, Arc::new(Panics), outside, Default::default()).build().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_under_an_asynchronous_caller_gives_the_slot_back_and_poisons_no_question() {
    let outside = Outside::that(Does::Panics);
    let portcullis = portcullis_of_eight(&Names::none(), &outside);
    for _ in 0..20 {
        let lookup = portcullis.handle(&Home, client(1), &get(&list_of("44.128.10.1", 1)));
        assert!(tokio::spawn(lookup).await.unwrap_err().is_panic());
        assert_at_rest(&portcullis);
    }
    assert_eq!(outside.dialled().len(), 20);
}
