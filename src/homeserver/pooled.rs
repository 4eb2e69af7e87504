//! [`PooledHomeserver`]: hands whole requests to the request pool and waits for their answers without holding a thread.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::oneshot;

use super::listener::Handler;
use super::long_answers::{AnswerSize, LongAnswer, LongAnswers};
use super::request_pool::RequestPool;
use super::runtime::{Before, Handled, HomeserverRuntime, OutboundRoutes};
use super::upstream::Vouched;
use crate::admission::ClientKey;
use crate::outbound::BoxFuture;
use crate::portcullis::Portcullis;
use crate::proxy::answer::ResponseBody;
use crate::proxy::answer::homeserver::busy;

/// How many requests may wait per request thread. At most half the threads can be held by remote lookups, and what the
/// other half does takes microseconds: a queue this long is a fraction of a second. *Worst case:* 16 times the pool, each
/// waiting request with its head and body.
pub const QUEUED_PER_THREAD: usize = 16;

/// A homeserver on its request pool.
///
/// Never: a request thread is held by an answer that [needs none](Handled::Later)
/// (`an_answer_that_comes_later_holds_no_thread_and_no_lock`). Always: what may hold its connection for long has a
/// [place](LongAnswers) until its answer has ended (`what_may_take_long_has_a_place_and_is_answered_503_without`).
#[derive(Debug)]
pub struct PooledHomeserver<D = Portcullis> {
    runtime: Arc<HomeserverRuntime<D>>,
    pool: Arc<RequestPool>,
    long: LongAnswers,
}

impl<D: OutboundRoutes> PooledHomeserver<D> {
    /// Requests of `runtime` run on `pool`; what may take long has the places of `long`.
    pub fn new(runtime: Arc<HomeserverRuntime<D>>, pool: Arc<RequestPool>, long: LongAnswers) -> Self {
        Self { runtime, pool, long }
    }
}

/// Where one request's answer finds a place, should it take long.
struct Room {
    long: LongAnswers,
    client: ClientKey,
    held: Option<LongAnswer>,
}

impl Room {
    /// What `work` comes to, once there is a place for it; without one there is none.
    async fn answer(
        mut self,
        size: AnswerSize,
        work: impl Future<Output = Response<ResponseBody>>,
    ) -> Response<ResponseBody> {
        match self.take(size) {
            Some(place) => place.until_the_end_of(work.await),
            None => busy(),
        }
    }

    /// An answer that is there.
    fn answered(mut self, answer: Response<ResponseBody>) -> Response<ResponseBody> {
        if !answer.body().is_streamed() {
            return answer;
        }
        self.take(AnswerSize::Any).map_or_else(busy, |place| place.until_the_end_of(answer))
    }

    /// The place that is held, or one that is taken now.
    fn take(&mut self, size: AnswerSize) -> Option<LongAnswer> {
        self.held.take().or_else(|| self.long.place(&self.client, size))
    }
}

impl<D: OutboundRoutes> Handler for PooledHomeserver<D> {
    fn handle(&self, peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let client = self.long.client(peer, request.headers());
        let mut room = Room { long: self.long.clone(), client, held: None };
        match self.runtime.before(peer, &request) {
            Before::Pool(vouched) => {
                let answer = on_the_pool(Arc::clone(&self.runtime), &self.pool, peer, request, vouched, room);
                Box::pin(answer)
            }
            Before::Soon(answer) => Box::pin(room.answer(AnswerSize::Small, answer)),
            Before::Later(answer) => Box::pin(room.answer(AnswerSize::Any, answer)),
            Before::Ask(asking) => {
                let (runtime, pool) = (Arc::clone(&self.runtime), Arc::clone(&self.pool));
                Box::pin(async move {
                    // Kept for the file that is asked for, if it is one.
                    room.held = room.take(AnswerSize::Any);
                    if room.held.is_none() {
                        return busy();
                    }
                    match asking.await {
                        Ok(vouched) => on_the_pool(runtime, &pool, peer, request, Some(vouched), room).await,
                        Err(answer) => answer,
                    }
                })
            }
        }
    }
}

/// Hands a request to the pool at once; the future waits for its answer.
fn on_the_pool<D: OutboundRoutes>(
    runtime: Arc<HomeserverRuntime<D>>,
    pool: &RequestPool,
    peer: IpAddr,
    request: Request<Bytes>,
    vouched: Option<Vouched>,
    room: Room,
) -> impl Future<Output = Response<ResponseBody>> + Send + 'static + use<D> {
    let (say, hear) = oneshot::channel();
    let taken = pool.try_run(move || {
        // Nobody listens any more if the client hung up; the work was done all the same.
        drop(say.send(runtime.handle_vouched(peer, &request, vouched.as_ref())));
    });
    async move {
        match taken {
            Ok(()) => match hear.await {
                Ok(Handled::Answer(answer)) => room.answered(answer),
                Ok(Handled::Later(answer)) => room.answer(AnswerSize::Any, answer).await,
                Err(_) => busy(),
            },
            Err(_) => busy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use http::{StatusCode, header};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::admission::Admission;
    use crate::homeserver::config::Config;
    use crate::homeserver::embedded::EmbeddedHomeserver;
    use crate::homeserver::key_document::tests::ShowingSigner;
    use crate::homeserver::listener::ListenerLimits;
    use crate::homeserver::router::Router;
    use crate::homeserver::runtime::OutboundStep;
    use crate::proxy::answer;
    use crate::proxy::local_view::LocalView;

    /// Takes `/later`, answers it when the test says so, and has no other route.
    struct OnlyLater {
        go: Arc<Semaphore>,
        begun: Arc<AtomicUsize>,
        answered: Arc<AtomicUsize>,
    }

    impl OutboundRoutes for OnlyLater {
        type Lookup = ();

        fn begin(&self, _: &dyn LocalView, _: IpAddr, request: &Request<Bytes>) -> Option<OutboundStep<()>> {
            let path = request.uri().path();
            assert!(!path.starts_with("/panic"), "on purpose");
            let (go, answered) = (Arc::clone(&self.go), Arc::clone(&self.answered));
            let panics = path == "/later/panic";
            path.starts_with("/later").then(|| {
                self.begun.fetch_add(1, Ordering::SeqCst);
                OutboundStep::Later(Box::pin(async move {
                    go.acquire().await.unwrap().forget();
                    assert!(!panics, "on purpose");
                    answered.fetch_add(1, Ordering::SeqCst);
                    answer::json(StatusCode::OK, &"later")
                }))
            })
        }

        fn finish_blocking(&self, (): ()) -> Response<ResponseBody> {
            unreachable!("nothing was begun")
        }

        fn admission(&self) -> &Admission {
            unreachable!("nobody asks")
        }
    }

    struct Rig {
        pooled: PooledHomeserver<OnlyLater>,
        go: Arc<Semaphore>,
        begun: Arc<AtomicUsize>,
        answered: Arc<AtomicUsize>,
    }

    fn rig(threads: usize, queued: usize) -> Rig {
        rig_with(threads, queued, 512)
    }

    fn rig_with(threads: usize, queued: usize, connections: usize) -> Rig {
        let (go, begun, answered) = (Arc::new(Semaphore::new(0)), Arc::default(), Arc::default());
        let routes = OnlyLater { go: Arc::clone(&go), begun: Arc::clone(&begun), answered: Arc::clone(&answered) };
        let router = Router::new("us.example".parse().unwrap(), Arc::new(ShowingSigner));
        let state = EmbeddedHomeserver::new(&Config::without_file());
        let pool = Arc::new(RequestPool::start(threads, queued).unwrap());
        let limits = ListenerLimits { max_connections: connections, ..ListenerLimits::default() };
        let long = LongAnswers::within(&limits, 1);
        let pooled = PooledHomeserver::new(Arc::new(HomeserverRuntime::new(state, routes, router)), pool, long);
        Rig { pooled, go, begun, answered }
    }

    impl Rig {
        fn ask(&self, path: &str) -> BoxFuture<'static, Response<ResponseBody>> {
            let request = Request::get(path).body(Bytes::new()).unwrap();
            self.pooled.handle("192.0.2.1".parse().unwrap(), request)
        }

        async fn until_all_threads_are_idle(&self, threads: usize) {
            while self.pooled.pool.idle_threads() < threads {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn ask(pooled: &PooledHomeserver<OnlyLater>) -> Response<ResponseBody> {
        let request = Request::get("/_matrix/client/versions").body(Bytes::new()).unwrap();
        pooled.handle("192.0.2.1".parse().unwrap(), request).await
    }

    #[tokio::test]
    async fn an_answer_that_comes_later_holds_no_thread_and_no_lock() {
        let rig = rig(2, 8);
        let later: Vec<_> = (0..8).map(|_| tokio::spawn(rig.ask("/later"))).collect();
        while rig.begun.load(Ordering::SeqCst) < 8 {
            tokio::task::yield_now().await;
        }
        rig.until_all_threads_are_idle(2).await;
        assert_eq!(ask(&rig.pooled).await.status(), StatusCode::OK);
        assert_eq!(rig.answered.load(Ordering::SeqCst), 0, "it was waited for");
        rig.go.add_permits(8);
        for answer in later {
            assert_eq!(answer.await.unwrap().into_body().into_bytes().unwrap(), r#""later""#);
        }
    }

    #[tokio::test]
    async fn what_may_take_long_has_a_place_and_is_answered_503_without() {
        // Two of four connections are for lookups, and what is left of the others is halved.
        let rig = rig_with(2, 8, 4);
        let status = || rig.pooled.long.status();
        assert_eq!(status().cap, 2);
        let later = tokio::spawn(rig.ask("/later"));
        while status().in_flight < 1 {
            tokio::task::yield_now().await;
        }
        let refused = rig.ask("/later").await;
        assert_eq!((refused.status(), status().refused), (StatusCode::SERVICE_UNAVAILABLE, 1));
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert_eq!(ask(&rig.pooled).await.status(), StatusCode::OK, "it takes no place");
        rig.go.add_permits(1);
        assert_eq!(later.await.unwrap().status(), StatusCode::OK);
        assert_eq!(status().in_flight, 0);
    }

    #[tokio::test]
    async fn a_client_that_left_ends_the_waiting_and_nothing_else() {
        let rig = rig(1, 8);
        let (left, stays) = (tokio::spawn(rig.ask("/later")), tokio::spawn(rig.ask("/later")));
        while rig.begun.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
        rig.go.add_permits(2);
        assert_eq!(stays.await.unwrap().status(), StatusCode::OK);
        assert_eq!(rig.answered.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_panic_is_answered_500_before_and_after_the_thread_is_free() {
        let rig = rig(1, 8);
        rig.go.add_permits(1);
        for (count, path) in [(1, "/panic"), (2, "/later/panic")] {
            let answer = rig.ask(path).await;
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
            assert_eq!(rig.pooled.runtime.panicked(), count);
        }
        assert_eq!(ask(&rig.pooled).await.status(), StatusCode::OK, "the lock is free");
    }

    #[tokio::test]
    async fn a_pool_that_has_stopped_answers_503() {
        let mut rig = rig(1, 8);
        Arc::get_mut(&mut rig.pooled.pool).unwrap().end();
        for path in ["/later", "/_matrix/client/versions"] {
            assert_eq!(rig.ask(path).await.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        }
        assert_eq!(rig.begun.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_full_pool_answers_503_at_once_and_recovers() {
        let Rig { pooled, .. } = rig(1, 1);
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        pooled
            .pool
            .try_run(move || {
                started.send(()).unwrap();
                let _ = released.recv();
            })
            .unwrap();
        has_started.recv().unwrap();
        pooled.pool.try_run(|| ()).unwrap();
        let refused = ask(&pooled).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert_eq!(refused.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        drop(release);
        while ask(&pooled).await.status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    }
}
