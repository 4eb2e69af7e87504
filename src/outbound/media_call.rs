//! [`MediaCall`]: one file of another server, over every road that leads to it.
//!
//! ```text
//!  signed request ─► 200: envelope ─► the file
//!        │                  └─► Location ─► one unsigned GET ─► the file
//!        └─► 404 M_UNRECOGNIZED: one unsigned request to the older endpoint ─► the file
//! ```
//!
//! Nothing else is followed, and nothing is asked twice. Whatever road it is, the deadline is that of the pass and the cap
//! that of the caller; the body that is handed out is still cut and counted by them.

use http::header::{ACCEPT_ENCODING, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use http_body::Body as _;

use crate::admission::{MediaPass, MediaVariant};
use crate::deadline::OutboundDeadline;
use crate::limits::{MAX_ERROR_BODY_BYTES, MEDIA_ENVELOPE_SLACK_BYTES};
use crate::outbound::BoxFuture;
use crate::outbound::body::{self, BodyError};
use crate::outbound::call::FederationClient;
use crate::outbound::error::CallError;
use crate::outbound::line::Line;
use crate::outbound::media::{MediaCallError, MediaFetch, MediaWanted, RemoteMedia, RemoteMediaSource};
use crate::outbound::media_body::{Envelope, FileBody, Incoming};
use crate::outbound::media_endpoint::MediaEndpoint;
use crate::outbound::multipart::{Boundary, disposition_text, header_text};
use crate::outbound::transport::RemoteBody;
use crate::outbound::web::AS_IT_IS;
use crate::outbound::web::target::Target;

/// An open call for one file: it owns the slot, and every request in it draws from the pass's one deadline.
///
/// The body of a file that came does not hold the slot: keep the call until it is read.
struct MediaCall {
    client: FederationClient,
    pass: MediaPass,
    line: Line,
}

type Response = http::Response<RemoteBody>;

impl RemoteMediaSource for FederationClient {
    fn open(&self, pass: MediaPass) -> Box<dyn MediaFetch> {
        let line = Line::to(pass.destination().clone(), pass.deadline());
        Box::new(MediaCall { client: self.clone(), pass, line })
    }
}

impl MediaFetch for MediaCall {
    fn fetch<'a>(&'a mut self, wanted: &'a MediaWanted) -> BoxFuture<'a, Result<RemoteMedia, MediaCallError>> {
        Box::pin(self.file(wanted))
    }
}

impl MediaCall {
    async fn file(&mut self, wanted: &MediaWanted) -> Result<RemoteMedia, MediaCallError> {
        let response = self.ask(wanted, Endpoint::Federation).await?;
        if response.status() == StatusCode::OK {
            return self.enveloped(response, wanted).await;
        }
        match self.no_file(response, wanted).await? {
            NoFile::Unrecognized => {}
            NoFile::Because(error) => return Err(error),
        }
        let response = self.ask(wanted, Endpoint::Legacy).await?;
        if response.status() == StatusCode::OK {
            return self.bare(response, wanted);
        }
        match self.no_file(response, wanted).await? {
            NoFile::Unrecognized => Err(MediaCallError::NotFound),
            NoFile::Because(error) => Err(error),
        }
    }

    /// Written, and signed where it is signed, right before it is sent: how long the other server may wait for an upload
    /// depends on what is left.
    async fn ask(&mut self, wanted: &MediaWanted, at: Endpoint) -> Result<Response, CallError> {
        let Self { client, pass, line } = self;
        let (file, deadline) = (pass.allowed().file(), pass.deadline());
        let endpoint = MediaEndpoint { file, variant: wanted.variant, patience: wanted.patience };
        let prepare = |now| {
            let mut request = match at {
                Endpoint::Federation => {
                    client.signed(&file.server, &Method::GET, &endpoint.federation(deadline, now), None)?
                }
                Endpoint::Legacy => client.unsigned(&Method::GET, &endpoint.legacy(deadline, now), None),
            };
            request.headers_mut().insert(ACCEPT_ENCODING, AS_IT_IS);
            Ok(request)
        };
        line.send(client, &prepare).await
    }

    async fn enveloped(&self, response: Response, wanted: &MediaWanted) -> Result<RemoteMedia, MediaCallError> {
        let (head, body) = response.into_parts();
        let boundary = Boundary::of(&head.headers).filter(|_| !is_encoded(&head.headers));
        let boundary = boundary.ok_or(MediaCallError::Malformed)?;
        let slack = u64::try_from(MEDIA_ENVELOPE_SLACK_BYTES).unwrap_or(u64::MAX);
        if at_least(&head.headers, &body) > wanted.max_bytes.saturating_add(slack) {
            return Err(MediaCallError::TooLarge);
        }
        let mut envelope = Envelope::new(Incoming::new(body, self.pass.deadline()), &boundary);
        let part = envelope.head().await?;
        if let Some(location) = part.location {
            // Whatever else there is in the envelope: dropping it closes the connection.
            drop(envelope);
            return self.elsewhere(&location, wanted).await;
        }
        Ok(RemoteMedia {
            content_type: part.content_type,
            content_disposition: part.content_disposition,
            length: None,
            body: FileBody::enveloped(envelope, wanted.max_bytes).boxed(),
        })
    }

    async fn elsewhere(&self, location: &str, wanted: &MediaWanted) -> Result<RemoteMedia, MediaCallError> {
        let target = Target::absolute(location).filter(|target| !target.path.as_str().starts_with(SIGNED_PATHS));
        let target = target.ok_or(MediaCallError::Malformed)?;
        let response = self.client.locate.elsewhere(&target, self.pass.deadline()).await.map_err(CallError::from)?;
        match response.status() {
            StatusCode::OK => self.bare(response, wanted),
            status => Err(MediaCallError::Status(status.as_u16())),
        }
    }

    /// A body that is nothing but the file.
    fn bare(&self, response: Response, wanted: &MediaWanted) -> Result<RemoteMedia, MediaCallError> {
        let (head, body) = response.into_parts();
        if is_encoded(&head.headers) {
            return Err(MediaCallError::Malformed);
        }
        if at_least(&head.headers, &body) > wanted.max_bytes {
            return Err(MediaCallError::TooLarge);
        }
        let in_chunks = head.headers.contains_key(TRANSFER_ENCODING);
        let length = if in_chunks { None } else { body::announced_length(&head.headers) };
        let incoming = Incoming::new(body, self.pass.deadline());
        Ok(RemoteMedia {
            content_type: said(&head.headers, &CONTENT_TYPE, header_text),
            content_disposition: said(&head.headers, &CONTENT_DISPOSITION, disposition_text),
            length,
            body: FileBody::bare(incoming, length, wanted.max_bytes).boxed(),
        })
    }

    async fn no_file(&self, response: Response, wanted: &MediaWanted) -> Result<NoFile, CallError> {
        let status = response.status();
        let is_thumbnail = matches!(wanted.variant, MediaVariant::Thumbnail(_));
        let errcode = match status {
            StatusCode::NOT_FOUND | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                errcode(response, self.pass.deadline()).await?
            }
            _ => None,
        };
        let error = match (status, errcode.as_deref()) {
            (StatusCode::NOT_FOUND, Some("M_UNRECOGNIZED")) => return Ok(NoFile::Unrecognized),
            (StatusCode::NOT_FOUND, _) => MediaCallError::NotFound,
            (StatusCode::GATEWAY_TIMEOUT, Some("M_NOT_YET_UPLOADED")) => MediaCallError::NotYetUploaded,
            (StatusCode::BAD_GATEWAY, Some("M_TOO_LARGE")) | (StatusCode::PAYLOAD_TOO_LARGE, _) => {
                MediaCallError::TooLarge
            }
            (StatusCode::BAD_REQUEST, _) if is_thumbnail => MediaCallError::NoThumbnail,
            _ => MediaCallError::Status(status.as_u16()),
        };
        Ok(NoFile::Because(error))
    }
}

#[derive(Clone, Copy)]
enum Endpoint {
    Federation,
    Legacy,
}

/// What an answer without a file means.
enum NoFile {
    /// The server does not know the endpoint.
    Unrecognized,
    Because(MediaCallError),
}

/// Paths that ask for a signature, and none goes to where a `Location` leads: so there is no file at one of them.
const SIGNED_PATHS: &str = "/_matrix/federation/";

/// The errcode of an error's body, if it is one. A body that is too large, or none of ours, has none.
async fn errcode(response: Response, deadline: OutboundDeadline) -> Result<Option<String>, CallError> {
    let (head, body) = response.into_parts();
    let announced = body::announced_length(&head.headers);
    let body = match body::read_bounded(body, announced, MAX_ERROR_BODY_BYTES, deadline).await {
        Ok(body) => body,
        Err(BodyError::TooLarge) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let object: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_slice(&body).ok();
    Ok(object.and_then(|object| Some(object.get("errcode")?.as_str()?.to_owned())))
}

/// The fewest bytes a body can have.
fn at_least(headers: &HeaderMap, body: &RemoteBody) -> u64 {
    body::announced_length(headers).unwrap_or(0).max(body.size_hint().lower())
}

/// Whether the body is a compressed form, which nobody asked for, and which would be kept and passed on as the file.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The value of a header that is there once, if `text` can be read in it.
fn said(headers: &HeaderMap, name: &HeaderName, text: fn(&[u8]) -> Option<String>) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| text(value.as_bytes())).flatten()
}

#[cfg(test)]
mod tests;
