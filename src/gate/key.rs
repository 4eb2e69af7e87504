//! [`GateKey`]: whose gate it is. The origin of a base URL.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::limits::MAX_GATE_HOST_BYTES;

/// The origin of the base URL that discovery settled on: scheme and host in lower case, without the dot that may end a name,
/// the port explicit.
///
/// Two server names that delegate to one base URL share a gate. One homeserver under two base URLs (an inside and a public
/// name, say) has two; each still backs off on its own signals.
///
/// ```
/// use portcullis::gate::GateKey;
///
/// let key = |base_url| GateKey::from_base_url(base_url).map(|key| key.to_string());
/// assert_eq!(key("HTTPS://Example.ORG").as_deref(), Ok("https://example.org:443"));
/// assert_eq!(key("https://example.org:8448/_matrix/").as_deref(), Ok("https://example.org:8448"));
/// assert!(key("example.org").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct GateKey(Box<str>);

/// Not the base URL of a homeserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBaseUrl {
    /// It begins neither with `https://` nor with `http://`.
    #[error("a base URL begins with https:// or http://")]
    Scheme,
    /// The host is missing, too long, or has a character that no host has; or it is an IPv4 address, but not written as
    /// four plain numbers. International names are written in ASCII.
    #[error("the base URL has no proper host")]
    Host,
    /// The port is no number up to 65535.
    #[error("the base URL has no proper port")]
    Port,
}

impl GateKey {
    /// The key of the homeserver at `base_url`. User, password, path, query and fragment are left out.
    ///
    /// *Errors:* [`InvalidBaseUrl`]. *Panics:* never.
    pub fn from_base_url(base_url: &str) -> Result<Self, InvalidBaseUrl> {
        let (scheme, rest) = base_url.split_once("://").ok_or(InvalidBaseUrl::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(InvalidBaseUrl::Scheme),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('\\') {
            // Some parsers end the host here, others take what is before it for a user's name.
            return Err(InvalidBaseUrl::Host);
        }
        let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, after)| after);
        let (host, port) = split_port(host_and_port)?;
        let port = match port {
            None | Some("") => default_port,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse::<u16>().map_err(|_| InvalidBaseUrl::Port)?
            }
            Some(_) => return Err(InvalidBaseUrl::Port),
        };
        Ok(Self(format!("{scheme}://{host}:{port}").into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The host in its one spelling, and the port as it is written.
fn split_port(host_and_port: &str) -> Result<(String, Option<&str>), InvalidBaseUrl> {
    if let Some(rest) = host_and_port.strip_prefix('[') {
        let (literal, after) = rest.split_once(']').ok_or(InvalidBaseUrl::Host)?;
        let literal: Ipv6Addr = literal.parse().map_err(|_| InvalidBaseUrl::Host)?;
        let port = match after {
            "" => None,
            after => Some(after.strip_prefix(':').ok_or(InvalidBaseUrl::Host)?),
        };
        return Ok((format!("[{literal}]"), port));
    }
    let (host, port) = match host_and_port.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (host_and_port, None),
    };
    let is_proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || host.len() > MAX_GATE_HOST_BYTES || !host.bytes().all(is_proper) {
        return Err(InvalidBaseUrl::Host);
    }
    if ends_in_a_number(host) && host.parse::<Ipv4Addr>().is_err() {
        return Err(InvalidBaseUrl::Host);
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.is_empty() || name.ends_with('.') {
        return Err(InvalidBaseUrl::Host);
    }
    Ok((name.to_ascii_lowercase(), port))
}

/// Whether a URL parser takes the host for an IPv4 address. `0x7f.1` is 127.0.0.1 to it: one homeserver has one gate only
/// if each address has one spelling.
fn ends_in_a_number(host: &str) -> bool {
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    match last.strip_prefix("0x").or_else(|| last.strip_prefix("0X")) {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_origin_has_one_key() {
        for (base_url, key) in [
            ("HTTPS://Example.ORG", "https://example.org:443"),
            ("https://example.org/", "https://example.org:443"),
            ("https://example.org:443", "https://example.org:443"),
            ("https://example.org:0443/", "https://example.org:443"),
            ("https://example.org:", "https://example.org:443"),
            ("https://example.org.", "https://example.org:443"),
            ("https://Example.org.:8448/", "https://example.org:8448"),
            ("http://example.org", "http://example.org:80"),
            ("https://example.org:8448/_matrix/", "https://example.org:8448"),
            ("https://user:pass@example.org/path?query#fragment", "https://example.org:443"),
            ("https://a@b@example.org", "https://example.org:443"),
            ("https://example.org?host=other.org", "https://example.org:443"),
            ("https://example.org#@other.org", "https://example.org:443"),
            ("http://synapse_1:8008", "http://synapse_1:8008"),
            ("http://127.0.0.1:8008", "http://127.0.0.1:8008"),
            ("http://4.synapse7:8008", "http://4.synapse7:8008"),
            ("http://synapse.0xg", "http://synapse.0xg:80"),
            ("https://[2001:DB8::1]", "https://[2001:db8::1]:443"),
            ("https://[2001:db8:0:0::0:1]:8448/", "https://[2001:db8::1]:8448"),
        ] {
            assert_eq!(GateKey::from_base_url(base_url).as_ref().map(GateKey::as_str), Ok(key), "{base_url}");
        }
    }

    #[test]
    fn different_origins_have_different_keys() {
        let key = |base_url| GateKey::from_base_url(base_url).unwrap();
        for (one, other) in [
            ("https://example.org", "http://example.org"),
            ("https://example.org", "https://example.org:8448"),
            ("https://matrix.example.org", "http://synapse.internal:8008"),
        ] {
            assert_ne!(key(one), key(other));
        }
    }

    #[test]
    fn what_is_no_base_url_has_no_key() {
        for (base_url, error) in [
            ("", InvalidBaseUrl::Scheme),
            ("example.org", InvalidBaseUrl::Scheme),
            ("ftp://example.org", InvalidBaseUrl::Scheme),
            ("https://", InvalidBaseUrl::Host),
            ("https:///path", InvalidBaseUrl::Host),
            ("https://:443", InvalidBaseUrl::Host),
            ("https://exa mple.org", InvalidBaseUrl::Host),
            ("https://ex%61mple.org", InvalidBaseUrl::Host),
            ("https://example.org\\@other.org", InvalidBaseUrl::Host),
            ("https://example.org\\other", InvalidBaseUrl::Host),
            ("https://bücher.example", InvalidBaseUrl::Host),
            ("http://0x7f.1", InvalidBaseUrl::Host),
            ("http://127.0.0.0X1", InvalidBaseUrl::Host),
            ("http://127.1", InvalidBaseUrl::Host),
            ("http://127.0.0.01:8008", InvalidBaseUrl::Host),
            ("http://127.0.0.1.", InvalidBaseUrl::Host),
            ("https://.", InvalidBaseUrl::Host),
            ("https://example.org..", InvalidBaseUrl::Host),
            ("http://2130706433", InvalidBaseUrl::Host),
            ("http://synapse.0x", InvalidBaseUrl::Host),
            ("https://[2001:db8::1", InvalidBaseUrl::Host),
            ("https://[2001:db8::1]x", InvalidBaseUrl::Host),
            ("https://[example.org]", InvalidBaseUrl::Host),
            ("https://example.org:65536", InvalidBaseUrl::Port),
            ("https://example.org:+443", InvalidBaseUrl::Port),
            ("https://example.org:44a", InvalidBaseUrl::Port),
            ("https://2001:db8::1", InvalidBaseUrl::Host),
        ] {
            assert_eq!(GateKey::from_base_url(base_url), Err(error), "{base_url}");
        }
        let long = format!("https://{}", "a".repeat(MAX_GATE_HOST_BYTES + 1));
        assert_eq!(GateKey::from_base_url(&long), Err(InvalidBaseUrl::Host));
    }
}
