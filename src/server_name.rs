//! [`ServerName`]: a Matrix server name, parsed once and strictly.
//!
//! The Matrix grammar admits texts that a URL parser, a resolver and a person read in three different ways: `127.1` and
//! `0x7f.1` are names to the grammar and the loopback address to a URL parser. Whatever could be read in two ways is
//! refused here, before anything is looked up; what is left means the same to everybody.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::limits::{DEFAULT_FEDERATION_PORT, MAX_DNS_LABEL_BYTES, MAX_SERVER_NAME_BYTES};

/// A server name as its owner writes it, with its parts.
///
/// Always: the text came through [`FromStr`] and no other way. Identity (`==`, `Hash`) keeps the letter case, as the
/// specification has it; [`ServerName::is_same_server`] is whether two names mean one server, and
/// [`ServerName::canonical`] a key for it.
///
/// ```
/// use portcullis::{Host, InvalidServerName, ServerName};
///
/// let name: ServerName = "Matrix.Example:8448".parse().unwrap();
/// assert_eq!((name.as_str(), name.port()), ("Matrix.Example:8448", Some(8448)));
/// assert!(name.is_same_server(&"matrix.example".parse().unwrap())); // 8448 is the default
/// assert!(matches!("192.0.2.1".parse::<ServerName>().unwrap().host(), Host::V4(_)));
/// assert_eq!("127.1".parse::<ServerName>(), Err(InvalidServerName::AmbiguousAddress)); // an address to a URL parser
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerName {
    text: Box<str>,
    host: Host,
    port: Option<NonZeroU16>,
}

/// The host part of a server name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name to be looked up in the DNS.
    Name(DnsName),
    /// An IPv4 literal in canonical dotted-quad form.
    V4(Ipv4Addr),
    /// An IPv6 literal, written in brackets.
    V6(Ipv6Addr),
}

/// A DNS name in lower case, without a final dot, that no parser takes for an address.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsName(Box<str>);

/// Why a text is not a server name. The text itself is left out: it came from a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidServerName {
    /// Nothing, or nothing before the port.
    #[error("the host is empty")]
    Empty,
    /// Longer than 255 bytes.
    #[error("longer than {MAX_SERVER_NAME_BYTES} bytes")]
    TooLong,
    /// Not digits without leading zeros in 1..=65535.
    #[error("the port is not a number from 1 to 65535 without leading zeros")]
    Port,
    /// A character outside letters, digits, `-` and `.`.
    #[error("a character that no server name holds")]
    Character,
    /// An empty label, one over 63 bytes, or one that begins or ends with a hyphen.
    #[error("a label that is empty, too long, or begins or ends with a hyphen")]
    Label,
    /// Looks like an IPv4 address without being one in canonical form (`127.1`, `0x7f.1`, `010.0.0.1`).
    #[error("looks like an IPv4 address but is not written as one")]
    AmbiguousAddress,
    /// Brackets around something that is not an IPv6 address.
    #[error("brackets around something that is not an IPv6 address")]
    Ipv6,
}

impl ServerName {
    /// The text as its owner wrote it: what is signed, and what Host carries before delegation.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host part.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, if one was written.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port.map(NonZeroU16::get)
    }

    /// The port, or 8448 if none was written.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port().unwrap_or(DEFAULT_FEDERATION_PORT)
    }

    /// The one spelling of this server, for lists of servers, maps and logs: in lower case, and without the port that is the
    /// default. Two names have the same one exactly where [`Self::is_same_server`] holds.
    ///
    /// ```
    /// use portcullis::ServerName;
    ///
    /// let name: ServerName = "Example.ORG:8448".parse().unwrap();
    /// assert_eq!(name.canonical(), "example.org");
    /// ```
    #[must_use]
    pub fn canonical(&self) -> String {
        match self.port_or_default() {
            DEFAULT_FEDERATION_PORT => self.host.to_string(),
            port => format!("{}:{port}", self.host),
        }
    }

    /// The name in lower case with its port as written, for what discovery tells apart: `them.example` may delegate,
    /// `them.example:8448` may not.
    #[cfg(feature = "outbound")]
    pub(crate) fn in_lower_case(&self) -> String {
        self.text.to_ascii_lowercase()
    }

    /// Whether both names mean the same server: equal hosts without regard to case, and equal ports where none means 8448.
    ///
    /// ```
    /// use portcullis::ServerName;
    ///
    /// let ours: ServerName = "example.org".parse().unwrap();
    /// assert!(ours.is_same_server("Example.org:8448".parse().as_ref().unwrap()));
    /// assert!(!ours.is_same_server("example.org:8449".parse().as_ref().unwrap()));
    /// ```
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.host == other.host && self.port_or_default() == other.port_or_default()
    }
}

impl FromStr for ServerName {
    type Err = InvalidServerName;

    fn from_str(text: &str) -> Result<Self, InvalidServerName> {
        if text.len() > MAX_SERVER_NAME_BYTES {
            return Err(InvalidServerName::TooLong);
        }
        let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
            let (address, rest) = bracketed.split_once(']').ok_or(InvalidServerName::Ipv6)?;
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(port),
                None if rest.is_empty() => None,
                None => return Err(InvalidServerName::Character),
            };
            (Host::V6(address.parse().map_err(|_| InvalidServerName::Ipv6)?), port)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (parse_unbracketed(host)?, Some(port)),
                None => (parse_unbracketed(text)?, None),
            }
        };
        let port = port.map(parse_port).transpose()?;
        Ok(Self { text: text.into(), host, port })
    }
}

fn parse_unbracketed(text: &str) -> Result<Host, InvalidServerName> {
    // The standard parser takes exactly the canonical form: four decimal numbers, no leading zeros.
    match text.parse() {
        Ok(address) => Ok(Host::V4(address)),
        Err(_) => text.parse().map(Host::Name),
    }
}

fn parse_port(text: &str) -> Result<NonZeroU16, InvalidServerName> {
    if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidServerName::Port);
    }
    text.parse().map_err(|_| InvalidServerName::Port)
}

impl fmt::Display for ServerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ServerName({})", self.text)
    }
}

impl DnsName {
    /// The name in lower case, without a final dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DnsName {
    type Err = InvalidServerName;

    fn from_str(text: &str) -> Result<Self, InvalidServerName> {
        if text.is_empty() {
            return Err(InvalidServerName::Empty);
        }
        if text.len() > MAX_SERVER_NAME_BYTES {
            return Err(InvalidServerName::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.') {
            return Err(InvalidServerName::Character);
        }
        for label in text.split('.') {
            let hyphen_at_an_end = label.starts_with('-') || label.ends_with('-');
            if label.is_empty() || label.len() > MAX_DNS_LABEL_BYTES || hyphen_at_an_end {
                return Err(InvalidServerName::Label);
            }
        }
        let last = text.rsplit('.').next().unwrap_or(text);
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X") {
            return Err(InvalidServerName::AmbiguousAddress);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

/// As in a URL: an IPv6 address in brackets.
impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(out),
            Self::V4(address) => address.fmt(out),
            Self::V6(address) => write!(out, "[{address}]"),
        }
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "DnsName({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServerName, InvalidServerName> {
        text.parse()
    }

    #[test]
    fn the_parts_are_told_apart() {
        let name = parse("Alpha.Example:8449").unwrap();
        assert_eq!(name.as_str(), "Alpha.Example:8449");
        assert_eq!(name.host(), &Host::Name("alpha.example".parse().unwrap()));
        assert_eq!(name.port(), Some(8449));
        assert_eq!(name.canonical(), "alpha.example:8449");
        assert_eq!(parse("[2A0E:FADE::0:1]:8448").unwrap().canonical(), "[2a0e:fade::1]");
        assert_eq!(parse("44.128.10.1").unwrap().host(), &Host::V4(Ipv4Addr::new(44, 128, 10, 1)));
        assert_eq!(parse("[2A0E:FADE:10::1]:443").unwrap().host(), &Host::V6("2a0e:fade:10::1".parse().unwrap()));
        assert_eq!(parse("intranet").unwrap().port_or_default(), 8448);
    }

    #[test]
    fn whatever_can_be_read_in_two_ways_is_refused() {
        use InvalidServerName::{AmbiguousAddress, Character, Empty, Ipv6, Label, Port};
        for (text, why) in [
            ("", Empty),
            (":8448", Empty),
            ("127.1", AmbiguousAddress),
            ("2130706433", AmbiguousAddress),
            ("0x7f.1", AmbiguousAddress),
            ("0x7f000001", AmbiguousAddress),
            ("alpha.0xA", AmbiguousAddress),
            ("010.0.0.1", AmbiguousAddress),
            ("256.1.1.1", AmbiguousAddress),
            ("127.0.0.1.", Label),
            ("alpha.example.", Label),
            ("alpha..example", Label),
            (".alpha", Label),
            ("-", Label),
            ("-a.example", Label),
            ("...", Label),
            ("[127.0.0.1]", Ipv6),
            ("[alpha.example]", Ipv6),
            ("[fe80::1%25eth0]:8448", Ipv6),
            ("[2a0e:fade:10::1", Ipv6),
            ("[::1]8448", Character),
            ("2a0e:fade:10::1", Port),
            ("alpha.example:", Port),
            ("alpha.example:0", Port),
            ("alpha.example:+80", Port),
            ("alpha.example:000080", Port),
            ("alpha.example:65536", Port),
            ("alpha.example:http", Port),
            ("alpha.example:8448:8448", Port),
            ("al_pha.example", Character),
            ("al pha.example", Character),
            ("alpha.example\n", Character),
            ("alpha.example/x", Character),
            ("alpha.example#x", Character),
            ("alpha.example\\@127.0.0.1", Character),
            ("user@alpha.example", Character),
            ("%61lpha.example", Character),
            ("b\u{fc}cher.example", Character),
            ("alpha\0.example", Character),
        ] {
            assert_eq!(parse(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn the_length_limits_are_exact() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(63));
        assert_eq!(longest.len(), 255);
        assert!(parse(&longest).is_ok());
        assert_eq!(parse(&format!("{longest}b")), Err(InvalidServerName::TooLong));
        assert_eq!(parse(&format!("{}.example", "a".repeat(64))), Err(InvalidServerName::Label));
    }

    #[test]
    fn own_name_is_recognised_under_every_spelling_and_no_other() {
        let ours = parse("example.org").unwrap();
        for spelling in ["example.org", "EXAMPLE.org", "example.org:8448"] {
            assert!(ours.is_same_server(&parse(spelling).unwrap()), "{spelling}");
        }
        for other in ["example.org:8449", "example.com", "xexample.org", "example.org.x", "1.2.3.4"] {
            assert!(!ours.is_same_server(&parse(other).unwrap()), "{other}");
        }
        assert!(parse("[2A0E::1]").unwrap().is_same_server(&parse("[2a0e:0::1]:8448").unwrap()));
    }
}
