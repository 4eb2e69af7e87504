//! What users reported about other ways out, sections 4 and 5 of the list: those that no case of the two files is.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use portcullis::ServerName;
use portcullis::outbound::{CallFailure, DiscoveryError};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::dns::Zone;
use crate::world::fakes::WELL_KNOWN;
use crate::world::media::{MULTIPART, SentFile};
use crate::world::reply::{Pace, Reply};
use crate::world::us::{Settings, TOKEN, Us};
use crate::world::{Plan, World};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("br50_a_server_that_drops_well_known_requests_costs_its_share_once", br50),
    ("br59_after_the_deadline_nothing_more_is_sent", br59),
    ("br65_five_redirect_codes_are_followed_and_the_other_three_are_not", br65),
    ("br68_a_well_known_in_pieces_is_read_to_its_end", br68),
    ("br70_a_server_that_has_moved_is_found_once_its_old_place_is_dead", br70),
    ("br74_a_dead_address_costs_its_share_and_the_next_one_answers", br74),
    ("br76_a_well_known_without_a_name_falls_through", br76),
    ("br81_an_open_and_a_closed_port_inside_look_the_same", br81),
    ("br87_one_silent_answer_holds_up_nobody_else", br87),
    ("br89_a_remote_that_dies_half_way_leaves_nothing_behind", br89),
    ("an_srv_record_with_port_0_is_unusable_and_never_leads_to_8448", srv_port_0),
    ("br91_a_slow_but_honest_server_is_waited_for", br91),
];

const LIST_OF_ALPHA: &str = "/_matrix/client/v3/publicRooms?server=alpha.example";

/// alpha.example and hs.beta.example on two addresses, and whoever else is named.
fn plan(more: &[(&str, Value)]) -> Plan {
    let mut dns = vec![
        ("alpha.example A".to_owned(), json!(["44.128.10.1"])),
        ("hs.beta.example A".to_owned(), json!(["44.128.10.2"])),
    ];
    for (key, value) in more {
        dns.retain(|(known, _)| known != key);
        dns.push(((*key).to_owned(), value.clone()));
    }
    let zone = Zone::of(dns.iter().map(|(key, value)| (key, value)));
    let mut plan = Plan::default();
    plan.serve(&zone.addresses(), &[443, 8448, 8449, 8450]);
    plan.zone = zone;
    plan
}

fn place(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn alpha() -> ServerName {
    "alpha.example".parse().unwrap()
}

fn within(limit: Duration) -> Us {
    Us::new(Settings { remote_timeout: Some(limit), ..Settings::default() })
}

fn client(last: u8) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, last).into()
}

/// Where the request to alpha.example arrived in this world.
fn arrived(plan: Plan) -> SocketAddr {
    let mut world = World::start(plan);
    let us = Us::new(Settings::default());
    assert_eq!(world.run(us.call(&alpha())).unwrap().status, 200);
    let requests = world.fakes.requests();
    let [.., request] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(request.is_federation());
    us.assert_at_rest();
    world.assert_at_rest();
    request.at
}

fn br50() {
    let deadline = Duration::from_secs(9);
    let mut plan = plan(&[]);
    plan.black_holes.push(place("44.128.10.1:443"));
    let file = SentFile::png(b"a picture");
    plan.site.federation(Reply::new(200, file.envelope()).header("content-type", MULTIPART));
    let mut world = World::start(plan);
    let us = within(deadline);
    let token = format!("Bearer {TOKEN}");
    let mut fetch = |media_id: &str| {
        world.wire.clear();
        let began = Instant::now();
        let path = format!("/_matrix/client/v1/media/download/alpha.example/{media_id}");
        let answer = world.run(us.get(&path, &[("authorization", &token)]));
        assert_eq!((answer.status, answer.text.as_str()), (200, "a picture"));
        world.run(us.files_at_rest());
        (began.elapsed(), world.dialled())
    };
    let (took, dialled) = fetch("first");
    assert_eq!(dialled, [place("44.128.10.1:443"), place("44.128.10.1:8448")]);
    assert!(took < deadline * 2 / 3, "{took:?}");
    // That nobody gives the well-known file is remembered: the next file does not wait for it.
    let (took, dialled) = fetch("second");
    assert_eq!(dialled, [place("44.128.10.1:8448")]);
    assert!(took < deadline / 3, "{took:?}");
    us.assert_at_rest();
    world.assert_at_rest();
}

fn br59() {
    let deadline = Duration::from_secs(1);
    let mut plan = plan(&[]);
    let late = Reply::delegating_to("hs.beta.example:8449").after(deadline + Duration::from_millis(200));
    plan.site.well_known("alpha.example", late);
    plan.black_holes.push(place("44.128.10.1:8448"));
    let mut world = World::start(plan);
    let us = within(deadline);
    assert!(world.run(us.call(&alpha())).unwrap_err().timed_out);
    us.assert_at_rest();
    let during = world.dialled();
    world.run(async { tokio::time::sleep(deadline * 2).await });
    assert_eq!(world.dialled(), during);
    assert!(!during.contains(&place("44.128.10.2:8449")));
    assert!(world.fakes.requests().iter().all(|request| !request.is_federation()));
    world.assert_at_rest();
}

fn br65() {
    for (status, followed) in
        [(301, true), (302, true), (303, true), (307, true), (308, true), (300, false), (304, false), (305, false)]
    {
        let mut plan = plan(&[("www.alpha.example A", json!(["44.128.10.3"]))]);
        let target = format!("https://www.alpha.example{WELL_KNOWN}");
        plan.site.well_known("alpha.example", Reply::redirect(status, &target));
        plan.site.page(&target, Reply::delegating_to("hs.beta.example:8449"));
        let expected = place(if followed { "44.128.10.2:8449" } else { "44.128.10.1:8448" });
        assert_eq!(arrived(plan), expected, "{status}");
    }
}

fn br68() {
    for (pace, chunked) in [
        (Pace::Segments(vec![5, 15], Duration::from_millis(50)), false),
        (Pace::Segments(vec![5, 15], Duration::from_millis(50)), true),
        (Pace::Drip(Duration::from_millis(1)), false),
        (Pace::Drip(Duration::from_millis(1)), true),
    ] {
        let mut plan = plan(&[]);
        let mut reply = Reply::delegating_to("hs.beta.example:8449").paced(pace);
        reply.chunked = chunked;
        plan.site.well_known("alpha.example", reply);
        assert_eq!(arrived(plan), place("44.128.10.2:8449"));
    }
}

fn br70() {
    let delegation = |to: &str| Reply::delegating_to(to).header("cache-control", "max-age=86400");
    let mut plan = plan(&[("hs.gamma.example A", json!(["44.128.10.3"]))]);
    plan.zone.set_ttl(0);
    plan.site.well_known("alpha.example", delegation("hs.beta.example:8449"));
    let mut world = World::start(plan);
    let us = Us::new(Settings::default());
    world.run(us.call(&alpha())).unwrap();
    assert_eq!(world.dialled(), [place("44.128.10.1:443"), place("44.128.10.2:8449")]);

    // The old place is gone; the file, which is good for a day, names another one.
    let gone = ("hs.beta.example A", json!(["44.128.10.9"]));
    let mut moved = self::plan(&[gone, ("hs.gamma.example A", json!(["44.128.10.3"]))]);
    moved.zone.set_ttl(0);
    moved.site.well_known("alpha.example", delegation("hs.gamma.example:8450"));
    world.dns.becomes(moved.zone);
    world.fakes.become_site(moved.site);
    world.wire.clear();
    world.run(us.call(&alpha())).unwrap();
    assert_eq!(world.dialled(), [place("44.128.10.9:8449"), place("44.128.10.1:443"), place("44.128.10.3:8450")]);
    us.assert_at_rest();
    world.assert_at_rest();
}

fn br74() {
    let mut plan = plan(&[("two.example A", json!(["44.128.10.4", "44.128.10.5"]))]);
    plan.black_holes.push(place("44.128.10.4:8449"));
    let mut world = World::start(plan);
    let us = within(Duration::from_secs(6));
    let began = Instant::now();
    world.run(us.call(&"two.example:8449".parse().unwrap())).unwrap();
    // A third of six seconds, and room for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(world.dialled(), [place("44.128.10.4:8449"), place("44.128.10.5:8449")]);
    us.assert_at_rest();
    world.assert_at_rest();
}

fn br76() {
    for body in ["{}", "[]", r#"{"m.server":null}"#, r#"{"m.server":""}"#, r#"{"m.homeserver":{}}"#] {
        let mut plan = plan(&[]);
        plan.site.well_known("alpha.example", Reply::json(body));
        assert_eq!(arrived(plan), place("44.128.10.1:8448"), "{body}");
    }
}

fn br81() {
    let mut plan = Plan::default();
    plan.serve(&[Ipv4Addr::new(10, 0, 0, 1).into()], &[8448]);
    let mut world = World::start(plan);
    let us = Us::new(Settings::default());
    let [open, closed] = ["10.0.0.1:8448", "10.0.0.1:9999"]
        .map(|inside| world.run(us.get(&format!("/_matrix/client/v3/publicRooms?server={inside}"), &[])));
    assert_eq!((open.status, &open.text), (502, &closed.text));
    assert_eq!(closed.status, 502);
    // Nothing is dialled, so time cannot tell them apart either.
    assert_eq!(world.dialled(), []);
    us.assert_at_rest();
}

fn br87() {
    const ALIASES: &str = "/_matrix/client/v3/directory/room/";
    let mut plan = plan(&[]);
    let silent =
        "https://alpha.example:8448/_matrix/federation/v1/query/directory?room_alias=%23silent%3Aalpha.example%3A8448";
    plan.site.page(silent, Reply::silence());
    let mut world = World::start(plan);
    let us = within(Duration::from_secs(2));
    let alias = |last, local: &str| {
        let path = format!("{ALIASES}%23{local}:alpha.example:8448");
        let us = &us;
        async move { us.get_from(client(last), &path, &[]).await.status }
    };
    world.run(async {
        let silent = alias(1, "silent");
        let others = join_all((2..6).map(|last| alias(last, "lively")));
        tokio::pin!(silent);
        tokio::select! {
            biased;
            status = &mut silent => panic!("the silent one answered {status}"),
            statuses = others => assert_eq!(statuses, [200; 4]),
        }
        assert_eq!(silent.await, 504);
    });
    us.assert_at_rest();
    world.assert_at_rest();
}

fn br89() {
    const CALLS: u8 = 8;
    let mut plan = plan(&[]);
    plan.site.federation(Reply::silence());
    let mut world = World::start(plan);
    let us = Arc::new(Us::new(Settings::default()));
    let calls: Vec<_> = (0..CALLS)
        .map(|last| {
            let us = Arc::clone(&us);
            let path = format!("{LIST_OF_ALPHA}:8448&limit={}", last + 1);
            world.spawn(async move { us.get_from(client(last), &path, &[]).await.status })
        })
        .collect();
    world.run(async {
        while world.fakes.requests().len() < usize::from(CALLS) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(us.portcullis.admission().budget().in_flight(), usize::from(CALLS));
    world.fakes.kill();
    for status in world.run(join_all(calls)) {
        assert_eq!(status.unwrap(), 502);
    }
    us.assert_at_rest();
    world.assert_at_rest();
}

fn srv_port_0() {
    let record = |port: u16, target: &str| json!({"priority": port, "weight": 0, "port": port, "target": target});
    let deprecated = ("_matrix._tcp.alpha.example SRV", json!([record(8450, "hs.beta.example")]));
    let owner = "_matrix-fed._tcp.alpha.example SRV";
    let mut world = World::start(plan(&[(owner, json!([record(0, "hs.beta.example")])), deprecated.clone()]));
    let us = Us::new(Settings::default());
    let error = world.run(us.call(&alpha())).unwrap_err();
    assert_eq!(error.failure, CallFailure::Discovery(DiscoveryError::SrvRefused));
    assert_eq!(world.dialled(), [place("44.128.10.1:443")]);
    us.assert_at_rest();
    world.assert_at_rest();
    drop(world);

    let beside_a_good_one = json!([record(0, "hs.beta.example"), record(8449, "hs.beta.example")]);
    assert_eq!(arrived(plan(&[(owner, beside_a_good_one), deprecated])), place("44.128.10.2:8449"));
}

fn br91() {
    let mut plan = plan(&[]);
    plan.site.federation(Reply::json(r#"{"chunk":[]}"#).after(Duration::from_secs(8)));
    let mut world = World::start(plan);
    let us = Us::new(Settings::default());
    assert_eq!(world.run(us.get_from(client(1), LIST_OF_ALPHA, &[])).status, 200);
    us.assert_at_rest();
    world.assert_at_rest();
}
