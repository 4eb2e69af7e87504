//! [`HttpsTransport`]: one request over a connection of its own, to the one address that was judged.
//!
//! There is no client here that could do anything else: no pool from which another connection could be taken, no resolver, no
//! proxy, no redirect, no second try, no decoder. A socket is connected to the judged address, TLS is spoken over it, and the
//! HTTP library is given the connection. The TLS settings, and with them the sessions that can be resumed, are shared.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::deadline::OutboundDeadline;
use crate::limits::{MAX_REMOTE_HEADER_BYTES, MAX_REMOTE_HEADER_LINES, REMOTE_READ_BYTES};
use crate::outbound::BoxFuture;
use crate::outbound::address_policy::JudgedAddress;
use crate::outbound::bounded_head::BoundedHead;
use crate::outbound::connection::{Connection, Streaming};
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
    tls: TlsConnector,
}

impl HttpsTransport {
    /// A transport that checks certificates against `roots`.
    ///
    /// *Errors:* [`TlsRootsError::NoProtocol`]. *Panics:* never. *Blocking:* no.
    pub fn new(roots: TlsRoots) -> Result<Self, TlsRootsError> {
        Ok(Self { tls: Arc::new(roots.into_client_config()?).into() })
    }

    async fn exchange(&self, attempt: Attempt) -> Result<http::Response<RemoteBody>, TransportError> {
        let name = server_name(&attempt).ok_or(NOT_BUILDABLE)?;
        let request = as_signed(attempt.request).ok_or(NOT_BUILDABLE)?;
        let connecting = self.connect(&attempt.address, name);
        let stream = match attempt.connect_by.cut(connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(_)) => return Err(TransportError { phase: TransportPhase::Connect, timed_out: false }),
            Err(_) => return Err(TransportError { phase: TransportPhase::Connect, timed_out: true }),
        };
        let (stream, head_came) = BoundedHead::new(stream);
        let no_answer = |_| TransportError { phase: TransportPhase::Send, timed_out: false };
        let (mut requests, connection) = http1::Builder::new()
            .max_headers(MAX_REMOTE_HEADER_LINES)
            // What is read ahead, of a head as well as of a body.
            .max_buf_size(REMOTE_READ_BYTES)
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(no_answer)?;
        let mut connection = Connection::new(connection);
        let response = connection.drive(requests.send_request(request)).await.map_err(no_answer)?;
        head_came.note();
        if header_bytes(response.headers()) > MAX_REMOTE_HEADER_BYTES {
            return Err(TransportError { phase: TransportPhase::Send, timed_out: false });
        }
        Ok(response.map(|body| RemoteBody::new(Streaming::new(body, connection))))
    }

    async fn connect(&self, address: &JudgedAddress, name: ServerName<'static>) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address.socket_addr()).await?;
        stream.set_nodelay(true)?;
        self.tls.connect(name, stream).await
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

/// The request with nothing but path and query in its first line, as they were signed.
fn as_signed(request: http::Request<Bytes>) -> Option<http::Request<Full<Bytes>>> {
    let (mut head, content) = request.into_parts();
    head.uri = Uri::from(head.uri.path_and_query()?.clone());
    if !head.headers.contains_key(HOST) {
        return None;
    }
    head.headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Some(http::Request::from_parts(head, Full::new(content)))
}

/// The name the certificate has to carry. A literal is not told to the peer (no SNI), and is the address itself.
fn server_name(attempt: &Attempt) -> Option<ServerName<'static>> {
    let judged = |literal: IpAddr| (literal == attempt.address.socket_addr().ip()).then(|| literal.into());
    match &attempt.tls_name {
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).ok(),
        Host::V4(literal) => judged((*literal).into()),
        Host::V6(literal) => judged((*literal).into()),
    }
}

const NOT_BUILDABLE: TransportError = TransportError { phase: TransportPhase::Build, timed_out: false };

pub(crate) fn header_bytes(headers: &HeaderMap) -> usize {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len().saturating_add(value.len()).saturating_add(HEADER_LINE_EXTRA_BYTES)
    };
    headers.iter().map(line).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;
