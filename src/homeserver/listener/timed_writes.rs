//! A stream whose clients have to take what is written to it, and on which nothing unfinished ends like something whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::answer_clock::{AnswerClock, AnswerKind};
use super::limits::ListenerLimits;
use super::lingering::Lingering;
use super::outgoing::Outgoing;

/// Ends a write by the [`AnswerClock`] of its answer.
///
/// A client that reads a byte now and then keeps TCP alive for ever; this clock it cannot move.
///
/// Never: a stream that is dropped in the middle of a streamed answer ends the way a whole one does. Where the end of the
/// connection is the end of the body (HTTP/1.0, a length that is not known), nothing else would tell
/// (`a_cut_body_never_ends_cleanly`).
#[derive(Debug)]
pub(super) struct TimedWrites<S: Abort> {
    inner: S,
    outgoing: Arc<Outgoing>,
    clock: AnswerClock,
    /// Rings when a write has waited for too long.
    alarm: Pin<Box<Sleep>>,
    /// Something is written and not gone.
    under_way: bool,
    /// A write of a streamed answer waits for the client.
    stalled: bool,
    /// What was written last is no answer that was announced: the HTTP library refused what it could not read.
    unannounced: bool,
    /// What may still come of a client that is not answered any more.
    lingering: Lingering,
}

/// A stream that can end in a way that is not an end of its data.
pub(crate) trait Abort {
    /// From now on its end is such a one.
    fn abort(&self);
}

impl Abort for TcpStream {
    /// The other side sees a reset.
    fn abort(&self) {
        // A system that refuses sends what it has and an end, as it would have done before.
        drop(socket2::SockRef::from(self).set_linger(Some(Duration::ZERO)));
    }
}

impl Abort for DuplexStream {
    /// Its ends cannot be told apart.
    fn abort(&self) {}
}

impl<S: Abort> TimedWrites<S> {
    pub(super) fn new(inner: S, limits: &ListenerLimits, outgoing: Arc<Outgoing>) -> Self {
        let (clock, alarm) = (AnswerClock::new(limits), Box::pin(sleep(Duration::ZERO)));
        let lingering = Lingering::new(limits);
        Self { inner, outgoing, clock, alarm, under_way: false, stalled: false, unannounced: false, lingering }
    }

    fn start(&mut self) {
        if !self.under_way {
            self.under_way = true;
            match self.outgoing.announced() {
                Some(kind) => {
                    self.clock.begun(kind);
                    self.unannounced = false;
                }
                None => self.unannounced |= !self.outgoing.standing.answers(),
            }
        }
        self.clock.writes(Instant::now());
    }

    fn written(&mut self, context: &mut Context<'_>, said: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match said {
            Poll::Ready(Ok(bytes)) => {
                self.clock.taken(Instant::now(), bytes);
                self.moves();
                said
            }
            Poll::Ready(Err(_)) => said,
            Poll::Pending => self.wait(context),
        }
    }

    /// A write waits for the client, unless it has waited for too long.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let end = self.clock.waits(Instant::now());
        if self.alarm.deadline() != end {
            self.alarm.as_mut().reset(end);
        }
        if !self.stalled && self.clock.kind() == AnswerKind::Streamed {
            self.stalled = true;
            self.outgoing.standing.stalls();
        }
        ready!(self.alarm.as_mut().poll(context));
        tracing::debug!(target: "portcullis::listener", "connection ended: its client does not read");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn moves(&mut self) {
        if self.stalled {
            self.stalled = false;
            self.outgoing.standing.moves(self.clock.keeps_pace());
        }
    }
}

impl<S: Abort> Drop for TimedWrites<S> {
    fn drop(&mut self) {
        if self.outgoing.is_unfinished() {
            self.inner.abort();
        }
    }
}

impl<S: AsyncRead + Abort + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Abort + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.start();
        let said = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.written(context, said)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.start();
        let said = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.written(context, said)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.inner).poll_flush(context);
        if said.is_pending() {
            self.start();
            return self.wait(context);
        }
        if self.under_way {
            self.under_way = false;
            self.clock.gone(Instant::now());
            self.moves();
        }
        said
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = &mut *self;
        if !stream.lingering.has_begun() {
            let lingers = stream.unannounced || stream.outgoing.closes_early();
            if lingers {
                stream.outgoing.standing.closes();
            }
            ready!(Pin::new(&mut stream.inner).poll_shutdown(context))?;
            if !lingers {
                return Poll::Ready(Ok(()));
            }
        }
        stream.lingering.poll(&mut stream.inner, stream.alarm.as_mut(), context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::homeserver::listener::standing::Standings;

    const ALLOWED: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    fn timed(inner: DuplexStream) -> (TimedWrites<DuplexStream>, Arc<Outgoing>) {
        let outgoing = Arc::new(Outgoing::new(Arc::new(Standings::default()).join()));
        (TimedWrites::new(inner, &ListenerLimits::default(), Arc::clone(&outgoing)), outgoing)
    }

    /// Reads `bytes` and waits, again and again; how many it read when there is no more.
    async fn read_slowly(mut from: DuplexStream, bytes: usize, pause: Duration) -> usize {
        let (mut total, mut buffer) = (0, vec![0; bytes]);
        loop {
            match from.read(&mut buffer).await.unwrap() {
                0 => return total,
                read => total += read,
            }
            sleep(pause).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_drips_ends_at_the_time_to_the_millisecond() {
        let (ours, theirs) = duplex(16);
        let start = Instant::now();
        let drip = tokio::spawn(read_slowly(theirs, 1, SECOND));
        let (mut stream, _) = timed(ours);
        let error = stream.write_all(&[0; 4096]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), ALLOWED);
        drop(stream);
        drip.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_has_a_clock_of_its_own_and_reading_is_not_counted() {
        let (ours, theirs) = duplex(16);
        let reader = tokio::spawn(read_slowly(theirs, 8, 5 * SECOND));
        let (mut stream, _) = timed(ours);
        for _ in 0..4 {
            stream.write_all(&[0; 64]).await.unwrap();
            stream.flush().await.unwrap();
            sleep(2 * ALLOWED).await;
        }
        drop(stream);
        assert_eq!(reader.await.unwrap(), 256);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_of_a_byte_per_second_of_a_streamed_answer_ends_at_the_time_to_the_millisecond() {
        let (ours, theirs) = duplex(64 * 1024);
        let start = Instant::now();
        let drip = tokio::spawn(read_slowly(theirs, 1, SECOND));
        let (mut stream, outgoing) = timed(ours);
        outgoing.announce(AnswerKind::Streamed);
        let error = stream.write_all(&vec![0; 50 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // The grace; four seconds for the 64 KiB on the way; for each of 15 bytes 61 µs, and a timer's next millisecond.
        assert_eq!(start.elapsed(), Duration::from_millis(14_001));
        drop((stream, outgoing));
        drip.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_above_the_least_rate_gets_all_of_a_streamed_answer_however_long_it_takes() {
        let (ours, theirs) = duplex(64 * 1024);
        let start = Instant::now();
        let reader = tokio::spawn(read_slowly(theirs, 20 * 1024, SECOND));
        let (mut stream, outgoing) = timed(ours);
        outgoing.announce(AnswerKind::Streamed);
        stream.write_all(&vec![0; 50 << 20]).await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
        assert_eq!(reader.await.unwrap(), 50 << 20);
        assert_eq!(start.elapsed(), 2560 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_below_the_least_rate_has_what_the_grace_is_worth_and_no_more() {
        let (ours, theirs) = duplex(1);
        let start = Instant::now();
        let reader = tokio::spawn(read_slowly(theirs, 1, Duration::from_millis(1)));
        let (mut stream, outgoing) = timed(ours);
        outgoing.announce(AnswerKind::Streamed);
        // At a thousand bytes a second, each second costs 1 - 1000 / 16384 of one; and a timer's next millisecond.
        assert!(stream.write_all(&vec![0; 1 << 20]).await.is_err());
        assert_eq!(start.elapsed(), Duration::from_millis(10_651));
        drop((stream, outgoing));
        reader.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_source_with_an_eager_reader_never_ends_by_this_clock() {
        let (ours, theirs) = duplex(64 * 1024);
        let reader = tokio::spawn(read_slowly(theirs, 64 * 1024, Duration::ZERO));
        let (mut stream, outgoing) = timed(ours);
        outgoing.announce(AnswerKind::Streamed);
        for _ in 0..100 {
            stream.write_all(&[0; 100]).await.unwrap();
            sleep(2 * ALLOWED).await;
        }
        drop(stream);
        assert_eq!(reader.await.unwrap(), 10_000);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_announced_early_waits_for_the_last_one_to_be_gone() {
        let (ours, theirs) = duplex(16);
        let start = Instant::now();
        let drip = tokio::spawn(read_slowly(theirs, 1, SECOND));
        let (mut stream, outgoing) = timed(ours);
        stream.write_all(&[0; 20]).await.unwrap();
        outgoing.announce(AnswerKind::Streamed);
        assert!(stream.write_all(&[0; 4096]).await.is_err());
        assert_eq!(start.elapsed(), ALLOWED, "the clock of the first went on");
        drop((stream, outgoing));
        drip.await.unwrap();
    }
}
