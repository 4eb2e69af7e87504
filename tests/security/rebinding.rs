//! A name that answers differently the second time.
//!
//! *Attack:* the first answer for a name is an allowed address, to be judged; the next one lies inside, to be connected to.
//! *Control:* an attempt holds the one `JudgedAddress` (`src/outbound/address_policy.rs`), and `HttpsTransport`
//! (`src/outbound/https.rs`) connects to that, and can look up nothing. *Unplug:* in `HttpsTransport::connect`, let the system
//! look the certificate's name up instead: the judged peer is not the one it goes to. Let `judge` allow
//! everything: the second call, and the mixed answer, reach the inside.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis::outbound::HickoryResolver;

use crate::rig::{NameServer, Names, allowing, ask, assert_at_rest, https, list_of, portcullis, room_list};
use crate::support::{Behaviour, PrivateCa, TlsPeer};

const ALLOWED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const INSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Two peers with the same certificate on the same port of two addresses.
async fn allowed_and_inside(ca: &PrivateCa) -> (TlsPeer, TlsPeer) {
    let tls = ca.server_config(&["rebind.example"]);
    let answers = || Behaviour::Answers(Arc::new(|_| room_list()));
    let allowed = TlsPeer::start_on((ALLOWED, 0).into(), tls.clone(), answers()).await;
    let same_port = SocketAddr::from((INSIDE, allowed.address().port()));
    let inside = TlsPeer::start_on(same_port, tls, answers()).await;
    (allowed, inside)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_that_was_judged_is_the_one_that_is_dialled_and_the_next_answer_is_judged_again() {
    let ca = PrivateCa::new();
    let (allowed, inside) = allowed_and_inside(&ca).await;
    let questions = AtomicUsize::new(0);
    // Two questions per lookup, one for each family: the first lookup is told one address, all later ones another.
    let dns = NameServer::answering(move |_| {
        Some(if questions.fetch_add(1, Ordering::SeqCst) < 2 { ALLOWED } else { INSIDE })
    })
    .await;
    let resolver = Arc::new(HickoryResolver::with_name_servers(&[dns.address]).unwrap());
    let portcullis = portcullis(8, resolver, https(&ca), allowing(&["127.0.0.2/32"])).build().unwrap();
    let name = format!("rebind.example:{}", allowed.address().port());

    assert_eq!(ask(&portcullis, 1, &list_of(&name, 1)).await.0, 200);
    assert_eq!((allowed.requests().len(), inside.accepted(), dns.asked()), (1, 0, 2));
    assert_eq!(ask(&portcullis, 1, &list_of(&name, 2)).await.0, 502);
    assert_eq!((allowed.accepted(), inside.accepted()), (1, 0));
    assert_at_rest(&portcullis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_inside_address_among_allowed_ones_refuses_them_all() {
    let ca = PrivateCa::new();
    let (allowed, inside) = allowed_and_inside(&ca).await;
    let name = format!("rebind.example:{}", allowed.address().port());
    for set in [["127.0.0.2", "127.0.0.3"], ["127.0.0.3", "127.0.0.2"], ["127.0.0.2", "::1"]] {
        let names = Names::of(&[("rebind.example", &[&set])]);
        let portcullis = portcullis(8, names, https(&ca), allowing(&["127.0.0.2/32"])).build().unwrap();
        assert_eq!(ask(&portcullis, 1, &list_of(&name, 1)).await.0, 502, "{set:?}");
    }
    assert_eq!((allowed.accepted(), inside.accepted()), (0, 0));
}
