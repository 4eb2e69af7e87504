//! [`Lingering`]: the end of a connection whose client may still be sending.
//!
//! A request that is too large or too slow is answered before all of it is there. If the connection were closed then, the
//! system would answer the bytes that still come with a reset, and a client that sees one forgets what it has received: a
//! proxy in front says 502 in place of our 413. So our half is closed, and the rest is read and forgotten until the client
//! closes too.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::limits::ListenerLimits;

/// What is still heard of one client. Nothing is kept of it.
///
/// Never: for longer than [`linger_time`](ListenerLimits::linger_time), or more than
/// [`linger_bytes`](ListenerLimits::linger_bytes) and one piece (`one_that_goes_on_sending_ends_by_its_bytes_or_by_its_time`).
#[derive(Debug)]
pub(super) struct Lingering {
    time: Duration,
    bytes_left: usize,
    end: Option<Instant>,
}

impl Lingering {
    pub(super) fn new(limits: &ListenerLimits) -> Self {
        Self { time: limits.linger_time, bytes_left: limits.linger_bytes, end: None }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.end.is_some()
    }

    /// Ready once the client has closed, or was heard for long enough. `alarm` is nobody else's from here on.
    pub(super) fn poll<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        mut alarm: Pin<&mut Sleep>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.end.is_none() {
            let end = Instant::now().checked_add(self.time).unwrap_or_else(Instant::now);
            self.end = Some(end);
            alarm.as_mut().reset(end);
        }
        while alarm.as_mut().poll(context).is_pending() {
            let mut piece = [0; PIECE_BYTES];
            let mut piece = ReadBuf::new(&mut piece);
            match Pin::new(&mut *stream).poll_read(context, &mut piece) {
                Poll::Ready(Ok(())) if !piece.filled().is_empty() && self.bytes_left > 0 => {
                    self.bytes_left = self.bytes_left.saturating_sub(piece.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

/// What is read at once.
const PIECE_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long the client behind `stream` is heard.
    async fn heard(mut stream: DuplexStream, linger_bytes: usize) -> Duration {
        let limits = ListenerLimits { linger_time: 5 * SECOND, linger_bytes, ..ListenerLimits::default() };
        let (mut lingering, mut alarm) = (Lingering::new(&limits), Box::pin(sleep(Duration::ZERO)));
        let start = Instant::now();
        poll_fn(|context| lingering.poll(&mut stream, alarm.as_mut(), context)).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_the_client_closes() {
        let (ours, mut theirs) = duplex(1024);
        let client = tokio::spawn(async move {
            theirs.write_all(&vec![0; 100_000]).await.unwrap();
            sleep(2 * SECOND).await;
        });
        assert_eq!(heard(ours, 1_000_000).await, 2 * SECOND);
        client.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_goes_on_sending_ends_by_its_bytes_or_by_its_time() {
        for (bytes, ends_after) in [(1_000_000, 5 * SECOND), (2048, SECOND)] {
            let (ours, mut theirs) = duplex(1024);
            let client = tokio::spawn(async move {
                while theirs.write_all(&[0; 1024]).await.is_ok() {
                    sleep(SECOND / 2).await;
                }
            });
            assert_eq!(heard(ours, bytes).await, ends_after, "{bytes}");
            client.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_one_ends_by_its_time() {
        let (ours, _theirs) = duplex(1024);
        assert_eq!(heard(ours, 1_000_000).await, 5 * SECOND);
    }
}
