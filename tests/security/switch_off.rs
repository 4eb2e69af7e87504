//! Remote media while the switch is off.
//!
//! *Attack:* ask for media of another server; if the switch is looked at late, the fetch is made and thrown away. *Control:*
//! `ask_the_switch` (`src/portcullis/media.rs`) comes before anything is looked for, and `MediaConfig::policy`
//! (`src/homeserver/config/media.rs`) reads what is not said as off. *Unplug:* let `policy` say `true`: both tests fail.

use std::net::TcpListener;
use std::time::Duration;

use portcullis::homeserver::config::{AccessToken, Config};

use crate::rig::{Homeserver, NameServer, config};

const TOKEN: &str = "Authorization: Bearer hush\r\n";

/// Every media route, with what it needs.
fn routes(server: &str) -> Vec<String> {
    let of = |prefix: &str| {
        let thumbnail = format!("{prefix}/thumbnail/{server}/abc?width=32&height=32");
        [format!("{prefix}/download/{server}/abc"), thumbnail]
    };
    let prefixes = ["/_matrix/client/v1/media", "/_matrix/media/v3", "/_matrix/media/r0", "/_matrix/media/v1"];
    prefixes.into_iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_switch_off_every_media_route_is_404_and_nobody_is_asked() {
    let dns = NameServer::silent().await;
    let remote = TcpListener::bind("127.0.0.1:0").unwrap();
    remote.set_nonblocking(true).unwrap();
    let mut config = config(2, Duration::from_secs(1), None, dns.address);
    config.media.legacy_endpoints = true;
    config.tokens = vec![AccessToken { token: "hush".into(), user_id: "@alice:us.example".into() }];
    for switch in [None, Some(false)] {
        config.media.remote_fetch_enabled = switch;
        let homeserver = Homeserver::start(&config);
        for server in [remote.local_addr().unwrap().to_string(), "them.example".to_owned(), "us.example".to_owned()] {
            let routes = routes(&server);
            assert_eq!(routes.len(), 8);
            for path in routes.iter().flat_map(|path| {
                let more = if path.contains('?') { '&' } else { '?' };
                [path.clone(), format!("{path}{more}allow_remote=true")]
            }) {
                let answer = homeserver.get_with([127, 2, 0, 1], &path, TOKEN).await;
                assert_eq!(answer.status, 404, "{path}");
                assert!(answer.body.contains("M_NOT_FOUND"), "{path}: {answer:?}");
            }
        }
        assert_eq!(dns.asked(), 0);
        assert!(remote.accept().is_err(), "the remote was connected to");
        homeserver.comes_to_rest(2).await;
    }
    config.media.remote_fetch_enabled = Some(true);
    let homeserver = Homeserver::start(&config);
    let answer = homeserver.get_with([127, 2, 0, 1], &routes("them.example")[0], TOKEN).await;
    assert_ne!(answer.status, 404, "the test asks for nothing that the switch decides about");
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
