//! [`BoundedHead`]: a stream that ends when too much comes before the head of an answer.
//!
//! The HTTP library bounds one head, and a peer may send any number of interim ones (103 and its like) before the one that
//! counts. What is counted here is bytes, whatever they say.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::REMOTE_READ_BYTES;

/// Reads no further once [`REMOTE_READ_BYTES`] have come and the head has not; what was read in one piece with the end of
/// the head is no matter. Everything is let through after [`HeadCame::note`].
#[derive(Debug)]
pub(super) struct BoundedHead<S> {
    stream: S,
    read: usize,
    came: HeadCame,
}

/// Whether the head has come. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadCame(Arc<AtomicBool>);

impl HeadCame {
    /// It has.
    pub(super) fn note(&self) {
        // Relaxed is enough: whoever drives the connection, and so reads, is whoever notes it.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S> BoundedHead<S> {
    pub(super) fn new(stream: S) -> (Self, HeadCame) {
        let came = HeadCame::default();
        (Self { stream, read: 0, came: came.clone() }, came)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedHead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.came.0.load(Ordering::Relaxed) {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        if self.read >= REMOTE_READ_BYTES {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.read = self.read.saturating_add(buffer.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedHead<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
