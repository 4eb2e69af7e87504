//! A file of another server, as the routes see it: what is wanted, what comes, and why nothing does.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

use crate::admission::{MediaPass, MediaVariant};
use crate::outbound::BoxFuture;
use crate::outbound::error::CallError;

/// What is asked of the other server. Which file, and of whom, is in the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaWanted {
    /// The file itself, or a thumbnail.
    pub(crate) variant: MediaVariant,
    /// How long the client would wait for a file that is not uploaded yet; cut below the deadline before signing.
    pub(crate) patience: Duration,
    /// Largest file taken, in bytes.
    pub(crate) max_bytes: u64,
}

/// A file that is on its way: its head is here, its bytes are still coming.
///
/// Always: what is announced, and what comes, is at most [`MediaWanted::max_bytes`], and what comes is what was announced.
/// The one place that holds this is `media_body`, for the bytes, with `media_call` before them; the store has the same bound
/// as a bound of its disk.
#[derive(Debug)]
pub(crate) struct RemoteMedia {
    /// What the other server says it is, as it was sent, if it is text at all.
    pub(crate) content_type: Option<String>,
    /// The `Content-Disposition` of the file, as it was sent, in UTF-8 or ISO-8859-1.
    pub(crate) content_disposition: Option<String>,
    /// The length, where it is known before the end.
    pub(crate) length: Option<u64>,
    /// The bytes of the file alone. An end without an error is the end of the file, whole and well-formed.
    pub(crate) body: RemoteMediaBody,
}

/// The bytes of a file that is on its way.
pub(crate) type RemoteMediaBody = UnsyncBoxBody<Bytes, MediaCallError>;

/// There is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MediaCallError {
    /// The other server has no such file.
    #[error("not-found")]
    NotFound,
    /// The id is reserved, and nothing is uploaded under it yet.
    #[error("not-yet-uploaded")]
    NotYetUploaded,
    /// Larger than is taken, announced or found while reading, or so the other server says.
    #[error("too-large")]
    TooLarge,
    /// The other server can make no thumbnail of it.
    #[error("no-thumbnail")]
    NoThumbnail,
    /// Any other status; its number is for the log alone.
    #[error("unexpected-status")]
    Status(u16),
    /// The answer is not what such an answer has to be: the envelope, the `Location` in it, or its end.
    #[error("answer-malformed")]
    Malformed,
    /// The call itself failed.
    #[error("{0}")]
    Call(#[from] CallError),
}

impl MediaCallError {
    /// Whether time ended it.
    pub(crate) fn timed_out(self) -> bool {
        matches!(self, Self::Call(error) if error.timed_out)
    }
}

/// The way out, as the media routes see it: the federation client in use, a fake in tests.
pub(crate) trait RemoteMediaSource: Send + Sync + 'static {
    /// Opens a call. Nothing is looked up before it is asked; the slot of `pass` lives as long as the call.
    fn open(&self, pass: MediaPass) -> Box<dyn MediaFetch>;
}

/// An open call for the one file its pass was given for.
pub(crate) trait MediaFetch: Send {
    /// Asks for the file: discovery, the signed request, the one fallback, a `Location` followed. Ends by the deadline of
    /// the pass, and so does the body.
    fn fetch<'a>(&'a mut self, wanted: &'a MediaWanted) -> BoxFuture<'a, Result<RemoteMedia, MediaCallError>>;
}
