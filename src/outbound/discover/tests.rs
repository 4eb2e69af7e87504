//! Discovery against a world that answers from a table, under paused time.

use super::*;
use crate::outbound::destination::Source;
use crate::outbound::fake_world::{Page, World, Zone, ten_seconds};

const SECOND: Duration = Duration::from_secs(1);

fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

/// `alpha.example` delegates to `hs.beta.example:8449`.
fn delegating() -> Arc<World> {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1"]);
    world.name("hs.beta.example", &["44.128.10.2"]);
    world.well_known("alpha.example", Page::delegates_to("hs.beta.example:8449"));
    world
}

fn addresses(found: &Destination) -> Vec<String> {
    found.addresses.iter().map(|address| address.socket_addr().to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_delegation_is_found_and_remembered_and_the_destination_is_never_dialled() {
    let world = delegating();
    let discovery = world.discovery();
    for _ in 0..3 {
        let found = discovery.destination(&name("alpha.example"), ten_seconds()).await.unwrap();
        assert_eq!((found.source, addresses(&found)), (Source::WellKnown, vec!["44.128.10.2:8449".to_owned()]));
    }
    let dialled: Vec<_> = world.dialled().iter().map(|one| one.address.to_string()).collect();
    assert_eq!(dialled, ["44.128.10.1:443"]);
}

#[tokio::test(start_paused = true)]
async fn afresh_asks_the_delegating_host_again() {
    let world = delegating();
    let discovery = world.discovery();
    discovery.destination(&name("alpha.example"), ten_seconds()).await.unwrap();
    world.name("hs2.beta.example", &["44.128.10.7"]);
    world.well_known("alpha.example", Page::delegates_to("hs2.beta.example:1"));
    tokio::time::advance(SECOND).await;
    let call = ten_seconds();
    let remembered = discovery.destination(&name("alpha.example"), call).await.unwrap();
    assert_eq!(addresses(&remembered), ["44.128.10.2:8449"]);
    let afresh = discovery.destination_afresh(&name("alpha.example"), call).await.unwrap();
    assert_eq!(addresses(&afresh), ["44.128.10.7:1"], "BR-70");
    discovery.destination_afresh(&name("alpha.example"), call).await.unwrap();
    assert_eq!(world.fetches(), 2, "once per call");
}

#[tokio::test(start_paused = true)]
async fn br72_a_well_known_that_appears_outranks_srv_as_soon_as_its_absence_is_forgotten() {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1"]);
    world.name("hs.beta.example", &["44.128.10.2"]);
    world.srv("_matrix._tcp.alpha.example", &[(0, 0, 8443, "hs.beta.example")]);
    world.well_known("alpha.example", Page::answer(404, ""));
    let discovery = world.discovery();
    let by_srv = discovery.destination(&name("alpha.example"), ten_seconds()).await.unwrap();
    assert_eq!((by_srv.source, addresses(&by_srv)), (Source::SrvDeprecated, vec!["44.128.10.2:8443".to_owned()]));
    world.well_known("alpha.example", Page::delegates_to("hs.beta.example:443"));
    tokio::time::advance(crate::limits::WELL_KNOWN_FAILURE_MIN).await;
    let delegated = discovery.destination(&name("alpha.example"), ten_seconds()).await.unwrap();
    assert_eq!((delegated.source, addresses(&delegated)), (Source::WellKnown, vec!["44.128.10.2:443".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn silence_at_every_step_leaves_time_for_the_last_one() {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1"]);
    world.well_known("alpha.example", Page::Mute);
    world.zone("_matrix-fed._tcp.alpha.example SRV", Zone::Silence);
    world.zone("_matrix._tcp.alpha.example SRV", Zone::Silence);
    let call = ten_seconds();
    let found = world.discovery().destination(&name("alpha.example"), call).await.unwrap();
    assert_eq!((found.source, addresses(&found)), (Source::Default, vec!["44.128.10.1:8448".to_owned()]));
    // Ten seconds, less a third, less a quarter twice: 3.75 s, less the timer's rounding up.
    let left = call.remaining(Instant::now()).unwrap();
    assert!(left > 3740 * SECOND / 1000, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_whole_deadline_is_spent_nothing_more_is_asked() {
    let world = delegating();
    let call = ten_seconds();
    tokio::time::advance(10 * SECOND).await;
    let discovery = world.discovery();
    assert_eq!(discovery.destination(&name("alpha.example"), call).await, Err(DiscoveryError::OutOfTime));
    assert_eq!(discovery.destination(&name("alpha.example:1"), call).await, Err(DiscoveryError::OutOfTime));
    assert_eq!((world.asked().len(), world.fetches()), (0, 0));
    let explained = discovery.explain(&name("alpha.example"), call).await;
    assert_eq!((explained.result, explained.ended_at), (Err(DiscoveryError::OutOfTime), DiscoveryStep::WellKnown));
}

#[tokio::test(start_paused = true)]
async fn targets_are_looked_up_side_by_side_in_the_time_of_one_question() {
    let world = World::new();
    let targets: Vec<_> = (0..16).map(|number| format!("t{number}.example")).collect();
    let records: Vec<_> = targets.iter().map(|target| (0, 0, 8450, target.as_str())).collect();
    world.srv("_matrix-fed._tcp.alpha.example", &records);
    for target in &targets {
        world.zone(&format!("{target} A"), Zone::Silence);
    }
    world.name("t3.example", &["44.128.10.3"]);
    let start = Instant::now();
    let found = world.discovery().destination(&name("alpha.example"), ten_seconds()).await.unwrap();
    assert_eq!(addresses(&found), ["44.128.10.3:8450"]);
    assert_eq!(start.elapsed(), 10 * SECOND / 4);
}

#[tokio::test(start_paused = true)]
async fn our_own_name_is_not_discovered_but_may_be_explained() {
    let world = World::new();
    world.name("hs.self.example", &["44.128.10.99"]);
    world.well_known("hs.self.example", Page::redirect(302, "/elsewhere"));
    world.page("https://hs.self.example/elsewhere", Page::delegates_to("hs.self.example:443"));
    let discovery = world.discovery();
    for own in ["hs.self.example", "HS.self.example:8448"] {
        assert_eq!(discovery.destination(&name(own), ten_seconds()).await, Err(DiscoveryError::OwnServer));
        assert_eq!(discovery.destination_afresh(&name(own), ten_seconds()).await, Err(DiscoveryError::OwnServer));
    }
    assert_eq!(world.asked().len(), 0);
    let explained = discovery.explain(&name("hs.self.example"), ten_seconds()).await;
    assert_eq!(addresses(&explained.result.unwrap()), ["44.128.10.99:443"]);
    let other_port = discovery.destination(&name("hs.self.example:8449"), ten_seconds()).await.unwrap();
    assert_eq!(addresses(&other_port), ["44.128.10.99:8449"], "another server on our host, asked for by its name");
}

#[tokio::test(start_paused = true)]
async fn weights_decide_how_often_a_target_comes_first() {
    let world = World::new();
    world.srv("_matrix-fed._tcp.alpha.example", &[(10, 1, 8450, "a.example"), (10, 99, 8452, "b.example")]);
    world.name("a.example", &["44.128.10.3"]);
    world.name("b.example", &["44.128.10.4"]);
    let discovery = world.discovery();
    let mut first = 0;
    for _ in 0..1000 {
        let found = discovery.destination(&name("alpha.example"), ten_seconds()).await.unwrap();
        assert_eq!(found.addresses.len(), 2);
        first += usize::from(addresses(&found)[0] == "44.128.10.4:8452");
    }
    assert!(first > 900, "{first}");
}

/// The steps as words, in order.
fn steps(explained: &Explained) -> Vec<(&'static str, &'static str)> {
    explained.steps.iter().map(|taken| (taken.step.as_label(), taken.outcome.as_label())).collect()
}

#[tokio::test(start_paused = true)]
async fn every_step_is_told_once_and_in_order() {
    let world = delegating();
    let discovery = world.discovery();
    let explained = discovery.explain(&name("alpha.example"), ten_seconds()).await;
    let (found, none, skipped, refused) = ("found", "none", "skipped", "refused");
    let told = |name, well_known, srv, deprecated, addresses| {
        let words = [name, well_known, srv, deprecated, addresses];
        DiscoveryStep::ALL.iter().map(|step| step.as_label()).zip(words).collect::<Vec<_>>()
    };
    assert_eq!(steps(&explained), told(found, found, skipped, skipped, found));
    assert_eq!(explained.delegated_to, Some(name("hs.beta.example:8449")));
    assert_eq!(explained.steps[1].detail, "delegates to hs.beta.example:8449");
    assert_eq!(explained.steps[4].detail, "hs.beta.example: 44.128.10.2");

    let literal = discovery.explain(&name("44.128.10.1"), ten_seconds()).await;
    assert_eq!(steps(&literal), told(found, skipped, skipped, skipped, found));
    let refused_literal = discovery.explain(&name("10.0.0.1"), ten_seconds()).await;
    assert_eq!(steps(&refused_literal), told(found, skipped, skipped, skipped, refused));
    assert_eq!(refused_literal.ended_at, DiscoveryStep::Addresses);

    world.well_known("alpha.example", Page::delegates_to("hs.self.example:1"));
    let world_discovery = world.discovery();
    let back = world_discovery.explain(&name("alpha.example"), ten_seconds()).await;
    assert_eq!(steps(&back), told(found, refused, skipped, skipped, skipped));
    assert_eq!((back.result.clone(), back.ended_at), (Err(DiscoveryError::OwnServer), DiscoveryStep::WellKnown));

    world.well_known("alpha.example", Page::answer(404, ""));
    world.zone("_matrix-fed._tcp.alpha.example SRV", Zone::Error(DnsError::ServFail));
    world.srv("_matrix._tcp.alpha.example", &[(0, 0, 0, ".")]);
    let absent = world.discovery().explain(&name("alpha.example"), ten_seconds()).await;
    assert_eq!(steps(&absent), told(found, none, "failed", refused, skipped));
    assert_eq!(
        (absent.result.clone(), absent.ended_at),
        (Err(DiscoveryError::SrvRefused), DiscoveryStep::SrvDeprecated)
    );

    world.name("gamma.example", &["44.128.10.1", "10.0.0.1"]);
    let mixed = world.discovery().explain(&name("gamma.example:1"), ten_seconds()).await;
    assert_eq!(steps(&mixed), told(found, skipped, skipped, skipped, refused));
    assert_eq!(mixed.steps[4].detail, "gamma.example: 44.128.10.1, 10.0.0.1 (not allowed)");
}

#[tokio::test(start_paused = true)]
async fn each_step_tells_how_long_it_took() {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1"]);
    world.well_known("alpha.example", Page::answer(404, "").after(SECOND));
    world.zone("_matrix-fed._tcp.alpha.example SRV", Zone::Silence);
    let explained = world.discovery().explain(&name("alpha.example"), ten_seconds()).await;
    let took: Vec<_> = explained.steps.iter().map(|taken| taken.took.as_millis()).collect();
    assert_eq!(took, [0, 1000, 2250, 0, 0]);
    assert_eq!(explained.steps[2].detail, "no answer in time; counts as no record");
}
