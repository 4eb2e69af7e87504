//! [`ResponseBody`]: what follows the head of an answer.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};

use crate::proxy::media_store::FileReader;
use crate::proxy::wait_here::wait_here;

/// The body of an answer: bytes that are there, or a file of another server, of which more may still come.
///
/// A hyper or axum server hands it on as it is, whichever it is; a file is read as fast as its client takes it, 64 KiB in
/// memory at most. A synchronous server writes out [`ResponseBody::into_reader`].
#[derive(Debug)]
pub struct ResponseBody {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Empty once they were read.
    Bytes(Bytes),
    File(FileReader),
    Streamed(AnyBody),
}

/// Somebody's own body.
struct AnyBody(Pin<Box<dyn Body<Data = Bytes, Error = BodyCut> + Send>>);

impl ResponseBody {
    /// A body that comes piece by piece and is nowhere held whole. A piece of more than 64 KiB is a server's memory for as
    /// long as a slow client takes it.
    ///
    /// An end without an error is the end of the whole; where `body` knows its length beforehand, its `size_hint` says so.
    pub fn streamed(body: impl Body<Data = Bytes, Error = BodyCut> + Send + 'static) -> Self {
        Self { kind: Kind::Streamed(AnyBody(Box::pin(body))) }
    }

    /// The whole body, if it is one of bytes: ready at once, nothing is waited for.
    ///
    /// Such an answer carries no `Content-Length`; the server that writes it adds the length of these bytes, and leaves the
    /// bytes out where the request was `HEAD`. *Panics:* never. *Blocking:* no.
    ///
    /// *Errors:* the body as it was, if it [is streamed](Self::is_streamed), as files are: to be read by
    /// [`ResponseBody::into_reader`] or as an [`http_body::Body`].
    ///
    /// ```
    /// use std::io::{self, Write};
    ///
    /// use portcullis::ResponseBody;
    ///
    /// fn write(body: ResponseBody, socket: &mut dyn Write) -> io::Result<()> {
    ///     match body.into_bytes() {
    ///         Ok(bytes) => socket.write_all(&bytes),
    ///         Err(streamed) => io::copy(&mut streamed.into_reader(), socket).map(drop),
    ///     }
    /// }
    /// # let (body, mut socket) = (ResponseBody::from(bytes::Bytes::from_static(b"{}")), Vec::new());
    /// # write(body, &mut socket).unwrap();
    /// # assert_eq!(socket, b"{}");
    /// ```
    pub fn into_bytes(self) -> Result<Bytes, Self> {
        match self.kind {
            Kind::Bytes(bytes) => Ok(bytes),
            Kind::File(_) | Kind::Streamed(_) => Err(self),
        }
    }

    /// Whether it comes piece by piece: a file, say, that is not in memory and perhaps still on its way. Its length may not
    /// be known beforehand.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        !matches!(self.kind, Kind::Bytes(_))
    }

    /// The body for a synchronous server, bytes or a file.
    ///
    /// *Blocking:* each read of a file waits for the disk, and for the other server while the file is still on its way: until
    /// the deadline of its fetch at the longest. *Errors:* of `read`: an `UnexpectedEof` around [`BodyCut`], after which the
    /// connection has to be ended; others are the disk's. *Panics:* never.
    ///
    /// ```
    /// use std::io::Read as _;
    ///
    /// use bytes::Bytes;
    /// use portcullis::ResponseBody;
    ///
    /// let mut body = String::new();
    /// ResponseBody::from(Bytes::from_static(b"{}")).into_reader().read_to_string(&mut body).unwrap();
    /// assert_eq!(body, "{}");
    /// ```
    pub fn into_reader(self) -> impl io::Read + Send + 'static {
        match self.kind {
            Kind::Bytes(bytes) => Reader::Bytes(bytes.reader()),
            Kind::File(file) => Reader::File(file.into_blocking()),
            Kind::Streamed(body) => Reader::Streamed { body, piece: Bytes::new() },
        }
    }
}

/// Reads a body.
enum Reader {
    Bytes(bytes::buf::Reader<Bytes>),
    File(crate::proxy::media_store::BlockingFileReader),
    Streamed { body: AnyBody, piece: Bytes },
}

impl io::Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::File(file) => file.read(buffer),
            Self::Streamed { body, piece } => {
                while piece.is_empty() {
                    match wait_here(poll_fn(|context| body.0.as_mut().poll_frame(context))) {
                        None => return Ok(0),
                        Some(frame) => {
                            let frame = frame.map_err(|cut| io::Error::new(io::ErrorKind::UnexpectedEof, cut))?;
                            *piece = frame.into_data().unwrap_or_default();
                        }
                    }
                }
                let now = piece.len().min(buffer.len());
                piece.split_to(now).reader().read(buffer)
            }
        }
    }
}

impl fmt::Debug for AnyBody {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("AnyBody").finish_non_exhaustive()
    }
}

/// The body ends here and is not whole: the connection has to be ended, so that nobody takes it for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is cut short")]
pub struct BodyCut;

impl Default for ResponseBody {
    /// No bytes.
    fn default() -> Self {
        Self::from(Bytes::new())
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self { kind: Kind::Bytes(bytes) }
    }
}

impl From<FileReader> for ResponseBody {
    fn from(file: FileReader) -> Self {
        Self { kind: Kind::File(file) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        match &mut self.kind {
            Kind::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::File(file) => Pin::new(file).poll_frame(context),
            Kind::Streamed(body) => body.0.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Bytes(bytes) => bytes.is_empty(),
            Kind::File(file) => file.is_end_stream(),
            Kind::Streamed(body) => body.0.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Bytes(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(0)),
            Kind::File(file) => file.size_hint(),
            Kind::Streamed(body) => body.0.size_hint(),
        }
    }
}
