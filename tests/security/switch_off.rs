//! Remote media while the switch is off.
//!
//! *Attack:* ask for media of another server; if the switch is looked at late, the fetch is made and thrown away. *Control:*
//! `MediaConfig::policy` (`src/homeserver/config/media.rs`) reads what is not said as off, and a media route is answered as
//! if there were no such file. *Unplug:* let `policy` say `true`: the second test fails.

use std::net::TcpListener;
use std::time::Duration;

use portcullis::homeserver::config::Config;

use crate::rig::{Homeserver, NameServer, config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_media_route_is_404_not_found_and_nobody_is_asked() {
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
            format!("/_matrix/media/r0/thumbnail/{server}/abc?width=32&height=32"),
            format!("/_matrix/media/v1/download/{server}/abc"),
        ] {
            let answer = homeserver.get([127, 2, 0, 1], &path).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(answer.body.contains("M_NOT_FOUND"), "{path}: {answer:?}");
        }
    }
    assert_eq!(dns.asked(), 0);
    assert!(remote.accept().is_err(), "the remote was connected to");
    homeserver.comes_to_rest(2).await;
}

#[test]
fn the_switch_is_off_unless_it_says_true() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("portcullis.toml");
    let read = |media: &str| {
        std::fs::write(&path, format!("server_name = \"us.example\"\nsigning_key = \"key\"\n{media}\n")).unwrap();
        Config::read(&path).map(|config| config.media.policy().remote_fetch_enabled).map_err(drop)
    };
    assert_eq!(read(""), Ok(false));
    assert_eq!(read("[media]\nlegacy_endpoints = true"), Ok(false));
    assert_eq!(read("media.remote_fetch_enabled = false"), Ok(false));
    assert_eq!(read("media.remote_fetch_enabled = true"), Ok(true));
    for unclear in ["\"true\"", "1", "\"on\"", "[]"] {
        assert_eq!(read(&format!("media.remote_fetch_enabled = {unclear}")), Err(()), "{unclear}");
    }
    assert_eq!(read("media.remote_fetch_enable = true"), Err(()));
    assert!(!Config::without_file().media.policy().remote_fetch_enabled);
}
