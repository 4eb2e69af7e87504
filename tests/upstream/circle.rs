//! A front before itself.
//!
//! *Unplug:* take the check of `Via` out of `Upstream::pass_on`: the request goes round until the cap of one client ends it.

use std::net::{Ipv4Addr, SocketAddr};

use portcullis::homeserver::assemble::no_circle;
use portcullis::homeserver::config::Config;
use portcullis::homeserver::listener::Listener;

use crate::rig::{Front, GOOD, LIST, REMOTE_FILE, config};
use crate::support::PrivateCa;

#[tokio::test]
async fn a_request_that_comes_back_through_a_proxy_ends_there() {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let config = config(listener.local_addr());
    let front = Front::start_on(listener, &config, &PrivateCa::new());
    let answer = front.get(LIST).await;
    let told = r#"{"errcode":"M_UNKNOWN","error":"The homeserver is not where this server looks for it"}"#;
    assert_eq!((answer.status, answer.text()), (502, told));
    assert_eq!(front.get_as(REMOTE_FILE, GOOD).await.status, 502, "nor is a token bad for it");
    assert_eq!(front.status().passed_on.small.refused, 0);
    front.comes_to_rest().await;
}

#[test]
fn the_sockets_that_were_bound_are_looked_at() {
    let bound: SocketAddr = "127.0.0.1:40000".parse().unwrap();
    let anywhere: SocketAddr = "0.0.0.0:40000".parse().unwrap();
    let other: SocketAddr = "127.0.0.1:40001".parse().unwrap();
    for (upstream, sockets, circle) in [
        ("http://127.0.0.1:40000", [("listen", bound), ("admin_listen", other)], Some("listen")),
        ("http://127.0.0.1:40001", [("listen", bound), ("admin_listen", other)], Some("admin_listen")),
        ("http://127.0.0.1:40002", [("listen", bound), ("admin_listen", other)], None),
        ("http://127.0.0.2:40000", [("listen", anywhere), ("admin_listen", other)], Some("listen")),
        ("http://localhost:40000", [("listen", anywhere), ("admin_listen", other)], Some("listen")),
        ("https://127.0.0.1:40000", [("listen", bound), ("admin_listen", other)], Some("listen")),
    ] {
        let mut config = Config::without_file();
        config.upstream = Some(upstream.parse().unwrap());
        let told = no_circle(&config, &sockets).map_err(|error| error.to_string());
        match circle {
            None => assert_eq!(told, Ok(()), "{upstream}"),
            Some(key) => {
                let told = told.unwrap_err();
                let start = format!("homeserver.upstream: this is our own {key}: ");
                assert!(told.starts_with(&start), "{upstream}: {told}");
            }
        }
    }
}
