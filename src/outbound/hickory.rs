//! [`HickoryResolver`]: the DNS as name servers tell it, and nothing else.
//!
//! The resolver of the machine knows names that a stranger must not reach: its hosts file, its search list, `localhost`.
//! So the name servers are asked directly, every name ends in a dot, and aliases are followed here, where they can be
//! counted and where an SRV record whose own name is an alias is found too.

mod chain;
mod name_servers;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hickory_resolver::net::DnsError as Answered;
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_resolver::system_conf;

use crate::deadline::OutboundDeadline;
use crate::limits::{ADDRESS_FAMILY_GRACE, DNS_CACHE_ENTRIES, DNS_SRV_CACHE_ENTRIES};
use crate::outbound::BoxFuture;
use crate::outbound::dns_cache::{DnsCache, Looked};
use crate::outbound::resolver::{DnsError, Resolve, SrvRecord, SrvService, SrvTarget};
use crate::server_name::DnsName;
use chain::{Chain, Link};
use name_servers::NameServers;

/// Asks name servers over UDP, over TCP when an answer is cut short, and remembers what may be remembered.
///
/// Always: the cache holds at most [`DNS_CACHE_ENTRIES`] address and [`DNS_SRV_CACHE_ENTRIES`] SRV questions; equal questions in flight are asked once. A
/// clone shares the cache. Needs a tokio runtime with I/O and time when it is used, none when it is made.
///
/// ```
/// use portcullis::outbound::HickoryResolver;
///
/// let own_resolver = HickoryResolver::with_name_servers(&["127.0.0.1:53".parse().unwrap()]).unwrap();
/// # let _ = own_resolver;
/// ```
#[derive(Clone)]
pub struct HickoryResolver {
    shared: Arc<Shared>,
}

struct Shared {
    servers: NameServers,
    addresses: DnsCache<(Family, DnsName), IpAddr>,
    services: DnsCache<(SrvService, DnsName), SrvRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    V4,
    V6,
}

/// There is nobody to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoNameServers {
    /// The list was empty.
    #[error("no name server is given")]
    Empty,
    /// The system's own list could not be read, or names none.
    #[error("the system's resolv.conf names no server: {0}")]
    System(String),
}

/// The port of name servers in resolv.conf.
const DNS_PORT: u16 = 53;

impl HickoryResolver {
    /// Asks these name servers.
    ///
    /// *Errors:* [`NoNameServers::Empty`]. *Panics:* never. *Blocking:* no.
    pub fn with_name_servers(servers: &[SocketAddr]) -> Result<Self, NoNameServers> {
        if servers.is_empty() {
            return Err(NoNameServers::Empty);
        }
        let shared = Shared {
            servers: NameServers::new(servers.to_vec()),
            addresses: DnsCache::new(DNS_CACHE_ENTRIES),
            services: DnsCache::new(DNS_SRV_CACHE_ENTRIES),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Asks the name servers of the system's resolv.conf. Its search list and its options are not used.
    ///
    /// *Errors:* [`NoNameServers`]. *Blocking:* reads one small file.
    pub fn from_system() -> Result<Self, NoNameServers> {
        let (config, _) = system_conf::read_system_conf().map_err(|error| NoNameServers::System(error.to_string()))?;
        let servers: Vec<_> = config.name_servers().iter().map(|server| SocketAddr::new(server.ip, DNS_PORT)).collect();
        Self::with_name_servers(&servers)
    }
}

impl fmt::Debug for HickoryResolver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HickoryResolver").finish_non_exhaustive()
    }
}

impl Resolve for HickoryResolver {
    fn addresses<'a>(
        &'a self,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        let v4 = self.shared.family(Family::V4, name, deadline);
        let v6 = self.shared.family(Family::V6, name, deadline);
        Box::pin(side_by_side(v4, v6))
    }

    fn service<'a>(
        &'a self,
        service: SrvService,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        Box::pin(async move {
            let look_up = || look_up_service(self.shared.as_ref(), service, name);
            let records = self.shared.services.answer((service, name.clone()), deadline, look_up).await?;
            Ok(records.to_vec())
        })
    }
}

/// Both families at once; when one has answered, the other gets a short grace (RFC 8305, section 3). Both errors count: a
/// silent family is not "no such records" because the other one has none.
async fn side_by_side(
    v4: impl Future<Output = Result<Arc<[IpAddr]>, DnsError>>,
    v6: impl Future<Output = Result<Arc<[IpAddr]>, DnsError>>,
) -> Result<Vec<IpAddr>, DnsError> {
    let (v4, v6) = match select(Box::pin(v4), Box::pin(v6)).await {
        Either::Left((v4, v6)) => {
            let v6 = second(&v4, v6).await;
            (v4, v6)
        }
        Either::Right((v6, v4)) => (second(&v6, v4).await, v6),
    };
    match (v4, v6) {
        (Ok(v4), Ok(v6)) => Ok(v4.iter().chain(v6.iter()).copied().collect()),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one.to_vec()),
        (Err(v4), Err(v6)) => Err(graver(v4, v6)),
    }
}

async fn second<T>(
    first: &Result<T, DnsError>,
    other: impl Future<Output = Result<T, DnsError>>,
) -> Result<T, DnsError> {
    match first {
        Ok(_) => tokio::time::timeout(ADDRESS_FAMILY_GRACE, other).await.unwrap_or(Err(DnsError::TimedOut)),
        Err(_) => other.await,
    }
}

/// The error that says less about the name: what was not answered may yet exist.
fn graver(one: DnsError, other: DnsError) -> DnsError {
    let rank = |error: DnsError| match error {
        DnsError::NoRecords => 0,
        DnsError::AliasLoop => 1,
        DnsError::Failed => 2,
        DnsError::ServFail => 3,
        DnsError::TimedOut => 4,
    };
    if rank(other) > rank(one) { other } else { one }
}

impl Shared {
    async fn family(
        &self,
        family: Family,
        name: &DnsName,
        deadline: OutboundDeadline,
    ) -> Result<Arc<[IpAddr]>, DnsError> {
        self.addresses.answer((family, name.clone()), deadline, || look_up_family(self, family, name)).await
    }
}

impl Ask for Shared {
    /// One question on the wire. With "no such records" goes the zone's word on how long that holds.
    async fn ask(&self, name: &Name, kind: RecordType) -> Asked {
        let query = Query::query(name.clone(), kind);
        let answer = self.servers.answer(&query).await.map_err(|_| (DnsError::Failed, None))?;
        match Answered::from_response(answer) {
            Ok(response) => {
                let answers = response.into_message().answers;
                let all_in = answers.iter().all(|record| record.dns_class == DNSClass::IN);
                if all_in { Ok(answers) } else { Err((DnsError::Failed, None)) }
            }
            Err(Answered::NoRecordsFound(none)) => {
                let ttl = none.negative_ttl.map(|seconds| Duration::from_secs(seconds.into()));
                Err((DnsError::NoRecords, ttl))
            }
            Err(Answered::ResponseCode(ResponseCode::ServFail)) => Err((DnsError::ServFail, None)),
            Err(_) => Err((DnsError::Failed, None)),
        }
    }
}

/// Puts one question: to the name servers in use, to a script when only the rules are tried.
pub(crate) trait Ask: Sync {
    /// The records of the answer, whoever owns them.
    fn ask(&self, name: &Name, kind: RecordType) -> impl Future<Output = Asked> + Send;
}

/// The records of an answer, or why there are none and how long that holds.
pub(crate) type Asked = Result<Vec<Record>, (DnsError, Option<Duration>)>;

/// The addresses of one family, each once.
pub(crate) async fn look_up_family(servers: &impl Ask, family: Family, name: &DnsName) -> Looked<IpAddr> {
    let kind = match family {
        Family::V4 => RecordType::A,
        Family::V6 => RecordType::AAAA,
    };
    let (found, ttl) = chase(servers, &format!("{name}."), kind).await;
    let answer = found.map(|records| {
        let mut addresses = Vec::new();
        for record in records {
            let address = match record {
                RData::A(v4) => IpAddr::V4(v4.0),
                RData::AAAA(v6) => IpAddr::V6(v6.0),
                _ => continue,
            };
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    });
    Looked { answer, ttl }
}

/// The SRV records of a service.
pub(crate) async fn look_up_service(servers: &impl Ask, service: SrvService, name: &DnsName) -> Looked<SrvRecord> {
    let label = match service {
        SrvService::MatrixFed => "_matrix-fed",
        SrvService::Matrix => "_matrix",
    };
    let (found, ttl) = chase(servers, &format!("{label}._tcp.{name}."), RecordType::SRV).await;
    let answer = found.map(|records| records.into_iter().filter_map(srv_record).collect());
    Looked { answer, ttl }
}

/// The records of `kind` at the end of the aliases of `owner`, and the shortest time to live on the way.
async fn chase(servers: &impl Ask, owner: &str, kind: RecordType) -> (Result<Vec<RData>, DnsError>, Option<Duration>) {
    // A name over the limit of the DNS (253 characters; server names go up to 255) cannot exist there.
    let Ok(owner) = Name::from_ascii(owner) else { return (Err(DnsError::NoRecords), None) };
    let mut chain = Chain::from(&owner);
    loop {
        let answers = match servers.ask(chain.end(), kind).await {
            Ok(answers) => answers,
            Err((error, ttl)) => return (Err(error), ttl.map(|ttl| chain.shorter(ttl))),
        };
        match chain.follow(&answers, kind) {
            Ok(Link::Records(records)) => return (Ok(records), Some(chain.ttl())),
            Ok(Link::Ask) => {}
            Ok(Link::Nothing) => return (Err(DnsError::NoRecords), None),
            Err(error) => return (Err(error), None),
        }
    }
}

fn srv_record(record: RData) -> Option<SrvRecord> {
    let RData::SRV(srv) = record else { return None };
    let target = if srv.target.is_root() {
        SrvTarget::Root
    } else {
        let text = srv.target.to_ascii();
        let name = text.strip_suffix('.').unwrap_or(&text).parse();
        name.map_or(SrvTarget::Unusable, SrvTarget::Name)
    };
    Some(SrvRecord { priority: srv.priority, weight: srv.weight, port: srv.port, target })
}

#[cfg(test)]
mod tests;
