//! [`Connection`] and [`Streaming`]: an HTTP connection that is driven by whoever waits for its answer, and by nobody else.
//!
//! No task of its own: nothing is read ahead of whoever reads the body, and dropping the body closes the connection at once.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::outbound::bounded_head::BoundedHead;
use crate::outbound::transport::{TransportError, TransportPhase};

type Driver = http1::Connection<TokioIo<BoundedHead<TlsStream<TcpStream>>>, Full<Bytes>>;

/// A connection with one request on it. Dropping it closes it.
pub(super) struct Connection {
    /// `None` once it has ended, well or not: what it has left to say, it says to those who wait for its answer.
    driver: Option<Box<Driver>>,
}

impl Connection {
    pub(super) fn new(driver: Driver) -> Self {
        Self { driver: Some(Box::new(driver)) }
    }

    /// Waits for what comes of the connection, and keeps it going meanwhile.
    pub(super) async fn drive<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        poll_fn(|context| {
            self.poll(context);
            waiting.as_mut().poll(context)
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(context).is_ready()
        {
            self.driver = None;
        }
    }
}

/// A body that keeps its connection going as it is read.
///
/// Always: no more than one frame, and what the connection may read ahead, is in memory.
pub(super) struct Streaming {
    body: Incoming,
    connection: Connection,
}

impl Streaming {
    pub(super) fn new(body: Incoming, connection: Connection) -> Self {
        Self { body, connection }
    }
}

impl Body for Streaming {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        // First, because the connection reads only for a body that is waited for.
        let mut frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            self.connection.poll(context);
            frame = Pin::new(&mut self.body).poll_frame(context);
        }
        if matches!(frame, Poll::Ready(None)) {
            // Its last turn, to take its leave of the peer.
            self.connection.poll(context);
        }
        frame.map_err(|_| TransportError { phase: TransportPhase::Body, timed_out: false })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for Streaming {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Streaming").finish_non_exhaustive()
    }
}
