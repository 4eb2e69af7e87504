//! Whatever a name server puts on the wire, through aliases, records and the stages of discovery.

use std::collections::HashSet;

use futures_util::FutureExt as _;
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

use crate::limits::{MAX_ADDRESSES_PER_DESTINATION, MAX_CNAME_HOPS, MAX_SRV_RECORDS};
use crate::outbound::AddressPolicy;
use crate::outbound::discovery::{NeedsAddresses, Rules, Stage, begin};
use crate::outbound::hickory::{Ask, Asked, Family, look_up_family, look_up_service};
use crate::outbound::resolver::{DnsError, SrvRecord, SrvTarget};
use crate::server_name::{DnsName, Host, ServerName};
use crate::sync::Mutex;

/// Any messages: never panics; no question is asked more than nine times over its aliases; a record is only believed of
/// a name that the aliases lead to; a target of the best usable priority comes first and none twice; and discovery
/// ends with addresses the policy allows, none of them by way of our own host, or with none.
///
/// The first byte chooses the name that is looked for, the second is the dice; then come messages as over TCP, two bytes
/// of length before each.
pub fn dns_answers(input: &[u8]) {
    let [which, dice, messages @ ..] = input else { return };
    let name: ServerName =
        ["r.example", "r.example:8449", "us.example:1", "44.128.10.1"][usize::from(which % 4)].parse().unwrap();
    let delegate = [None, Some("hs.r.example"), Some("us.example:8449"), Some("hs.r.example:443")];
    let delegate = delegate[usize::from(which / 4 % 4)].map(|name| name.parse::<ServerName>().unwrap());
    let servers =
        NameServers { messages: Mutex::new(messages.to_vec()), asked: Mutex::default(), told: Mutex::default() };
    let policy = AddressPolicy::default();
    let own_host = Host::Name("us.example".parse().unwrap());
    let rules = Rules { policy: &policy, own_host: Some(&own_host) };

    let mut stage = begin(&name, rules);
    let mut records = Vec::new();
    for _turn in 0..5 {
        stage = match stage {
            Stage::WellKnown(needs) => needs.answered(delegate.clone()),
            Stage::Service(needs) => {
                let answer = servers.services(&needs);
                records = answer.clone().unwrap_or_default();
                needs.answered(answer, &mut |most| u32::from(*dice) % most.saturating_add(1))
            }
            Stage::Addresses(needs) => {
                assert_in_order(&needs, &records, &own_host);
                let answers: Vec<_> = needs.names().iter().map(|name| servers.addresses(name)).collect();
                needs.answered(&answers)
            }
            finished @ Stage::Finished(_) => finished,
        };
    }
    let Stage::Finished(result) = stage else { unreachable!("discovery goes on for more than five stages") };
    let Ok(destination) = result else { return };
    assert!((1..=MAX_ADDRESSES_PER_DESTINATION).contains(&destination.addresses.len()));
    for address in destination.addresses {
        assert_eq!(policy.judge(address.socket_addr()), Ok(address));
    }
    assert_eq!(destination.delegated_to.is_some(), delegate.is_some() && name.as_str() == "r.example");
    let party = destination.delegated_to.as_ref().unwrap_or(&name);
    assert_eq!((destination.host_header.as_str(), &destination.tls_name), (party.as_str(), party.host()));
    assert!(destination.delegated_to.is_none_or(|name| *name.host() != own_host));
}

/// Servers that answer from the input, and a record of what was asked and told.
struct NameServers {
    messages: Mutex<Vec<u8>>,
    asked: Mutex<usize>,
    told: Mutex<Vec<Record>>,
}

impl NameServers {
    fn services(&self, needs: &crate::outbound::discovery::NeedsService<'_>) -> Result<Vec<SrvRecord>, DnsError> {
        let label = match needs.service() {
            crate::outbound::SrvService::MatrixFed => "_matrix-fed",
            crate::outbound::SrvService::Matrix => "_matrix",
        };
        let found = self.one_question(|| look_up_service(self, needs.service(), needs.owner()).now_or_never());
        for record in found.iter().flatten() {
            let believable = self.believable(&format!("{label}._tcp.{}.", needs.owner()));
            assert!(believable.iter().any(|data| match data {
                RData::SRV(srv) => {
                    let root = srv.target.is_root();
                    (srv.priority, srv.weight, srv.port) == (record.priority, record.weight, record.port)
                        && root == (record.target == SrvTarget::Root)
                }
                _ => false,
            }));
        }
        found
    }

    fn addresses(&self, name: &DnsName) -> Result<Vec<std::net::IpAddr>, DnsError> {
        let families = [Family::V4, Family::V6].map(|family| {
            let found = self.one_question(|| look_up_family(self, family, name).now_or_never());
            let believable = self.believable(&format!("{name}."));
            for address in found.iter().flatten() {
                assert!(believable.iter().any(|data| data.ip_addr() == Some(*address)), "{address} is not {name}'s");
            }
            found
        });
        match families {
            [Ok(v4), Ok(v6)] => Ok(v4.into_iter().chain(v6).collect()),
            [Ok(one), Err(_)] | [Err(_), Ok(one)] => Ok(one),
            [Err(error), Err(_)] => Err(error),
        }
    }

    fn one_question<T>(
        &self,
        look_up: impl FnOnce() -> Option<crate::outbound::dns_cache::Looked<T>>,
    ) -> Result<Vec<T>, DnsError> {
        let before = *self.asked.lock();
        self.told.lock().clear();
        let looked = look_up().unwrap();
        assert!(*self.asked.lock() - before <= MAX_CNAME_HOPS + 1, "a question is asked too often");
        looked.answer
    }

    /// The data of every record whose owner some chain of aliases leads to, in whatever message it came.
    fn believable(&self, owner: &str) -> Vec<RData> {
        let told = self.told.lock();
        let Ok(owner) = Name::from_ascii(owner) else { return Vec::new() };
        let mut names = HashSet::from([owner.to_lowercase()]);
        loop {
            let before = names.len();
            for record in
                told.iter().filter(|record| names.contains(&record.name.to_lowercase())).cloned().collect::<Vec<_>>()
            {
                if let RData::CNAME(target) = &record.data {
                    names.insert(target.0.to_lowercase());
                }
            }
            if names.len() == before {
                break;
            }
        }
        told.iter()
            .filter(|record| names.contains(&record.name.to_lowercase()))
            .map(|record| record.data.clone())
            .collect()
    }
}

impl Ask for NameServers {
    async fn ask(&self, _name: &Name, _kind: RecordType) -> Asked {
        *self.asked.lock() += 1;
        let mut messages = self.messages.lock();
        let [high, low, rest @ ..] = messages.as_slice() else { return Err((DnsError::NoRecords, None)) };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (message, rest) = rest.split_at(length);
        let read = Message::from_vec(message);
        *messages = rest.to_vec();
        let Ok(message) = read else { return Err((DnsError::Failed, None)) };
        match message.response_code {
            ResponseCode::ServFail => Err((DnsError::ServFail, None)),
            _ if message.answers.is_empty() => Err((DnsError::NoRecords, None)),
            _ => {
                self.told.lock().extend(message.answers.iter().cloned());
                Ok(message.answers)
            }
        }
    }
}

/// The first of the names has the best priority of those that can be used, and no name is asked for twice.
fn assert_in_order(needs: &NeedsAddresses<'_>, records: &[SrvRecord], own_host: &Host) {
    let names = needs.names();
    assert!(names.len() <= MAX_SRV_RECORDS);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    let usable = || {
        records.iter().filter_map(|record| match &record.target {
            SrvTarget::Name(name) if record.port != 0 && Host::Name(name.clone()) != *own_host => {
                Some((record.priority, name))
            }
            _ => None,
        })
    };
    if let Some(best) = usable().map(|(priority, _)| priority).min() {
        assert!(usable().any(|(priority, name)| priority == best && *name == names[0]));
        assert!(names.iter().all(|name| usable().any(|(_, usable)| usable == name)));
    }
}
