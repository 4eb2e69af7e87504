//! Files of other servers, and of this one: what is decided at once, and how the rest is finished.
//!
//! ```text
//!  path, names (400) ─► legacy paths off (404) ─► token (401) ─► own file: answer here, or 404
//!    ─► legacy: token rule (401) ─► THE SWITCH, allow_remote (404) ─► rules (403, 404), blocked (404)
//!    ─► known to be no file (404, 502) ─► the client has it (304) ─► stored: no slot
//!    ─► stopping (503) ─► rate, slot and deadline (429)                                              │ begin
//!  ──────────────────────────────────────────────────────────────────────────────────────────────────┼─────────────
//!    ─► stored file opened, or fetched: one fetch per file                                           │ finish_media
//! ```

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};

use super::blocked::BlockedServers;
use super::token::check_token;
use super::{Begun, Portcullis, RemoteErrand, RemoteLookup};
use crate::admission::{
    Admission, ClientKey, MediaAdmission, MediaGeneration, MediaPass, MediaRoute, Refusal, RemoteFetchAllowed,
    RemoteFetchPolicy, RouteClass,
};
use crate::deadline::OutboundDeadline;
use crate::proxy::answer::ResponseBody;
use crate::proxy::denied::Denied;
use crate::proxy::local_view::LocalView;
use crate::proxy::media::answers;
use crate::proxy::media::ask::MediaAsk;
use crate::proxy::media::failure::MediaFailure;
use crate::proxy::media::files::{Needed, RemoteFiles};
use crate::proxy::media::flights::Arrived;
use crate::proxy::media_store::{FileKey, StoredFile};
use crate::proxy::watch::{CallCounts, CallTimes, DestinationStatus};
use crate::server_name::ServerName;
use crate::status::{BudgetStatus, MediaStatus};

/// What decides about files, and finishes what it let through.
pub(super) struct MediaDesk {
    pub(super) switch: RemoteFetchPolicy,
    /// Whether the paths that ask for no token are served.
    pub(super) legacy: bool,
    /// Which budget [`Portcullis::begin`] takes its slots of.
    pub(super) mode: MediaMode,
    /// Whose files are not fetched.
    pub(super) blocked: BlockedServers,
    /// The main budget, for fetches that hold a thread.
    pub(super) admission: Admission,
    /// The media budget, for those that hold none.
    pub(super) door: MediaAdmission,
    /// `None` while the switch is off.
    pub(super) files: Option<Arc<RemoteFiles>>,
    pub(super) refused_by_switch: AtomicU64,
    pub(super) stopping: Arc<AtomicBool>,
}

/// Under which budget a fetch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaMode {
    /// It holds no thread of the request pool: the media budget.
    OffPool,
    /// It holds one: the main budget.
    Inline,
}

/// A file that is to be fetched, with its slot, or read from the store. Dropping it gives the slot back.
#[must_use = "dropping the lookup frees its slot without asking"]
pub struct MediaLookup {
    ask: Box<MediaAsk>,
    key: FileKey,
    plan: Plan,
}

/// Where the file comes from.
enum Plan {
    /// It is stored. Should it be gone when it is opened, it is fetched like any other.
    Stored(StoredFile, Permitted),
    Fetch(MediaPass),
}

/// A fetch that was allowed and has no slot.
struct Permitted {
    allowed: RemoteFetchAllowed,
    client: ClientKey,
    mode: MediaMode,
}

impl Portcullis {
    /// The first half, if the request is for a file.
    pub(super) fn begin_media(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
        mode: MediaMode,
    ) -> Option<Begun> {
        let decided = match MediaRoute::classify(request.method(), request.uri()) {
            Ok(None) => return None,
            Ok(Some(route)) => self.decide_media(local, peer, request, route, mode),
            Err(invalid) => Err(invalid.into()),
        };
        Some(decided.unwrap_or_else(|denied| Begun::Answer(denied.into_response())))
    }

    fn decide_media(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
        route: MediaRoute,
        mode: MediaMode,
    ) -> Result<Begun, Denied> {
        let desk = &self.media;
        let legacy = route.generation == MediaGeneration::Legacy;
        if legacy && !desk.legacy {
            return Err(Denied::LegacyMedia);
        }
        if !legacy {
            check_token(local, request.headers())?;
        }
        let key = FileKey::new(&route.file, route.variant);
        if self.is_own(&route.file.server) {
            let found = local.media(&route.file.media_id, route.variant);
            let found = found.ok_or(Denied::NoMedia(MediaFailure::NotFound))?;
            let ask = MediaAsk::new(route, request);
            let unchanged = answers::not_modified(&ask, &key, true);
            return Ok(Begun::Answer(unchanged.unwrap_or_else(|| answers::local(ask, &key, found))));
        }
        if legacy && self.require_token_for_remote {
            check_token(local, request.headers())?;
        }
        let allowed = desk.ask_the_switch(&route)?;
        self.judge(allowed.destination()).map_err(Denied::MediaRefused)?;
        if desk.blocked.has(allowed.destination()) {
            return Err(Denied::MediaRefused(Refusal::Hidden));
        }
        let files = desk.files.as_ref().ok_or(Denied::MediaRefused(Refusal::RemoteFetchOff))?;
        let known = files.known(&key).transpose().map_err(Denied::NoMedia)?;
        let ask = MediaAsk::new(route, request);
        if let Some(unchanged) = answers::not_modified(&ask, &key, known.is_some()) {
            return Ok(Begun::Answer(unchanged));
        }
        let client = ClientKey::from_request(peer, request.headers(), &self.trusted_proxies, self.ipv6_prefix);
        let permitted = Permitted { allowed, client, mode };
        let plan = match known {
            Some(file) => Plan::Stored(file, permitted),
            None if self.stopping.load(Ordering::Relaxed) => return Err(Denied::Stopping),
            None => Plan::Fetch(desk.admit(permitted).map_err(Denied::MediaRefused)?),
        };
        let lookup = MediaLookup { ask: Box::new(ask), key, plan };
        Ok(match mode {
            MediaMode::OffPool => Begun::Media(lookup),
            MediaMode::Inline => Begun::Call(RemoteLookup { errand: RemoteErrand::Media(Box::new(lookup)) }),
        })
    }

    /// Second half for a file: opens it in the store, or fetches it. Ends by the lookup's deadline; the file's bytes follow
    /// in the answer's body.
    ///
    /// The fetch is a task on a runtime of our own and goes on when this future, or the answer, is dropped: its slot is free
    /// when the call has ended. Who waits for a fetch of another gives its slot back. A body that cannot be ended properly
    /// ends in [`BodyCut`](crate::BodyCut).
    ///
    /// *Panics:* never, inside a tokio runtime with its timer on. *Cancel safety:* as said. *Blocking:* no.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::Response;
    /// use http_body_util::BodyExt as _;
    /// use portcullis::{BodyCut, MediaLookup, Portcullis};
    ///
    /// /// For who needs a file whole: an error says that it is not. A server hands the answer on as it is;
    /// /// [`Portcullis::finish`] has that example.
    /// async fn whole(portcullis: &Portcullis, lookup: MediaLookup) -> Result<Response<Bytes>, BodyCut> {
    ///     let (head, body) = portcullis.finish_media(lookup).await.into_parts();
    ///     Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    /// }
    /// ```
    pub fn finish_media(&self, lookup: MediaLookup) -> impl Future<Output = Response<ResponseBody>> + Send + use<> {
        let desk = Arc::clone(&self.media);
        async move { desk.answer(lookup).await }
    }

    /// Second half for a file, for a synchronous caller that can send an answer later: returns at once, and calls `on_answer`
    /// with the answer on a thread of our own, where it may wait: for a client that reads slowly, or for the rest of the body.
    ///
    /// No lookup waits for a callback, and no slot is held for one: the file's is free when its call has ended. At most
    /// [`MEDIA_CALLBACKS`](crate::limits::MEDIA_CALLBACKS) run at once, and the answers after them wait their turn. So give
    /// your client a write timeout, as anywhere, or let the callback do no more than hand the answer to what writes your
    /// answers anyway, your event loop or the connection's own thread. Answers that wait are as many as the requests you have
    /// begun and not answered, so what bounds your connections bounds them.
    ///
    /// `on_answer` is dropped uncalled if there is no more `Portcullis` by then. *Panics:* never; a panic of `on_answer` ends
    /// nothing else. *Blocking:* no.
    ///
    /// ```
    /// use std::net::IpAddr;
    /// use std::sync::mpsc::Sender;
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use portcullis::local_view::LocalView;
    /// use portcullis::{Begun, Portcullis, ResponseBody};
    ///
    /// /// On a thread of the pool; what is sent to `writer`, the connection's own thread, goes to the client.
    /// fn answer<D: LocalView>(
    ///     portcullis: &Portcullis, data: &D, peer: IpAddr, request: &Request<Bytes>, writer: Sender<Response<ResponseBody>>,
    /// ) {
    ///     // A client that has left needs no answer, and its writer is gone.
    ///     let send = move |answer| drop(writer.send(answer));
    ///     match portcullis.begin(data, peer, request) {
    ///         None => { /* your other routes */ }
    ///         Some(Begun::Answer(answer)) => send(answer),
    ///         Some(Begun::Call(lookup)) => send(portcullis.finish_blocking(lookup)),
    ///         Some(Begun::Media(lookup)) => portcullis.spawn_media(lookup, send), // the thread is free
    ///     }
    /// }
    /// ```
    pub fn spawn_media(&self, lookup: MediaLookup, on_answer: impl FnOnce(Response<ResponseBody>) + Send + 'static) {
        self.worker.spawn(self.finish_media(lookup), on_answer);
    }
}

impl MediaDesk {
    fn ask_the_switch(&self, route: &MediaRoute) -> Result<RemoteFetchAllowed, Denied> {
        self.switch.check(route.file.clone(), route.allow_remote).map_err(|refusal| {
            self.refused_by_switch.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(target: "portcullis::admission", reason = refusal.as_label(), "media fetch refused");
            Denied::MediaRefused(refusal)
        })
    }

    fn admit(&self, permitted: Permitted) -> Result<MediaPass, Refusal> {
        let Permitted { allowed, client, mode } = permitted;
        let admitted = match (mode, &self.files) {
            (MediaMode::Inline, _) => self.admission.admit_media(&client, allowed),
            (MediaMode::OffPool, Some(files)) => {
                let enter = |server: &ServerName| files.enter(client, &server.canonical());
                self.door.admit(client, allowed, enter)
            }
            (MediaMode::OffPool, None) => Err(Refusal::RemoteFetchOff),
        };
        admitted.inspect_err(|refusal| {
            tracing::debug!(target: "portcullis::admission", reason = refusal.as_label(), "media fetch refused");
        })
    }

    pub(super) async fn answer(&self, lookup: MediaLookup) -> Response<ResponseBody> {
        let MediaLookup { ask, key, plan } = lookup;
        match self.try_answer(&ask, &key, plan).await {
            Ok(answer) => answer,
            Err(denied) => denied.into_response(),
        }
    }

    async fn try_answer(&self, ask: &MediaAsk, key: &FileKey, plan: Plan) -> Result<Response<ResponseBody>, Denied> {
        let pass = match plan {
            Plan::Fetch(pass) => pass,
            Plan::Stored(file, permitted) => match answers::stored(ask, key, &file).await {
                Ok(answer) => return Ok(answer),
                // It had to make room since the first half.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                    if self.stopping.load(Ordering::Relaxed) {
                        return Err(Denied::Stopping);
                    }
                    self.admit(permitted).map_err(Denied::MediaRefused)?
                }
                Err(_) => return Err(Denied::NoMedia(MediaFailure::NoRoom)),
            },
        };
        let files = self.files.as_ref().ok_or(Denied::MediaRefused(Refusal::RemoteFetchOff))?;
        let needed = if pass.is_inline() { Needed::Whole } else { Needed::Beginning };
        let MediaRoute { variant, patience, .. } = ask.route;
        match files.get(key, pass, variant, patience, needed).await.map_err(Denied::NoMedia)? {
            Arrived::Coming(coming) => Ok(answers::coming(ask, key, &coming)),
            Arrived::Whole(file) => {
                // Gone again within the moment, or unreadable: there is more coming in than there is room for.
                answers::stored(ask, key, &file).await.map_err(|_| Denied::NoMedia(MediaFailure::NoRoom))
            }
        }
    }

    /// The deadline of a lookup whose thread waits.
    pub(super) fn deadline(&self, lookup: &MediaLookup) -> OutboundDeadline {
        match &lookup.plan {
            Plan::Fetch(pass) => pass.deadline(),
            Plan::Stored(..) => {
                OutboundDeadline::after(self.admission.allowed_time(RouteClass::Media), tokio::time::Instant::now())
            }
        }
    }

    pub(super) fn budget_status(&self) -> BudgetStatus {
        BudgetStatus::of_media(&self.door)
    }

    pub(super) fn calls(&self) -> CallCounts {
        self.files.as_ref().map(|files| files.calls()).unwrap_or_default()
    }

    pub(super) fn call_times(&self) -> CallTimes {
        self.files.as_ref().map(|files| files.call_times()).unwrap_or_default()
    }

    pub(super) fn destinations(&self) -> Vec<DestinationStatus> {
        self.files.as_ref().map(|files| files.destinations()).unwrap_or_default()
    }

    pub(super) fn status(&self) -> MediaStatus {
        let files = self.files.as_ref();
        let (running, waiting) = files.map(|files| files.running_and_waiting()).unwrap_or_default();
        MediaStatus {
            refused_by_switch: self.refused_by_switch.load(Ordering::Relaxed),
            running,
            waiting,
            store: files.map(|files| files.usage()),
        }
    }
}

impl fmt::Debug for MediaLookup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stored = matches!(self.plan, Plan::Stored(..));
        out.debug_struct("MediaLookup")
            .field("file", &self.ask.route.file)
            .field("stored", &stored)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MediaDesk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MediaDesk")
            .field("switch", &self.switch)
            .field("legacy", &self.legacy)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}
