//! A homeserver as a port scanner.
//!
//! *Attack:* name addresses inside, one port after the other, and read from status, text, headers or time what listens there.
//! *Control:* a refused address is never connected to (`AddressPolicy::judge` in `src/outbound/address_policy.rs`), so there
//! is nothing to tell apart; and whatever else fails is one answer with one text (`lookup` in `src/proxy/answer.rs`).
//! *Unplug:* let `judge` allow everything: the inside listener is connected to, and answers differ.

use std::net::TcpListener;
use std::time::Duration;

use crate::rig::{CaFile, Homeserver, NameServer, config, list_of};
use crate::support::{
    Behaviour, PrivateCa, TlsPeer, json_answer,
    tls_peer::{refusing_address, refusing_at},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_address_a_closed_port_and_a_broken_peer_are_one_answer_whatever_listens_inside() {
    let ca = PrivateCa::new();
    let tls = ca.server_config(&["127.0.0.2"]);
    let dns = NameServer::answering(|name| (name == "inside.example").then_some([127, 0, 0, 1].into())).await;
    let file = CaFile::of(&ca);
    let mut config = config(2, Duration::from_secs(3), Some(&file), dns.address);
    config.federation.allow_networks = vec!["127.0.0.2/32".parse().unwrap()];
    let homeserver = Homeserver::start(&config);

    // Inside: a port that accepts, and never says a word, and one that is closed. Whoever connected would wait at the first.
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    listening.set_nonblocking(true).unwrap();
    let (open, closed) = (listening.local_addr().unwrap(), refusing_address().to_string());
    // Outside: everything that can be wrong with a peer, but for time.
    let wrong_certificate = TlsPeer::answering(ca.server_config(&["other.example"]), json_answer(200, "{}")).await;
    let outside_tls = |behaviour| TlsPeer::start_on(([127, 0, 0, 2], 0).into(), tls.clone(), behaviour);
    let no_json = outside_tls(Behaviour::Answers(std::sync::Arc::new(|_| json_answer(200, "no")))).await;
    let unauthorised = outside_tls(Behaviour::Answers(std::sync::Arc::new(|_| json_answer(401, "{}")))).await;
    let resets = outside_tls(Behaviour::Reset).await;
    let names = [
        open.to_string(),
        closed.clone(),
        format!("inside.example:{}", open.port()),
        format!("inside.example:{}", closed.rsplit(':').next().unwrap()),
        "10.0.0.1:22".to_owned(),
        "[::1]:22".to_owned(),
        "nowhere.example:8448".to_owned(),
        refusing_at([127, 0, 0, 2].into()).to_string(),
        format!("127.0.0.2:{}", wrong_certificate.address().port()),
        no_json.address().to_string(),
        unauthorised.address().to_string(),
        resets.address().to_string(),
    ];
    let mut answers = Vec::new();
    for name in &names {
        answers.push(homeserver.get([127, 2, 0, 1], &list_of(name, 1)).await);
    }
    for (name, answer) in names.iter().zip(&answers) {
        assert_eq!(answer.status, 502, "{name}: {answer:?}");
        assert_eq!(answer, &answers[0], "{name}");
        assert!(!answer.body.contains("127.0.0"), "{answer:?}");
    }
    assert!(listening.accept().is_err(), "the inside was connected to");
    homeserver.comes_to_rest(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_peer_is_the_same_answer_but_for_its_status() {
    let ca = PrivateCa::new();
    let silent = TlsPeer::start(ca.server_config(&["127.0.0.1"]), Behaviour::TcpSilent).await;
    let dns = NameServer::silent().await;
    let file = CaFile::of(&ca);
    let homeserver = Homeserver::start(&config(2, Duration::from_millis(600), Some(&file), dns.address));
    let refused = homeserver.get([127, 2, 0, 1], &list_of("10.0.0.1", 1)).await;
    for name in [silent.address().to_string(), "silent.example".to_owned(), "silent.example:8448".to_owned()] {
        let answer = homeserver.get([127, 2, 0, 1], &list_of(&name, 1)).await;
        assert_eq!((answer.status, &answer.headers, &answer.body), (504, &refused.headers, &refused.body), "{name}");
    }
}
