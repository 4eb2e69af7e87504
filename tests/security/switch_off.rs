//! Remote media while the switch is off.
//!
//! *Attack:* ask for media of another server; if the switch is looked at late, the fetch is made and thrown away. *Control:*
//! this release has no media routes: they are answered by `Router::answer` (`src/homeserver/router.rs`), and a configuration
//! that switches them on stops the start (`media` in `src/homeserver/config/walk.rs`). *Unplug:* accept `true` there: the
//! second test fails. For the first there is nothing to unplug yet.

use std::net::TcpListener;
use std::time::Duration;

use portcullis::homeserver::config::Config;

use crate::rig::{Homeserver, NameServer, config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_media_route_is_404_unrecognized_and_nobody_is_asked() {
    let dns = NameServer::silent().await;
    let remote = TcpListener::bind("127.0.0.1:0").unwrap();
    remote.set_nonblocking(true).unwrap();
    let homeserver = Homeserver::start(&config(2, Duration::from_secs(1), None, dns.address));
    for server in [remote.local_addr().unwrap().to_string(), "them.example".to_owned(), "us.example".to_owned()] {
        for path in [
            format!("/_matrix/client/v1/media/download/{server}/abc"),
            format!("/_matrix/client/v1/media/download/{server}/abc/name.png"),
            format!("/_matrix/client/v1/media/thumbnail/{server}/abc?width=32&height=32"),
            format!("/_matrix/media/v3/download/{server}/abc"),
            format!("/_matrix/media/v3/download/{server}/abc?allow_remote=true"),
            format!("/_matrix/media/v3/thumbnail/{server}/abc?width=32&height=32"),
            format!("/_matrix/media/r0/download/{server}/abc"),
            format!("/_matrix/media/r0/thumbnail/{server}/abc"),
            format!("/_matrix/media/v1/download/{server}/abc"),
        ] {
            let answer = homeserver.get([127, 2, 0, 1], &path).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(answer.body.contains("M_UNRECOGNIZED"), "{path}: {answer:?}");
        }
    }
    assert_eq!(dns.asked(), 0);
    assert!(remote.accept().is_err(), "the remote was connected to");
    homeserver.comes_to_rest(2).await;
}

#[test]
fn a_configuration_that_switches_remote_media_on_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("portcullis.toml");
    let read = |switch: &str| {
        let head = "server_name = \"us.example\"\nsigning_key = \"key\"\n[media]\n";
        std::fs::write(&path, format!("{head}remote_fetch_enabled = {switch}\n")).unwrap();
        Config::read(&path).map(|config| config.media.remote_fetch_enabled).map_err(|problem| problem.to_string())
    };
    assert_eq!(read("false"), Ok(Some(false)));
    assert!(read("true").unwrap_err().contains("remote_fetch_enabled"));
    assert!(Config::without_file().media.remote_fetch_enabled.is_none());
}
