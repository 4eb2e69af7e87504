//! [`FileBody`]: the bytes of a file as they come, out of their envelope, counted, and cut by the call's one deadline.
//!
//! There is no time limit between two chunks, which a peer that sends a byte at a time would reset for ever. A body ends well
//! only where the file does: a broken connection, a missing boundary, or fewer bytes than announced are errors.

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use crate::deadline::{Expired, OutboundDeadline};
use crate::outbound::body::BodyError;
use crate::outbound::error::CallError;
use crate::outbound::media::{MediaCallError, RemoteMediaBody};
use crate::outbound::multipart::{Boundary, Event, MalformedMultipart, Multipart, PartHead};
use crate::outbound::transport::{RemoteBody, TransportError};

/// What comes over the wire. Dropping it closes the connection.
pub(super) struct Incoming {
    body: RemoteBody,
    deadline: OutboundDeadline,
}

/// A multipart answer that is being read.
///
/// Always: at most one chunk is held, and the bounds of [`Multipart`].
pub(super) struct Envelope {
    incoming: Incoming,
    multipart: Multipart,
    chunk: Bytes,
}

/// A file that is being read.
pub(super) struct FileBody {
    source: Source,
    /// How much larger it may still get.
    left: u64,
    /// How much is still to come, where that is known.
    missing: Option<u64>,
}

enum Source {
    Enveloped(Box<Envelope>),
    Bare(Incoming),
}

impl Incoming {
    pub(super) fn new(body: RemoteBody, deadline: OutboundDeadline) -> Self {
        Self { body, deadline }
    }

    /// The next bytes, never none of them; `None` is a clean end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, MediaCallError> {
        let deadline = self.deadline;
        match deadline.cut(self.data()).await {
            Ok(data) => Ok(data.map_err(CallError::from)?),
            Err(Expired) => Err(CallError::from(BodyError::OutOfTime).into()),
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, TransportError> {
        while let Some(frame) = self.body.frame().await {
            // A body that always has a frame ready must not keep the deadline from being looked at.
            tokio::task::consume_budget().await;
            match frame?.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Envelope {
    pub(super) fn new(incoming: Incoming, boundary: &Boundary) -> Self {
        Self { incoming, multipart: Multipart::new(boundary), chunk: Bytes::new() }
    }

    /// Reads up to the file. To be called first, and once.
    pub(super) async fn head(&mut self) -> Result<PartHead, MediaCallError> {
        match self.event().await? {
            Event::Head(head) => Ok(head),
            Event::Data(_) | Event::End => Err(MediaCallError::Malformed),
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, MediaCallError> {
        match self.event().await? {
            Event::Data(data) => Ok(Some(data)),
            // The rest of the body, if there is any, is not waited for.
            Event::End => Ok(None),
            Event::Head(_) => Err(MediaCallError::Malformed),
        }
    }

    async fn event(&mut self) -> Result<Event, MediaCallError> {
        loop {
            if let Some(event) = self.multipart.read(&mut self.chunk)? {
                return Ok(event);
            }
            let Some(chunk) = self.incoming.chunk().await? else {
                self.multipart.finish_clean()?;
                return Ok(Event::End);
            };
            self.chunk = chunk;
        }
    }
}

impl FileBody {
    /// The file in an envelope whose head has been read.
    pub(super) fn enveloped(envelope: Envelope, max_bytes: u64) -> Self {
        Self { source: Source::Enveloped(Box::new(envelope)), left: max_bytes, missing: None }
    }

    /// A body that is nothing but the file, `length` bytes long if that is known.
    pub(super) fn bare(incoming: Incoming, length: Option<u64>, max_bytes: u64) -> Self {
        Self { source: Source::Bare(incoming), left: max_bytes, missing: length }
    }

    /// The body as the routes read it. Its connection is closed as soon as it has ended, well or not.
    pub(super) fn boxed(self) -> RemoteMediaBody {
        let frames = stream::try_unfold(self, |mut body| async {
            let data = body.data().await?;
            Ok(data.map(|data| (Frame::data(data), body)))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn data(&mut self) -> Result<Option<Bytes>, MediaCallError> {
        let data = match &mut self.source {
            Source::Enveloped(envelope) => envelope.data().await?,
            Source::Bare(incoming) => incoming.chunk().await?,
        };
        let bytes = data.as_ref().map_or(0, Bytes::len);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(bytes).ok_or(MediaCallError::TooLarge)?;
        if let Some(missing) = &mut self.missing {
            *missing = missing.checked_sub(bytes).ok_or(MediaCallError::Malformed)?;
            if data.is_none() && *missing > 0 {
                return Err(MediaCallError::Malformed);
            }
        }
        Ok(data)
    }
}

impl From<MalformedMultipart> for MediaCallError {
    fn from(_: MalformedMultipart) -> Self {
        Self::Malformed
    }
}
