//! A stream whose every answer has to be gone within a time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Runs a clock from the first byte of an answer until everything written has been flushed.
///
/// A client that reads a byte now and then keeps TCP alive for ever; this clock it cannot move.
#[derive(Debug)]
pub(super) struct TimedWrites<S> {
    inner: S,
    allowed: Duration,
    clock: Pin<Box<Sleep>>,
    running: bool,
}

impl<S> TimedWrites<S> {
    pub(super) fn new(inner: S, allowed: Duration) -> Self {
        Self { inner, allowed, clock: Box::pin(sleep(Duration::ZERO)), running: false }
    }

    fn start_clock(&mut self) {
        if !self.running {
            self.running = true;
            let end = Instant::now().checked_add(self.allowed);
            self.clock.as_mut().reset(end.unwrap_or_else(Instant::now));
        }
    }

    /// What the inner stream said, unless it said "wait" and the time is up.
    fn unless_late<T>(&mut self, context: &mut Context<'_>, said: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if said.is_pending() {
            ready!(self.clock.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        said
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.start_clock();
        let said = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.unless_late(context, said)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.start_clock();
        let said = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.unless_late(context, said)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.inner).poll_flush(context);
        if said.is_ready() {
            self.running = false;
            return said;
        }
        self.start_clock();
        self.unless_late(context, said)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const ALLOWED: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_drips_ends_at_the_time_to_the_millisecond() {
        let (ours, mut theirs) = duplex(16);
        let start = Instant::now();
        let drip = tokio::spawn(async move {
            while theirs.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let mut stream = TimedWrites::new(ours, ALLOWED);
        let error = stream.write_all(&[0; 4096]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), ALLOWED);
        drop(stream);
        drip.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_has_a_clock_of_its_own_and_reading_is_not_counted() {
        let (ours, mut theirs) = duplex(16);
        let reader = tokio::spawn(async move {
            let mut total = 0;
            while let Ok(1..) = theirs.read(&mut [0; 8]).await {
                total += 8;
                sleep(Duration::from_secs(5)).await;
            }
            total
        });
        let mut stream = TimedWrites::new(ours, ALLOWED);
        for _ in 0..4 {
            stream.write_all(&[0; 64]).await.unwrap();
            stream.flush().await.unwrap();
            sleep(2 * ALLOWED).await;
        }
        drop(stream);
        assert_eq!(reader.await.unwrap(), 256);
    }
}
