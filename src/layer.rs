//! Admission as a tower layer: a lookup that may not go out is refused before its body is read or its handler runs.
//!
//! ```text
//!  request ─► AdmissionLayer ─► your extractors, tokens, caches ─► your handler ─► pass.run(your federation call)
//!               │ 400: no valid server name                          EarlyPass::take_from
//!               │ 429: no slot, 403/404: the rules                   the slot moves into the call
//!               └ not one of the two directory routes, or for this server: passed on with a mark that says so
//! ```
//!
//! The layer knows `publicRooms?server=` and `directory/room/{alias}` by method and URI alone, takes the slot, and puts the
//! pass into the request's extensions. The handler takes it out and spends it on its call.
//!
//! # When it is not enough
//!
//! **It admits, it does not guard.** A handler that makes its call without a pass is not stopped by any layer. What stops it
//! is a type: let the function that calls other servers take an [`Admitted`] by value, as this crate's own way out does.
//!
//! **It is early.** The slot is taken before the handler knows whether it has to ask anybody. Where answers are often
//! remembered, local although they name another server, or refused for want of a token, the layer refuses requests that
//! needed no slot, and the call's deadline has begun before they were looked at. There, leave the layer out and ask
//! [`Admission::admit`] in the handler, right before the call: it is the same door, and refuses as fast. The layer is
//! worth its place where what comes before the handler costs something, such as a body to be read.
//!
//! **It sees the URI it is given.** Put it outside whatever strips a prefix off the path (in axum: not inside `nest`). A
//! handler behind one that is in the wrong place hears of it: [`EarlyPass::take_from`] is an error then.
//!
//! **It does not know files.** Whether a file leaves the server depends on the switch and on what is stored, so the media
//! routes are admitted in their handler, by [`Admission::admit_media`].
//!
//! # Who holds the slot
//!
//! | the handler | the slot is free |
//! |---|---|
//! | takes the pass and spends it | when its call has ended, whoever waits for it |
//! | takes the pass and drops it | then |
//! | leaves it | when it has its answer, before anybody sees that |
//! | fails, panics, is dropped | then |
//!
//! A clone of the request's extensions keeps nothing: all of them share the one pass, and after the answer it is gone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::admission::{Admission, Admitted, ClientKey, ClientPath, InvalidRoute, OutboundRoute, Refusal};
use crate::sync::Mutex;

type ClientOf = Arc<dyn Fn(&HeaderMap, &Extensions) -> ClientKey + Send + Sync>;

/// Admits the two directory routes before their handlers run. Cheap to clone; clones share the admission's budget.
///
/// ```
/// use std::net::SocketAddr;
///
/// use axum::extract::{ConnectInfo, Request};
/// use axum::response::{IntoResponse, Response};
/// use axum::routing::get;
/// use http::StatusCode;
/// use axum::Router;
/// use portcullis::layer::{AdmissionLayer, EarlyPass};
/// use portcullis::{Admission, ClientKey, Ipv6ClientPrefix, TrustedProxies};
///
/// fn routes(admission: Admission) -> Router {
///     let proxies = TrustedProxies::new([]); // whose X-Forwarded-For you believe
///     let layer = AdmissionLayer::new(admission, move |headers, extensions| {
///         // Without `into_make_service_with_connect_info` there is no address, and all share the share of one.
///         extensions.get::<ConnectInfo<SocketAddr>>().map_or_else(ClientKey::shared, |ConnectInfo(peer)| {
///             ClientKey::from_request(peer.ip(), headers, &proxies, Ipv6ClientPrefix::default())
///         })
///     });
///     Router::new().route("/_matrix/client/v3/publicRooms", get(public_rooms)).layer(layer)
/// }
///
/// async fn public_rooms(request: Request) -> Response {
///     match EarlyPass::take_from(request.extensions()) {
///         // The layer is missing, or where it does not see this path: no answer, and least of all our own list.
///         Err(no_pass) => (StatusCode::INTERNAL_SERVER_ERROR, no_pass.to_string()).into_response(),
///         Ok(None) => "our own list".into_response(), // it names no server, or this one
///         Ok(Some(pass)) => {
///             let server = pass.destination().clone();
///             let rooms = pass.run(async move { format!("the list of {server}") /* your federation call */ }).await;
///             rooms.map_or_else(|_expired| StatusCode::GATEWAY_TIMEOUT.into_response(), |rooms| rooms.into_response())
///         }
///     }
/// }
/// ```
#[derive(Clone)]
pub struct AdmissionLayer {
    admission: Admission,
    client: ClientOf,
}

/// What [`AdmissionLayer`] makes of a service.
///
/// Never: a slot is taken while the service is only asked whether it is ready (`being_ready_takes_no_slot`).
#[derive(Clone)]
pub struct AdmissionService<S> {
    inner: S,
    layer: AdmissionLayer,
}

/// What [`AdmissionLayer`] leaves in the extensions of each request it lets through: the pass that was taken before the
/// handler ran, until the handler takes it, or that there is none.
///
/// Always: of all its clones one yields the pass, once, and none after the handler has answered
/// (`only_one_of_all_clones_yields_the_pass`, `a_handler_that_leaves_the_pass_keeps_no_slot`).
#[derive(Clone, Debug)]
pub struct EarlyPass(Left);

/// What was made of a request.
#[derive(Clone, Debug)]
enum Left {
    Pass(Arc<Mutex<Option<Admitted>>>),
    StaysHere,
    OtherPath,
}

/// Why [`EarlyPass::take_from`] cannot say whether a request may leave the server. Its texts are for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoEarlyPass {
    /// No layer saw the request.
    #[error("no admission layer saw the request")]
    NotSeen,
    /// The layer saw a path that is none of the two routes: it is inside of what strips a prefix off, or the handler is one
    /// of another route.
    #[error("the admission layer saw another path than that of a directory route")]
    OtherPath,
    /// The pass was taken already, or the handler has answered.
    #[error("the pass was taken already, or the request is answered")]
    Gone,
}

/// The answer of an [`AdmissionService`]: a refusal, or that of the service inside.
#[must_use = "futures do nothing unless they are polled"]
pub struct AdmissionFuture<F, R> {
    step: Step<F, R>,
}

enum Step<F, R> {
    /// In this order: the handler goes first, then what it left.
    Inside(Pin<Box<F>>, #[expect(dead_code, reason = "held, not read")] Option<Leftover>),
    Refused(Response<R>),
    Done,
}

/// Why a request goes no further.
#[derive(Debug)]
enum NotAdmitted {
    Invalid(InvalidRoute),
    Refused(Refusal),
}

/// Ends an early pass that was not taken.
struct Leftover(Arc<Mutex<Option<Admitted>>>);

impl AdmissionLayer {
    /// Takes slots of `admission` for the client that `client` makes of a request's headers and extensions.
    ///
    /// `client` runs on each request that would leave the server; it must be quick, and should read forwarded headers
    /// through [`ClientKey::from_request`] alone.
    #[must_use]
    pub fn new(
        admission: Admission,
        client: impl Fn(&HeaderMap, &Extensions) -> ClientKey + Send + Sync + 'static,
    ) -> Self {
        Self { admission, client: Arc::new(client) }
    }

    /// `Ok(None)`: not for us.
    fn admit<B>(&self, request: &Request<B>) -> Result<Option<Admitted>, NotAdmitted> {
        let route = OutboundRoute::classify(request.method(), request.uri()).map_err(NotAdmitted::Invalid)?;
        let Some(route) = route.filter(|route| !route.destination().is_same_server(self.admission.own_name())) else {
            return Ok(None);
        };
        let client = (self.client)(request.headers(), request.extensions());
        self.admission.admit(&client, route).map(Some).map_err(|refusal| {
            tracing::debug!(target: "portcullis::admission", reason = refusal.as_label(), "lookup refused");
            NotAdmitted::Refused(refusal)
        })
    }
}

impl NotAdmitted {
    fn into_response<R: From<Bytes>>(self) -> Response<R> {
        let answer = match self {
            Self::Invalid(invalid) => invalid.into_response(),
            Self::Refused(refusal) => refusal.into_response(),
        };
        answer.map(R::from)
    }
}

impl EarlyPass {
    /// The pass that [`AdmissionLayer`] put here, to be spent on one call; `Ok(None)` where the request is for one of the two
    /// routes and stays here, because it names no server or this one.
    ///
    /// *Errors:* [`NoEarlyPass`]: nothing is known of whether the request stays here. It may leave the server by
    /// [`Admission::admit`] alone, and where the layer is relied on, 500 is the answer: the server is put together wrongly.
    ///
    /// ```
    /// use http::Extensions;
    /// use portcullis::layer::EarlyPass;
    /// use portcullis::{Admission, Admitted, ClientKey, OutboundRoute, Refusal};
    ///
    /// /// Right with the layer and without it, for a request that `OutboundRoute::classify` says leaves the server.
    /// fn pass(door: &Admission, client: &ClientKey, at: &Extensions, to: OutboundRoute) -> Result<Admitted, Refusal> {
    ///     match EarlyPass::take_from(at) {
    ///         Ok(Some(pass)) => Ok(pass),
    ///         Ok(None) | Err(_) => door.admit(client, to),
    ///     }
    /// }
    /// ```
    ///
    /// *Panics:* never. *Blocking:* no.
    pub fn take_from(extensions: &Extensions) -> Result<Option<Admitted>, NoEarlyPass> {
        match &extensions.get::<Self>().ok_or(NoEarlyPass::NotSeen)?.0 {
            Left::Pass(pass) => pass.lock().take().map(Some).ok_or(NoEarlyPass::Gone),
            Left::StaysHere => Ok(None),
            Left::OtherPath => Err(NoEarlyPass::OtherPath),
        }
    }

    /// Marks a request that gets no pass. One that an outer layer has seen knows more than this one can.
    fn mark_without<B>(request: &mut Request<B>) {
        if request.extensions().get::<Self>().is_none() {
            let ours = ClientPath::of(request.uri().path()).is_some();
            request.extensions_mut().insert(Self(if ours { Left::StaysHere } else { Left::OtherPath }));
        }
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> AdmissionService<S> {
        AdmissionService { inner, layer: self.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for AdmissionService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = AdmissionFuture<S::Future, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let step = match self.layer.admit(&request) {
            Err(not_admitted) => Step::Refused(not_admitted.into_response()),
            Ok(None) => {
                EarlyPass::mark_without(&mut request);
                Step::Inside(Box::pin(self.inner.call(request)), None)
            }
            Ok(Some(pass)) => {
                let pass = Arc::new(Mutex::new(Some(pass)));
                request.extensions_mut().insert(EarlyPass(Left::Pass(Arc::clone(&pass))));
                // Before the service is called: it may panic in there.
                let leftover = Leftover(pass);
                Step::Inside(Box::pin(self.inner.call(request)), Some(leftover))
            }
        };
        AdmissionFuture { step }
    }
}

// Nothing in it is pinned in place: the service's future has a box of its own.
impl<F, R> Unpin for AdmissionFuture<F, R> {}

impl<F, R, E> Future for AdmissionFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Step::Inside(inside, _) = &mut self.step {
            let answer = ready!(inside.as_mut().poll(context));
            // Before the answer is seen: whoever sees it may ask again at once and must not meet its own slot.
            self.step = Step::Done;
            return Poll::Ready(answer);
        }
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Refused(answer) => Poll::Ready(Ok(answer)),
            // It has answered, and has nothing more to say.
            Step::Done | Step::Inside(..) => Poll::Pending,
        }
    }
}

impl fmt::Debug for AdmissionLayer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AdmissionLayer").field("admission", &self.admission).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for AdmissionService<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AdmissionService").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}

impl<F, R> fmt::Debug for AdmissionFuture<F, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match &self.step {
            Step::Inside(..) => "inside",
            Step::Refused(_) => "refused",
            Step::Done => "done",
        };
        out.debug_struct("AdmissionFuture").field("step", &step).finish()
    }
}

#[cfg(test)]
mod tests;
