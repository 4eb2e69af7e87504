//! [`PooledHomeserver`]: hands whole requests to the request pool and waits for their answers without holding a thread.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::oneshot;

use super::listener::Handler;
use super::request_pool::RequestPool;
use super::runtime::{DirectoryRoutes, HomeserverRuntime};
use crate::outbound::BoxFuture;
use crate::portcullis::Portcullis;
use crate::proxy::answer::ResponseBody;
use crate::proxy::answer::homeserver::busy;

/// How many requests may wait per request thread. At most half the threads can be held by remote lookups, and what the
/// other half does takes microseconds: a queue this long is a fraction of a second. *Worst case:* 16 times the pool, each
/// waiting request with its head and body.
pub const QUEUED_PER_THREAD: usize = 16;

/// A homeserver on its request pool.
#[derive(Debug)]
pub struct PooledHomeserver<D = Portcullis> {
    runtime: Arc<HomeserverRuntime<D>>,
    pool: Arc<RequestPool>,
}

impl<D: DirectoryRoutes> PooledHomeserver<D> {
    /// Requests of `runtime` run on `pool`.
    pub fn new(runtime: Arc<HomeserverRuntime<D>>, pool: Arc<RequestPool>) -> Self {
        Self { runtime, pool }
    }
}

impl<D: DirectoryRoutes> Handler for PooledHomeserver<D> {
    fn handle(&self, peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let (say, hear) = oneshot::channel();
        let runtime = Arc::clone(&self.runtime);
        let taken = self.pool.try_run(move || {
            // Nobody listens any more if the client hung up; the work was done all the same.
            drop(say.send(runtime.handle(peer, &request)));
        });
        Box::pin(async move {
            match taken {
                Ok(()) => hear.await.unwrap_or_else(|_| busy()),
                Err(_) => busy(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http::{StatusCode, header};

    use super::*;
    use crate::admission::Admission;
    use crate::homeserver::config::Config;
    use crate::homeserver::embedded::EmbeddedHomeserver;
    use crate::homeserver::key_document::tests::ShowingSigner;
    use crate::homeserver::router::Router;
    use crate::homeserver::runtime::DirectoryStep;
    use crate::proxy::local_view::LocalView;

    /// Has no routes of its own.
    struct NoDirectory;

    impl DirectoryRoutes for NoDirectory {
        type Lookup = ();

        fn begin(&self, _: &dyn LocalView, _: IpAddr, _: &Request<Bytes>) -> Option<DirectoryStep<()>> {
            None
        }

        fn finish_blocking(&self, (): ()) -> Response<ResponseBody> {
            unreachable!("nothing was begun")
        }

        fn admission(&self) -> &Admission {
            unreachable!("nobody asks")
        }
    }

    fn pooled(threads: usize, queued: usize) -> PooledHomeserver<NoDirectory> {
        let router = Router::new("us.example".parse().unwrap(), Arc::new(ShowingSigner));
        let state = EmbeddedHomeserver::new(&Config::without_file());
        let pool = Arc::new(RequestPool::start(threads, queued).unwrap());
        PooledHomeserver::new(Arc::new(HomeserverRuntime::new(state, NoDirectory, router)), pool)
    }

    async fn ask(pooled: &PooledHomeserver<NoDirectory>) -> Response<ResponseBody> {
        let request = Request::get("/_matrix/client/versions").body(Bytes::new()).unwrap();
        pooled.handle("192.0.2.1".parse().unwrap(), request).await
    }

    #[tokio::test]
    async fn a_full_pool_answers_503_at_once_and_recovers() {
        let pooled = pooled(1, 1);
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
