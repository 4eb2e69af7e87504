//! [`Target`]: an https URL that a stranger chose: where a redirect leads, or where a file is said to be.
//!
//! It leads where a stranger wants. It is read with the same strict grammar as a server
//! name, by us and by nobody else, so that what is judged is what is dialled.

use http::uri::PathAndQuery;

use crate::limits::MAX_REDIRECT_BYTES;
use crate::server_name::{DnsName, Host, ServerName};

/// An https URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// Host, with the port unless it is 443: what the Host header carries.
    pub(crate) authority: String,
    pub(crate) path: PathAndQuery,
}

const HTTPS_PORT: u16 = 443;

impl Target {
    /// Where the well-known file of `host` is.
    pub(crate) fn of(host: &DnsName) -> Self {
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
    pub(crate) fn redirected(&self, location: &str) -> Option<Self> {
        if !is_plain(location) {
            return None;
        }
        match (without_scheme(location), location.strip_prefix("//")) {
            (Some(rest), _) | (None, Some(rest)) => Self::at(rest),
            (None, None) if location.starts_with('/') => Some(Self { path: location.parse().ok()?, ..self.clone() }),
            (None, None) => None,
        }
    }

    /// Where the absolute https URL `url` leads; by the same rules, and with nothing that it could be relative to.
    pub(crate) fn absolute(url: &str) -> Option<Self> {
        if is_plain(url) { Self::at(without_scheme(url)?) } else { None }
    }

    /// `rest` is the URL after `https://`.
    fn at(rest: &str) -> Option<Self> {
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

/// Whether every reader of URLs would split it in the same places.
fn is_plain(url: &str) -> bool {
    url.len() <= MAX_REDIRECT_BYTES && url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.contains(['#', '\\'])
}

fn without_scheme(url: &str) -> Option<&str> {
    url.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("https")).map(|(_, rest)| rest)
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

    #[test]
    fn x15_x16_n11_an_absolute_target_is_relative_to_nothing() {
        let target = Target::absolute("https://CDN.example:8443/a/b?c=d").unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("cdn.example:8443", "/a/b?c=d"));
        for url in [
            "",
            "https://",
            "https:///f",
            "/f",
            "//cdn.example/f",
            "f",
            "cdn.example/f",
            "http://cdn.example/f",
            "ftp://cdn.example/f",
            "file:///etc/passwd",
            "gopher://127.0.0.1:6379/_x",
            "unix:/var/run/docker.sock",
            "https://user:pw@cdn.example/f",
            "https://user@cdn.example/f",
            "https://@cdn.example/f",
            "https://cdn.example/f#",
            "https://cdn.example/f#x",
            "https://127.0.0.1\\@cdn.example/f",
            "https://%6c%6f%63%61%6c%68%6f%73%74/f",
            "https://2130706433/f",
            "https://cdn.example:0/f",
            "https://cdn.example:65536/f",
            "https://cdn.example:text/f",
            "https://cdn.example:/f",
            "https://[fe80::1%25eth0]/f",
            "https://[::::]/f",
            "https://cdn.example/\0",
            "https://cdn.example/ f",
            " https://cdn.example/f",
        ] {
            assert_eq!(Target::absolute(url), None, "{url:?}");
        }
    }
}
