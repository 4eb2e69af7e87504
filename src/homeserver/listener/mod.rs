//! [`Listener`]: takes connections, and lets nobody hold a request thread by being slow.
//!
//! A thread sees a request only once all of it is there, and never writes to a socket. So a client that idles, trickles
//! its body, keeps connections alive or does not read its answer costs a socket and a little memory, both capped.
//!
//! ```text
//!  accept ─► place (all, per client) ─► head ≤ 32 KiB, 10 s ─► body ≤ 64 KiB, 15 s ─► Handler ─► answer, 60 s
//!            closed at once             431, closed            413, 408                          503, closed
//!                                                                                       └─► streamed, ≥ 16 KiB/s
//!                                                                                           reset
//! ```
//!
//! When all places are taken, a newcomer gets the place of the connection that has waited longest for a whole request. One that
//! is closed before its client has said all is still heard for a while, so that the client gets to read why.

mod answer_clock;
mod connection;
mod limits;
mod lingering;
mod outgoing;
mod places;
mod standing;
mod timed_writes;
mod unsent;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::connection::Shared;
pub use self::limits::ListenerLimits;
use self::places::{ConnectionPlace, ConnectionPlaces};
use self::standing::Standings;
use self::timed_writes::Abort;
use crate::admission::Full;
use crate::outbound::BoxFuture;
use crate::proxy::answer::ResponseBody;
pub use crate::proxy::answer::homeserver::BadRequest;
use crate::proxy::answer::homeserver::busy;

/// How long no connection is taken once the system gave none, for want of descriptors, say.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// A bound socket. Clients can connect; they are answered once it is [served](Self::serve).
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// Answers whole requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request of `peer`. Work that must not end when the client hangs up has to be handed over: the future
    /// is dropped with its connection.
    fn handle(&self, peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>>;

    /// What to say to a request that is not handed on.
    fn refuse(&self, problem: BadRequest) -> Response<ResponseBody> {
        problem.into_response()
    }

    /// What to say in place of an answer that finds no room among those not sent yet.
    fn busy(&self) -> Response<ResponseBody> {
        busy()
    }
}

/// Serves one stream as [`Listener::serve`] serves each of its connections: what a client's bytes can do is tried
/// without sockets.
pub(crate) async fn serve_stream<S>(stream: S, peer: IpAddr, handler: Arc<dyn Handler>, limits: ListenerLimits)
where
    S: AsyncRead + AsyncWrite + Abort + Unpin,
{
    let (_stop, stopping) = watch::channel(false);
    let shared = Arc::new(Shared::new(handler, limits));
    connection::serve(stream, peer, shared.standings.join(), shared, stopping).await;
}

impl Listener {
    /// Takes the address; port 0 takes a free port.
    ///
    /// *Errors:* what the system says, an address in use, say.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// The address with its real port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` is ready, then lets the requests in flight finish within
    /// [`ListenerLimits::drain_time`] and closes.
    ///
    /// *Errors:* the socket cannot be used with this runtime. *Panics:* outside a tokio runtime with I/O and time.
    /// *Cancel safety:* dropping the future closes every connection at once.
    pub async fn serve(
        self,
        handler: Arc<dyn Handler>,
        limits: ListenerLimits,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let socket = tokio::net::TcpListener::from_std(self.socket)?;
        let places = ConnectionPlaces::new(&limits);
        let drain_time = limits.drain_time;
        let shared = Arc::new(Shared::new(handler, limits));
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.as_mut() => break,
                Some(_) = connections.join_next() => continue,
                accepted = socket.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                sleep(AFTER_FAILED_ACCEPT).await;
                continue;
            };
            let peer = peer.ip().to_canonical();
            let Some(place) = place(&places, peer, &shared.standings, &mut connections).await else {
                tracing::debug!(target: "portcullis::listener", "connection refused: over a cap");
                continue;
            };
            connection::set_socket_options(&stream, &shared.limits);
            // From here on it holds a place, so from here on it may be asked to give it up.
            let standing = shared.standings.join();
            let served = connection::serve(stream, peer, Arc::clone(&standing), Arc::clone(&shared), stopping.clone());
            connections.spawn(async move {
                served.await;
                // Until its place is free it counts as one that may go: a full listener never finds nobody.
                drop(place);
                drop(standing);
            });
        }
        drop(socket);
        stop.send_replace(true);
        let drained = timeout(drain_time, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            connections.shutdown().await;
        }
        Ok(())
    }
}

/// A place for a connection from `peer`. When all are taken, room is made by ending the connection that has waited longest,
/// or else one that does not read; it ends at once, as nothing is being worked on for it.
async fn place(
    places: &ConnectionPlaces,
    peer: IpAddr,
    standings: &Standings,
    connections: &mut JoinSet<()>,
) -> Option<ConnectionPlace> {
    match places.take(peer) {
        Ok(place) => return Some(place),
        Err(Full::Key) => return None,
        Err(Full::Global) => {}
    }
    while standings.end_longest_standing() {
        // Its place is free when its task is over; one that ends meanwhile will do as well. If there is none, what was
        // chosen had given its place away already, and the next one has to go.
        // How it ended is its own business.
        let _ended = connections.join_next().await?;
        if let Ok(place) = places.take(peer) {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests;
