//! `discovery.json`: each case through the real code, with everything its `expect` says asserted.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use portcullis::outbound::{CallError, CallFailure, CallPhase, DiscoveryError};
use portcullis::{Host, ServerName, limits};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::well_known::WellKnownShape;
use crate::world::dns::{Asked, Zone};
use crate::world::fakes::{SeenRequest, WELL_KNOWN};
use crate::world::namespace::SEARCH_DOMAIN;
use crate::world::reply::Reply;
use crate::world::us::{OWN_NAME, Settings, Us};
use crate::world::wire::Dial;
use crate::world::x_matrix;
use crate::world::{Plan, World};

/// The cases that are settled by the alternative they list; all others take what they propose.
const SETTLED_BY_ALTERNATIVE: &[Settled] = &[
    // An SRV target that is an alias is followed.
    Settled { id: "disc-srv-18", arrives_at: "44.128.10.3:8450", source: "srv" },
    // The well-known is cut at its share, and discovery goes on inside the deadline.
    Settled { id: "disc-dl-01", arrives_at: "44.128.10.1:8448", source: "default" },
];

/// What the alternative says.
struct Settled {
    id: &'static str,
    arrives_at: &'static str,
    source: &'static str,
}

const HTTPS: u16 = 443;
const DEFAULT_PORT: u16 = 8448;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(rename = "group")]
    _group: String,
    #[serde(rename = "title")]
    _title: String,
    #[serde(default, rename = "firmness")]
    _firmness: Option<String>,
    #[serde(default, rename = "spec_ref")]
    _spec_ref: Option<String>,
    server_name: String,
    well_known: Option<WellKnownShape>,
    dns: BTreeMap<String, Value>,
    expect: Expect,
    world_well_known: Option<WellKnownShape>,
    #[serde(default)]
    other_well_knowns: BTreeMap<String, WellKnownShape>,
    #[serde(default)]
    unreachable: Vec<SocketAddr>,
    #[serde(default)]
    blackholed: Vec<SocketAddr>,
    /// "address:port" to the names its certificate carries.
    #[serde(default)]
    presented_certs: BTreeMap<SocketAddr, Vec<String>>,
    #[serde(default)]
    resolver_search: Vec<String>,
    #[serde(default)]
    remote_delay_ms: u64,
    deadline_ms: Option<u64>,
    /// So large that the deadline decides: our share of it is fixed.
    #[serde(rename = "well_known_limit_ms")]
    _well_known_limit_ms: Option<u64>,
    alt_expect: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    connect_ips: Vec<IpAddr>,
    ips_any_order: bool,
    connect_port: Option<u16>,
    attempts: Option<Vec<SocketAddr>>,
    used: Option<SocketAddr>,
    used_any_of: Option<Vec<SocketAddr>>,
    host_header: Option<String>,
    host_header_compare: Option<String>,
    host_header_alt: Option<String>,
    tls_sni: Option<String>,
    sni_compare: Option<String>,
    cert_name: Option<String>,
    presented_cert_must_cover: Option<String>,
    source: Option<String>,
    x_matrix_destination: Option<String>,
    must_not_query: Vec<String>,
    must_not_connect: Vec<SocketAddr>,
    well_known_fetches: Option<Vec<String>>,
    requests_sent: Option<usize>,
    dials: Option<usize>,
    max_body_bytes_read: Option<usize>,
    max_requests_to_443: Option<usize>,
    max_dns_queries: Option<usize>,
    max_wall_ms: Option<u64>,
    deadline_ms: Option<u64>,
    over_1000_runs: Option<Share>,
    error: Option<String>,
    /// Ours is always `error` itself.
    #[serde(rename = "alt")]
    _alt: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    share_of: SocketAddr,
    min: f64,
}

/// What was seen of one call.
struct Seen {
    asked: Vec<Asked>,
    dials: Vec<Dial>,
    requests: Vec<SeenRequest>,
    took: Duration,
    body_bytes: usize,
}

pub(crate) fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("discovery.json")).unwrap()
}

impl Case {
    pub(crate) fn run(&self) {
        let mut world = World::start(self.plan());
        let deadline = self.deadline_ms.or(self.expect.deadline_ms).map(Duration::from_millis);
        let us = Us::new(Settings { remote_timeout: deadline, ..Settings::default() });
        for domain in &self.resolver_search {
            assert_eq!(domain, SEARCH_DOMAIN);
        }
        match self.server_name.parse::<ServerName>() {
            Err(_) => self.is_no_server_name(&mut world, &us),
            Ok(name) => self.is_called(&name, &mut world, &us),
        }
        us.assert_at_rest();
        world.assert_at_rest();
    }

    fn plan(&self) -> Plan {
        let zone = Zone::of(&self.dns);
        let host = host_of(&self.server_name);
        let addresses_of = |name: &str| zone.addresses_of(name);
        let mut plan = Plan::default();
        let mut ips = zone.addresses();
        ips.extend(&self.expect.connect_ips);
        let mut ports = vec![HTTPS, DEFAULT_PORT];
        ports.extend(zone.service_ports());
        ports.extend(self.expect.connect_port);
        ports.extend(self.expect.must_not_connect.iter().map(SocketAddr::port));
        ports.extend(self.server_name.parse::<ServerName>().ok().and_then(|name| name.port()));
        plan.serve(&ips, &ports);
        plan.places.retain(|place| !self.unreachable.contains(place));
        plan.black_holes.extend(&self.blackholed);
        for place in plan.places.clone() {
            // The final destination presents the one name it must be asked for, whatever name it is asked for.
            let final_place = self.expect.connect_ips.contains(&place.ip()) && self.is_final_port(place.port());
            if let (true, Some(name)) = (final_place, &self.expect.cert_name) {
                plan.site.certificate(place, &[name]);
            }
            if let Some(names) = self.presented_certs.get(&place) {
                plan.site.certificate(place, &names.iter().map(String::as_str).collect::<Vec<_>>());
            }
        }
        if self.remote_delay_ms > 0 {
            let slow = Reply::json(r#"{"chunk":[]}"#).after(Duration::from_millis(self.remote_delay_ms));
            plan.site.federation(slow);
        }
        for well_known in self.well_known.iter().chain(&self.world_well_known) {
            well_known.put_at(&host, &addresses_of(&host), &mut plan);
        }
        for (other, well_known) in &self.other_well_knowns {
            well_known.put_at(other, &addresses_of(other), &mut plan);
        }
        plan.zone = zone;
        plan
    }

    fn is_final_port(&self, port: u16) -> bool {
        let listed = |places: &Option<Vec<SocketAddr>>| places.iter().flatten().any(|place| place.port() == port);
        self.expect.connect_port == Some(port) || listed(&self.expect.attempts) || listed(&self.expect.used_any_of)
    }

    /// Nothing is looked up, nothing dialled, and the client is told that its request is bad.
    fn is_no_server_name(&self, world: &mut World, us: &Us) {
        self.assert_error("invalid-server-name");
        let encoded = utf8_percent_encode(&self.server_name, NON_ALPHANUMERIC);
        let answer = world.run(us.get(&format!("/_matrix/client/v3/publicRooms?server={encoded}"), &[]));
        assert_eq!((answer.status, answer.errcode().as_str()), (400, "M_INVALID_PARAM"));
        assert_eq!((world.dns.asked(), world.dials()), (vec![], vec![]));
    }

    fn is_called(&self, name: &ServerName, world: &mut World, us: &Us) {
        let began = Instant::now();
        let outcome = world.run(us.call(name));
        let took = began.elapsed();
        let seen = Seen {
            asked: world.dns.asked(),
            dials: world.dials(),
            requests: world.fakes.requests(),
            took,
            body_bytes: world.fakes.body_bytes(),
        };
        self.assert_limits(&seen);
        let alternative = SETTLED_BY_ALTERNATIVE.iter().find(|settled| settled.id == self.id);
        if self.expect.error.is_some() && alternative.is_none() {
            return self.assert_error(word_of(outcome.unwrap_err()));
        }
        assert_eq!(outcome.unwrap().status, 200);
        let source = world.run(us.destination(name)).unwrap().source.as_label();
        if let Some(settled) = alternative {
            assert!(self.alt_expect.is_some(), "no alternative is listed");
            assert_eq!((source, seen.only_federation().at), (settled.source, settled.arrives_at.parse().unwrap()));
            x_matrix::verified(seen.only_federation(), us.verify_key());
            return;
        }
        assert_eq!(Some(source), self.expect.source.as_deref(), "source");
        self.assert_arrived(name, &seen, us);
        if let Some(share) = &self.expect.over_1000_runs {
            assert_share(share, name, world, us);
        }
    }

    fn assert_error(&self, word: &str) {
        let expected = self.expect.error.as_deref().expect("a good name");
        assert_eq!(word, expected);
    }

    /// What holds whatever came of the call.
    fn assert_limits(&self, seen: &Seen) {
        let Expect { must_not_query, must_not_connect, .. } = &self.expect;
        for word in must_not_query {
            match word.as_str() {
                "well-known" => assert!(seen.well_knowns().is_empty(), "{:?}", seen.requests),
                "SRV" | "A" | "AAAA" => {
                    let kind = word.parse().unwrap();
                    assert!(seen.asked.iter().all(|asked| asked.kind != kind), "{:?}", seen.asked);
                }
                name => assert!(seen.asked.iter().all(|asked| asked.name != name), "{:?}", seen.asked),
            }
        }
        if self.well_known.is_none() {
            assert!(seen.well_knowns().is_empty(), "{:?}", seen.requests);
        }
        for place in must_not_connect {
            assert!(seen.dials.iter().all(|dial| dial.to != *place), "{place}: {:?}", seen.dials);
        }
        let at_most = |what: &str, value: usize, most: Option<usize>| {
            assert!(most.is_none_or(|most| value <= most), "{what}: {value} of {most:?}");
        };
        let to_443 = seen.requests.iter().filter(|request| request.at.port() == HTTPS).count();
        at_most("requests to 443", to_443, self.expect.max_requests_to_443);
        at_most("DNS questions", seen.asked.len(), self.expect.max_dns_queries);
        at_most("body bytes", seen.body_bytes, self.expect.max_body_bytes_read);
        if self.expect.max_body_bytes_read.is_some() {
            // It was given up, not waited for until its share of the time was over.
            assert!(seen.took < limits::DIRECTORY_DEADLINE / limits::WELL_KNOWN_SHARE, "{:?}", seen.took);
        }
        at_most("dials", seen.dials.len(), self.expect.dials);
        let wall = usize::try_from(seen.took.as_millis()).unwrap();
        at_most("milliseconds", wall, self.expect.max_wall_ms.map(|most| usize::try_from(most).unwrap()));
        if let Some(hosts) = &self.expect.well_known_fetches {
            assert_eq!(seen.well_knowns().iter().map(|request| request.only("host")).collect::<Vec<_>>(), *hosts);
        }
        if let Some(sent) = self.expect.requests_sent.filter(|_| self.alt_expect.is_none()) {
            assert_eq!(seen.federation().len(), sent);
        }
    }

    /// The request arrived where it should, once, under the right names and signed for the right one.
    fn assert_arrived(&self, name: &ServerName, seen: &Seen, us: &Us) {
        let expect = &self.expect;
        let request = seen.only_federation();
        let tried: Vec<_> = seen.federation_dials(self).iter().map(|dial| dial.to).collect();
        match (&expect.attempts, expect.connect_port) {
            (Some(attempts), _) => assert_eq!(tried, *attempts),
            (None, Some(port)) => {
                assert!(expect.ips_any_order || expect.connect_ips[0] == request.at.ip(), "{tried:?}");
                assert_eq!(tried, [request.at]);
                assert_eq!(request.at.port(), port);
            }
            (None, None) => assert_eq!(tried, [request.at]),
        }
        assert!(expect.connect_ips.contains(&request.at.ip()), "{}", request.at);
        assert!(expect.used.is_none_or(|used| used == request.at), "{}", request.at);
        assert!(expect.used_any_of.as_ref().is_none_or(|places| places.contains(&request.at)), "{}", request.at);

        let same = |seen: &str, expected: &str, compare: &Option<String>| match compare.as_deref() {
            Some("case-insensitive") => seen.eq_ignore_ascii_case(expected),
            Some(other) => panic!("compare {other}"),
            None => seen == expected,
        };
        let host = request.only("host");
        let expected = expect.host_header.as_deref().unwrap();
        let alternative = expect.host_header_alt.as_deref() == Some(host);
        assert!(alternative || same(host, expected, &expect.host_header_compare), "Host {host}, expected {expected}");
        match (request.sni.as_deref(), expect.tls_sni.as_deref()) {
            (Some(seen), Some(expected)) => assert!(same(seen, expected, &expect.sni_compare), "SNI {seen}"),
            (seen, expected) => assert_eq!(seen, expected, "SNI"),
        }
        // The fake presented this name and no other, so the certificate was checked for it.
        assert!(expect.presented_cert_must_cover.is_none() || expect.presented_cert_must_cover == expect.cert_name);

        let signed = x_matrix::verified(request, us.verify_key());
        assert_eq!(signed.origin, OWN_NAME);
        assert_eq!(signed.destination, expect.x_matrix_destination.as_deref().unwrap_or(name.as_str()));
    }
}

impl Seen {
    fn well_knowns(&self) -> Vec<&SeenRequest> {
        self.requests.iter().filter(|request| request.target == WELL_KNOWN).collect()
    }

    fn federation(&self) -> Vec<&SeenRequest> {
        self.requests.iter().filter(|request| request.is_federation()).collect()
    }

    fn only_federation(&self) -> &SeenRequest {
        let federation = self.federation();
        let [request] = federation.as_slice() else { panic!("{federation:?}") };
        request
    }

    /// Those that are not of the well-known fetch: that one goes to port 443 and comes first.
    fn federation_dials(&self, case: &Case) -> Vec<Dial> {
        let request_of = |dial: &Dial| self.requests.iter().find(|request| request.from == dial.from);
        let of_the_fetch = |dial: &Dial| match request_of(dial) {
            Some(request) => !request.is_federation(),
            None => dial.to.port() == HTTPS && case.well_known.is_some(),
        };
        let first = self.dials.iter().position(|dial| !of_the_fetch(dial)).unwrap_or(self.dials.len());
        self.dials[first..].to_vec()
    }
}

fn assert_share(share: &Share, name: &ServerName, world: &mut World, us: &Us) {
    const RUNS: u32 = 1000;
    let mut hits = 0;
    for _ in 0..RUNS {
        world.wire.clear();
        world.fakes.forget_requests();
        world.run(us.call(name)).unwrap();
        let arrived: Vec<_> = world.fakes.requests().iter().map(|request| request.at).collect();
        assert_eq!(world.dialled(), arrived);
        hits += u32::from(arrived == [share.share_of]);
    }
    assert!(f64::from(hits) >= share.min * f64::from(RUNS), "{hits} of {RUNS}");
}

/// The product-neutral word for an error.
fn word_of(error: CallError) -> &'static str {
    match (error.failure, error.phase) {
        _ if error.timed_out => "deadline",
        (CallFailure::Discovery(DiscoveryError::NoAddresses), _) => "no-addresses",
        (CallFailure::Discovery(DiscoveryError::SrvRefused), _) => "srv-refused",
        (CallFailure::Discovery(DiscoveryError::DnsFailure), _) => "dns-failure",
        (CallFailure::Exchange, CallPhase::Connect) => "unreachable",
        _ => panic!("no word for {error:?}"),
    }
}

/// The host of a server name, in lower case.
fn host_of(server_name: &str) -> String {
    match server_name.parse::<ServerName>().map(|name| name.host().clone()) {
        Ok(Host::Name(name)) => name.to_string(),
        _ => String::new(),
    }
}
