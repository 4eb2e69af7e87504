//! [`Refusal`]: nothing was done and nothing is held.

use std::time::Duration;

/// Why a request may not make its outbound call. Nothing was looked up, nothing is held.
///
/// Its HTTP form is made in one place, with those of all other outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Every slot is taken, whoever asks.
    #[error("too many remote lookups are in flight")]
    GlobalCap {
        /// What to tell the client to wait.
        retry_after: Duration,
    },
    /// This client has as many calls in flight as one client may have.
    #[error("this client has a remote lookup in flight")]
    ClientCap {
        /// What to tell the client to wait.
        retry_after: Duration,
    },
    /// This client has caused as many calls lately as one client may.
    #[error("this client asked for too many remote lookups lately")]
    Rate {
        /// What to tell the client to wait: exactly until the next call may go out.
        retry_after: Duration,
    },
    /// The destination is this server itself: answer from local data, never dial.
    #[error("the destination is this server")]
    OwnServer,
    /// Remote media is switched off here, or the client did not allow it: as if there were no such file.
    #[error("remote media is not fetched here")]
    RemoteFetchOff,
    /// The destination rules forbid this server, and say so.
    #[error("the destination is forbidden here")]
    Forbidden,
    /// The destination rules forbid this server, and do not say so.
    #[error("the destination is hidden here")]
    Hidden,
}

impl Refusal {
    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::GlobalCap { .. } => "global",
            Self::ClientCap { .. } => "client",
            Self::Rate { .. } => "rate",
            Self::OwnServer => "own-server",
            Self::RemoteFetchOff => "remote-fetch-off",
            Self::Forbidden => "forbidden",
            Self::Hidden => "hidden",
        }
    }

    /// What to tell the client to wait; `None` where waiting does not help.
    #[must_use]
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::GlobalCap { retry_after } | Self::ClientCap { retry_after } | Self::Rate { retry_after } => {
                Some(retry_after)
            }
            Self::OwnServer | Self::RemoteFetchOff | Self::Forbidden | Self::Hidden => None,
        }
    }
}
