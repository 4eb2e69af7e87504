//! [`Fetcher`]: one well-known file, over as many hops as its owner needs and no more.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use http::header::{ACCEPT, CONTENT_LENGTH, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::deadline::OutboundDeadline;
use crate::limits::{MAX_WELL_KNOWN_BYTES, MAX_WELL_KNOWN_FAILED_CONNECTS, MAX_WELL_KNOWN_REDIRECTS};
use crate::outbound::resolver::DnsError;
use crate::outbound::transport::{RemoteBody, TransportError};
use crate::outbound::web::target::Target;
use crate::outbound::web::{Web, WebError};
use crate::outbound::well_known::lifetime::{SPREAD, lifetime};
use crate::server_name::{DnsName, Host, ServerName};

/// Fetches well-known files, every hop judged.
pub(crate) struct Fetcher {
    pub(crate) web: Arc<Web>,
}

/// A valid file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) server: ServerName,
    pub(crate) lifetime: Duration,
}

/// Why there is no valid file. Every one of them means: go on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchFailure {
    /// The host's addresses could not be looked up.
    #[error("the host could not be looked up: {0}")]
    Dns(DnsError),
    /// An address of a hop is not allowed.
    #[error("an address is not allowed")]
    AddressRefused,
    /// A redirect leads to this server itself.
    #[error("a redirect leads back here")]
    OwnServer,
    /// No address gave a response.
    #[error("{0}")]
    Transport(TransportError),
    /// Not 200.
    #[error("status {0}")]
    Status(u16),
    /// A redirect without one usable https target, to where the fetch has been already, or one too many.
    #[error("a redirect that is not followed")]
    Redirect,
    /// Larger than 50 KiB.
    #[error("larger than {MAX_WELL_KNOWN_BYTES} bytes")]
    TooLarge,
    /// Not a JSON object with a server name in `m.server`.
    #[error("no valid m.server")]
    Invalid,
    /// The share of time for it is over.
    #[error("no answer in its share of the time")]
    TimedOut,
}

impl FetchFailure {
    /// Whether more time might have brought an answer.
    pub(super) fn is_for_lack_of_time(self) -> bool {
        match self {
            Self::TimedOut | Self::Dns(DnsError::TimedOut) => true,
            Self::Transport(error) => error.timed_out,
            _ => false,
        }
    }
}

impl From<WebError> for FetchFailure {
    fn from(error: WebError) -> Self {
        match error {
            WebError::Dns(error) => Self::Dns(error),
            WebError::AddressRefused => Self::AddressRefused,
            WebError::OwnServer => Self::OwnServer,
            WebError::Transport(error) => Self::Transport(error),
            WebError::TimedOut => Self::TimedOut,
        }
    }
}

impl Fetcher {
    /// The file of `host`. Ends with `share`: each DNS question takes a quarter of what is left of it, each connect a
    /// third.
    pub(crate) async fn fetch(&self, host: &DnsName, share: OutboundDeadline) -> Result<File, FetchFailure> {
        let mut visited = vec![Target::of(host)];
        let mut target = Target::of(host);
        let mut failures_left = MAX_WELL_KNOWN_FAILED_CONNECTS;
        loop {
            let accept = (ACCEPT, HeaderValue::from_static("application/json"));
            let response = self.web.get(&target, accept, share, &mut failures_left).await?;
            let (head, body) = response.into_parts();
            match head.status {
                StatusCode::OK => {
                    let spread = rand::random_range(0..=SPREAD);
                    let lifetime = lifetime(&head.headers, SystemTime::now(), spread);
                    let server = server_in(&bounded(&head.headers, body).await?)?;
                    return Ok(File { server, lifetime });
                }
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => {
                    // The body is of no interest: dropping it closes the connection.
                    drop(body);
                    let next = only_location(&head.headers).and_then(|location| target.redirected(location));
                    target = next.filter(|next| !visited.contains(next)).ok_or(FetchFailure::Redirect)?;
                    // Our own file, when it is our own name that is being explained, may move about on our own host.
                    let ours = Host::Name(host.clone()) == self.web.own_host;
                    if target.host == self.web.own_host && !ours {
                        return Err(FetchFailure::OwnServer);
                    }
                    if visited.len() > MAX_WELL_KNOWN_REDIRECTS {
                        return Err(FetchFailure::Redirect);
                    }
                    visited.push(target.clone());
                }
                status => return Err(FetchFailure::Status(status.as_u16())),
            }
        }
    }
}

/// Two differing targets would be read in two ways, so one is all there may be.
fn only_location(headers: &HeaderMap) -> Option<&str> {
    let mut locations = headers.get_all(LOCATION).iter();
    let location = locations.next()?;
    locations.next().is_none().then(|| location.to_str().ok()).flatten()
}

/// The whole body, or nothing: reading stops where the limit is announced to be passed, or is passed.
async fn bounded(headers: &HeaderMap, mut body: RemoteBody) -> Result<BytesMut, FetchFailure> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let limit = u64::try_from(MAX_WELL_KNOWN_BYTES).unwrap_or(u64::MAX);
    if announced.unwrap_or(0).max(body.size_hint().lower()) > limit {
        return Err(FetchFailure::TooLarge);
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(FetchFailure::Transport)?.into_data() else { continue };
        if read.len().saturating_add(data.len()) > MAX_WELL_KNOWN_BYTES {
            return Err(FetchFailure::TooLarge);
        }
        read.extend_from_slice(&data);
    }
    Ok(read)
}

/// The name in `m.server`. Read as a map: a struct would also be read from an array.
fn server_in(body: &[u8]) -> Result<ServerName, FetchFailure> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).map_err(|_| FetchFailure::Invalid)?;
    let server = object.get("m.server").and_then(serde_json::Value::as_str).ok_or(FetchFailure::Invalid)?;
    server.parse().map_err(|_| FetchFailure::Invalid)
}
