//! A proxy in the environment connects for us, past every check.
//!
//! *Attack:* `HTTPS_PROXY` and its relatives are set, by a container's defaults or by whoever can set them; the HTTP library
//! hands them our requests, and the address policy judges nothing. *Control:* `HttpsTransport`
//! (`src/outbound/https.rs`) connects its socket itself, and knows no proxy. *Unplug:* in `HttpsTransport::connect`, connect to
//! what `HTTPS_PROXY` names: the recording socket is connected to.

use tokio::net::TcpListener;

use crate::rig::{Names, allowing, ask, https, in_a_process_of_its_own, list_of, portcullis, room_list};
use crate::support::{PrivateCa, TlsPeer};

const VARIABLES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n18_a_proxy_named_in_the_environment_sees_nothing() {
    let recording = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for scheme in ["http", "socks5"] {
        let url = format!("{scheme}://{}", recording.local_addr().unwrap());
        let variables = VARIABLES.map(|name| (name, url.as_str()));
        tokio::select! {
            _ = in_a_process_of_its_own("environment_proxies::looks_up_a_room_list", &variables) => {}
            _ = recording.accept() => panic!("the proxy was connected to"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by n18_a_proxy_named_in_the_environment_sees_nothing, with proxies in its environment"]
async fn looks_up_a_room_list() {
    let ca = PrivateCa::new();
    let peer = TlsPeer::answering(ca.server_config(&["peer.example"]), room_list()).await;
    let names = Names::all_at(peer.address().ip());
    let portcullis = portcullis(8, names, https(&ca), allowing(&["127.0.0.0/8"])).build().unwrap();
    let name = format!("peer.example:{}", peer.address().port());
    assert_eq!(ask(&portcullis, 1, &list_of(&name, 1)).await.0, 200);
}
