//! [`Portcullis`]: admission, discovery, calls and answers behind one type.
//!
//! A request is handled in two halves. The first, [`Portcullis::begin`], is pure and quick and runs under the
//! homeserver's lock, because it looks at the homeserver's own data. The second, [`Portcullis::finish`], asks the other
//! server and runs without the lock. [`Portcullis::handle`] and [`Portcullis::handle_blocking`] do both.
//!
//! ```text
//!  names (400) ─► POST: token (401) ─► parameters (400) ─► own server, own alias: answer here
//!    ─► token rule for anonymous GETs (401) ─► remembered answer ─► rate, slot, deadline (429)  │ begin
//!  ──────────────────────────────────────────────────────────────────────────────────────────┼───────
//!    ─► the other server is asked, or an equal question in flight waited for                 │ finish
//! ```
//!
//! Files go another way, in the module `media`: they hold no thread, and their bytes follow their answer.

mod begun;
mod blocked;
mod builder;
mod claims;
mod media;
mod snapshot;
pub(crate) mod sorted;
mod stop;
pub(crate) mod token;

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::{Either, FutureExt as _, ready};
use http::{HeaderMap, Method, Request, Response};
use tokio::sync::watch;
use tokio::time::Instant;

use self::begun::RemoteErrand;
pub use self::begun::{Begun, RemoteLookup};
pub use self::builder::{BuildError, MediaStoreConfig, PortcullisBuilder};
pub use self::media::MediaLookup;
use self::media::{MediaDesk, MediaMode};
use self::token::check_token;
use crate::admission::{
    Admission, ClientKey, ClientOutboundProxyPolicy, DestinationRules, DestinationVerdict, Ipv6ClientPrefix, MediaPath,
    OutboundRoute, Refusal, RoomAlias, TrustedProxies,
};
use crate::federation_worker::{FederationWorker, WorkerError};
use crate::outbound::call::FederationClient;
use crate::proxy::answer::{self, ResponseBody};
use crate::proxy::denied::Denied;
use crate::proxy::directory::{About, Directory, Found, LookupFailure, Question, Report};
use crate::proxy::local_view::{LocalView, RoomListQuery};
use crate::proxy::media::failure::MediaFailure;
use crate::server_name::ServerName;

/// Our routes, whole: `publicRooms`, `directory/room` and media downloads and thumbnails, here and at other servers.
///
/// Always: a request that leaves the server holds a slot of [`Portcullis::admission`], or of the media budget, until its call
/// has ended. Dropping a `Portcullis` ends the calls it made and frees their slots.
///
/// Files of other servers are off unless [`PortcullisBuilder::remote_fetch`] says otherwise.
///
/// # From the key to the answer
///
/// A homeserver whose requests run on a pool of threads makes one `Portcullis` at the start, and asks it first on each of
/// those threads:
///
/// ```no_run
/// use std::io::{self, Read as _, Write};
/// use std::{error::Error, net::IpAddr, sync::Arc};
///
/// use bytes::Bytes;
/// use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
/// use http::{HeaderValue, Method, Request, StatusCode};
/// use http_body::Body as _;
/// use portcullis::local_view::{AliasAnswer, InvalidPageToken, LocalView, RoomListPage, TokenAnswer};
/// use portcullis::outbound::{
///     AddressPolicy, Discovery, Ed25519Signer, FederationClient, HickoryResolver, HttpsTransport, TlsRoots,
/// };
/// use portcullis::{Portcullis, RoomAlias, RoomListQuery, ServerName};
///
/// const POOL_THREADS: usize = 16; // half of them may be out on lookups
///
/// struct OurData; // your rooms, aliases and tokens
///
/// impl LocalView for OurData {
///     fn user_of_token(&self, _token: &str) -> TokenAnswer { TokenAnswer::Unknown { soft_logout: false } }
///     fn room_alias(&self, _alias: &RoomAlias) -> Option<AliasAnswer> { None }
///     fn public_rooms(&self, _query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
///         Ok(RoomListPage::default())
///     }
/// }
///
/// /// Once, at the start.
/// fn portcullis() -> Result<Portcullis, Box<dyn Error>> {
///     let own_name: ServerName = "us.example".parse()?;
///     let key = std::fs::read_to_string("signing.key")?; // the line `ed25519 a_name base64`
///     let signer = Arc::new(Ed25519Signer::from_key_text(own_name.clone(), &key)?);
///     let resolver = Arc::new(HickoryResolver::from_system()?);
///     let transport = Arc::new(HttpsTransport::new(TlsRoots::system()?)?);
///     let policy = AddressPolicy::default().deny(["2000:1::/32".parse()?])?; // your inside hosts, if their addresses are global
///     let agent = HeaderValue::from_static("our-server/1.0");
///     let client = FederationClient::new(signer, Discovery::new(own_name, resolver, transport, policy, agent))?;
///     Ok(Portcullis::builder(client, POOL_THREADS).build()?)
/// }
///
/// /// On a thread of the pool, with a request that was read whole. `false`: it is for another route. After an error the
/// /// connection is to be ended.
/// fn answer(
///     portcullis: &Portcullis, data: &OurData, peer: IpAddr, request: &Request<Bytes>, socket: &mut dyn Write,
/// ) -> io::Result<bool> {
///     let Some(answer) = portcullis.handle_blocking(data, peer, request) else { return Ok(false) };
///     let (mut head, body) = answer.into_parts();
///     let has_body = head.status != StatusCode::NOT_MODIFIED;
///     // A file brings its length if that is known; the other answers have it in their bytes.
///     if let (true, Some(length)) = (has_body, body.size_hint().exact()) {
///         head.headers.entry(CONTENT_LENGTH).or_insert(length.into());
///     }
///     let in_chunks = has_body && !head.headers.contains_key(CONTENT_LENGTH);
///     if in_chunks {
///         head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
///     }
///     write!(socket, "HTTP/1.1 {}\r\n", head.status)?;
///     for (name, value) in &head.headers {
///         socket.write_all(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat())?;
///     }
///     socket.write_all(b"\r\n")?;
///     if !has_body || request.method() == Method::HEAD {
///         return Ok(true);
///     }
///     let (mut body, mut piece) = (body.into_reader(), vec![0; 64 * 1024]);
///     loop {
///         let length = body.read(&mut piece)?; // an error: the body is cut short, and has no last chunk
///         if in_chunks {
///             write!(socket, "{length:x}\r\n")?;
///         }
///         socket.write_all(&piece[..length])?;
///         if in_chunks {
///             socket.write_all(b"\r\n")?;
///         }
///         if length == 0 {
///             return Ok(true);
///         }
///     }
/// }
/// ```
///
/// Without rules of its own about addresses, a homeserver has the same from [`FederationClient::from_system`] in one
/// line. With a lock around its data it calls the two halves itself, as [`Portcullis::begin`] shows; an asynchronous one
/// calls [`Portcullis::handle`].
///
/// Once [`PortcullisBuilder::remote_fetch`] lets files be fetched, `handle_blocking` fetches them on its thread, one for each
/// client at a time: a browser that loads a page of images is refused most of them. [`Portcullis::spawn_media`] is for servers
/// that can answer later; their files hold no thread and have a budget of their own.
///
/// [`FederationClient::from_system`]: crate::outbound::FederationClient::from_system
pub struct Portcullis {
    admission: Admission,
    rules: Option<Arc<dyn DestinationRules>>,
    trusted_proxies: TrustedProxies,
    ipv6_prefix: Ipv6ClientPrefix,
    require_token_for_remote: bool,
    directory: Arc<Directory>,
    media: Arc<MediaDesk>,
    worker: Arc<FederationWorker>,
    stopping: Arc<AtomicBool>,
    started_at: Instant,
    /// True once calls are to be dropped; so is the end of this sender.
    cut_short: watch::Sender<bool>,
}

/// One of our requests, told apart.
enum Asked {
    Rooms { server: Option<ServerName>, posted: bool },
    Alias(RoomAlias),
}

impl Portcullis {
    /// Starts to build the routes of the server whose calls `client` makes, and whose request pool has `pool_threads` threads.
    ///
    /// The caps follow from the pool: half of it, and one call per client. A server without a pool takes
    /// [`builder_for_calls`](Self::builder_for_calls).
    pub fn builder(client: FederationClient, pool_threads: usize) -> PortcullisBuilder {
        PortcullisBuilder::new(client, ClientOutboundProxyPolicy::for_pool(pool_threads))
    }

    /// The same for a server without a pool, which is willing to have `calls` in flight; 0 counts as 1.
    pub fn builder_for_calls(client: FederationClient, calls: usize) -> PortcullisBuilder {
        PortcullisBuilder::new(client, ClientOutboundProxyPolicy::for_calls(calls))
    }

    /// First half: answers what needs no other server, and takes the slot for what does.
    ///
    /// `peer` is the address at the other end of the socket. `None`: not one of our routes, or another method on one, as
    /// [`Portcullis::claims`] tells before a body is read.
    ///
    /// *Panics:* never. *Blocking:* no; call it with the homeserver's lock held if `local` needs it.
    ///
    /// The slot is taken under the lock, the call is made without it, and a file without the thread:
    ///
    /// ```
    /// use std::{net::IpAddr, sync::Mutex};
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use portcullis::local_view::LocalView;
    /// use portcullis::{Begun, Portcullis, ResponseBody};
    ///
    /// /// On a thread of the pool; `send` answers the client, from whichever thread. `false`: it is for another route.
    /// fn answer<D: LocalView>(
    ///     portcullis: &Portcullis, data: &Mutex<D>, peer: IpAddr, request: &Request<Bytes>,
    ///     send: impl FnOnce(Response<ResponseBody>) + Send + 'static,
    /// ) -> bool {
    ///     // Not in the head of the `match`: a guard made there lives to its end, and the lock would be held meanwhile.
    ///     let begun = {
    ///         let data = data.lock().unwrap();
    ///         portcullis.begin(&*data, peer, request)
    ///     };
    ///     match begun {
    ///         None => return false,
    ///         Some(Begun::Answer(answer)) => send(answer),
    ///         Some(Begun::Call(lookup)) => send(portcullis.finish_blocking(lookup)),
    ///         // The thread is free at once. Who cannot answer later builds with `inline_media` and never comes here.
    ///         Some(Begun::Media(lookup)) => portcullis.spawn_media(lookup, send),
    ///     }
    ///     true
    /// }
    /// ```
    #[must_use = "dropping what was begun leaves the request without an answer, and frees its slot"]
    pub fn begin(&self, local: &dyn LocalView, peer: IpAddr, request: &Request<Bytes>) -> Option<Begun> {
        self.begin_under(self.media.mode, local, peer, request)
    }

    fn begin_under(
        &self,
        mode: MediaMode,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Option<Begun> {
        let method = request.method();
        if !Self::claims(method, request.uri()) {
            return None;
        }
        if *method == Method::OPTIONS {
            return Some(Begun::Answer(answer::preflight()));
        }
        if MediaPath::of(request.uri().path()).is_some() {
            return self.begin_media(local, peer, request, mode);
        }
        let posted = *method == Method::POST;
        let begun =
            OutboundRoute::classify(method, request.uri()).map_err(Denied::from).and_then(|route| match route {
                Some(OutboundRoute::RoomAlias { alias }) => self.decide(local, peer, request, Asked::Alias(alias)),
                Some(OutboundRoute::PublicRooms { server }) => {
                    self.decide(local, peer, request, Asked::Rooms { server: Some(server), posted })
                }
                Some(OutboundRoute::Other { .. }) | None => {
                    self.decide(local, peer, request, Asked::Rooms { server: None, posted })
                }
            });
        Some(begun.unwrap_or_else(|denied| Begun::Answer(denied.into_response())))
    }

    fn decide(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
        asked: Asked,
    ) -> Result<Begun, Denied> {
        let (route, about) = match asked {
            Asked::Rooms { server, posted } => {
                let query = read_list_request(local, request, posted)?;
                match server.filter(|server| !self.is_own(server)) {
                    None => return Ok(Begun::Answer(answer::room_list(&local.public_rooms(&query)?))),
                    Some(server) => (OutboundRoute::PublicRooms { server }, About::RoomList(query)),
                }
            }
            Asked::Alias(alias) if self.is_own(alias.server()) => {
                let found = local.room_alias(&alias).ok_or(Denied::NoSuchAlias)?;
                return Ok(Begun::Answer(answer::alias(&found)));
            }
            Asked::Alias(alias) => (OutboundRoute::RoomAlias { alias: alias.clone() }, About::Alias(alias)),
        };
        if self.require_token_for_remote {
            check_token(local, request.headers())?;
        }
        self.admit(local, peer, request.headers(), route, about)
    }

    fn admit(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        headers: &HeaderMap,
        route: OutboundRoute,
        about: About,
    ) -> Result<Begun, Denied> {
        let question = Question::new(route.destination(), about);
        if let Some(found) = self.directory.remembered(&question) {
            // The door, which asks the rules, is not passed on this way.
            self.judge(route.destination())?;
            return Ok(Begun::Answer(answer::lookup(question.kind(), Ok(found))));
        }
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Denied::Stopping);
        }
        let client = ClientKey::from_request(peer, headers, &self.trusted_proxies, self.ipv6_prefix);
        let pass = self.admission.admit(&client, route).inspect_err(|refusal| {
            tracing::debug!(target: "portcullis::admission", reason = refusal.as_label(), "lookup refused");
        })?;
        let report = Report::of(self.directory.gates(), || check_token(local, headers).is_ok());
        Ok(Begun::Call(RemoteLookup { errand: RemoteErrand::Directory { pass, question: Box::new(question), report } }))
    }

    fn judge(&self, destination: &ServerName) -> Result<(), Refusal> {
        match self.rules.as_ref().map_or(DestinationVerdict::Allowed, |rules| rules.judge(destination)) {
            DestinationVerdict::Allowed => Ok(()),
            DestinationVerdict::Forbidden => Err(Refusal::Forbidden),
            DestinationVerdict::Hidden => Err(Refusal::Hidden),
        }
    }

    fn is_own(&self, server: &ServerName) -> bool {
        server.is_same_server(self.admission.own_name())
    }

    /// Second half, for an asynchronous caller: asks the other server. Ends by the lookup's deadline.
    ///
    /// The future borrows nothing, so it can be spawned to outlive a client that hangs up. The slot is free before the
    /// answer is handed out.
    ///
    /// *Panics:* never, inside a tokio runtime with I/O and timer on. *Cancel safety:* dropping the future ends the call
    /// and frees the slot. *Blocking:* no.
    ///
    /// For an asynchronous server with a lock around its data, files included:
    ///
    /// ```
    /// use std::{net::IpAddr, sync::Mutex};
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use portcullis::local_view::LocalView;
    /// use portcullis::{Begun, Portcullis, ResponseBody};
    ///
    /// /// `None`: for your other routes.
    /// async fn answer<D: LocalView>(
    ///     portcullis: &Portcullis, lock: &Mutex<D>, peer: IpAddr, request: &Request<Bytes>,
    /// ) -> Option<Response<ResponseBody>> {
    ///     let begun = {
    ///         let data = lock.lock().unwrap();
    ///         portcullis.begin(&*data, peer, request)
    ///     }; // unlocked, before anything is awaited
    ///     Some(match begun? {
    ///         Begun::Answer(answer) => answer,
    ///         Begun::Call(lookup) => portcullis.finish(lookup).await,
    ///         Begun::Media(lookup) => portcullis.finish_media(lookup).await,
    ///     })
    /// }
    /// ```
    pub fn finish(&self, lookup: RemoteLookup) -> impl Future<Output = Response<ResponseBody>> + Send + use<> {
        let (directory, media) = (Arc::clone(&self.directory), Arc::clone(&self.media));
        let mut cut_short = self.cut_short.subscribe();
        async move {
            let (pass, question, report) = match lookup.errand {
                RemoteErrand::Directory { pass, question, report } => (pass, *question, report),
                RemoteErrand::Media(lookup) => return media.answer(*lookup).await,
            };
            let kind = question.kind();
            let cut_short = async move {
                // The sender's end means the same: there is no more `Portcullis`.
                let _ = cut_short.wait_for(|stop| *stop).await;
            };
            tokio::select! {
                biased;
                // First, so that nothing is started once the stop has come.
                () = cut_short => answer::stopping(),
                outcome = directory.look_up(pass, question, report) => answer::lookup(kind, outcome),
            }
        }
    }

    /// Second half, for a thread of a request pool.
    ///
    /// *Panics:* never. *Blocking:* yes, until the lookup's deadline plus two seconds at most; the call itself, and its
    /// slot, ends by the deadline. Not for a thread that drives an asynchronous runtime.
    #[must_use]
    pub fn finish_blocking(&self, lookup: RemoteLookup) -> Response<ResponseBody> {
        let (kind, deadline) = match &lookup.errand {
            RemoteErrand::Directory { pass, question, .. } => (Some(question.kind()), pass.deadline()),
            RemoteErrand::Media(lookup) => (None, self.media.deadline(lookup)),
        };
        let margin = self.admission.policy().worker_margin();
        self.worker.wait(deadline, margin, self.finish(lookup)).unwrap_or_else(|error| match (kind, error) {
            (Some(kind), WorkerError::StillRunning) => answer::lookup(kind, Err::<Found, _>(LookupFailure::TimedOut)),
            (Some(kind), WorkerError::Ended) => answer::lookup(kind, Err::<Found, _>(LookupFailure::Failed)),
            (None, WorkerError::StillRunning) => answer::media::failure(MediaFailure::TimedOut),
            (None, WorkerError::Ended) => answer::media::failure(MediaFailure::Failed),
        })
    }

    /// Both halves, for an asynchronous caller whose data needs no lock. `None`: not one of our routes.
    ///
    /// The first half is done when this returns, so the slot is taken then, and `local` is not borrowed by the future.
    /// Otherwise as [`Portcullis::finish`].
    ///
    /// With a lock around `local`, make the future in a statement of its own and await it in the next: in
    /// `handle(&*data.lock(), …).await`, as in the head of a `match`, the guard lives until the answer is there.
    ///
    /// ```
    /// use std::net::IpAddr;
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use portcullis::local_view::LocalView;
    /// use portcullis::{Portcullis, ResponseBody};
    /// use tokio::task::JoinError;
    ///
    /// /// `Ok(None)`: for your other routes.
    /// async fn answer<D: LocalView>(
    ///     portcullis: &Portcullis, data: &D, peer: IpAddr, request: &Request<Bytes>,
    /// ) -> Result<Option<Response<ResponseBody>>, JoinError> {
    ///     // Spawned, a lookup goes on when its client hangs up, and its answer is remembered for the next one.
    ///     tokio::spawn(portcullis.handle(data, peer, request)).await
    /// }
    /// ```
    pub fn handle(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> impl Future<Output = Option<Response<ResponseBody>>> + Send + use<> {
        match self.begin_under(MediaMode::OffPool, local, peer, request) {
            None => Either::Left(ready(None)),
            Some(Begun::Answer(answer)) => Either::Left(ready(Some(answer))),
            Some(Begun::Call(lookup)) => Either::Right(Either::Left(self.finish(lookup).map(Some))),
            Some(Begun::Media(lookup)) => Either::Right(Either::Right(self.finish_media(lookup).map(Some))),
        }
    }

    /// Both halves, for a thread of a request pool. `None`: not one of our routes. *Blocking:* as
    /// [`Portcullis::finish_blocking`]; a homeserver with a lock calls the halves itself and releases it between them, as
    /// [`Portcullis::begin`] shows. The example of [`Portcullis`] is about this one.
    #[must_use = "it is the answer, and none was sent"]
    pub fn handle_blocking(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Option<Response<ResponseBody>> {
        Some(match self.begin_under(MediaMode::Inline, local, peer, request)? {
            Begun::Answer(answer) => answer,
            Begun::Call(lookup) => self.finish_blocking(lookup),
            // Not made under this mode.
            Begun::Media(_) => answer::media::failure(MediaFailure::Failed),
        })
    }

    /// The door, for status and for calls of the embedder's own.
    #[must_use]
    pub fn admission(&self) -> &Admission {
        &self.admission
    }
}

impl fmt::Debug for Portcullis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Portcullis")
            .field("admission", &self.admission)
            .field("require_token_for_remote", &self.require_token_for_remote)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

/// A stranger's body is not read before the token is known.
fn read_list_request(local: &dyn LocalView, request: &Request<Bytes>, posted: bool) -> Result<RoomListQuery, Denied> {
    if posted {
        check_token(local, request.headers())?;
    }
    Ok(RoomListQuery::of(request)?)
}

#[cfg(test)]
mod tests;
