//! One connection: whole requests in, answers out, every step under a limit.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::answer_clock::AnswerKind;
use super::limits::ListenerLimits;
use super::outgoing::Outgoing;
use super::standing::{Standing, Standings};
use super::timed_writes::{Abort, TimedWrites};
use super::unsent::{AnswerBody, Reserved, UnsentBytes};
use super::{BadRequest, Handler};
use crate::admission::ClientKey;
use crate::proxy::answer::ResponseBody;

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: ListenerLimits,
    pub(super) standings: Arc<Standings>,
    unsent: UnsentBytes,
}

impl Shared {
    pub(super) fn new(handler: Arc<dyn Handler>, limits: ListenerLimits) -> Self {
        let unsent = UnsentBytes::new(&limits);
        Self { handler, limits, standings: Arc::default(), unsent }
    }
}

/// The connection was chosen to make room for another one just as its request came.
#[derive(Debug, thiserror::Error)]
#[error("closed to make room")]
struct ChosenToEnd;

/// Serves a connection until it ends, or until it is chosen to make room, or until `stopping` turns true and its request
/// in flight is answered.
pub(super) async fn serve<S>(
    stream: S,
    peer: IpAddr,
    standing: Arc<Standing>,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Abort + Unpin,
{
    let limits = &shared.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_header_size(limits.max_head_bytes)
        // Nor does it take another piece of an answer while so much is not sent.
        .max_buf_size(limits.max_head_bytes)
        .max_headers(limits.max_header_lines)
        // An answer's bytes are passed on as they are, never copied: they tell when they are sent.
        .writev(true)
        // A client that has said all it wants to say may still be listening, and one that hung up changes nothing: the
        // work is on its way and ends by its deadline.
        .half_close(true);
    let outgoing = Arc::new(Outgoing::new(Arc::clone(&standing)));
    let io = TokioIo::new(TimedWrites::new(stream, limits, Arc::clone(&outgoing)));
    let served = Arc::new(AtomicUsize::new(0));
    let service = {
        let shared = Arc::clone(&shared);
        service_fn(move |request| {
            answer(request, peer, Arc::clone(&shared), Arc::clone(&outgoing), Arc::clone(&served))
        })
    };
    let mut connection = pin!(http.serve_connection(io, service));
    let stopped = tokio::select! {
        _ended = connection.as_mut() => false,
        () = standing.chosen_to_end() => false,
        _ = stopping.wait_for(|stopping| *stopping) => true,
    };
    if stopped {
        connection.as_mut().graceful_shutdown();
        // How it ended is the client's business.
        drop(connection.await);
    }
}

pub(super) fn set_socket_options(stream: &TcpStream, limits: &ListenerLimits) {
    // All options only tighten what the limits bound anyway, so a system that refuses them loses no control.
    drop(stream.set_nodelay(true));
    let socket = socket2::SockRef::from(stream);
    drop(socket.set_send_buffer_size(limits.send_buffer_bytes));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    drop(socket.set_tcp_user_timeout(Some(limits.write_stall)));
}

async fn answer(
    request: Request<Incoming>,
    peer: IpAddr,
    shared: Arc<Shared>,
    outgoing: Arc<Outgoing>,
    served: Arc<AtomicUsize>,
) -> Result<Response<AnswerBody>, ChosenToEnd> {
    let is_head = request.method() == Method::HEAD;
    let request = whole(request, &shared.limits).await;
    let in_flight = outgoing.standing.begin().ok_or(ChosenToEnd)?;
    let mut answer = match request {
        Ok(request) => shared.handler.handle(peer, request).await,
        Err(problem) => {
            let mut answer = shared.handler.refuse(problem);
            close_after(&mut answer, &outgoing);
            answer
        }
    };
    if served.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= shared.limits.max_requests_per_connection {
        close_after(&mut answer, &outgoing);
    }
    let client = client_of(peer, &shared.limits);
    let reserved = shared.unsent.reserve(client.as_ref(), answer.body()).unwrap_or_else(|| {
        answer = shared.handler.busy();
        close_after(&mut answer, &outgoing);
        Reserved::nothing()
    });
    // What is no more than a head comes piece by piece in no case.
    let is_streamed = answer.body().is_streamed() && !is_head && !answer.body().is_end_stream();
    let kind = if is_streamed { AnswerKind::Streamed } else { AnswerKind::Whole };
    outgoing.announce(kind);
    let unread = in_flight.answered(kind);
    Ok(answer.map(|body| AnswerBody::new(body, reserved, unread, outgoing)))
}

/// Who a connection's answers count against; a listed proxy speaks for many, and only what binds all binds it.
fn client_of(peer: IpAddr, limits: &ListenerLimits) -> Option<ClientKey> {
    (!limits.trusted_proxies.contains(peer)).then(|| ClientKey::vouched(peer, limits.ipv6_client_prefix))
}

fn close_after(answer: &mut Response<ResponseBody>, outgoing: &Outgoing) {
    outgoing.close_early();
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

/// Reads the body, within its size and time. Nothing is handed on before the last byte is there.
async fn whole(request: Request<Incoming>, limits: &ListenerLimits) -> Result<Request<Bytes>, BadRequest> {
    let (head, body) = request.into_parts();
    if !has_one_host(&head.headers) {
        return Err(BadRequest::Host);
    }
    if body.size_hint().lower() > u64::try_from(limits.max_body_bytes).unwrap_or(u64::MAX) {
        return Err(BadRequest::BodyTooLarge);
    }
    let body = Limited::new(body, limits.max_body_bytes);
    match timeout(limits.body_time, body.collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, body.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BadRequest::BodyTooLarge),
        Ok(Err(_)) => Err(BadRequest::Body),
        Err(_) => Err(BadRequest::BodyTooSlow),
    }
}

fn has_one_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    hosts.next().is_some_and(|host| !host.is_empty()) && hosts.next().is_none()
}
