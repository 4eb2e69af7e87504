//! `ssrf.json`: no request of a client and no answer of a stranger makes us dial what is forbidden.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use portcullis::homeserver::config::{Config, ConfigProblem};
use portcullis::outbound::{AddressPolicy, DiscoveryError};
use portcullis::{Host, ServerName};

use crate::ssrf_file::{Case, Hop, Input, Rules, Verdict};
use crate::ssrf_media::token_for;
use crate::world::dns::Zone;
use crate::world::fakes::SeenRequest;
use crate::world::namespace::{self, ONLY_IN_HOSTS, SEARCH_DOMAIN};
use crate::world::reply::Reply;
use crate::world::us::{Answer, OWN_NAME, Settings, Us};
use crate::world::{Plan, World, can_be_served, reached_by, x_matrix};

pub(crate) const TESTS: &[(&str, fn())] =
    &[("the_files_hold_103_and_204_cases_and_none_is_left_out", none_is_left_out)];

pub(crate) fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("ssrf.json")).unwrap()
}

fn none_is_left_out() {
    let (discovery, ssrf) = (crate::discovery::cases(), cases());
    assert_eq!((discovery.len(), ssrf.len()), (103, 204));
    let ids: BTreeSet<_> = discovery.iter().map(|case| &case.id).chain(ssrf.iter().map(|case| &case.id)).collect();
    let trials: Vec<_> = crate::trials().iter().map(|trial| trial.name().to_owned()).collect();
    assert_eq!(ids.len(), 307);
    assert_eq!(trials.iter().filter(|name| ids.contains(name)).count(), 307);
}

impl Case {
    pub(crate) fn run(&self) {
        if self.input.startup {
            return self.stops_the_start();
        }
        if !self.input.env.is_empty() && !namespace::is_child() {
            return self.run_with_environment();
        }
        let mut world = World::start(self.plan());
        let us = Us::new(Settings { policy: self.policy(), ..Settings::default() });
        assert!(self.input.resolver_search.iter().all(|domain| domain == SEARCH_DOMAIN));
        let (only_in_hosts, address) = ONLY_IN_HOSTS;
        assert!(self.input.hosts_file.iter().all(|(name, ip)| name == only_in_hosts && *ip == IpAddr::V4(address)));
        assert!(self.input.self_server_name.as_deref().is_none_or(|name| name == OWN_NAME));

        for earlier in 1..self.input.requests.unwrap_or(1) {
            assert_eq!(world.run(self.ask(earlier, &us)).status, 200, "an earlier request");
            assert_eq!(self.input.forbidden_dials(&world.dialled()), [], "forbidden");
            // As every call's connection does; the case says so too.
            assert!(self.input.close_connection_between);
            world.wait_until_closed();
            world.wire.clear();
        }
        let answer = world.run(self.ask(0, &us));
        self.assert_seen(&answer, &mut world);
        match self.expect {
            Verdict::Refuse => self.assert_refused(&answer, &mut world, &us),
            Verdict::Allow => self.assert_allowed(&answer, &mut world, &us),
        }
        if self.is_of_media() {
            self.assert_files(&answer, &mut world, &us);
        }
        world.run(us.files_at_rest());
        us.assert_at_rest();
        world.assert_at_rest();
    }

    pub(crate) fn zone(&self) -> Zone {
        let mut zone = Zone::of(&self.input.dns);
        for (key, values) in &self.input.dns_sequence {
            zone.insert_sequence(key, values);
        }
        if let Some(ttl) = self.input.ttl {
            zone.set_ttl(ttl);
        }
        zone
    }

    fn plan(&self) -> Plan {
        let input = &self.input;
        let zone = self.zone();
        let mut plan = Plan::default();
        let named = input.forbidden.iter().chain(&input.must_dial).chain(&input.must_dial_first).chain(&input.may_dial);
        let named: Vec<_> =
            named.chain(&input.may_fall_back_to).chain(input.dial_any_of.iter().flatten()).copied().collect();
        let mut ips: Vec<_> = named.iter().map(|place| reached_by(*place).ip()).chain(zone.addresses()).collect();
        ips.extend(input.ip);
        ips.retain(|ip| can_be_served(*ip) && !ip.to_canonical().is_unspecified());
        let mut ports: Vec<_> = named.iter().map(SocketAddr::port).chain([443, 8448]).collect();
        ports.extend(zone.service_ports());
        // Everything forbidden is served too: whoever is let through to it gets a perfect answer.
        plan.serve(&ips.iter().map(IpAddr::to_canonical).collect::<Vec<_>>(), &ports);
        plan.places.retain(|place| !input.unreachable.contains(place));
        if let (Some(well_known), Some(Host::Name(host))) = (&input.well_known, self.host()) {
            well_known.put_at(host.as_str(), &zone.addresses_of(host.as_str()), &mut plan);
        }
        for hop in &input.hops {
            let mut reply = Reply::new(hop.status, hop.body.as_str());
            if let Some(location) = &hop.location {
                reply = reply.header("location", location);
            }
            plan.site.page(&hop.from, reply);
        }
        if let Some(remote) = &input.remote_reply {
            plan.site.federation(remote.reply());
        }
        self.put_files(&mut plan);
        plan.zone = zone;
        plan
    }

    fn host(&self) -> Option<Host> {
        Some(self.input.server_name.as_ref()?.parse::<ServerName>().ok()?.host().clone())
    }

    fn policy(&self) -> AddressPolicy {
        let Rules { deny, allow } = self.input.config.clone().unwrap_or_default();
        let networks = |rules: Vec<String>| rules.into_iter().map(|rule| rule.parse::<IpNet>().unwrap());
        AddressPolicy::default().deny(networks(deny)).unwrap().allow(networks(allow)).unwrap()
    }

    /// The client's request. Each round asks a little differently: an equal question would be answered from memory.
    pub(crate) async fn ask(&self, round: u32, us: &Us) -> Answer {
        let line = self.line(round);
        let mut headers: Vec<_> =
            self.input.client_headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let token = token_for(&line);
        headers.extend(token.as_ref().map(|(name, value)| (*name, value.as_str())));
        us.get(&line, &headers).await
    }

    fn line(&self, round: u32) -> String {
        if let Some(path) = self.media_path(round) {
            return path;
        }
        let list = || {
            let encoded = utf8_percent_encode(self.input.server_name.as_deref().unwrap(), NON_ALPHANUMERIC);
            format!("/_matrix/client/v3/publicRooms?server={encoded}&limit={}", round + 10)
        };
        let Some(line) = self.input.request.as_deref() else { return list() };
        let target = line.strip_prefix("GET ").unwrap();
        match target.strip_prefix("/_matrix/federation/v1/") {
            None => target.to_owned(),
            Some("publicRooms") => list(),
            Some(query) => {
                let alias = query.strip_prefix("query/directory?room_alias=").unwrap();
                format!("/_matrix/client/v3/directory/room/{alias}")
            }
        }
    }

    /// What holds for every case.
    fn assert_seen(&self, answer: &Answer, world: &mut World) {
        let input = &self.input;
        let (dialled, requests, asked) = (world.dialled(), world.fakes.requests(), world.dns.asked());
        assert_eq!(input.forbidden_dials(&dialled), [], "forbidden");
        if input.grammar_admits == Some(false) {
            assert_eq!(answer.status, 400);
        }
        if answer.status == 400 {
            assert_eq!(answer.errcode(), "M_INVALID_PARAM");
            assert_eq!((asked.len(), dialled.len()), (0, 0), "looked up and dialled");
        }
        assert!(input.max_dns_queries.is_none_or(|most| asked.len() <= most), "{asked:?}");
        assert!(input.dial_count.is_none_or(|count| count == dialled.len()), "{dialled:?}");
        for question in &input.must_not_query {
            assert!(asked.iter().all(|asked| format!("{} {}", asked.name, asked.kind) != *question), "{asked:?}");
        }
        if let Some(first) = input.must_dial_first {
            // Of those that the other server decides: where a file is said to be comes after the server itself.
            let asked_at = if input.media_reply.is_some() { self.asked_at() } else { Vec::new() };
            assert_eq!(dialled.iter().find(|place| !asked_at.contains(place)), Some(&first));
        }
        for (place, most) in &input.max_requests_to {
            // One would be tolerable; ours is the simplest cure.
            assert!(*most >= 1 && !dialled.contains(place), "{dialled:?}");
        }
        for (place, headers) in &input.must_not_send_to {
            let sent = requests.iter().filter(|request| request.at == *place);
            assert!(sent.flat_map(|request| &request.headers).all(|(name, _)| !headers.contains(name)), "{requests:?}");
        }
        for secret in &input.remote_must_not_see {
            assert!(!requests.is_empty() && !format!("{requests:?}").contains(secret), "{secret}: {requests:?}");
        }
        if answer.status != 200 {
            let leaked = input
                .forbidden
                .iter()
                .chain(&input.may_dial)
                .find(|place| answer.text.contains(&place.ip().to_string()));
            assert_eq!(leaked, None, "{}", answer.text);
        }
    }

    fn assert_refused(&self, answer: &Answer, world: &mut World, us: &Us) {
        let input = &self.input;
        let mut harmless: Vec<_> =
            input.may_dial.iter().chain(&input.may_fall_back_to).chain(&input.must_dial_first).copied().collect();
        if self.is_of_media() {
            harmless.extend(self.asked_at());
        }
        harmless.extend(input.hops.iter().flat_map(Hop::places_in(&Zone::of(&input.dns))));
        let dialled = world.dialled();
        // A name whose only address is dead may be tried.
        let harmless = |place: &&SocketAddr| harmless.contains(place) || input.unreachable.contains(place);
        assert_eq!(dialled.iter().find(|place| !harmless(place)), None, "{dialled:?}");
        assert_eq!(answer.status, self.status_of_refusal(), "{answer:?}");
        let finished_by = federation(world).last().map(|request| request.at);
        if self.falls_back() {
            assert!(finished_by.is_some_and(|place| harmless(&&place)), "{finished_by:?}");
        }
        if let Some(ip) = input.ip {
            self.policy().judge(SocketAddr::new(ip, 8448)).unwrap_err();
            let name = input.server_name.as_ref().unwrap().parse().unwrap();
            assert_eq!(world.run(us.destination(&name)), Err(DiscoveryError::AddressRefused));
        }
        if self.kind == "dns-mixed" || self.kind == "cname" {
            assert_eq!(dialled, [], "one refused address refuses the whole set");
        }
    }

    /// A delegation or a redirect that is refused is no well-known: the name's own address answers.
    fn falls_back(&self) -> bool {
        self.input.may_fall_back_to.is_some() || (self.kind == "redirect" && self.input.well_known.is_some())
    }

    fn status_of_refusal(&self) -> u16 {
        let no_server_name = |name: &String| name.parse::<ServerName>().is_err();
        let asked = self.input.media_request.as_ref().map(|asked| &asked.server_name);
        match self.id.as_str() {
            // Our own list.
            "ssrf-operator-11" => 200,
            // A repeated parameter, a fragment mark in a name, and a media id that leaves its folder.
            "ssrf-entry-point-09" | "ssrf-entry-point-11" | "ssrf-syntax-27" => 400,
            _ if self.falls_back() => 200,
            _ if self.input.server_name.as_ref().or(asked).is_some_and(no_server_name) => 400,
            _ => 502,
        }
    }

    fn assert_allowed(&self, answer: &Answer, world: &mut World, us: &Us) {
        let input = &self.input;
        assert_eq!(answer.status, 200, "{answer:?}");
        let dialled = world.dialled();
        let wanted: Vec<_> = input.must_dial.iter().chain(input.dial_any_of.iter().flatten()).copied().collect();
        assert!(dialled.iter().any(|place| wanted.contains(place)), "{dialled:?}");
        let arrived = federation(world);
        let [request] = arrived.as_slice() else { panic!("{arrived:?}") };
        if self.is_of_media() {
            return;
        }
        assert!(wanted.contains(&request.at), "{}", request.at);
        x_matrix::verified(request, us.verify_key());
        let query = request.target.split_once('?').map_or("", |(_, query)| query);
        let parameters: BTreeMap<_, _> =
            query.split('&').filter_map(|pair| pair.split_once('=')).map(decoded).collect();
        for (name, value) in &input.remote_sees_query {
            assert_eq!(parameters.get(name), Some(value));
            assert_eq!(parameters.len(), input.remote_sees_query.len(), "{query}");
        }
    }

    /// The configuration is refused whole, and says why.
    fn stops_the_start(&self) {
        let rules = self.input.config.clone().unwrap();
        let file = std::env::temp_dir().join(format!("portcullis-{}-{}.toml", self.id, std::process::id()));
        let text = |deny: &[String]| {
            format!("server_name = \"{OWN_NAME}\"\nsigning_key = \"key\"\n[federation]\ndeny_networks = {deny:?}\n")
        };
        std::fs::write(&file, text(&["10.0.0.0/8".to_owned()])).unwrap();
        Config::read(&file).unwrap();
        std::fs::write(&file, text(&rules.deny)).unwrap();
        let problem = Config::read(&file).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(&problem, ConfigProblem::Mistakes(mistakes) if mistakes.len() == 1), "{problem}");
        assert!(problem.to_string().contains(&rules.deny[0]), "{problem}");
    }

    /// Once more in a process that has this environment from its start.
    fn run_with_environment(&self) {
        let mut child = namespace::again(&self.id);
        for (name, value) in &self.input.env {
            child.env(name, value).env(name.to_ascii_lowercase(), value);
        }
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}{words}");
    }
}

impl Hop {
    /// Where such a hop is served: the way there is harmless.
    fn places_in(zone: &Zone) -> impl Fn(&Self) -> Vec<SocketAddr> {
        |hop| {
            let host = hop.from.strip_prefix("https://").unwrap().split('/').next().unwrap();
            zone.addresses_of(host).into_iter().map(|ip| SocketAddr::new(ip, 443)).collect()
        }
    }
}

impl Input {
    fn forbidden_dials(&self, dialled: &[SocketAddr]) -> Vec<SocketAddr> {
        let forbidden: Vec<_> = self.forbidden.iter().flat_map(|place| [*place, reached_by(*place)]).collect();
        dialled.iter().filter(|place| forbidden.contains(place)).copied().collect()
    }
}

fn federation(world: &World) -> Vec<SeenRequest> {
    world.fakes.requests().into_iter().filter(SeenRequest::is_federation).collect()
}

fn decoded((name, value): (&str, &str)) -> (String, String) {
    let decode = |text| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    (decode(name), decode(value))
}
