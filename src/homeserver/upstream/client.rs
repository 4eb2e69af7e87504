//! [`UpstreamClient`]: the way to the homeserver behind. Another kind than the way out: one origin that the operator
//! chose, connections that are kept, no guard and no signature.
//!
//! One request is one request: no redirect is followed, nothing is tried again, nothing is unpacked, no proxy of the
//! environment is in between.

use std::fmt;

use http::{HeaderMap, Response};
use reqwest::{Url, redirect, retry};
use tokio::time::Instant;

use super::addresses::UpstreamAddresses;
use super::origin::UpstreamOrigin;
use super::rebuild::Rebuilt;
use crate::deadline::OutboundDeadline;
use crate::limits::{
    MAX_REMOTE_HEADER_BYTES, MAX_REMOTE_HEADER_LINES, UPSTREAM_FILES, UPSTREAM_HEAD_TIME, UPSTREAM_IDLE,
};
use crate::outbound::https::header_bytes;
use crate::outbound::{TlsRoots, TlsRootsError, transport_kind};
use crate::outcome::TransportKind;
use crate::server_name::Host;

/// Asks the homeserver behind.
pub(super) struct UpstreamClient {
    http: reqwest::Client,
    origin: String,
}

/// The client cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// There is no TLS.
    #[error("{0}")]
    Tls(#[from] TlsRootsError),
    /// The HTTP library refuses its settings.
    #[error("the HTTP client cannot be set up")]
    Http,
}

impl UpstreamClient {
    /// A client for `origin` alone, whose certificate is checked against `roots`.
    pub(super) fn new(origin: &UpstreamOrigin, roots: TlsRoots) -> Result<Self, ClientError> {
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(roots.into_client_config()?)
            .pool_max_idle_per_host(UPSTREAM_FILES)
            .pool_idle_timeout(UPSTREAM_IDLE)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .no_hickory_dns()
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .referer(false)
            .http1_only()
            .http1_max_headers(MAX_REMOTE_HEADER_LINES)
            .tcp_nodelay(true);
        if let Host::Name(name) = origin.host() {
            http = http.dns_resolver(UpstreamAddresses::of(name.as_str()));
        }
        let http = http.build().map_err(|_| ClientError::Http)?;
        Ok(Self { http, origin: origin.to_string() })
    }

    /// Where it is.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Sends one request, and waits for the head of its answer. Ends by `deadline`.
    ///
    /// *Cancel safety:* dropping the future closes the connection.
    pub(super) async fn send(
        &self,
        request: Rebuilt,
        deadline: OutboundDeadline,
    ) -> Result<Response<reqwest::Body>, TransportKind> {
        let url = self.url(&request.path_and_query).ok_or(TransportKind::NotBuildable)?;
        let mut sent = reqwest::Request::new(request.method, url);
        *sent.headers_mut() = request.headers;
        if !request.body.is_empty() {
            *sent.body_mut() = Some(request.body.into());
        }
        let answer = deadline.cut(self.http.execute(sent)).await.map_err(|_| TransportKind::TimedOut)?;
        let answer = answer.map_err(|error| transport_kind(&error).unwrap_or(TransportKind::Reset))?;
        // The line count was bounded while the head was read, its size by the HTTP library at some 400 KiB.
        if header_bytes(answer.headers()) > MAX_REMOTE_HEADER_BYTES {
            return Err(TransportKind::Undecodable);
        }
        Ok(answer.into())
    }

    /// The URL that leads to the origin and leaves path and query as they were written.
    fn url(&self, path_and_query: &str) -> Option<Url> {
        let url = Url::parse(&format!("{}{path_and_query}", self.origin)).ok()?;
        let sent = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        (sent == path_and_query).then_some(url)
    }
}

/// By when the head of an answer to what is sent now has to be there.
pub(super) fn head_deadline() -> OutboundDeadline {
    OutboundDeadline::after(UPSTREAM_HEAD_TIME, Instant::now())
}

/// Takes out what is for the connection to us and nobody else.
pub(super) fn without_hop_by_hop(headers: &mut HeaderMap) {
    for name in super::rebuild::named_by_connection(headers) {
        headers.remove(name);
    }
    for name in [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ] {
        headers.remove(name);
    }
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("UpstreamClient").field("origin", &self.origin).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_would_be_read_otherwise_is_not_sent() {
        let client = UpstreamClient {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            origin: "http://127.0.0.1:1".into(),
        };
        assert_eq!(client.url("/a/b?c=%20").unwrap().as_str(), "http://127.0.0.1:1/a/b?c=%20");
        for odd in ["/a/../b", "/a/%2e%2E/b", "/a b", "/a\\b", "/a#b", "/a\n", ".evil.example/", "@evil.example/", "0/"]
        {
            assert!(client.url(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn what_is_for_one_connection_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "x-own, keep-alive"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("content-type", "text/plain"),
        ] {
            headers.insert(http::HeaderName::from_static(name), value.parse().unwrap());
        }
        without_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["content-type"]);
    }
}
