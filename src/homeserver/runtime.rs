//! [`HomeserverRuntime`]: a synchronous homeserver behind one lock, as the in-flight budget's record describes it.
//!
//! ```text
//!  pool thread:  lock ─► begin (slot taken under the lock) ─► RuntimeLockRelease: unlocked, the call is made ─► answer
//! ```
//!
//! The lock is one plain mutex, never a reentrant one: releasing a reentrant lock frees one level of it, and a handler
//! that was called by another would keep the whole homeserver waiting for a stranger's server.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use parking_lot::{Mutex, MutexGuard};

use super::embedded::EmbeddedHomeserver;
use super::router::Router;
use super::throw_away_files::ThrowAwayFiles;
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, InFlightBudget};
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
    directory: D,
    router: Router,
    panicked: AtomicU64,
    /// Outlives the directory's calls, which write there: fields are dropped in this order.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, not read"))]
    files: Option<ThrowAwayFiles>,
}

/// The directory routes in their two halves: one under the lock, one without it.
pub trait DirectoryRoutes: Send + Sync + 'static {
    /// An admitted lookup, not yet made. Dropping it gives its slot back.
    type Lookup;

    /// First half: pure and quick, under the lock. `None`: not one of these routes.
    fn begin(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Option<DirectoryStep<Self::Lookup>>;

    /// Second half. *Blocking:* until the call's deadline plus the worker margin at most.
    fn finish_blocking(&self, lookup: Self::Lookup) -> Response<ResponseBody>;

    /// The door.
    fn admission(&self) -> &Admission;
}

/// Where the first half left off.
#[derive(Debug)]
pub enum DirectoryStep<L> {
    /// Answered without asking anybody.
    Answer(Response<ResponseBody>),
    /// A slot is held; the call is to be made without the lock.
    Call(L),
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

impl<D: DirectoryRoutes> HomeserverRuntime<D> {
    /// A homeserver over `state`.
    pub fn new(state: EmbeddedHomeserver, directory: D, router: Router) -> Self {
        Self { state: Mutex::new(state), directory, router, panicked: AtomicU64::new(0), files: None }
    }

    /// Keeps the directory that files of other servers are written to as long as it is written to.
    pub(super) fn keeping(self, files: Option<ThrowAwayFiles>) -> Self {
        Self { files, ..self }
    }

    #[cfg(test)]
    pub(super) fn files(&self) -> Option<&ThrowAwayFiles> {
        self.files.as_ref()
    }

    /// Answers one request of `peer`, on a thread of the request pool.
    ///
    /// *Panics:* never; a panic inside is answered 500 and counted. *Blocking:* as long as the lookup takes, which ends by
    /// its deadline plus the worker margin; everything else is answered at once.
    pub fn handle(&self, peer: IpAddr, request: &Request<Bytes>) -> Response<ResponseBody> {
        catch_unwind(AssertUnwindSafe(|| self.answer(peer, request))).unwrap_or_else(|_| {
            self.panicked.fetch_add(1, Ordering::Relaxed);
            tracing::error!(target: "portcullis::homeserver", "a request handler panicked");
            answer::homeserver::internal_fault()
        })
    }

    fn answer(&self, peer: IpAddr, request: &Request<Bytes>) -> Response<ResponseBody> {
        if let Some(answer) = Router::preflight(request) {
            return answer;
        }
        let mut state = self.state.lock();
        match self.directory.begin(&*state, peer, request) {
            Some(DirectoryStep::Answer(answer)) => answer,
            Some(DirectoryStep::Call(lookup)) => {
                RuntimeLockRelease::of(&mut state).during(|| self.directory.finish_blocking(lookup))
            }
            None => {
                drop(state);
                self.router.answer(request)
            }
        }
    }

    /// The budget every client-triggered call is made under.
    pub fn client_outbound_budget(&self) -> &InFlightBudget<ClientKey> {
        self.directory.admission().budget()
    }

    /// The caps and deadlines that follow from the pool's size.
    pub fn client_outbound_proxy_policy(&self) -> ClientOutboundProxyPolicy {
        self.directory.admission().policy()
    }

    /// The door, for status.
    pub fn admission(&self) -> &Admission {
        self.directory.admission()
    }

    /// The routes that may leave the server.
    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// How many handlers panicked so far.
    pub fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }
}

impl DirectoryRoutes for Portcullis {
    type Lookup = Box<RemoteLookup>;

    fn begin(
        &self,
        local: &dyn LocalView,
        peer: IpAddr,
        request: &Request<Bytes>,
    ) -> Option<DirectoryStep<Self::Lookup>> {
        Self::begin(self, local, peer, request).map(|begun| match begun {
            Begun::Answer(answer) => DirectoryStep::Answer(answer),
            Begun::Call(lookup) => DirectoryStep::Call(lookup),
            // Not made before the listener sends answers that no thread waits for: the switch is off here.
            Begun::Media(_) => DirectoryStep::Answer(answer::homeserver::busy()),
        })
    }

    fn finish_blocking(&self, lookup: Self::Lookup) -> Response<ResponseBody> {
        Self::finish_blocking(self, *lookup)
    }

    fn admission(&self) -> &Admission {
        Self::admission(self)
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

    /// A directory whose calls wait until the test lets them go.
    struct Held {
        admission: Admission,
        calling: SyncSender<usize>,
        go: Mutex<Receiver<()>>,
    }

    impl DirectoryRoutes for Held {
        type Lookup = Admitted;

        fn begin(
            &self,
            _local: &dyn LocalView,
            peer: IpAddr,
            request: &Request<Bytes>,
        ) -> Option<DirectoryStep<Admitted>> {
            assert!(!request.uri().path().contains("panic"), "on purpose");
            let route = OutboundRoute::classify(request.method(), request.uri()).unwrap()?;
            match self.admission.admit(&ClientKey::vouched(peer, Default::default()), route) {
                Ok(pass) => Some(DirectoryStep::Call(pass)),
                Err(_) => {
                    Some(DirectoryStep::Answer(answer::error(StatusCode::TOO_MANY_REQUESTS, "M_LIMIT_EXCEEDED", "")))
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
        let directory = Held { admission, calling: say_calling, go: Mutex::new(may_go) };
        let router = Router::new("us.example".parse().unwrap(), Arc::new(ShowingSigner));
        let state = EmbeddedHomeserver::new(&Config::without_file());
        Rig { runtime: Arc::new(HomeserverRuntime::new(state, directory, router)), calling, go }
    }

    fn status(runtime: &HomeserverRuntime<Held>, peer: &str, uri: &str) -> u16 {
        let request = Request::builder().uri(uri).body(Bytes::new()).unwrap();
        runtime.handle(peer.parse().unwrap(), &request).status().as_u16()
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
