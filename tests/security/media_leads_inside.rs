//! A file that is said to be somewhere else.
//!
//! *Attack:* ask for our own file under a spelling that does not look like it; answer with a `Location` that leads to us,
//! inside, or to a name whose next answer lies inside; or be where it leads and read what our request carries. *Control:*
//! `is_own` comes before the switch (`src/portcullis/media.rs`); a `Location` is parsed once, by
//! `Target::absolute` (`src/outbound/web/target.rs`), and asked for like any other address, judged and unsigned
//! (`src/outbound/web.rs`). *Unplug:* let `is_own` compare texts: the name is looked up. Let the web client not refuse our
//! own host: it is dialled. Let the address policy allow everything: the inside is dialled. Sign the request for a
//! `Location`: it carries a header too many.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};

use crate::loopback::media::{MediaHome, download};
use crate::loopback::{World, client};
use crate::rig::media::routes;
use crate::rig::{Home, Names, allowing, https, portcullis};
use crate::support::{Behaviour, PrivateCa, SentFile, TlsPeer, json_answer};

/// An origin that says the file is at `location`.
async fn leading_to(world: &World, location: &str) -> (TlsPeer, String) {
    let line = format!("Location: {location}");
    let answer = SentFile { headers: &[&line], bytes: b"" }.answer();
    world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await
}

async fn leads_nowhere(home: &MediaHome, server: &str, location: &str) {
    assert_eq!(home.ask(client(1), &download(server, "a")).await.error(), (502, "M_UNKNOWN".to_owned()), "{location}");
    home.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn med5_our_own_name_in_any_spelling_is_ours_on_every_route() {
    let world = World::new().await;
    world.at("hs.self.example", &[Ipv4Addr::LOCALHOST.into()]);
    let home = world.media(None);
    for own in
        ["hs.self.example", "HS.Self.Example", "hs.self.example:8448", "HS.self.example%3A8448", "hs%2Eself.example"]
    {
        for path in routes(own, "missing") {
            assert_eq!(home.ask(client(1), &path).await.error(), (404, "M_NOT_FOUND".to_owned()), "{path}");
        }
    }
    assert_eq!(world.dns.asked().len(), 0, "our own name was looked up");
    assert_eq!(home.portcullis.status().calls.media.failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out2_a_location_that_can_be_read_in_two_ways_is_looked_up_in_none() {
    let world = World::new().await;
    let (target, host) = world.peer("cdn.example", Behaviour::TlsSilent).await;
    let home = world.media(None);
    for location in [
        format!("http://{host}/a"),
        format!("//{host}/a"),
        "/a".to_owned(),
        format!("https://{host}/a#"),
        format!("https://{host}#x"),
        format!("https://user@{host}/a"),
        format!("https://user:word@{host}/a"),
        format!("https:\\\\{host}\\a"),
        format!("https://{host}/_matrix/federation/v1/version"),
        "https://127.1/a".to_owned(),
        "https://2130706433/a".to_owned(),
    ] {
        let (peer, server) = leading_to(&world, &location).await;
        let asked = |world: &World| world.dns.asked().iter().filter(|asked| !asked.starts_with("r.example")).count();
        leads_nowhere(&home, &server, &location).await;
        assert_eq!((asked(&world), target.accepted()), (0, 0), "{location}");
        assert_eq!(peer.requests().len(), 1, "{location}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_location_that_leads_to_us_or_inside_is_not_dialled() {
    let world = World::new().await;
    let silent = || Behaviour::TlsSilent;
    let ours = TlsPeer::start(world.ca.server_config(&["hs.self.example"]), silent()).await;
    let here = (Ipv6Addr::LOCALHOST, 0).into();
    let inside = TlsPeer::start_on(here, world.ca.server_config(&["in.example"]), silent()).await;
    world.at("hs.self.example", &[Ipv4Addr::LOCALHOST.into()]);
    world.at("in.example", &[Ipv6Addr::LOCALHOST.into()]);
    world.at("mixed.example", &[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    let home = world.media(None);
    let (own_port, port) = (ours.address().port(), inside.address().port());
    for location in [
        format!("https://hs.self.example:{own_port}/a"),
        format!("https://HS.SELF.example:{own_port}/_matrix/media/v3/download/x.example/a"),
        format!("https://[::1]:{port}/a"),
        format!("https://[::ffff:10.0.0.1]:{port}/a"),
        format!("https://in.example:{port}/a"),
        format!("https://mixed.example:{port}/a"),
        "https://10.0.0.1/a".to_owned(),
        "https://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let (_peer, server) = leading_to(&world, &location).await;
        leads_nowhere(&home, &server, &location).await;
    }
    assert_eq!((ours.accepted(), inside.accepted()), (0, 0));
    assert!(!world.dns.asked().iter().any(|asked| asked.to_lowercase().starts_with("hs.self.example")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_moves_inside_between_the_answer_and_its_location_is_not_followed() {
    let (allowed, moved) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let ca = PrivateCa::new();
    let tls = ca.server_config(&["rebind.example"]);
    // Where it leads is the origin's own name and port, which are not known before it listens.
    let port = Arc::new(std::sync::OnceLock::new());
    let known = Arc::clone(&port);
    let leads_back = Behaviour::answers(move |_| {
        let line = format!("Location: https://rebind.example:{}/a", known.get().unwrap());
        SentFile { headers: &[&line], bytes: b"" }.answer()
    });
    let origin = TlsPeer::start_on((allowed, 0).into(), tls.clone(), leads_back).await;
    port.set(origin.address().port()).unwrap();
    let there = SocketAddr::from((moved, origin.address().port()));
    let inside = TlsPeer::start_on(there, tls, Behaviour::TlsSilent).await;
    let names = Names::of(&[("rebind.example", &[&["127.0.0.2"], &["127.0.0.3"]])]);
    let folder = tempfile::tempdir().unwrap();
    let portcullis = portcullis(8, names.clone(), https(&ca), allowing(&["127.0.0.2/32"]))
        .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true })
        .media_store(MediaStoreConfig::in_dir(folder.path().join("store")))
        .build()
        .unwrap();
    let path = download(&format!("rebind.example:{}", origin.address().port()), "a");
    let request = Request::get(path).header("authorization", "Bearer secret-token").body(Bytes::new()).unwrap();
    let answer = portcullis.handle(&Home, client(1), &request).await.unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!((names.asked(), origin.accepted(), inside.accepted()), (2, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_location_or_an_old_path_leads_hears_no_token_no_signature_and_no_client() {
    let world = World::new().await;
    let bare = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 4\r\n\r\nfile".to_vec();
    let elsewhere = bare.clone();
    let (target, host) = world.peer("cdn.example", Behaviour::answers(move |_| elsewhere.clone())).await;
    let (leading, by_location) = leading_to(&world, &format!("https://{host}/a?sig=1")).await;
    let unrecognized = json_answer(404, r#"{"errcode":"M_UNRECOGNIZED","error":"?"}"#);
    let old = Behaviour::answers(move |request| {
        if request.target().starts_with("/_matrix/media/") { bare.clone() } else { unrecognized.clone() }
    });
    let (old, by_old_path) = world.peer("old.example", old).await;
    let home = world.media(None);
    for server in [&by_location, &by_old_path] {
        let path = format!("{}?allow_redirect=true&secret=hush", download(server, "a"));
        let mut request = crate::loopback::media::request(&path);
        request.headers_mut().insert("cookie", "hush".parse().unwrap());
        request.headers_mut().insert("x-forwarded-for", "203.0.113.9".parse().unwrap());
        let answer = home.portcullis.handle(&super::media_order::TheirTokens, client(77), &request).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    let unsigned = [target.only_request(), old.requests().remove(1)];
    for request in &unsigned {
        let names: Vec<_> = request.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
        let known = ["host", "user-agent", "accept", "accept-encoding", "connection"];
        assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
    }
    for request in unsigned.into_iter().chain(leading.requests()).chain(old.requests()) {
        let said = format!("{request:?}");
        for secret in ["good", "hush", "203.0.113", "198.51.100"] {
            assert!(!said.contains(secret), "{said}");
        }
    }
    assert_eq!(leading.only_request().values("authorization").len(), 1);
}
