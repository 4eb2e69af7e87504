//! [`ResponseBody`]: what follows the head of an answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

/// The body of an answer, for an asynchronous server to stream and for a synchronous one to take whole.
///
/// A hyper or axum server hands it on as it is. Elsewhere, [`ResponseBody::into_bytes`].
#[derive(Debug, Default)]
pub struct ResponseBody {
    bytes: Option<Bytes>,
}

impl ResponseBody {
    /// The whole body: ready at once, nothing is waited for. Empty if it was read already.
    ///
    /// Answers carry no `Content-Length`; the server that writes them adds the length of these bytes, and leaves the
    /// bytes out where the request was `HEAD`. *Panics:* never. *Blocking:* no.
    ///
    /// ```
    /// use std::time::Duration;
    /// use portcullis::Refusal;
    ///
    /// let answer = Refusal::GlobalCap { retry_after: Duration::from_secs(1) }.into_response();
    /// let body = answer.into_body().into_bytes();
    /// assert!(body.starts_with(br#"{"errcode":"M_LIMIT_EXCEEDED""#));
    /// ```
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes.unwrap_or_default()
    }
}

/// The body ends here and is not whole: the connection has to be ended, so that nobody takes it for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is cut short")]
pub struct BodyCut;

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self { bytes: (!bytes.is_empty()).then_some(bytes) }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(0)))
    }
}
