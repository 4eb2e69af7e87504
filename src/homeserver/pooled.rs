//! [`PooledHomeserver`]: hands whole requests to the request pool and waits for their answers without holding a thread.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use tokio::sync::oneshot;

use super::listener::Handler;
use super::request_pool::RequestPool;
use super::runtime::{DirectoryRoutes, HomeserverRuntime};
use crate::outbound::BoxFuture;
use crate::portcullis::Portcullis;
use crate::proxy::answer::{self, ResponseBody};

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

fn busy() -> Response<ResponseBody> {
    let mut answer = answer::error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "The server is busy");
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
