//! A synchronous homeserver: a pool of threads, one lock around its data, and `Portcullis` asked first on each request.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use portcullis::local_view::{AliasAnswer, InvalidPageToken, ListedRoom, LocalView, RoomListPage, TokenAnswer};
use portcullis::{Begun, Portcullis, ResponseBody, RoomAlias, RoomListQuery};

use super::http1::{read_request, write_answer};
use super::pool::Pool;

/// Connections whose request is being read, or whose file is being written. More are closed.
const CONNECTIONS: usize = 64;

/// How requests are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Under the homeserver's lock, in two halves: `begin`, and `finish_blocking` with the lock released. Files are sent by
    /// others than the pool's threads.
    Halves,
    /// In one call, `handle_blocking`, for a homeserver whose data needs no lock. Files are fetched on the pool's threads.
    OneCall,
}

/// The homeserver.
pub(crate) struct Homeserver {
    data: Mutex<Data>,
    portcullis: Portcullis,
    pool: Pool,
    way: Way,
    connections: AtomicUsize,
    ended: AtomicBool,
}

/// What the lock is around.
pub(crate) struct Data {
    rooms: Arc<Rooms>,
    /// Requests that asked another server.
    errands: u64,
}

/// Our rooms.
pub(crate) struct Rooms(pub(crate) Vec<ListedRoom>);

impl LocalView for Rooms {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        (token == "change-me").then(|| "@porter:us.example".to_owned()).into()
    }

    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
        let room = self.0.iter().find(|room| room.canonical_alias.as_deref() == Some(alias.as_str()))?;
        Some(AliasAnswer { room_id: room.room_id.clone(), servers: vec![alias.server().to_string()] })
    }

    fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        if query.since.is_some() {
            return Err(InvalidPageToken); // all rooms are on the first page
        }
        let named = |room: &&ListedRoom| {
            let (name, term) = (room.name.as_deref().unwrap_or_default(), query.search_term.as_deref());
            term.is_none_or(|term| name.to_lowercase().contains(&term.to_lowercase()))
        };
        let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let chunk: Vec<_> = self.0.iter().filter(named).take(limit).cloned().collect();
        Ok(RoomListPage { chunk, ..RoomListPage::default() })
    }
}

/// Frees the homeserver's lock for a call to another server, and for nothing else. It is taken again afterwards, also when
/// the call panics. With `std::sync::Mutex` the guard would be dropped and the lock taken anew.
struct RuntimeLockRelease<'g, 'm, T>(&'g mut MutexGuard<'m, T>);

impl<T> RuntimeLockRelease<'_, '_, T> {
    fn during<A>(self, call: impl FnOnce() -> A) -> A {
        MutexGuard::unlocked(self.0, call)
    }
}

impl Homeserver {
    pub(crate) fn new(rooms: Rooms, portcullis: Portcullis, pool: Pool, way: Way) -> Self {
        let data = Mutex::new(Data { rooms: Arc::new(rooms), errands: 0 });
        Self { data, portcullis, pool, way, connections: AtomicUsize::new(0), ended: AtomicBool::new(false) }
    }

    /// Takes connections on a thread of its own, until [`Homeserver::end`].
    pub(crate) fn serve(self: &Arc<Self>, listener: TcpListener) {
        let homeserver = Arc::clone(self);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if homeserver.ended.load(Ordering::Relaxed) {
                    break;
                }
                if let Ok(connection) = connection {
                    homeserver.welcome(connection);
                }
            }
        });
    }

    /// A request is read before a thread of the pool sees it: a slow client keeps none of them.
    fn welcome(self: &Arc<Self>, connection: TcpStream) {
        let homeserver = Arc::clone(self);
        self.aside(move || {
            let Ok(peer) = connection.peer_addr() else { return };
            let Ok(request) = read_request(&connection) else { return };
            let (pool, connection) = (Arc::clone(&homeserver), Arc::new(connection));
            let ours = Arc::clone(&connection);
            if !pool.pool.try_run(move || homeserver.answer(peer.ip(), &request, &connection)) {
                let busy = plain(StatusCode::SERVICE_UNAVAILABLE, "every request thread is busy");
                let _gone = write_answer(&ours, &Method::GET, busy);
            }
        });
    }

    /// Runs `work` beside the pool, if there are not too many at it.
    fn aside(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let homeserver = Arc::clone(self);
        std::thread::spawn(move || {
            work();
            homeserver.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// On a thread of the pool.
    fn answer(self: &Arc<Self>, peer: IpAddr, request: &Request<Bytes>, connection: &Arc<TcpStream>) {
        let answer = match self.way {
            Way::Halves => self.answer_in_halves(peer, request, connection),
            Way::OneCall => {
                let rooms = Arc::clone(&self.data.lock().rooms);
                let answer = self.portcullis.handle_blocking(&*rooms, peer, request);
                Some(answer.unwrap_or_else(|| own_route(request)))
            }
        };
        if let Some(answer) = answer {
            // A client that left needs no answer.
            let _gone = write_answer(connection, request.method(), answer);
        }
    }

    /// `None`: the answer comes without this thread.
    fn answer_in_halves(
        self: &Arc<Self>,
        peer: IpAddr,
        request: &Request<Bytes>,
        connection: &Arc<TcpStream>,
    ) -> Option<Response<ResponseBody>> {
        let mut data = self.data.lock();
        let rooms = Arc::clone(&data.rooms);
        Some(match self.portcullis.begin(&*rooms, peer, request) {
            None => own_route(request),
            Some(Begun::Answer(answer)) => answer,
            Some(Begun::Call(lookup)) => {
                // The slot was taken under the lock; the lock is free while another server is asked.
                let answer = RuntimeLockRelease(&mut data).during(|| self.portcullis.finish_blocking(lookup));
                data.errands += 1;
                answer
            }
            Some(Begun::Media(lookup)) => {
                data.errands += 1;
                drop(data);
                let (homeserver, connection, method) =
                    (Arc::clone(self), Arc::clone(connection), request.method().clone());
                self.portcullis.spawn_media(lookup, move |answer| {
                    // It might wait for the client right here; on a thread that counts, this homeserver's own bound holds.
                    homeserver.aside(move || drop(write_answer(&connection, &method, answer)));
                });
                return None;
            }
        })
    }

    pub(crate) fn portcullis(&self) -> &Portcullis {
        &self.portcullis
    }

    /// Requests that asked another server.
    pub(crate) fn errands(&self) -> u64 {
        self.data.lock().errands
    }

    /// Takes no more connections at `address`, its own.
    pub(crate) fn end(&self, address: SocketAddr) {
        self.ended.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(address));
    }
}

/// What `Portcullis` leaves to the homeserver.
fn own_route(request: &Request<Bytes>) -> Response<ResponseBody> {
    match request.uri().path() {
        "/_matrix/client/versions" => plain(StatusCode::OK, r#"{"versions":["v1.11"]}"#),
        _ => plain(StatusCode::NOT_FOUND, r#"{"errcode":"M_UNRECOGNIZED","error":"There is no such path"}"#),
    }
}

fn plain(status: StatusCode, body: &'static str) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::from(Bytes::from_static(body.as_bytes())));
    *answer.status_mut() = status;
    answer
}

/// Reports what was listened to, for `main`.
pub(crate) fn listen(address: &str) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
