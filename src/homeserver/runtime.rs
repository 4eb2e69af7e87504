//! [`HomeserverRuntime`]: a synchronous homeserver behind one lock, as the in-flight budget's record describes it.
//!
//! ```text
//!  pool thread:  lock ─► begin (slot taken under the lock) ─► RuntimeLockRelease: unlocked, the call is made ─► answer
//!                                                         └─► what takes no thread: handed on, the thread is free ─► answer
//! ```
//!
//! In front of another homeserver there is something [before](HomeserverRuntime::before) that: what is that homeserver's to
//! answer never gets here, and what needs an access token comes once it is known whose that is.
//!
//! The lock is one plain mutex, never a reentrant one: releasing a reentrant lock frees one level of it, and a handler
//! that was called by another would keep the whole homeserver waiting for a stranger's server.

use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use parking_lot::{Mutex, MutexGuard};

use super::embedded::EmbeddedHomeserver;
use super::router::Router;
use super::throw_away_files::ThrowAwayFiles;
use super::upstream::{Upstream, Vouched};
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, InFlightBudget, InvalidRoute};
use crate::outbound::BoxFuture;
pub use crate::portcullis::sorted::{OwnData, Sorted};
use crate::portcullis::{Begun, Portcullis, RemoteLookup};
use crate::proxy::answer::{self, ResponseBody};
use crate::proxy::local_view::LocalView;

/// Owns the homeserver's state and the routes that may leave it.
///
/// Always: the slot of a call is taken while the lock is held (`the_slot_is_taken_before_the_lock_is_released`). Never:
/// the lock is held while another server is asked (`while_a_lookup_is_in_flight_another_request_is_served`).
#[derive(Debug)]
pub struct HomeserverRuntime<D = Portcullis> {
    state: Mutex<EmbeddedHomeserver>,
    outbound: D,
    router: Router,
    /// The homeserver behind, whose data is looked at instead of `state`.
    upstream: Option<Arc<Upstream>>,
    panicked: Arc<AtomicU64>,
    /// Outlives the calls, which write there: fields are dropped in this order.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, not read"))]
    files: Option<ThrowAwayFiles>,
}

/// The routes that may leave the server in their two halves: one under the lock, one without it.
pub trait OutboundRoutes: Send + Sync + 'static {
    /// An admitted lookup, not yet made. Dropping it gives its slot back.
    type Lookup;

    /// First half: pure and quick, under the lock. `None`: not one of these routes.
    fn begin(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Option<OutboundStep<Self::Lookup>>;

    /// Second half of a [call](OutboundStep::Call). *Blocking:* until the call's deadline plus the worker margin at most.
    fn finish_blocking(&self, lookup: Self::Lookup) -> Response<ResponseBody>;

    /// The door.
    fn admission(&self) -> &Admission;

    /// Who answers a request, for a homeserver whose data is not in this process. Pure and quick, and without the lock.
    ///
    /// *Errors:* the request names nothing valid.
    fn sort(&self, request: &Request<Bytes>) -> Result<Sorted, InvalidRoute> {
        let _ = request;
        Ok(Sorted::Here { needs_token: false })
    }
}

/// Where the first half left off.
pub enum OutboundStep<L> {
    /// Answered without asking anybody.
    Answer(Response<ResponseBody>),
    /// A slot is held; the call is to be made without the lock, on this thread.
    Call(L),
    /// A slot is held; the answer comes without a request thread.
    Later(BoxFuture<'static, Response<ResponseBody>>),
}

/// What a request does before it is given a request thread. None of it holds one.
pub enum Before {
    /// Nothing: it is [handled](HomeserverRuntime::handle_vouched) with what is known.
    Pool(Option<Vouched>),
    /// It gets none: a list or an alias of the homeserver behind, or an answer that is there. *Panics*, *Cancel safety:* as of
    /// [`Handled::Later`].
    Soon(BoxFuture<'static, Response<ResponseBody>>),
    /// It gets none: a file of the homeserver behind. *Panics*, *Cancel safety:* as of [`Handled::Later`].
    Later(BoxFuture<'static, Response<ResponseBody>>),
    /// It waits until it is known whose its access token is, and is handled then; or it is answered without. *Panics:* as of
    /// [`Handled::Later`]. *Cancel safety:* the question goes on without it.
    Ask(BoxFuture<'static, Result<Vouched, Response<ResponseBody>>>),
}

/// What became of a request on its request thread.
pub enum Handled {
    /// It is answered.
    Answer(Response<ResponseBody>),
    /// It will be answered, and nobody has to hold a request thread for it. *Panics:* never, a panic inside is answered 500
    /// and counted. *Cancel safety:* dropping it ends the waiting.
    Later(BoxFuture<'static, Response<ResponseBody>>),
}

/// Frees the runtime lock for the one thing it may be freed for: a call to another server.
///
/// The lock is taken again before [`RuntimeLockRelease::during`] returns, also when `call` panics. Taking it again has no
/// bound of its own: it waits for whoever holds the lock then, and those holds are short because none spans a call.
pub(crate) struct RuntimeLockRelease<'g, 'm, T>(&'g mut MutexGuard<'m, T>);

impl<'g, 'm, T> RuntimeLockRelease<'g, 'm, T> {
    pub(crate) fn of(guard: &'g mut MutexGuard<'m, T>) -> Self {
        Self(guard)
    }

    /// Makes `call` without the lock.
    pub(crate) fn during<A>(self, call: impl FnOnce() -> A) -> A {
        MutexGuard::unlocked(self.0, call)
    }
}

impl<D: OutboundRoutes> HomeserverRuntime<D> {
    /// A homeserver over `state`.
    pub fn new(state: EmbeddedHomeserver, outbound: D, router: Router) -> Self {
        Self { state: Mutex::new(state), outbound, router, upstream: None, panicked: Arc::default(), files: None }
    }

    /// In front of `upstream`, if there is one.
    pub(super) fn in_front_of(self, upstream: Option<Arc<Upstream>>) -> Self {
        Self { upstream, ..self }
    }

    /// The homeserver behind.
    pub fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_deref()
    }

    /// Keeps the directory that files of other servers are written to as long as it is written to.
    pub(super) fn keeping(self, files: Option<ThrowAwayFiles>) -> Self {
        Self { files, ..self }
    }

    #[cfg(test)]
    pub(super) fn files(&self) -> Option<&ThrowAwayFiles> {
        self.files.as_ref()
    }

    /// What a request of `peer` does before it is given a request thread.
    ///
    /// *Panics:* never, inside a tokio runtime with I/O and time on; a panic inside is answered 500 and counted.
    /// *Blocking:* no.
    pub fn before(&self, peer: IpAddr, request: &Request<Bytes>) -> Before {
        let Some(upstream) = &self.upstream else { return Before::Pool(None) };
        let before = || upstream.before(self.outbound.sort(request), peer, request);
        match catch_unwind(AssertUnwindSafe(before)) {
            Ok(Before::Pool(vouched)) => Before::Pool(vouched),
            Ok(Before::Soon(answer)) => Before::Soon(self.watched(answer, |fault| fault)),
            Ok(Before::Later(answer)) => Before::Later(self.watched(answer, |fault| fault)),
            Ok(Before::Ask(asking)) => Before::Ask(self.watched(asking, Err)),
            Err(_) => {
                let fault = fault(&self.panicked);
                Before::Soon(Box::pin(std::future::ready(fault)))
            }
        }
    }

    /// Answers one request of `peer`, on a thread of the request pool, or says that its answer needs none.
    ///
    /// *Panics:* never; a panic inside is answered 500 and counted. *Blocking:* as long as the lookup takes, which ends by
    /// its deadline plus the worker margin; everything else is answered, or handed on, at once.
    pub fn handle(&self, peer: IpAddr, request: &Request<Bytes>) -> Handled {
        self.handle_vouched(peer, request, None)
    }

    /// The same with what the homeserver behind said [before](Self::before).
    pub fn handle_vouched(&self, peer: IpAddr, request: &Request<Bytes>, vouched: Option<&Vouched>) -> Handled {
        match catch_unwind(AssertUnwindSafe(|| self.answer(peer, request, vouched))) {
            Ok(Handled::Answer(answer)) => Handled::Answer(answer),
            Ok(Handled::Later(answer)) => Handled::Later(self.watched(answer, |fault| fault)),
            Err(_) => Handled::Answer(fault(&self.panicked)),
        }
    }

    /// `work`, or a fault as `otherwise` has it if it panics.
    fn watched<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, T>,
        otherwise: fn(Response<ResponseBody>) -> T,
    ) -> BoxFuture<'static, T> {
        let panicked = Arc::clone(&self.panicked);
        Box::pin(
            AssertUnwindSafe(work).catch_unwind().map(move |done| done.unwrap_or_else(|_| otherwise(fault(&panicked)))),
        )
    }

    fn answer(&self, peer: IpAddr, request: &Request<Bytes>, vouched: Option<&Vouched>) -> Handled {
        if let Some(answer) = Router::preflight(request) {
            return Handled::Answer(answer);
        }
        let mut state = self.state.lock();
        let begun = match vouched {
            Some(vouched) => self.outbound.begin(vouched, peer, request),
            None => self.outbound.begin(&*state, peer, request),
        };
        Handled::Answer(match begun {
            Some(OutboundStep::Answer(answer)) => answer,
            Some(OutboundStep::Call(lookup)) => {
                RuntimeLockRelease::of(&mut state).during(|| self.outbound.finish_blocking(lookup))
            }
            Some(OutboundStep::Later(answer)) => return Handled::Later(answer),
            None => {
                drop(state);
                self.router.answer(request)
            }
        })
    }

    /// The budget every client-triggered call is made under.
    pub fn client_outbound_budget(&self) -> &InFlightBudget<ClientKey> {
        self.outbound.admission().budget()
    }

    /// The caps and deadlines that follow from the pool's size.
    pub fn client_outbound_proxy_policy(&self) -> ClientOutboundProxyPolicy {
        self.outbound.admission().policy()
    }

    /// The door, for status.
    pub fn admission(&self) -> &Admission {
        self.outbound.admission()
    }

    /// The routes that may leave the server.
    pub fn outbound(&self) -> &D {
        &self.outbound
    }

    /// How many handlers panicked so far.
    pub fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }
}

fn fault(panicked: &AtomicU64) -> Response<ResponseBody> {
    panicked.fetch_add(1, Ordering::Relaxed);
    tracing::error!(target: "portcullis::homeserver", "a request handler panicked");
    answer::homeserver::internal_fault()
}

impl<L: fmt::Debug> fmt::Debug for OutboundStep<L> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => out.debug_tuple("Answer").field(answer).finish(),
            Self::Call(lookup) => out.debug_tuple("Call").field(lookup).finish(),
            Self::Later(_) => out.write_str("Later"),
        }
    }
}

impl fmt::Debug for Before {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(vouched) => out.debug_tuple("Pool").field(vouched).finish(),
            Self::Soon(_) => out.write_str("Soon"),
            Self::Later(_) => out.write_str("Later"),
            Self::Ask(_) => out.write_str("Ask"),
        }
    }
}

impl fmt::Debug for Handled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => out.debug_tuple("Answer").field(answer).finish(),
            Self::Later(_) => out.write_str("Later"),
        }
    }
}

impl OutboundRoutes for Portcullis {
    type Lookup = RemoteLookup;

    fn begin(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Option<OutboundStep<Self::Lookup>> {
        Self::begin(self, local, peer, request).map(|begun| match begun {
            Begun::Answer(answer) => OutboundStep::Answer(answer),
            Begun::Call(lookup) => OutboundStep::Call(lookup),
            Begun::Media(lookup) => OutboundStep::Later(Box::pin(self.finish_media(lookup))),
        })
    }

    fn finish_blocking(&self, lookup: Self::Lookup) -> Response<ResponseBody> {
        Self::finish_blocking(self, lookup)
    }

    fn admission(&self) -> &Admission {
        Self::admission(self)
    }

    fn sort(&self, request: &Request<Bytes>) -> Result<Sorted, InvalidRoute> {
        Self::sort(self, request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
    use std::time::Duration;

    use http::StatusCode;

    use super::*;
    use crate::admission::{Admitted, OutboundRoute};
    use crate::homeserver::config::Config;
    use crate::homeserver::key_document::tests::ShowingSigner;

    /// Only a test that fails waits this long.
    const LONG: Duration = Duration::from_secs(20);

    /// Routes whose calls wait until the test lets them go.
    struct Held {
        admission: Admission,
        calling: SyncSender<usize>,
        go: Mutex<Receiver<()>>,
    }

    impl OutboundRoutes for Held {
        type Lookup = Admitted;

        fn begin(
            &self,
            _local: &dyn LocalView,
            peer: IpAddr,
            request: &Request<Bytes>,
        ) -> Option<OutboundStep<Admitted>> {
            assert!(!request.uri().path().contains("panic"), "on purpose");
            let route = OutboundRoute::classify(request.method(), request.uri()).unwrap()?;
            match self.admission.admit(&ClientKey::vouched(peer, Default::default()), route) {
                Ok(pass) => Some(OutboundStep::Call(pass)),
                Err(_) => {
                    Some(OutboundStep::Answer(answer::error(StatusCode::TOO_MANY_REQUESTS, "M_LIMIT_EXCEEDED", "")))
                }
            }
        }

        fn finish_blocking(&self, _pass: Admitted) -> Response<ResponseBody> {
            self.calling.send(self.admission.budget().in_flight()).unwrap();
            self.go.lock().recv_timeout(LONG).unwrap();
            answer::json(StatusCode::OK, &())
        }

        fn admission(&self) -> &Admission {
            &self.admission
        }
    }

    struct Rig {
        runtime: Arc<HomeserverRuntime<Held>>,
        calling: Receiver<usize>,
        go: std::sync::mpsc::Sender<()>,
    }

    fn rig() -> Rig {
        let (say_calling, calling) = sync_channel(8);
        let (go, may_go) = channel();
        let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
        let outbound = Held { admission, calling: say_calling, go: Mutex::new(may_go) };
        let router = Router::new("us.example".parse().unwrap(), Arc::new(ShowingSigner));
        let state = EmbeddedHomeserver::new(&Config::without_file());
        Rig { runtime: Arc::new(HomeserverRuntime::new(state, outbound, router)), calling, go }
    }

    fn status(runtime: &HomeserverRuntime<Held>, peer: &str, uri: &str) -> u16 {
        let request = Request::builder().uri(uri).body(Bytes::new()).unwrap();
        let Handled::Answer(answer) = runtime.handle(peer.parse().unwrap(), &request) else { panic!("not answered") };
        answer.status().as_u16()
    }

    const REMOTE: &str = "/_matrix/client/v3/publicRooms?server=them.example";

    /// Runs `ask` on its own thread; its answer comes through the channel.
    fn apart<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (say, hear) = channel();
        std::thread::spawn(move || say.send(ask()));
        hear
    }

    #[test]
    fn while_a_lookup_is_in_flight_another_request_is_served() {
        let rig = rig();
        let runtime = Arc::clone(&rig.runtime);
        let lookup = apart(move || status(&runtime, "192.0.2.1", REMOTE));
        rig.calling.recv_timeout(LONG).unwrap();
        let runtime = Arc::clone(&rig.runtime);
        let other = apart(move || status(&runtime, "192.0.2.2", "/_matrix/client/versions"));
        assert_eq!(other.recv_timeout(LONG), Ok(200), "the lock was held during the call");
        rig.go.send(()).unwrap();
        assert_eq!(lookup.recv_timeout(LONG), Ok(200));
        assert_eq!(rig.runtime.client_outbound_budget().in_flight(), 0);
    }

    #[test]
    fn the_slot_is_taken_before_the_lock_is_released() {
        let rig = rig();
        let runtime = Arc::clone(&rig.runtime);
        let lookup = apart(move || status(&runtime, "192.0.2.1", REMOTE));
        assert_eq!(rig.calling.recv_timeout(LONG), Ok(1));
        let runtime = Arc::clone(&rig.runtime);
        let second = apart(move || status(&runtime, "192.0.2.1", REMOTE));
        assert_eq!(second.recv_timeout(LONG), Ok(429));
        rig.go.send(()).unwrap();
        assert_eq!(lookup.recv_timeout(LONG), Ok(200));
    }

    #[test]
    fn a_panic_is_answered_500_and_counted_and_the_lock_is_free_again() {
        let rig = rig();
        assert_eq!(status(&rig.runtime, "192.0.2.1", "/panic"), 500);
        assert_eq!(rig.runtime.panicked(), 1);
        assert_eq!(status(&rig.runtime, "192.0.2.1", "/_matrix/client/versions"), 200);
    }

    #[test]
    fn a_panic_during_the_call_gives_slot_and_lock_back() {
        let rig = rig();
        drop(rig.go); // the call panics: nobody will let it go
        assert_eq!(status(&rig.runtime, "192.0.2.1", REMOTE), 500);
        assert_eq!(rig.runtime.client_outbound_budget().in_flight(), 0);
        assert_eq!(status(&rig.runtime, "192.0.2.1", "/_matrix/client/versions"), 200);
    }

    #[test]
    fn b13_the_caps_follow_the_pool() {
        assert_eq!(rig().runtime.client_outbound_proxy_policy(), ClientOutboundProxyPolicy::for_pool(8));
    }
}
