//! Well-known files: what counts, for how long, and what it costs when nobody answers.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::{advance, sleep};

use super::*;
use crate::outbound::fake_world::{Page, World, Zone, ten_seconds};
use crate::outbound::resolver::DnsError;
use crate::outbound::transport::{TransportError, TransportPhase};
use crate::server_name::Host;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A world in which `alpha.example` has an address and serves `page`.
fn serving(page: Page) -> (Arc<World>, WellKnown) {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1"]);
    world.well_known("alpha.example", page);
    let well_known = watching(&world);
    (world, well_known)
}

fn watching(world: &Arc<World>) -> WellKnown {
    let own_host = Host::Name("hs.self.example".parse().unwrap());
    let user_agent = HeaderValue::from_static("portcullis-test");
    let (resolver, transport, policy) = (world.clone(), world.clone(), Arc::default());
    WellKnown::new(Arc::new(Web { resolver, transport, policy, own_host, user_agent }))
}

async fn ask(well_known: &WellKnown) -> Delegation {
    well_known.delegation(&"alpha.example".parse().unwrap(), ten_seconds(), None).await
}

fn to(name: &str) -> Delegation {
    Delegation::To(name.parse().unwrap())
}

const INVALID: Delegation = Delegation::None(FetchFailure::Invalid);

#[tokio::test(start_paused = true)]
async fn the_request_goes_to_port_443_of_the_judged_address_under_the_hosts_own_name() {
    let (world, well_known) = serving(Page::delegates_to("HS.Beta.Example:8449"));
    assert_eq!(ask(&well_known).await, to("HS.Beta.Example:8449"), "letters are kept");
    let [request] = <[_; 1]>::try_from(world.dialled()).unwrap();
    assert_eq!(request.address, "44.128.10.1:443".parse().unwrap());
    assert_eq!(request.tls_name, "Name(DnsName(alpha.example))");
    let headers: Vec<_> = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let expected: [(&str, &[u8]); 3] =
        [("host", b"alpha.example"), ("accept", b"application/json"), ("user-agent", b"portcullis-test")];
    assert_eq!(headers, expected);
}

#[tokio::test(start_paused = true)]
async fn only_a_json_object_with_a_server_name_is_a_valid_file_s07_s08() {
    for body in [
        "NOT JSON",
        "",
        "{}",
        "[]",
        "[\"hs.beta.example\"]",
        "\"hs.beta.example\"",
        "{\"m.server\": \"hs.beta.example\"} trailing",
        "{\"server\":\"hs.beta.example\"}",
        "{\"m.homeserver\":{}}",
        "{\"m.server\":8448}",
        "{\"m.server\":null}",
        "{\"m.server\":\"\"}",
        "{\"m.server\":\"https://hs.beta.example\"}",
        "{\"m.server\":\"u@hs.beta.example:8448\"}",
        "{\"m.server\":\"hs.beta.example:65536\"}",
        "{\"m.server\":\"hs.beta.example:https\"}",
        "{\"m.server\":\"2a0e:fade:10::2\"}",
        "{\"m.server\":\"2130706433:8448\"}",
    ] {
        let (_, well_known) = serving(Page::answer(200, body));
        assert_eq!(ask(&well_known).await, INVALID, "{body}");
    }
    let not_utf8 = Page::answer(200, "").in_pieces(vec![Bytes::from_static(b"{\"m.server\":\"\xffh\"}")], SECOND / 9);
    assert_eq!(ask(&serving(not_utf8).1).await, INVALID);
    let nested = "[".repeat(20_000);
    assert_eq!(ask(&serving(Page::answer(200, &nested)).1).await, INVALID);
    for body in ["{\"x\":{\"y\":[1,2]},\"m.server\":\"b.example:1\"}", "\n  {\"m.server\":\"b.example:1\"}  \n"] {
        let (_, well_known) = serving(Page::answer(200, body).with("content-type", "text/html"));
        assert_eq!(ask(&well_known).await, to("b.example:1"), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_200_counts() {
    for status in [201, 204, 300, 304, 305, 400, 404, 500, 503] {
        let page = match Page::delegates_to("hs.beta.example:8449") {
            Page::Answer { headers, body, pause, delay, .. } => Page::Answer { status, headers, body, pause, delay },
            other => other,
        };
        let page = page.with("location", "https://alpha.example/x");
        assert_eq!(ask(&serving(page).1).await, Delegation::None(FetchFailure::Status(status)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_is_read_in_any_pieces_and_never_past_its_limit() {
    let whole = "{\"m.server\": \"hs.beta.example:8449\"}";
    let bytes: Vec<_> = whole.bytes().map(|byte| Bytes::copy_from_slice(&[byte])).collect();
    let (_, well_known) = serving(Page::answer(200, "").in_pieces(bytes, Duration::from_millis(50)));
    assert_eq!(ask(&well_known).await, to("hs.beta.example:8449"));

    let padded = format!("{}{whole}", " ".repeat(10_000));
    assert_eq!(ask(&serving(Page::answer(200, &padded)).1).await, to("hs.beta.example:8449"));
    let exact = format!("{}{whole}", " ".repeat(50 * 1024 - whole.len()));
    assert_eq!(ask(&serving(Page::answer(200, &exact)).1).await, to("hs.beta.example:8449"));
    assert_eq!(
        ask(&serving(Page::answer(200, &format!(" {exact}"))).1).await,
        Delegation::None(FetchFailure::TooLarge)
    );

    let endless = vec![Bytes::from(vec![b' '; 4096]); 1000];
    let (world, well_known) = serving(Page::answer(200, "").in_pieces(endless, Duration::ZERO));
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::TooLarge));
    assert_eq!(world.body_bytes(), 13 * 4096, "stopped reading at the first piece past the limit");
    let (world, well_known) = serving(Page::answer(200, "{").with("content-length", "1073741824"));
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::TooLarge));
    assert_eq!(world.body_bytes(), 0, "announced too large: not read at all");
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_judged_and_counted() {
    for status in [301, 302, 303, 307, 308] {
        let (world, well_known) = serving(Page::redirect(status, "https://www.alpha.example/a"));
        world.name("www.alpha.example", &["44.128.10.3"]);
        world.page("https://www.alpha.example/a", Page::redirect(308, "/b"));
        world.page("https://www.alpha.example/b", Page::delegates_to("hs.beta.example:8449"));
        assert_eq!(ask(&well_known).await, to("hs.beta.example:8449"), "{status}");
        let dialled: Vec<_> = world.dialled().iter().map(|one| one.address.to_string()).collect();
        assert_eq!(dialled, ["44.128.10.1:443", "44.128.10.3:443", "44.128.10.3:443"]);
    }
    for (hops, expected) in [(5, to("hs.beta.example:8449")), (6, Delegation::None(FetchFailure::Redirect))] {
        let (world, well_known) = serving(Page::redirect(302, "/hop1"));
        for hop in 1..hops {
            world.page(&format!("https://alpha.example/hop{hop}"), Page::redirect(302, &format!("/hop{}", hop + 1)));
        }
        world.page(&format!("https://alpha.example/hop{hops}"), Page::delegates_to("hs.beta.example:8449"));
        assert_eq!(ask(&well_known).await, expected, "{hops} hops");
    }
    let (world, well_known) = serving(Page::redirect(302, "https://alpha.example/.well-known/matrix/server"));
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::Redirect));
    assert_eq!(world.fetches(), 1, "a circle is seen at once");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_worth_three_failed_connects_however_many_addresses_there_are() {
    let many = ["44.128.10.1", "44.128.10.2", "44.128.10.3", "44.128.10.4", "44.128.10.5"];
    let (world, well_known) = serving(Page::Refused);
    world.name("alpha.example", &many);
    assert!(matches!(ask(&well_known).await, Delegation::None(FetchFailure::Transport(_))));
    assert_eq!(world.dialled().len(), 3);

    let (world, well_known) = serving(Page::redirect(302, "https://www.alpha.example/"));
    world.name("www.alpha.example", &many);
    world.page("https://www.alpha.example/", Page::Refused);
    assert!(matches!(ask(&well_known).await, Delegation::None(FetchFailure::Transport(_))));
    assert_eq!(world.dialled().len(), 1 + 3);
}

#[tokio::test(start_paused = true)]
async fn no_redirect_leads_inside_or_back_here() {
    for (location, why) in [
        ("https://127.0.0.1/.well-known/matrix/server", FetchFailure::AddressRefused),
        ("https://[::ffff:10.0.0.1]/.well-known/matrix/server", FetchFailure::AddressRefused),
        ("https://inner.corp.example/.well-known/matrix/server", FetchFailure::AddressRefused),
        ("http://169.254.169.254/latest/meta-data/", FetchFailure::Redirect),
        ("https://0x7f.1/.well-known/matrix/server", FetchFailure::Redirect),
        ("https:\\\\127.0.0.1/x", FetchFailure::Redirect),
        ("https://hs.self.example/.well-known/matrix/server", FetchFailure::OwnServer),
        ("https://HS.self.example:8443/x", FetchFailure::OwnServer),
    ] {
        let (world, well_known) = serving(Page::redirect(302, location));
        world.name("inner.corp.example", &["44.128.10.2", "10.0.0.3"]);
        world.name("hs.self.example", &["44.128.10.99"]);
        assert_eq!(ask(&well_known).await, Delegation::None(why), "{location}");
        assert_eq!(world.fetches(), 1, "{location}");
    }
    let two = Page::redirect(302, "/x").with("location", "/y");
    assert_eq!(ask(&serving(two).1).await, Delegation::None(FetchFailure::Redirect), "two Locations");
    assert_eq!(ask(&serving(Page::answer(302, "")).1).await, Delegation::None(FetchFailure::Redirect), "none");
}

#[tokio::test(start_paused = true)]
async fn the_host_itself_is_judged_before_it_is_asked() {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1", "10.0.0.1"]);
    let well_known = watching(&world);
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::AddressRefused));
    assert_eq!(world.fetches(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_address_is_tried_while_nothing_was_sent() {
    let (world, well_known) = serving(Page::Refused);
    world.name("alpha.example", &["44.128.10.1", "44.128.10.2", "44.128.10.3"]);
    let refused = TransportError { phase: TransportPhase::Connect, timed_out: false };
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::Transport(refused)));
    assert_eq!(world.fetches(), 3);

    let (world, well_known) = serving(Page::Mute);
    world.name("alpha.example", &["44.128.10.1", "44.128.10.2"]);
    assert!(matches!(ask(&well_known).await, Delegation::None(_)));
    assert_eq!(world.fetches(), 1, "the request may have been sent");
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_at_443_costs_the_first_call_its_share_and_the_second_nothing() {
    for (page, waited) in [
        // Connecting: a third of the share. A mute peer or a drip: the whole share, one third of the ten seconds.
        (Page::BlackHole, 10 * SECOND / 3 / 3),
        (Page::Mute, 10 * SECOND / 3),
        (Page::answer(200, "").in_pieces(vec![Bytes::from_static(b" "); 60], SECOND), 10 * SECOND / 3),
    ] {
        let (world, well_known) = serving(page);
        let start = Instant::now();
        let whole = ten_seconds();
        assert!(matches!(ask(&well_known).await, Delegation::None(_)));
        // The timer counts whole milliseconds.
        assert_eq!(start.elapsed().as_millis(), waited.as_millis() + 1);
        assert!(whole.remaining(Instant::now()).is_some_and(|left| left > 6 * SECOND));
        let again = Instant::now();
        assert!(matches!(ask(&well_known).await, Delegation::None(_)));
        assert_eq!(again.elapsed(), Duration::ZERO, "BR-50");
        assert_eq!(world.fetches(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_the_dns_is_silent_about_costs_a_quarter_of_the_share() {
    let world = World::new();
    world.zone("alpha.example A", Zone::Silence);
    let well_known = watching(&world);
    let start = Instant::now();
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::Dns(DnsError::TimedOut)));
    assert_eq!(start.elapsed().as_millis(), 834, "a quarter of a third of ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_came_too_soon_to_mean_anything_is_not_remembered() {
    let (world, well_known) = serving(Page::Mute);
    let hasty = ten_seconds();
    advance(8 * SECOND).await;
    let host = "alpha.example".parse().unwrap();
    assert!(matches!(well_known.delegation(&host, hasty, None).await, Delegation::None(_)));
    world.well_known("alpha.example", Page::delegates_to("hs.beta.example"));
    assert_eq!(ask(&well_known).await, to("hs.beta.example"));
}

#[tokio::test(start_paused = true)]
async fn under_a_short_timeout_of_the_operator_a_black_hole_is_remembered_too() {
    let (world, well_known) = serving(Page::Mute);
    let host = "alpha.example".parse().unwrap();
    for (waited, fetches) in [(1, 1), (0, 1)] {
        let start = Instant::now();
        let whole = OutboundDeadline::after(3 * SECOND, start);
        assert!(matches!(well_known.delegation(&host, whole, None).await, Delegation::None(_)));
        assert_eq!((start.elapsed().as_secs(), world.fetches()), (waited, fetches));
    }
}

#[tokio::test(start_paused = true)]
async fn equal_questions_share_one_fetch_and_nobody_gets_anothers_expiry() {
    let (world, well_known) = serving(Page::delegates_to("hs.beta.example").after(SECOND));
    let (one, two, three) = tokio::join!(ask(&well_known), ask(&well_known), ask(&well_known));
    assert_eq!((one, two, three), (to("hs.beta.example"), to("hs.beta.example"), to("hs.beta.example")));
    assert_eq!(world.fetches(), 1);

    // The leader's share is too short for a fair trial; the follower, with time of its own, leads then.
    let (world, well_known) = serving(Page::delegates_to("hs.beta.example").after(SECOND));
    let host = "alpha.example".parse().unwrap();
    let hasty = ten_seconds();
    advance(9 * SECOND).await;
    let (hasty, patient) = tokio::join!(well_known.delegation(&host, hasty, None), ask(&well_known));
    assert_eq!(hasty, Delegation::None(FetchFailure::TimedOut));
    assert_eq!(patient, to("hs.beta.example"));
    assert_eq!(world.fetches(), 2);

    // A leader that is dropped leaves its turn behind.
    let (world, well_known) = serving(Page::delegates_to("hs.beta.example").after(SECOND));
    let gone = async {
        tokio::select! { _ = ask(&well_known) => {}, () = sleep(SECOND / 2) => {} }
    };
    let ((), follower) = tokio::join!(gone, ask(&well_known));
    assert_eq!((follower, world.fetches()), (to("hs.beta.example"), 2));
}

#[tokio::test(start_paused = true)]
async fn a_good_answer_lives_by_its_headers_and_is_then_replaced() {
    // BR-70: max-age=300, and the file has changed since.
    let (world, well_known) = serving(Page::delegates_to("r1.example:1").with("cache-control", "max-age=300"));
    assert_eq!(ask(&well_known).await, to("r1.example:1"));
    world.well_known("alpha.example", Page::delegates_to("r2.example:2"));
    advance(239 * SECOND).await;
    assert_eq!((ask(&well_known).await, world.fetches()), (to("r1.example:1"), 1));
    advance(62 * SECOND).await;
    assert_eq!((ask(&well_known).await, world.fetches()), (to("r2.example:2"), 2));
    advance(22 * HOUR).await;
    assert_eq!((ask(&well_known).await, world.fetches()), (to("r2.example:2"), 3), "past four fifths of a day");
}

#[tokio::test(start_paused = true)]
async fn when_the_refresh_fails_the_old_answer_is_used_for_two_hours_more() {
    let (world, well_known) = serving(Page::delegates_to("r1.example:1").with("cache-control", "max-age=3600"));
    assert_eq!(ask(&well_known).await, to("r1.example:1"));
    world.well_known("alpha.example", Page::answer(500, ""));
    advance(50 * MINUTE).await;
    assert_eq!((ask(&well_known).await, world.fetches()), (to("r1.example:1"), 2), "tried, and kept");
    advance(MINUTE).await;
    assert_eq!((ask(&well_known).await, world.fetches()), (to("r1.example:1"), 2), "not tried again at once");
    advance(128 * MINUTE).await;
    assert_eq!((ask(&well_known).await, world.fetches()), (to("r1.example:1"), 3), "179 minutes old");
    advance(2 * MINUTE).await;
    assert_eq!(ask(&well_known).await, Delegation::None(FetchFailure::Status(500)), "two hours are over");
}

#[tokio::test(start_paused = true)]
async fn while_one_call_refreshes_the_others_use_what_there_is() {
    let (world, well_known) = serving(Page::delegates_to("r1.example:1").with("cache-control", "max-age=3600"));
    ask(&well_known).await;
    world.well_known("alpha.example", Page::delegates_to("r2.example:2").after(SECOND));
    advance(50 * MINUTE).await;
    let start = Instant::now();
    let other = async {
        let answer = ask(&well_known).await;
        (answer, start.elapsed())
    };
    let (refreshed, other) = tokio::join!(ask(&well_known), other);
    assert_eq!((refreshed, other), (to("r2.example:2"), (to("r1.example:1"), Duration::ZERO)));
}

#[tokio::test(start_paused = true)]
async fn asked_afresh_only_what_was_found_since_the_call_began_is_good_enough() {
    let (world, well_known) = serving(Page::delegates_to("dead.example:1"));
    let host = "alpha.example".parse().unwrap();
    ask(&well_known).await;
    advance(MINUTE).await;
    let began = Instant::now();
    world.well_known("alpha.example", Page::delegates_to("alive.example:1").after(SECOND));
    let afresh = || well_known.delegation(&host, ten_seconds(), Some(began));
    assert_eq!(tokio::join!(afresh(), afresh()), (to("alive.example:1"), to("alive.example:1")));
    assert_eq!((afresh().await, world.fetches()), (to("alive.example:1"), 2), "one fetch for all of them");
    advance(MINUTE).await;
    world.well_known("alpha.example", Page::answer(404, ""));
    let answer = well_known.delegation(&host, ten_seconds(), Some(Instant::now())).await;
    assert_eq!((answer, world.fetches()), (to("alive.example:1"), 3), "no new one: the old one holds");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_hosts_is_bounded_s23() {
    let world = World::new();
    let mut well_known = watching(&world);
    well_known.hosts = Places::new(10);
    for host in 0..100 {
        well_known.delegation(&format!("a{host}.example").parse().unwrap(), ten_seconds(), None).await;
    }
    assert!(well_known.hosts.len().await <= 10);
}
