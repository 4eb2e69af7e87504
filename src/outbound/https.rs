//! [`HttpsTransport`]: one request over a connection of its own, to the one address that was judged.
//!
//! Every attempt has a client of its own, and that client can reach nothing but the address it was given: no pool from
//! which another connection could be taken, no resolver, no proxy, no redirect, no second try. Building it costs
//! microseconds; the TLS settings, and with them the sessions that can be resumed, are shared.

use std::fmt;
use std::net::IpAddr;

use http::HeaderMap;
use http_body_util::BodyExt as _;
use reqwest::dns::{Name, Resolving};
use reqwest::{Url, redirect, retry};
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::deadline::OutboundDeadline;
use crate::limits::{MAX_REMOTE_HEADER_BYTES, MAX_REMOTE_HEADER_LINES};
use crate::outbound::BoxFuture;
use crate::outbound::tls_roots::{TlsRoots, TlsRootsError};
use crate::outbound::transport::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};
use crate::server_name::Host;

/// What a header line costs beside its name and value: `: ` and the line's end.
const HEADER_LINE_EXTRA_BYTES: usize = 4;

/// HTTPS with HTTP/1.1, one connection per attempt. Clones share the TLS sessions.
///
/// Discovery and calls are given the same one, as an `Arc<dyn Transport>`:
///
/// ```no_run
/// use std::sync::Arc;
///
/// use portcullis::outbound::{HttpsTransport, TlsRoots, TlsRootsError, Transport};
///
/// fn transport() -> Result<Arc<dyn Transport>, TlsRootsError> {
///     Ok(Arc::new(HttpsTransport::new(TlsRoots::system()?)?))
/// }
/// ```
#[derive(Clone)]
pub struct HttpsTransport {
    tls: ClientConfig,
}

impl HttpsTransport {
    /// A transport that checks certificates against `roots`.
    ///
    /// *Errors:* [`TlsRootsError::NoProtocol`]. *Panics:* never. *Blocking:* no.
    pub fn new(roots: TlsRoots) -> Result<Self, TlsRootsError> {
        Ok(Self { tls: roots.into_client_config()? })
    }

    async fn exchange(&self, attempt: Attempt) -> Result<http::Response<RemoteBody>, TransportError> {
        let Some(connect_timeout) = attempt.connect_by.remaining(Instant::now()) else {
            return Err(TransportError { phase: TransportPhase::Connect, timed_out: true });
        };
        let url = url_as_signed(&attempt).ok_or(NOT_BUILDABLE)?;
        let address = attempt.address.socket_addr();
        let mut client = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(FailsClosed)
            .connect_timeout(connect_timeout)
            .pool_max_idle_per_host(0)
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
            .https_only(true);
        if let Host::Name(name) = &attempt.tls_name {
            client = client.resolve_to_addrs(name.as_str(), &[address]);
        }
        let client = client.build().map_err(|_| NOT_BUILDABLE)?;

        let (head, content) = attempt.request.into_parts();
        let mut request = reqwest::Request::new(head.method, url);
        *request.headers_mut() = head.headers;
        if !content.is_empty() {
            *request.body_mut() = Some(content.into());
        }
        let response = client.execute(request).await.map_err(|error| {
            let phase = match (error.is_builder(), error.is_connect()) {
                (true, _) => TransportPhase::Build,
                (false, true) => TransportPhase::Connect,
                (false, false) => TransportPhase::Send,
            };
            TransportError { phase, timed_out: error.is_timeout() }
        })?;
        // The line count was bounded while the head was read, its size by the HTTP library at some 400 KiB.
        if header_bytes(response.headers()) > MAX_REMOTE_HEADER_BYTES {
            return Err(TransportError { phase: TransportPhase::Send, timed_out: false });
        }
        Ok(http::Response::from(response).map(bounded_errors))
    }
}

impl Transport for HttpsTransport {
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<http::Response<RemoteBody>, TransportError>> {
        Box::pin(async move {
            let cut = TransportError { phase: TransportPhase::Send, timed_out: true };
            deadline.cut(self.exchange(attempt)).await.unwrap_or(Err(cut))
        })
    }
}

impl fmt::Debug for HttpsTransport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HttpsTransport").finish_non_exhaustive()
    }
}

/// The URL of an attempt, if it leads to the judged address and leaves path and query as they were signed.
///
/// The port is always in the URL, and an address in the URL is dialled without asking anybody: so it has to be the one
/// that was judged.
fn url_as_signed(attempt: &Attempt) -> Option<Url> {
    let address = attempt.address.socket_addr();
    let as_literal = |literal: IpAddr| (literal == address.ip()).then_some(());
    let host = match &attempt.tls_name {
        Host::Name(name) => name.to_string(),
        Host::V4(literal) => as_literal((*literal).into()).map(|()| literal.to_string())?,
        Host::V6(literal) => as_literal((*literal).into()).map(|()| format!("[{literal}]"))?,
    };
    let signed = attempt.request.uri().path_and_query()?.as_str();
    let url = Url::parse(&format!("https://{host}:{}{signed}", address.port())).ok()?;
    let sent = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let same_host = match &attempt.tls_name {
        Host::Name(name) => url.host_str() == Some(name.as_str()),
        Host::V4(_) => url.host_str() == Some(host.as_str()),
        // The parser has a spelling of its own for some of them.
        Host::V6(literal) => {
            let parsed = url.host_str().and_then(|host| host.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
            parsed == Some(*literal)
        }
    };
    (same_host && sent == signed).then_some(url)
}

const NOT_BUILDABLE: TransportError = TransportError { phase: TransportPhase::Build, timed_out: false };

pub(crate) fn header_bytes(headers: &HeaderMap) -> usize {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        name.as_str().len().saturating_add(value.len()).saturating_add(HEADER_LINE_EXTRA_BYTES)
    };
    headers.iter().map(line).fold(0, usize::saturating_add)
}

fn bounded_errors(body: reqwest::Body) -> RemoteBody {
    body.map_err(|error| TransportError { phase: TransportPhase::Body, timed_out: error.is_timeout() }).boxed_unsync()
}

/// Answers no name: the one name an attempt may look up has been answered before.
struct FailsClosed;

#[derive(Debug, thiserror::Error)]
#[error("no name is looked up here")]
struct NotLookedUp;

impl reqwest::dns::Resolve for FailsClosed {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(async { Err(NotLookedUp.into()) })
    }
}
