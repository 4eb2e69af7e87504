//! [`ResponseBody`]: what follows the head of an answer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The body of an answer, for an asynchronous server to stream and for a synchronous one to take whole.
///
/// A hyper or axum server hands it on as it is. Elsewhere, [`ResponseBody::into_bytes`].
#[derive(Debug, Default)]
pub struct ResponseBody {
    content: Content,
}

enum Content {
    /// All of it is here. `None`: read, or empty from the start.
    Whole(Option<Bytes>),
    /// It comes piece by piece.
    Streamed(Pin<Box<dyn Body<Data = Bytes, Error = BodyCut> + Send>>),
}

impl ResponseBody {
    /// A body that comes piece by piece and is nowhere held whole. A piece of more than 64 KiB is a server's memory for as
    /// long as a slow client takes it.
    ///
    /// An end without an error is the end of the whole; where `body` knows its length beforehand, its `size_hint` says so.
    pub fn streamed(body: impl Body<Data = Bytes, Error = BodyCut> + Send + 'static) -> Self {
        Self { content: Content::Streamed(Box::pin(body)) }
    }

    /// Whether it comes piece by piece. Then it has to be streamed on, and its length may not be known beforehand.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        matches!(self.content, Content::Streamed(_))
    }

    /// The whole body: ready at once, nothing is waited for. Empty if it was read already, and if it
    /// [is streamed](Self::is_streamed).
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
        match self.content {
            Content::Whole(bytes) => bytes.unwrap_or_default(),
            Content::Streamed(_) => Bytes::new(),
        }
    }
}

/// The body ends here and is not whole: the connection has to be ended, so that nobody takes it for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is cut short")]
pub struct BodyCut;

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self { content: Content::Whole((!bytes.is_empty()).then_some(bytes)) }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Whole(None)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => out.debug_tuple("Whole").field(bytes).finish(),
            Self::Streamed(_) => out.write_str("Streamed"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Streamed(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
            }
            Content::Streamed(body) => body.size_hint(),
        }
    }
}
