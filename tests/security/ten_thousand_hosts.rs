//! Ten thousand servers, each asked once.
//!
//! *Attack:* make us call a new server each time; if each leaves an idle connection behind, descriptors run out. *Control:*
//! a connection per attempt, without a pool (`src/outbound/https.rs`): it ends with its answer. *Unplug:* keep each attempt's
//! connection (`std::mem::forget` instead of `self.driver = None` and of the drop): they are left open.

use crate::rig::{
    Names, allowing, ask, assert_at_rest, https, in_a_process_of_its_own, list_of, portcullis, room_list, until,
};
use crate::support::{PrivateCa, TlsPeer, tls_peer::refusing_address};

/// Servers that answer; the rest are names at a closed port, which costs a socket each as well.
const ANSWERING: usize = 400;
const HOSTS: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_hosts_leave_no_descriptor_open() {
    in_a_process_of_its_own("ten_thousand_hosts::asks_them_all", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by ten_thousand_hosts_leave_no_descriptor_open, where nobody else opens descriptors"]
async fn asks_them_all() {
    let ca = PrivateCa::new();
    let peer = TlsPeer::answering(ca.server_config(&["*.hosts.example"]), room_list()).await;
    let closed = refusing_address();
    let names = Names::all_at(peer.address().ip());
    let portcullis = portcullis(8, names, https(&ca), allowing(&["127.0.0.1/32"])).build().unwrap();
    // The first call makes what stays: the runtime's own descriptors.
    assert_eq!(ask(&portcullis, 1, &list_of(&format!("h.hosts.example:{}", peer.address().port()), 1)).await.0, 200);
    peer.all_closed().await;
    let before = descriptors();
    for n in 0..HOSTS {
        let (port, status) = if n < ANSWERING { (peer.address().port(), 200) } else { (closed.port(), 502) };
        assert_eq!(ask(&portcullis, 1, &list_of(&format!("h{n}.hosts.example:{port}"), 1)).await.0, status);
    }
    peer.all_closed().await;
    assert_eq!(peer.accepted(), ANSWERING + 1);
    until("every descriptor is back", || descriptors() <= before).await;
    assert_at_rest(&portcullis);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
