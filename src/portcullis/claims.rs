//! [`Portcullis::claims`]: which requests are ours, told before their bodies are read.

use http::{Method, Uri};

use super::Portcullis;
use crate::admission::{ClientPath, MediaPath};

impl Portcullis {
    /// Whether [`Portcullis::begin`], [`Portcullis::handle`] and [`Portcullis::handle_blocking`] answer such a request:
    /// whether they do not give `None`. For servers that would otherwise read a whole upload for another route before they
    /// ask.
    ///
    /// What is ours has small bodies: read at most [`MAX_REQUEST_BODY_BYTES`](crate::limits::MAX_REQUEST_BODY_BYTES), and
    /// answer 413 where there is more; and give the body a time limit, as all others.
    ///
    /// Pure: no I/O. *Panics:* never. *Blocking:* no.
    ///
    /// ```
    /// use std::net::IpAddr;
    ///
    /// use axum::body::{Body, to_bytes};
    /// use axum::extract::Request;
    /// use axum::response::{IntoResponse as _, Response};
    /// use http::StatusCode;
    /// use portcullis::Portcullis;
    /// use portcullis::limits::MAX_REQUEST_BODY_BYTES;
    /// use portcullis::local_view::LocalView;
    ///
    /// /// `Err`: for your other routes, its body untouched.
    /// async fn answer<D: LocalView>(
    ///     portcullis: &Portcullis, data: &D, peer: IpAddr, request: Request,
    /// ) -> Result<Response, Request> {
    ///     if !Portcullis::claims(request.method(), request.uri()) {
    ///         return Err(request);
    ///     }
    ///     let (head, body) = request.into_parts();
    ///     let Ok(body) = to_bytes(body, MAX_REQUEST_BODY_BYTES).await else {
    ///         return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response());
    ///     };
    ///     let answer = portcullis.handle(data, peer, &Request::from_parts(head, body)).await;
    ///     Ok(answer.map_or_else(|| StatusCode::NOT_FOUND.into_response(), |answer| answer.map(Body::new)))
    /// }
    /// ```
    #[must_use]
    pub fn claims(method: &Method, uri: &Uri) -> bool {
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        match (MediaPath::of(uri.path()), ClientPath::of(uri.path())) {
            (Some(_), _) | (None, Some(ClientPath::RoomAlias(_))) => reads,
            (None, Some(ClientPath::PublicRooms)) => reads || *method == Method::POST,
            (None, None) => false,
        }
    }
}
