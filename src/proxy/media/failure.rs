//! [`MediaFailure`]: why there is no file, as far as a client may know.

use crate::outbound::media::MediaCallError;
use crate::proxy::media_store::StoreFault;

/// There is no file. The answer to it is made in `answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MediaFailure {
    /// Its server has no such file.
    NotFound,
    /// Nothing is uploaded under this id yet.
    NotYetUploaded,
    /// It is larger than is taken.
    TooLarge,
    /// Its server can make no thumbnail of it.
    NoThumbnail,
    /// Time ended it, while it waited for its turn or later.
    TimedOut,
    /// Anything else: the way there, or what came back.
    Failed,
    /// There is no room for it on this server's disk.
    NoRoom,
    /// This server is stopping.
    Stopping,
}

impl MediaFailure {
    /// Whether everybody who asks now would be told the same, so that nobody has to ask again.
    pub(crate) fn holds_for_all(self) -> bool {
        match self {
            Self::NotFound
            | Self::NotYetUploaded
            | Self::TooLarge
            | Self::NoThumbnail
            | Self::NoRoom
            | Self::Stopping => true,
            Self::TimedOut | Self::Failed => false,
        }
    }

    /// Whether it is remembered for a while: what the other server says of a file, and nothing that may be over soon.
    pub(crate) fn is_remembered(self) -> bool {
        matches!(self, Self::NotFound | Self::TooLarge | Self::NoThumbnail)
    }
}

impl From<MediaCallError> for MediaFailure {
    fn from(error: MediaCallError) -> Self {
        match error {
            MediaCallError::NotFound => Self::NotFound,
            MediaCallError::NotYetUploaded => Self::NotYetUploaded,
            MediaCallError::TooLarge => Self::TooLarge,
            MediaCallError::NoThumbnail => Self::NoThumbnail,
            MediaCallError::Call(_) if error.timed_out() => Self::TimedOut,
            MediaCallError::Status(_) | MediaCallError::Malformed | MediaCallError::Call(_) => Self::Failed,
        }
    }
}

impl From<StoreFault> for MediaFailure {
    fn from(fault: StoreFault) -> Self {
        match fault {
            StoreFault::TooLarge => Self::TooLarge,
            StoreFault::NoRoom | StoreFault::DiskFull | StoreFault::Io | StoreFault::Incomplete => Self::NoRoom,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::error::CallError;
    use crate::outbound::transport::{TransportError, TransportPhase};

    #[test]
    fn br54_what_the_other_server_says_stays_what_it_is() {
        let call = |timed_out| CallError::from(TransportError { phase: TransportPhase::Send, timed_out }).into();
        for (error, failure) in [
            (MediaCallError::NotFound, MediaFailure::NotFound),
            (MediaCallError::Status(403), MediaFailure::Failed),
            (MediaCallError::Status(429), MediaFailure::Failed),
            (MediaCallError::Status(500), MediaFailure::Failed),
            (MediaCallError::TooLarge, MediaFailure::TooLarge),
            (MediaCallError::NotYetUploaded, MediaFailure::NotYetUploaded),
            (MediaCallError::NoThumbnail, MediaFailure::NoThumbnail),
            (MediaCallError::Malformed, MediaFailure::Failed),
            (call(true), MediaFailure::TimedOut),
            (call(false), MediaFailure::Failed),
        ] {
            assert_eq!(MediaFailure::from(error), failure, "{error}");
            assert!(failure.holds_for_all() || !failure.is_remembered(), "{error}");
        }
        assert!(!MediaFailure::TimedOut.is_remembered() && !MediaFailure::NoRoom.is_remembered());
    }
}
