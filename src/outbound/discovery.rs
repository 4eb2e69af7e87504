//! Server discovery as a chain of stages: pure steps without I/O, clock or randomness of their own.
//!
//! Each stage says what it needs to know; telling it yields the next stage, and the last one is the result. The driver
//! ([`super::discover`]) only carries questions and answers, so every turn of the way can be tested without a network.
//!
//! ```text
//!  name ─► literal ───────────────────────────────────────────────────────────► judged
//!     ├──► port given ─────────────────────────────────────────► Addresses ───► judged
//!     └──► WellKnown ─► delegated literal ────────────────────────────────────► judged
//!               ├─────► delegated name with a port ────────────► Addresses ───► judged
//!               └─────► (delegated) name ─► Service(fed) ─► found ─► Addresses of the targets
//!                                              └─ none ─► Service(deprecated) ─► found ─► as above
//!                                                            └─ none ─────────► Addresses, port 8448
//! ```

mod order;

use std::net::{IpAddr, SocketAddr};

use crate::limits::{DEFAULT_FEDERATION_PORT, MAX_ADDRESSES_PER_DESTINATION, MAX_ADDRESSES_PER_NAME, MAX_SRV_RECORDS};
use crate::outbound::address_policy::{AddressPolicy, AddressRefused, JudgedAddress};
use crate::outbound::destination::{Destination, Source};
use crate::outbound::discover::DiscoveryError;
use crate::outbound::resolver::{DnsError, SrvRecord, SrvService, SrvTarget};
use crate::server_name::{DnsName, Host, ServerName};

/// What discovery waits for, or its result.
pub(crate) enum Stage<'a> {
    /// The well-known file of a host (step 3).
    WellKnown(NeedsWellKnown<'a>),
    /// SRV records (steps 3.3, 3.4, 4 and 5).
    Service(NeedsService<'a>),
    /// The addresses of one name, or of the SRV targets.
    Addresses(NeedsAddresses<'a>),
    /// Where the name leads, or why nowhere.
    Finished(Result<Destination, DiscoveryError>),
}

/// The rules of this server: what may be dialled, and the host that nothing may lead to.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) policy: &'a AddressPolicy,
    /// Our own host: no delegation may lead to it, whatever the port. `None` when our own name is being explained.
    pub(crate) own_host: Option<&'a Host>,
}

/// Discovery waits for the well-known file of [`Self::host`].
pub(crate) struct NeedsWellKnown<'a> {
    rules: Rules<'a>,
    name: ServerName,
    host: DnsName,
}

/// Discovery waits for the SRV records of [`Self::service`] at [`Self::owner`].
pub(crate) struct NeedsService<'a> {
    party: Party<'a>,
    service: SrvService,
    owner: DnsName,
}

/// Discovery waits for the addresses of [`Self::names`].
pub(crate) struct NeedsAddresses<'a> {
    party: Party<'a>,
    source: Source,
    /// Each name once.
    names: Vec<DnsName>,
    /// In dial order: an index into `names`, and a port.
    candidates: Vec<(usize, u16)>,
}

/// The name that Host and certificate go by: the server's own, or the one it delegated to. Never an SRV target.
#[derive(Clone)]
struct Party<'a> {
    rules: Rules<'a>,
    name: ServerName,
    delegated: bool,
}

/// Begins discovery of `name`.
pub(crate) fn begin<'a>(name: &ServerName, rules: Rules<'a>) -> Stage<'a> {
    let party = Party { rules, name: name.clone(), delegated: false };
    match (name.host(), name.port()) {
        (Host::V4(v4), _) => party.at_literal((*v4).into(), Source::IpLiteral),
        (Host::V6(v6), _) => party.at_literal((*v6).into(), Source::IpLiteral),
        (Host::Name(host), Some(port)) => {
            let host = host.clone();
            party.at_name(host, port, Source::ExplicitPort)
        }
        (Host::Name(host), None) => Stage::WellKnown(NeedsWellKnown { rules, name: name.clone(), host: host.clone() }),
    }
}

impl<'a> NeedsWellKnown<'a> {
    /// Whose well-known file is to be fetched.
    pub(crate) fn host(&self) -> &DnsName {
        &self.host
    }

    /// The name that the file delegates to. `None`: there is no valid file, the name's own SRV records are next.
    pub(crate) fn answered(self, delegated_to: Option<ServerName>) -> Stage<'a> {
        let Self { rules, name, host } = self;
        let Some(delegate) = delegated_to else {
            return Party { rules, name, delegated: false }.by_service(SrvService::MatrixFed, host);
        };
        if rules.own_host == Some(delegate.host()) {
            return Stage::Finished(Err(DiscoveryError::OwnServer));
        }
        let party = Party { rules, name: delegate.clone(), delegated: true };
        match (delegate.host(), delegate.port()) {
            (Host::V4(v4), _) => party.at_literal((*v4).into(), Source::WellKnown),
            (Host::V6(v6), _) => party.at_literal((*v6).into(), Source::WellKnown),
            (Host::Name(host), Some(port)) => party.at_name(host.clone(), port, Source::WellKnown),
            (Host::Name(host), None) => party.by_service(SrvService::MatrixFed, host.clone()),
        }
    }
}

impl<'a> NeedsService<'a> {
    pub(crate) fn service(&self) -> SrvService {
        self.service
    }

    /// The name that the records are about, without the service's labels.
    pub(crate) fn owner(&self) -> &DnsName {
        &self.owner
    }

    /// The records. A server failure or a time-out counts as "no record": many zones answer so for names that do not
    /// exist, and the certificate protects the name on every way. `dice(n)` is a number from 0 to `n` inclusive.
    pub(crate) fn answered(
        self,
        answer: Result<Vec<SrvRecord>, DnsError>,
        dice: &mut dyn FnMut(u32) -> u32,
    ) -> Stage<'a> {
        let Self { party, service, owner } = self;
        match answer {
            Ok(records) => party.at_targets(service, records, dice),
            Err(DnsError::NoRecords | DnsError::ServFail | DnsError::TimedOut) => match service {
                SrvService::MatrixFed => party.by_service(SrvService::Matrix, owner),
                SrvService::Matrix => party.at_name(owner, DEFAULT_FEDERATION_PORT, Source::Default),
            },
            Err(error) => Stage::Finished(Err(unresolved(error))),
        }
    }
}

impl<'a> NeedsAddresses<'a> {
    /// Whose addresses are to be looked up; each name once.
    pub(crate) fn names(&self) -> &[DnsName] {
        &self.names
    }

    /// The addresses, one answer per name and in the order of [`Self::names`].
    pub(crate) fn answered(self, answers: &[Result<Vec<IpAddr>, DnsError>]) -> Stage<'a> {
        let mut addresses = Vec::new();
        let mut failures = Vec::new();
        for (name, port) in self.candidates {
            match self.party.judged(answers.get(name), port) {
                Ok(judged) => addresses.extend(judged),
                Err(error) => failures.push(error),
            }
        }
        addresses.truncate(MAX_ADDRESSES_PER_DESTINATION);
        if addresses.is_empty() {
            return Stage::Finished(Err(gravest(&failures)));
        }
        self.party.arrived(self.source, addresses)
    }
}

impl<'a> Party<'a> {
    fn at_literal(self, ip: IpAddr, source: Source) -> Stage<'a> {
        match self.rules.policy.judge(SocketAddr::new(ip, self.name.port_or_default())) {
            Ok(address) => self.arrived(source, vec![address]),
            Err(AddressRefused) => Stage::Finished(Err(DiscoveryError::AddressRefused)),
        }
    }

    fn at_name(self, name: DnsName, port: u16, source: Source) -> Stage<'a> {
        Stage::Addresses(NeedsAddresses { party: self, source, names: vec![name], candidates: vec![(0, port)] })
    }

    fn by_service(self, service: SrvService, owner: DnsName) -> Stage<'a> {
        Stage::Service(NeedsService { party: self, service, owner })
    }

    /// Records exist: from here on there is no way to port 8448 any more.
    fn at_targets(self, service: SrvService, records: Vec<SrvRecord>, dice: &mut dyn FnMut(u32) -> u32) -> Stage<'a> {
        let mut usable = Vec::new();
        let mut ours = false;
        for record in records {
            match record.target {
                SrvTarget::Name(name) if record.port != 0 => {
                    if matches!(self.rules.own_host, Some(Host::Name(own)) if *own == name) {
                        ours = true;
                    } else {
                        usable.push(order::Weighted {
                            priority: record.priority,
                            weight: record.weight,
                            value: (name, record.port),
                        });
                    }
                }
                SrvTarget::Name(_) | SrvTarget::Root | SrvTarget::Unusable => {}
            }
        }
        if usable.is_empty() {
            let error = if ours { DiscoveryError::OwnServer } else { DiscoveryError::SrvRefused };
            return Stage::Finished(Err(error));
        }
        let mut names: Vec<DnsName> = Vec::new();
        let mut candidates = Vec::new();
        for (name, port) in order::by_priority_and_weight(usable, MAX_SRV_RECORDS, dice) {
            let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            if !candidates.contains(&(index, port)) {
                candidates.push((index, port));
            }
        }
        let source = match service {
            SrvService::MatrixFed => Source::Srv,
            SrvService::Matrix => Source::SrvDeprecated,
        };
        Stage::Addresses(NeedsAddresses { party: self, source, names, candidates })
    }

    /// The answer for one name, judged whole: one refused address refuses them all. Only then is it cut to size.
    fn judged(
        &self,
        answer: Option<&Result<Vec<IpAddr>, DnsError>>,
        port: u16,
    ) -> Result<Vec<JudgedAddress>, DiscoveryError> {
        let addresses = match answer {
            Some(Ok(addresses)) if !addresses.is_empty() => addresses,
            Some(Ok(_)) | None => return Err(DiscoveryError::NoAddresses),
            Some(Err(error)) => return Err(unresolved(*error)),
        };
        let judged = self.rules.policy.judge_all(addresses.iter().copied(), port);
        let judged = judged.map_err(|AddressRefused| DiscoveryError::AddressRefused)?;
        Ok(order::families_in_turn(judged).into_iter().take(MAX_ADDRESSES_PER_NAME).collect())
    }

    fn arrived(self, source: Source, addresses: Vec<JudgedAddress>) -> Stage<'a> {
        Stage::Finished(Ok(Destination {
            source,
            host_header: self.name.as_str().to_owned(),
            tls_name: self.name.host().clone(),
            delegated_to: self.delegated.then_some(self.name),
            addresses,
        }))
    }
}

/// What an answer that holds no addresses means when there is nowhere left to go.
pub(super) fn unresolved(error: DnsError) -> DiscoveryError {
    match error {
        DnsError::NoRecords | DnsError::AliasLoop => DiscoveryError::NoAddresses,
        DnsError::TimedOut => DiscoveryError::OutOfTime,
        DnsError::ServFail | DnsError::Failed => DiscoveryError::DnsFailure,
    }
}

/// Of the reasons why no target can be used, the one to report: time first, then what was refused, then what failed.
fn gravest(failures: &[DiscoveryError]) -> DiscoveryError {
    [DiscoveryError::OutOfTime, DiscoveryError::AddressRefused, DiscoveryError::DnsFailure]
        .into_iter()
        .find(|error| failures.contains(error))
        .unwrap_or(DiscoveryError::NoAddresses)
}

#[cfg(test)]
mod tests;
