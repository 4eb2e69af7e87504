//! [`Begun`]: what the first half of a request came to.

use http::Response;

use super::media::MediaLookup;
use crate::admission::Admitted;
use crate::proxy::answer::ResponseBody;
use crate::proxy::directory::{Question, Report};

/// The outcome of the first half of a request.
#[derive(Debug)]
pub enum Begun {
    /// Answered without asking anybody.
    Answer(Response<ResponseBody>),
    /// A slot is held; the lock may be released and the call made.
    Call(RemoteLookup),
    /// A file, to be finished without a thread of the pool: [`finish_media`] or [`spawn_media`]. Never after
    /// [`inline_media`](super::PortcullisBuilder::inline_media).
    ///
    /// [`finish_media`]: super::Portcullis::finish_media
    /// [`spawn_media`]: super::Portcullis::spawn_media
    Media(MediaLookup),
}

/// An admitted lookup, not yet made. Dropping it gives the slot back.
#[derive(Debug)]
#[must_use = "dropping the lookup frees its slot without asking"]
pub struct RemoteLookup {
    pub(super) errand: RemoteErrand,
}

#[derive(Debug)]
pub(super) enum RemoteErrand {
    Directory {
        pass: Admitted,
        question: Box<Question>,
        report: Report,
    },
    /// A file that is fetched on a thread of the pool.
    Media(Box<MediaLookup>),
}
