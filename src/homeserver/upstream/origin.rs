//! [`UpstreamOrigin`]: where the homeserver behind is, as its operator wrote it, and whether that is ourselves.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::str::FromStr;

use crate::server_name::{Host, InvalidServerName, ServerName};

/// The origin of the homeserver behind: scheme, host and port.
///
/// Always: nothing but these three was written, so whatever is asked there goes to the path that was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamOrigin {
    tls: bool,
    host: Host,
    port: u16,
}

/// Why a text is not such an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUpstream {
    /// It begins neither with `http://` nor with `https://`.
    #[error("it has to begin with http:// or https://")]
    Scheme,
    /// Something follows host and port, a single `/` included.
    #[error("nothing may follow the host and the port: no path, no query, no / at the end")]
    MoreThanOrigin,
    /// A user or a password is in it.
    #[error("a user or a password has no place in it")]
    Userinfo,
    /// What stands for host and port is none.
    #[error("the host or the port is not valid: {0}")]
    Authority(InvalidServerName),
}

impl UpstreamOrigin {
    /// Whether it is asked over TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.tls
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, if the host is one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::V4(address) => Some(IpAddr::V4(*address)),
            Host::V6(address) => Some(IpAddr::V6(*address).to_canonical()),
            Host::Name(_) => None,
        }
    }

    /// Whether a connection to it would arrive at the socket bound to `listener`: requests would go round in a circle.
    ///
    /// A name that cannot be looked up leads nowhere. *Panics:* never. *Blocking:* looks a name up, as the system does.
    #[must_use]
    pub fn leads_to(&self, listener: SocketAddr) -> bool {
        if self.port != listener.port() {
            return false;
        }
        let addresses = match &self.host {
            Host::Name(name) => (name.as_str(), self.port)
                .to_socket_addrs()
                .map(|found| found.map(|address| address.ip().to_canonical()).collect())
                .unwrap_or_default(),
            Host::V4(_) | Host::V6(_) => self.address().into_iter().collect::<Vec<_>>(),
        };
        addresses.into_iter().any(|address| arrives_at(address, listener.ip().to_canonical()))
    }
}

/// Whether what is sent to `address` arrives at a socket bound to `bound`, on the same port.
fn arrives_at(address: IpAddr, bound: IpAddr) -> bool {
    if address == bound {
        return true;
    }
    // One that is bound to every address of this machine, and an address that stands for this machine. A socket can be
    // bound to an address of this machine alone; this one sends nothing.
    (bound.is_unspecified() || address.is_unspecified()) && UdpSocket::bind((address, 0)).is_ok()
}

impl FromStr for UpstreamOrigin {
    type Err = InvalidUpstream;

    fn from_str(text: &str) -> Result<Self, InvalidUpstream> {
        let (tls, authority) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            (None, None) => return Err(InvalidUpstream::Scheme),
        };
        if authority.contains('@') {
            return Err(InvalidUpstream::Userinfo);
        }
        if authority.contains(['/', '?', '#', '\\']) {
            return Err(InvalidUpstream::MoreThanOrigin);
        }
        // The grammar of server names is one that no two parsers read in two ways.
        let name: ServerName = authority.parse().map_err(InvalidUpstream::Authority)?;
        let port = name.port().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: name.host().clone(), port })
    }
}

/// The port is always written.
impl fmt::Display for UpstreamOrigin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}:{}", if self.tls { "https" } else { "http" }, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, InvalidUpstream> {
        text.parse().map(|origin: UpstreamOrigin| origin.to_string())
    }

    #[test]
    fn an_origin_is_scheme_host_and_port_and_nothing_else() {
        for (text, origin) in [
            ("http://127.0.0.1:8008", "http://127.0.0.1:8008"),
            ("http://[::1]:8008", "http://[::1]:8008"),
            ("http://Synapse", "http://synapse:80"),
            ("https://matrix.example.org", "https://matrix.example.org:443"),
            ("http://localhost:8008", "http://localhost:8008"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(origin), "{text}");
        }
        for (text, problem) in [
            ("", InvalidUpstream::Scheme),
            ("127.0.0.1:8008", InvalidUpstream::Scheme),
            ("HTTP://127.0.0.1", InvalidUpstream::Scheme),
            ("unix:///run/synapse", InvalidUpstream::Scheme),
            ("http://127.0.0.1:8008/", InvalidUpstream::MoreThanOrigin),
            ("http://127.0.0.1:8008/_matrix", InvalidUpstream::MoreThanOrigin),
            ("http://127.0.0.1:8008?a=b", InvalidUpstream::MoreThanOrigin),
            ("http://127.0.0.1:8008#a", InvalidUpstream::MoreThanOrigin),
            ("http://127.0.0.1\\evil", InvalidUpstream::MoreThanOrigin),
            ("http://user:secret@127.0.0.1", InvalidUpstream::Userinfo),
            ("http://user@127.0.0.1/", InvalidUpstream::Userinfo),
            ("http://", InvalidUpstream::Authority(InvalidServerName::Empty)),
            ("http://:8008", InvalidUpstream::Authority(InvalidServerName::Empty)),
            ("http://127.1:8008", InvalidUpstream::Authority(InvalidServerName::AmbiguousAddress)),
            ("http://127.0.0.1:0", InvalidUpstream::Authority(InvalidServerName::Port)),
            ("http://127.0.0.1:99999", InvalidUpstream::Authority(InvalidServerName::Port)),
            ("http://a b", InvalidUpstream::Authority(InvalidServerName::Character)),
        ] {
            assert_eq!(parsed(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn a_circle_is_seen_under_every_spelling_of_this_machine() {
        for (upstream, listener, circle) in [
            ("http://127.0.0.1:8009", "127.0.0.1:8009", true),
            ("https://127.0.0.1:8009", "127.0.0.1:8009", true),
            ("http://127.0.0.1:8008", "127.0.0.1:8009", false),
            ("http://127.0.0.2:8009", "127.0.0.1:8009", false),
            ("http://127.0.0.2:8009", "0.0.0.0:8009", true),
            ("http://[::1]:8009", "[::1]:8009", true),
            ("http://[::ffff:127.0.0.1]:8009", "127.0.0.1:8009", true),
            ("http://127.0.0.1:8009", "[::ffff:127.0.0.1]:8009", true),
            ("http://0.0.0.0:8009", "127.0.0.1:8009", true),
            ("http://127.0.0.1:8009", "[::]:8009", true),
            ("http://localhost:8009", "0.0.0.0:8009", true),
            ("http://192.0.2.1:8009", "0.0.0.0:8009", false),
        ] {
            let origin: UpstreamOrigin = upstream.parse().unwrap();
            assert_eq!(origin.leads_to(listener.parse().unwrap()), circle, "{upstream} at {listener}");
        }
    }
}
