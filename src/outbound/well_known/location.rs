//! [`Target`]: the next place a well-known file is fetched from.
//!
//! A redirect comes from a stranger and leads where a stranger wants. It is read with the same strict grammar as a server
//! name, by us and by nobody else, so that what is judged is what is dialled.

use http::uri::PathAndQuery;

use crate::limits::MAX_REDIRECT_BYTES;
use crate::server_name::{DnsName, Host, ServerName};

/// An https URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    /// Host, with the port unless it is 443: what the Host header carries.
    pub(super) authority: String,
    pub(super) path: PathAndQuery,
}

const HTTPS_PORT: u16 = 443;

impl Target {
    /// Where the well-known file of `host` is.
    pub(super) fn of(host: &DnsName) -> Self {
        Self {
            host: Host::Name(host.clone()),
            port: HTTPS_PORT,
            authority: host.as_str().to_owned(),
            path: PathAndQuery::from_static("/.well-known/matrix/server"),
        }
    }

    /// Where `location`, received from here, leads. `None` for everything but https: an absolute URL, one without the
    /// scheme (`//host/path`), or an absolute path on the same host. Userinfo, fragments, backslashes and whatever a
    /// server name cannot hold are refused.
    pub(super) fn redirected(&self, location: &str) -> Option<Self> {
        let printable = location.bytes().all(|byte| byte.is_ascii_graphic());
        if location.len() > MAX_REDIRECT_BYTES || !printable || location.contains(['#', '\\']) {
            return None;
        }
        let scheme_at = location.find("://").filter(|at| location.get(..*at).is_some_and(is_https));
        let rest = match (scheme_at, location.strip_prefix("//")) {
            (Some(at), _) => location.get(at.saturating_add(3)..)?,
            (None, Some(rest)) => rest,
            (None, None) if location.starts_with('/') => {
                return Some(Self { path: location.parse().ok()?, ..self.clone() });
            }
            (None, None) => return None,
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let name: ServerName = authority.parse().ok()?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let port = name.port().unwrap_or(HTTPS_PORT);
        let host_text = match name.host() {
            Host::Name(name) => name.to_string(),
            Host::V4(v4) => v4.to_string(),
            Host::V6(v6) => format!("[{v6}]"),
        };
        let authority = if port == HTTPS_PORT { host_text } else { format!("{host_text}:{port}") };
        Some(Self { host: name.host().clone(), port, authority, path: path.parse().ok()? })
    }
}

fn is_https(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_alpha(location: &str) -> Option<(String, u16, String)> {
        let target = Target::of(&"alpha.example".parse().unwrap()).redirected(location)?;
        Some((target.authority, target.port, target.path.to_string()))
    }

    #[test]
    fn https_targets_are_taken_apart() {
        for (location, authority, port, path) in [
            ("https://www.alpha.example/a/b?c=d", "www.alpha.example", 443, "/a/b?c=d"),
            ("HTTPS://WWW.Alpha.Example/", "www.alpha.example", 443, "/"),
            ("https://www.alpha.example", "www.alpha.example", 443, "/"),
            ("https://www.alpha.example?x", "www.alpha.example", 443, "/?x"),
            ("https://www.alpha.example:443/x", "www.alpha.example", 443, "/x"),
            ("https://www.alpha.example:8443/x", "www.alpha.example:8443", 8443, "/x"),
            ("//beta.example/x", "beta.example", 443, "/x"),
            ("/elsewhere/matrix-server.json", "alpha.example", 443, "/elsewhere/matrix-server.json"),
            ("/x?back=https://beta.example/", "alpha.example", 443, "/x?back=https://beta.example/"),
            ("https://44.128.10.1/x", "44.128.10.1", 443, "/x"),
            ("https://[2A0E:FADE:10::1]:8443/x", "[2a0e:fade:10::1]:8443", 8443, "/x"),
        ] {
            assert_eq!(from_alpha(location), Some((authority.into(), port, path.into())), "{location}");
        }
    }

    #[test]
    fn whatever_else_a_redirect_says_leads_nowhere() {
        for location in [
            "",
            "elsewhere",
            "?x",
            "http://alpha.example/server",
            "http://169.254.169.254/latest/meta-data/",
            "gopher://127.0.0.1:6379/_FLUSHALL",
            "https:\\\\127.0.0.1/.well-known/matrix/server",
            "https:/alpha.example/x",
            "https:///x",
            "https://0x7f.1/.well-known/matrix/server",
            "https://2130706433/",
            "https://127.1/",
            "https://user@beta.example/",
            "https://beta.example#x",
            "https://beta.example/#",
            "https://beta.example:0/",
            "https://beta.example:65536/",
            "https://beta.example./",
            "https://be_ta.example/",
            "https://[fe80::1%25eth0]/",
            "https://beta.example/a b",
            "https://beta.example/\u{e9}",
            "/\\beta.example",
        ] {
            assert_eq!(from_alpha(location), None, "{location:?}");
        }
        assert_eq!(from_alpha(&format!("/{}", "a".repeat(MAX_REDIRECT_BYTES))), None);
    }
}
