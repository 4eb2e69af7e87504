//! The pure steps of discovery, by the groups of the specification.

use std::collections::HashMap;

use super::*;

/// The answers that discovery is told, and the questions it asked.
#[derive(Default)]
struct Answers {
    well_known: Option<&'static str>,
    services: HashMap<&'static str, Result<Vec<SrvRecord>, DnsError>>,
    addresses: HashMap<&'static str, Result<Vec<IpAddr>, DnsError>>,
    asked: Vec<String>,
}

impl Answers {
    fn new() -> Self {
        Self::default()
    }

    fn well_known(mut self, delegate: &'static str) -> Self {
        self.well_known = Some(delegate);
        self
    }

    /// `(priority, weight, port, target)`.
    fn srv(mut self, owner: &'static str, records: &[(u16, u16, u16, &str)]) -> Self {
        let records = records.iter().map(|&(priority, weight, port, target)| {
            let target = match target {
                "." => SrvTarget::Root,
                name => name.parse().map_or(SrvTarget::Unusable, SrvTarget::Name),
            };
            SrvRecord { priority, weight, port, target }
        });
        self.services.insert(owner, Ok(records.collect()));
        self
    }

    fn no_srv(mut self, owner: &'static str, error: DnsError) -> Self {
        self.services.insert(owner, Err(error));
        self
    }

    fn name(mut self, name: &'static str, addresses: &[&str]) -> Self {
        self.addresses.insert(name, Ok(addresses.iter().map(|text| text.parse().unwrap()).collect()));
        self
    }

    fn no_name(mut self, name: &'static str, error: DnsError) -> Self {
        self.addresses.insert(name, Err(error));
        self
    }

    fn lead(&mut self, name: &str) -> Result<Destination, DiscoveryError> {
        let policy = AddressPolicy::default();
        let own_host = Host::Name("hs.self.example".parse().unwrap());
        let rules = Rules { policy: &policy, own_host: Some(&own_host) };
        let mut stage = begin(&name.parse().unwrap(), rules);
        loop {
            stage = match stage {
                Stage::Finished(result) => return result,
                Stage::WellKnown(needs) => {
                    self.asked.push(format!("well-known {}", needs.host()));
                    needs.answered(self.well_known.map(|delegate| delegate.parse().unwrap()))
                }
                Stage::Service(needs) => {
                    let owner = match needs.service() {
                        SrvService::MatrixFed => format!("_matrix-fed._tcp.{}", needs.owner()),
                        SrvService::Matrix => format!("_matrix._tcp.{}", needs.owner()),
                    };
                    let answer = self.services.get(owner.as_str()).cloned().unwrap_or(Err(DnsError::NoRecords));
                    self.asked.push(owner);
                    needs.answered(answer, &mut |_| 0)
                }
                Stage::Addresses(needs) => {
                    let names: Vec<_> = needs.names().iter().map(ToString::to_string).collect();
                    let answer = |name: &String| self.addresses.get(name.as_str()).cloned();
                    let answers: Vec<_> =
                        names.iter().map(|name| answer(name).unwrap_or(Err(DnsError::NoRecords))).collect();
                    self.asked.extend(names);
                    needs.answered(&answers)
                }
            };
        }
    }

    /// Asserts where `name` leads: source, addresses in dial order, Host header, certificate name.
    fn assert(mut self, name: &str, source: Source, addresses: &[&str], host_header: &str, tls_name: &str) -> Self {
        let found = self.lead(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let dialled: Vec<_> = found.addresses.iter().map(|address| address.socket_addr().to_string()).collect();
        assert_eq!((found.source, dialled), (source, addresses.iter().map(ToString::to_string).collect()), "{name}");
        let certificate = match &found.tls_name {
            Host::Name(name) => name.to_string(),
            Host::V4(v4) => v4.to_string(),
            Host::V6(v6) => v6.to_string(),
        };
        assert_eq!((found.host_header.as_str(), certificate.as_str()), (host_header, tls_name), "{name}");
        let delegate = found.delegated_to.as_ref().map(ServerName::as_str);
        assert_eq!(delegate, (host_header != name).then_some(host_header), "{name}");
        self
    }
}

const FED: &str = "_matrix-fed._tcp.alpha.example";
const DEPRECATED: &str = "_matrix._tcp.alpha.example";
const FED_OF_BETA: &str = "_matrix-fed._tcp.hs.beta.example";
const DEPRECATED_OF_BETA: &str = "_matrix._tcp.hs.beta.example";

#[test]
fn an_ip_literal_is_dialled_as_written_and_nothing_is_asked_s10_s14() {
    for (name, address, certificate) in [
        ("44.128.10.1", "44.128.10.1:8448", "44.128.10.1"),
        ("44.128.10.1:8449", "44.128.10.1:8449", "44.128.10.1"),
        ("[2a0e:fade:10::1]:443", "[2a0e:fade:10::1]:443", "2a0e:fade:10::1"),
        ("[2A0E:FADE:10::1]", "[2a0e:fade:10::1]:8448", "2a0e:fade:10::1"),
    ] {
        let answers = Answers::new().assert(name, Source::IpLiteral, &[address], name, certificate);
        assert_eq!(answers.asked, [""; 0]);
    }
    for name in ["127.0.0.1", "10.0.0.9:8448", "[::1]", "[::ffff:10.0.0.1]:443"] {
        assert_eq!(Answers::new().lead(name), Err(DiscoveryError::AddressRefused), "{name}");
    }
}

#[test]
fn a_name_with_a_port_asks_for_its_addresses_alone_s01() {
    for port in ["8449", "8448", "443"] {
        let name = format!("Alpha.example:{port}");
        let dialled = [format!("44.128.10.1:{port}"), format!("[2a0e:fade:10::1]:{port}")];
        let answers = Answers::new()
            .well_known("hs.beta.example:1")
            .srv(FED, &[(0, 0, 9999, "srv1.gamma.example")])
            .name("alpha.example", &["44.128.10.1", "2a0e:fade:10::1"])
            .assert(&name, Source::ExplicitPort, &dialled.each_ref().map(String::as_str), &name, "alpha.example");
        assert_eq!(answers.asked, ["alpha.example"]);
    }
    assert_eq!(Answers::new().lead("alpha.example:8449"), Err(DiscoveryError::NoAddresses));
}

#[test]
fn a_delegated_literal_or_port_needs_no_srv_s03() {
    for (delegate, addresses, certificate) in [
        ("44.128.10.2", ["44.128.10.2:8448"], "44.128.10.2"),
        ("44.128.10.2:22", ["44.128.10.2:22"], "44.128.10.2"),
        ("[2a0e:fade:10::2]:443", ["[2a0e:fade:10::2]:443"], "2a0e:fade:10::2"),
        ("HS.Beta.Example:8449", ["44.128.10.2:8449"], "hs.beta.example"),
    ] {
        let answers = Answers::new().well_known(delegate).name("hs.beta.example", &["44.128.10.2"]).assert(
            "alpha.example",
            Source::WellKnown,
            &addresses,
            delegate,
            certificate,
        );
        assert!(!answers.asked.iter().any(|question| question.starts_with('_')), "{:?}", answers.asked);
    }
    let mut nowhere = Answers::new().well_known("hs.beta.example:8449").name("alpha.example", &["44.128.10.1"]);
    assert_eq!(nowhere.lead("alpha.example"), Err(DiscoveryError::NoAddresses), "no way back to the own name");
}

#[test]
fn a_delegated_name_goes_by_its_own_srv_records_then_8448() {
    let world = || {
        Answers::new()
            .well_known("hs.beta.example")
            .srv(FED, &[(0, 0, 9999, "srv9.gamma.example")])
            .name("alpha.example", &["44.128.10.1"])
            .name("hs.beta.example", &["44.128.10.2"])
            .name("srv1.gamma.example", &["44.128.10.3"])
            .name("srv2.gamma.example", &["44.128.10.4"])
    };
    let both = world()
        .srv(FED_OF_BETA, &[(10, 5, 8450, "srv1.gamma.example")])
        .srv(DEPRECATED_OF_BETA, &[(0, 0, 8451, "srv2.gamma.example")])
        .assert("alpha.example", Source::Srv, &["44.128.10.3:8450"], "hs.beta.example", "hs.beta.example");
    assert_eq!(both.asked, ["well-known alpha.example", FED_OF_BETA, "srv1.gamma.example"]);
    world().srv(DEPRECATED_OF_BETA, &[(0, 0, 8451, "srv2.gamma.example")]).assert(
        "alpha.example",
        Source::SrvDeprecated,
        &["44.128.10.4:8451"],
        "hs.beta.example",
        "hs.beta.example",
    );
    let none =
        world().assert("alpha.example", Source::Default, &["44.128.10.2:8448"], "hs.beta.example", "hs.beta.example");
    let asked = ["well-known alpha.example", FED_OF_BETA, DEPRECATED_OF_BETA, "hs.beta.example"];
    assert_eq!(none.asked, asked, "one level of delegation, and no record of the original name");
    let mut absent = world().srv(FED_OF_BETA, &[(0, 0, 0, ".")]);
    assert_eq!(absent.lead("alpha.example"), Err(DiscoveryError::SrvRefused));
}

#[test]
fn without_a_well_known_the_name_goes_by_its_own_srv_records_then_8448_s02_s05() {
    let world = || {
        Answers::new()
            .name("alpha.example", &["44.128.10.1"])
            .name("srv1.gamma.example", &["44.128.10.3"])
            .name("srv2.gamma.example", &["44.128.10.4"])
    };
    let at = |world: Answers, source, addresses: &[&str]| {
        world.assert("ALPHA.example", source, addresses, "ALPHA.example", "alpha.example")
    };
    at(world().srv(FED, &[(10, 0, 443, "srv1.gamma.example")]), Source::Srv, &["44.128.10.3:443"]);
    at(world().srv(DEPRECATED, &[(10, 0, 8451, "srv2.gamma.example")]), Source::SrvDeprecated, &["44.128.10.4:8451"]);
    at(world(), Source::Default, &["44.128.10.1:8448"]);
    at(
        world().srv(FED, &[(20, 0, 8452, "srv2.gamma.example"), (10, 0, 8450, "srv1.gamma.example")]),
        Source::Srv,
        &["44.128.10.3:8450", "44.128.10.4:8452"],
    );
    let twice = world().srv(FED, &[(10, 0, 8450, "srv1.gamma.example"), (20, 0, 8452, "srv1.gamma.example")]);
    let twice = at(twice, Source::Srv, &["44.128.10.3:8450", "44.128.10.3:8452"]);
    assert_eq!(twice.asked.iter().filter(|name| *name == "srv1.gamma.example").count(), 1);
}

#[test]
fn silence_and_server_failure_on_srv_count_as_no_record_other_errors_do_not() {
    for error in [DnsError::ServFail, DnsError::TimedOut, DnsError::NoRecords] {
        Answers::new().no_srv(FED, error).no_srv(DEPRECATED, error).name("alpha.example", &["44.128.10.1"]).assert(
            "alpha.example",
            Source::Default,
            &["44.128.10.1:8448"],
            "alpha.example",
            "alpha.example",
        );
    }
    for (error, expected) in
        [(DnsError::Failed, DiscoveryError::DnsFailure), (DnsError::AliasLoop, DiscoveryError::NoAddresses)]
    {
        let mut answers = Answers::new().no_srv(FED, error).name("alpha.example", &["44.128.10.1"]);
        assert_eq!(answers.lead("alpha.example"), Err(expected));
    }
}

#[test]
fn records_that_cannot_be_used_are_skipped_and_never_lead_to_8448() {
    let lead = |records: &[(u16, u16, u16, &str)]| {
        Answers::new()
            .srv(FED, records)
            .srv(DEPRECATED, &[(0, 0, 8451, "srv2.gamma.example")])
            .name("alpha.example", &["44.128.10.1"])
            .name("srv1.gamma.example", &["44.128.10.3"])
            .name("srv2.gamma.example", &["44.128.10.4"])
            .name("inner.corp.example", &["44.128.10.5", "10.0.0.2"])
            .lead("alpha.example")
            .map(|found| found.addresses.iter().map(|one| one.socket_addr().to_string()).collect::<Vec<_>>())
    };
    let good = (10, 0, 8450, "srv1.gamma.example");
    let only_good = Ok(vec!["44.128.10.3:8450".to_owned()]);
    for (bad, alone) in [
        ((0, 0, 0, "."), DiscoveryError::SrvRefused),
        ((0, 0, 0, "srv2.gamma.example"), DiscoveryError::SrvRefused),
        ((0, 0, 8448, "127.0.0.1"), DiscoveryError::SrvRefused),
        ((0, 0, 8448, "inner.corp.example"), DiscoveryError::AddressRefused),
        ((0, 0, 8448, "gone.gamma.example"), DiscoveryError::NoAddresses),
        ((0, 0, 9999, "hs.self.example"), DiscoveryError::OwnServer),
    ] {
        assert_eq!(lead(&[bad, good]), only_good, "{bad:?}");
        assert_eq!(lead(&[bad]), Err(alone), "{bad:?}");
    }
    let mixed = [(0, 0, 8448, "gone.gamma.example"), (0, 0, 8448, "inner.corp.example")];
    assert_eq!(lead(&mixed), Err(DiscoveryError::AddressRefused));
}

#[test]
fn two_hundred_records_make_bounded_work_and_the_best_one_is_among_it() {
    let targets: Vec<_> = (0..199).map(|number| format!("t{number}.gamma.example")).collect();
    let mut records: Vec<_> =
        (0..199).map(|index| (20, 0, 9000 + index, targets[usize::from(index)].as_str())).collect();
    records.push((10, 0, 8450, "srv1.gamma.example"));
    let answers = Answers::new().srv(FED, &records).name("srv1.gamma.example", &["44.128.10.3"]).assert(
        "alpha.example",
        Source::Srv,
        &["44.128.10.3:8450"],
        "alpha.example",
        "alpha.example",
    );
    let looked_up = answers.asked.iter().filter(|name| name.ends_with("gamma.example")).count();
    assert_eq!(looked_up, MAX_SRV_RECORDS);
}

#[test]
fn addresses_are_judged_whole_and_then_cut_to_size() {
    let many: Vec<_> = (1..=40).map(|last| format!("44.128.10.{last}")).collect();
    let mut many: Vec<_> = many.iter().map(String::as_str).collect();
    let found = Answers::new().name("alpha.example", &many).lead("alpha.example:8448").unwrap();
    assert_eq!(found.addresses.len(), MAX_ADDRESSES_PER_NAME);
    let targets = ["a.example", "b.example", "c.example", "d.example", "e.example"];
    let records: Vec<_> = targets.map(|target| (0, 0, 8450, target)).to_vec();
    let answers = targets.iter().fold(Answers::new().srv(FED, &records), |answers, target| answers.name(target, &many));
    let found = { answers }.lead("alpha.example").unwrap();
    assert_eq!(found.addresses.len(), MAX_ADDRESSES_PER_DESTINATION);
    many.push("10.0.0.1");
    let refused = Answers::new().name("alpha.example", &many).lead("alpha.example:8448");
    assert_eq!(refused, Err(DiscoveryError::AddressRefused), "also past the cut");
}

#[test]
fn nothing_leads_back_to_us() {
    for delegate in ["hs.self.example", "hs.self.example:8448", "HS.Self.Example:9", "hs.self.example:443"] {
        let delegate: &'static str = delegate;
        let mut answers = Answers::new().well_known(delegate).name("hs.self.example", &["44.128.10.99"]);
        assert_eq!(answers.lead("alpha.example"), Err(DiscoveryError::OwnServer), "{delegate}");
        assert_eq!(answers.asked, ["well-known alpha.example"], "{delegate}");
    }
    Answers::new().well_known("xhs.self.example:1").name("xhs.self.example", &["44.128.10.2"]).assert(
        "alpha.example",
        Source::WellKnown,
        &["44.128.10.2:1"],
        "xhs.self.example:1",
        "xhs.self.example",
    );
}

#[test]
fn what_is_refused_inside_is_refused_through_a_delegation_too_s12() {
    for delegate in ["127.0.0.1:8448", "[::1]:8448", "[::ffff:169.254.169.254]:80", "inner.corp.example:8448"] {
        let delegate: &'static str = delegate;
        let mut answers = Answers::new().well_known(delegate).name("inner.corp.example", &["192.168.1.5"]);
        assert_eq!(answers.lead("alpha.example"), Err(DiscoveryError::AddressRefused), "{delegate}");
    }
}

#[test]
fn an_address_lookup_that_fails_says_how() {
    for (error, expected) in [
        (DnsError::NoRecords, DiscoveryError::NoAddresses),
        (DnsError::AliasLoop, DiscoveryError::NoAddresses),
        (DnsError::TimedOut, DiscoveryError::OutOfTime),
        (DnsError::ServFail, DiscoveryError::DnsFailure),
        (DnsError::Failed, DiscoveryError::DnsFailure),
    ] {
        assert_eq!(Answers::new().no_name("alpha.example", error).lead("alpha.example"), Err(expected));
        let mut by_srv = Answers::new().srv(FED, &[(0, 0, 8450, "t.example"), (0, 0, 8450, "gone.example")]);
        by_srv = by_srv.no_name("t.example", error);
        assert_eq!(by_srv.lead("alpha.example"), Err(expected), "the graver of the two targets");
    }
}
