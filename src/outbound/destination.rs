//! [`Destination`]: where a server name leads, once discovery is done.

use crate::limits::DEFAULT_FEDERATION_PORT;
use crate::outbound::address_policy::JudgedAddress;
use crate::server_name::{Host, ServerName};

/// Where to connect for a server name, and under which names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Destination {
    /// How the final address was found.
    pub source: Source,
    /// The name a well-known file delegated to, if one did.
    pub delegated_to: Option<ServerName>,
    /// What the Host header carries.
    pub host_header: String,
    /// The name the certificate has to carry; an address means no SNI.
    pub tls_name: Host,
    /// The addresses in dial order, each of them judged. Never empty.
    pub addresses: Vec<JudgedAddress>,
}

impl Destination {
    /// The base URL of the server: the name its certificate carries, and the port that is dialled first. The key of its load
    /// gate is made of it.
    #[must_use]
    pub fn base_url(&self) -> String {
        let port = self.addresses.first().map_or(DEFAULT_FEDERATION_PORT, |address| address.socket_addr().port());
        format!("https://{}:{port}", self.tls_name)
    }
}

/// How the final address of a server was found (Matrix v1.19, server-server API, resolving server names).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The name is an IP literal (step 1).
    IpLiteral,
    /// The name has a port (step 2).
    ExplicitPort,
    /// A well-known file names a literal or a port (steps 3.1 and 3.2).
    WellKnown,
    /// A `_matrix-fed._tcp` record (steps 3.3 and 4).
    Srv,
    /// A deprecated `_matrix._tcp` record (steps 3.4 and 5).
    SrvDeprecated,
    /// The addresses of the name, port 8448 (steps 3.5 and 6).
    Default,
}

impl Source {
    /// The fixed word for logs and `portcullis resolve`.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::IpLiteral => "ip-literal",
            Self::ExplicitPort => "explicit-port",
            Self::WellKnown => "well-known",
            Self::Srv => "srv",
            Self::SrvDeprecated => "srv-deprecated",
            Self::Default => "default",
        }
    }
}
