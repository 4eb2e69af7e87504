//! [`Resolve`]: what discovery asks of the DNS. Answers are untrusted.

use std::net::IpAddr;

use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::server_name::DnsName;

/// Looks names up. Implementations answer from the DNS alone: no hosts file, no search list, no special names.
///
/// What they answer is a stranger's word: addresses are judged before anything is dialled, and lists may be of any length.
/// One that asks a resolver of the embedder's own:
///
/// ```
/// use std::net::IpAddr;
///
/// use portcullis::outbound::{BoxFuture, DnsError, Resolve, SrvRecord, SrvService};
/// use portcullis::{DnsName, OutboundDeadline};
///
/// struct Ours;
///
/// impl Resolve for Ours {
///     fn addresses<'a>(
///         &'a self, name: &'a DnsName, deadline: OutboundDeadline,
///     ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
///         Box::pin(async move {
///             let found = deadline.cut(lookup(name.as_str())).await.map_err(|_expired| DnsError::TimedOut)?;
///             if found.is_empty() { Err(DnsError::NoRecords) } else { Ok(found) }
///         })
///     }
///
///     fn service<'a>(
///         &'a self, service: SrvService, name: &'a DnsName, _deadline: OutboundDeadline,
///     ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
///         let _ = (service, name); // `_matrix-fed._tcp` or `_matrix._tcp`
///         Box::pin(async { Err(DnsError::NoRecords) })
///     }
/// }
///
/// async fn lookup(_name: &str) -> Vec<IpAddr> { Vec::new() }
/// ```
pub trait Resolve: Send + Sync + 'static {
    /// Every address of `name`, both families, aliases followed. Never an empty list.
    ///
    /// Ends no later than `deadline`.
    fn addresses<'a>(
        &'a self,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>>;

    /// The SRV records of `service` at `name`, unsorted, aliases of the owner followed. Never an empty list.
    ///
    /// Ends no later than `deadline`.
    fn service<'a>(
        &'a self,
        service: SrvService,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>>;
}

/// The two SRV names of Matrix federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SrvService {
    /// `_matrix-fed._tcp`, since v1.8.
    MatrixFed,
    /// `_matrix._tcp`, deprecated.
    Matrix,
}

/// One SRV record (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SrvRecord {
    /// Lower is tried first.
    pub priority: u16,
    /// Share among records of one priority.
    pub weight: u16,
    /// Where to connect; 0 makes the record unusable.
    pub port: u16,
    /// Whom to connect to.
    pub target: SrvTarget,
}

/// The target of an SRV record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SrvTarget {
    /// A name to look up.
    Name(DnsName),
    /// `.`: the service is declared absent.
    Root,
    /// A name that is no host name, or that some parser would take for an address.
    Unusable,
}

/// Why the DNS gave no answer. Carries no text of the resolver or of a stranger's zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DnsError {
    /// The name, or records of this type, do not exist.
    #[error("no such records")]
    NoRecords,
    /// The server answered SERVFAIL.
    #[error("the name server failed")]
    ServFail,
    /// Nothing came in time.
    #[error("no answer in time")]
    TimedOut,
    /// The aliases run in a circle, or there are too many.
    #[error("too many aliases")]
    AliasLoop,
    /// Anything else: refused, malformed, truncated without TCP, unreachable.
    #[error("the lookup failed")]
    Failed,
}
