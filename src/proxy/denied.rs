//! [`Denied`]: why a request of ours is answered with an error before anything leaves the server.

use crate::admission::{InvalidRoute, Refusal};
use crate::proxy::local_view::InvalidPageToken;
use crate::proxy::media::failure::MediaFailure;
use crate::proxy::public_rooms::InvalidListRequest;

/// The request goes no further: nothing was looked up and nothing is held. Its answer is made in `answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It names nothing valid.
    Route(InvalidRoute),
    /// A parameter of the room list is not valid.
    List(InvalidListRequest),
    /// A pagination token that this server did not give out.
    PageToken(InvalidPageToken),
    /// It needs an access token and has none.
    MissingToken,
    /// Its access token is nobody's.
    UnknownToken {
        /// The session is still there.
        soft_logout: bool,
    },
    /// Its access token is a locked user's.
    UserLocked,
    /// Whose its access token is cannot be told now.
    TokenUnavailable,
    /// A local alias that is not there.
    NoSuchAlias,
    /// Refused at the door.
    Refused(Refusal),
    /// A file that is not fetched, or not now.
    MediaRefused(Refusal),
    /// A file that is not there, as is known without asking.
    NoMedia(MediaFailure),
    /// A path of files that asks for no token, where those are off.
    LegacyMedia,
    /// The server is stopping and makes no new calls.
    Stopping,
}

impl From<InvalidRoute> for Denied {
    fn from(invalid: InvalidRoute) -> Self {
        Self::Route(invalid)
    }
}

impl From<InvalidListRequest> for Denied {
    fn from(invalid: InvalidListRequest) -> Self {
        Self::List(invalid)
    }
}

impl From<InvalidPageToken> for Denied {
    fn from(invalid: InvalidPageToken) -> Self {
        Self::PageToken(invalid)
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
