//! [`Transport`]: one request to one judged address. No redirects, no retries, no other address.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::address_policy::JudgedAddress;
use crate::server_name::Host;

/// Sends one request over HTTPS to exactly one address.
///
/// [`HttpsTransport`](crate::outbound::HttpsTransport) is ours. Another one owes what is said below, and three things more:
/// it follows no redirect, sends nothing a second time, and undoes no compression, whose output has no bound. Around another
/// one, to count what goes out:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use http::Response;
/// use portcullis::OutboundDeadline;
/// use portcullis::outbound::{Attempt, BoxFuture, RemoteBody, Transport, TransportError};
///
/// struct Counted {
///     inner: Arc<dyn Transport>,
///     attempts: AtomicU64,
/// }
///
/// impl Transport for Counted {
///     fn send(
///         &self, attempt: Attempt, deadline: OutboundDeadline,
///     ) -> BoxFuture<'_, Result<Response<RemoteBody>, TransportError>> {
///         self.attempts.fetch_add(1, Ordering::Relaxed);
///         self.inner.send(attempt, deadline)
///     }
/// }
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Connects, verifies the certificate for [`Attempt::tls_name`], sends, and returns with the response head.
    ///
    /// Nothing is sent before the certificate is verified. Ends no later than `deadline`; connecting (TCP and TLS) ends
    /// no later than [`Attempt::connect_by`]. Dropping the future, or the body, closes the connection.
    ///
    /// *Errors:* [`TransportError`]; one that says that nothing was sent lets the next address be tried.
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<http::Response<RemoteBody>, TransportError>>;
}

/// One attempt: whom to connect to, under which name, with what.
#[derive(Debug)]
pub struct Attempt {
    /// The only address that may be connected to.
    pub address: JudgedAddress,
    /// The name the certificate has to carry; a literal means no SNI.
    pub tls_name: Host,
    /// When connecting has to be done.
    pub connect_by: OutboundDeadline,
    /// Method, path and query exactly as signed, headers with `Host` among them, body. The URI has no authority.
    pub request: http::Request<Bytes>,
}

/// A remote's body, not yet read. Its errors are [`TransportError`]s too.
pub struct RemoteBody(Pin<Box<dyn Body<Data = Bytes, Error = TransportError> + Send>>);

/// An attempt failed. Carries no text of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_label())]
pub struct TransportError {
    /// How far the attempt got.
    pub phase: TransportPhase,
    /// Whether time ended it.
    pub timed_out: bool,
}

/// How far an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportPhase {
    /// The request could not be built: nothing was dialled.
    Build,
    /// TCP or TLS: nothing was sent, the next address may be tried.
    Connect,
    /// The request may have been sent; no response head came.
    Send,
    /// The response head came; the body did not.
    Body,
}

impl RemoteBody {
    /// The body that a [`Transport`] of the embedder's own gives out. Dropping it has to close the connection, and waiting for
    /// it need not end by itself: whoever reads it has the deadline.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::{BodyExt as _, Full};
    /// use portcullis::outbound::RemoteBody;
    ///
    /// let whole = Full::new(Bytes::from_static(b"{}")); // or the body of your own client, its errors told apart
    /// let body = RemoteBody::new(whole.map_err(|never| match never {}));
    /// # assert_eq!(http_body::Body::size_hint(&body).exact(), Some(2));
    /// ```
    pub fn new(body: impl Body<Data = Bytes, Error = TransportError> + Send + 'static) -> Self {
        Self(Box::pin(body))
    }
}

impl Body for RemoteBody {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        self.0.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for RemoteBody {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("RemoteBody").finish_non_exhaustive()
    }
}

impl TransportError {
    /// Whether no byte of the request can have left: another address may be tried.
    #[must_use]
    pub fn nothing_was_sent(self) -> bool {
        matches!(self.phase, TransportPhase::Build | TransportPhase::Connect)
    }

    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match (self.phase, self.timed_out) {
            (TransportPhase::Build, _) => "request-not-buildable",
            (TransportPhase::Connect, false) => "connect-failed",
            (TransportPhase::Connect, true) => "connect-timed-out",
            (TransportPhase::Send, false) => "no-response",
            (TransportPhase::Send, true) => "response-timed-out",
            (TransportPhase::Body, false) => "body-cut",
            (TransportPhase::Body, true) => "body-timed-out",
        }
    }
}
