//! [`Outcome`]: how one remote call ended, as far as it tells anything about the load of the server that was asked.
//!
//! The one classification of the crate. Whatever made the call, its status or its failure is turned into an outcome here,
//! so that two callers cannot disagree about what is load.

use std::time::Duration;

use http::StatusCode;

use crate::limits::FAST_FRACTION;

/// How one remote call ended.
///
/// | outcome | made by | says |
/// |---|---|---|
/// | fast success | [`success`](Self::success), under half of the call's own timeout | the server has room |
/// | slow success | [`success`](Self::success) | nothing: a slow server may be healthy |
/// | unknown success | [`unknown_success`](Self::unknown_success) | nothing: perhaps nothing was sent |
/// | refused | [`refused`](Self::refused), any other 4xx | the server answered promptly; the request was at fault |
/// | unsent | [`unsent`](Self::unsent) | nothing: the request was never built |
/// | timed out | [`timeout`](Self::timeout) | load, and the server may still be at work on it |
/// | overloaded | [`overloaded`](Self::overloaded): 5xx, 429, transport error | load |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// A success in under half of the call's own timeout.
    FastSuccess,
    /// A success that took longer.
    SlowSuccess,
    /// A success of a call that may not have asked the server at all.
    UnknownSuccess,
    /// The server answered promptly, and not with what was asked for.
    Refused,
    /// Nothing was sent.
    Unsent,
    /// The caller's own timeout ended the call; the server may go on working on it.
    TimedOut,
    /// The server could not take the call.
    Overloaded(Overload),
}

/// By what a call was told that the server has too much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overload {
    /// A 5xx.
    ServerError,
    /// A 429.
    TooManyRequests,
    /// No whole answer came: the connection was refused, reset or cut off.
    Transport,
}

/// What an HTTP client says of a call that brought no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportKind {
    /// The client's own timeout ended it.
    TimedOut,
    /// No connection came about: refused, unreachable, no address, no handshake. The local network being down looks the
    /// same from here.
    NotConnected,
    /// The connection broke before the response head was there.
    Reset,
    /// The body ended before its end.
    BodyCutOff,
    /// The request could not be built.
    NotBuildable,
    /// Too many redirects.
    RedirectLoop,
    /// The answer could not be decoded.
    Undecodable,
}

impl Outcome {
    /// A success after `elapsed` of a call whose own timeout is `timeout`: fast if it took strictly less than half.
    ///
    /// ```
    /// use portcullis::Outcome;
    /// use std::time::Duration;
    ///
    /// let page = Duration::from_secs(30);
    /// assert_eq!(Outcome::success(Duration::from_millis(14_999), page), Outcome::FastSuccess);
    /// assert_eq!(Outcome::success(Duration::from_secs(15), page), Outcome::SlowSuccess);
    /// ```
    #[must_use]
    pub fn success(elapsed: Duration, timeout: Duration) -> Self {
        if elapsed.saturating_mul(FAST_FRACTION) < timeout { Self::FastSuccess } else { Self::SlowSuccess }
    }

    /// A success that teaches nothing: the call may have been answered without the server, as a key-backup download
    /// without a backup is.
    #[must_use]
    pub fn unknown_success() -> Self {
        Self::UnknownSuccess
    }

    /// An answer that blames the request: any 4xx but 429.
    #[must_use]
    pub fn refused() -> Self {
        Self::Refused
    }

    /// Nothing was sent.
    #[must_use]
    pub fn unsent() -> Self {
        Self::Unsent
    }

    /// The caller's own timeout ended the call.
    #[must_use]
    pub fn timeout() -> Self {
        Self::TimedOut
    }

    /// The server could not take the call.
    #[must_use]
    pub fn overloaded(by: Overload) -> Self {
        Self::Overloaded(by)
    }

    /// The outcome of a call that was answered with `status`.
    ///
    /// 2xx is a success, 429 and 5xx are load, everything else is refused: a prompt answer, but not what was asked for.
    ///
    /// ```
    /// use http::StatusCode;
    /// use portcullis::{Outcome, Overload};
    /// use std::time::Duration;
    ///
    /// let (elapsed, timeout) = (Duration::from_secs(1), Duration::from_secs(30));
    /// let of = |status| Outcome::of_status(status, elapsed, timeout);
    /// assert_eq!(of(StatusCode::OK), Outcome::FastSuccess);
    /// assert_eq!(of(StatusCode::NOT_FOUND), Outcome::Refused);
    /// assert_eq!(of(StatusCode::TOO_MANY_REQUESTS), Outcome::Overloaded(Overload::TooManyRequests));
    /// assert_eq!(of(StatusCode::BAD_GATEWAY), Outcome::Overloaded(Overload::ServerError));
    /// ```
    #[must_use]
    pub fn of_status(status: StatusCode, elapsed: Duration, timeout: Duration) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::Overloaded(Overload::TooManyRequests),
            status if status.is_success() => Self::success(elapsed, timeout),
            status if status.is_server_error() => Self::Overloaded(Overload::ServerError),
            _ => Self::Refused,
        }
    }

    /// The outcome of a call that brought no usable answer.
    #[must_use]
    pub fn of_transport(kind: TransportKind) -> Self {
        match kind {
            TransportKind::TimedOut => Self::TimedOut,
            TransportKind::NotConnected | TransportKind::Reset | TransportKind::BodyCutOff => {
                Self::Overloaded(Overload::Transport)
            }
            TransportKind::NotBuildable => Self::Unsent,
            TransportKind::RedirectLoop | TransportKind::Undecodable => Self::Refused,
        }
    }

    /// Whether it says that the server has too much to do: a timeout, a 5xx, a 429 or a transport error.
    ///
    /// An error of a gateway can be told apart by this very rule, so that gateway and gate agree.
    #[must_use]
    pub fn is_load(self) -> bool {
        matches!(self, Self::TimedOut | Self::Overloaded(_))
    }

    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::FastSuccess => "fast-success",
            Self::SlowSuccess => "slow-success",
            Self::UnknownSuccess => "unknown-success",
            Self::Refused => "refused",
            Self::Unsent => "unsent",
            Self::TimedOut => "timed-out",
            Self::Overloaded(Overload::ServerError) => "server-error",
            Self::Overloaded(Overload::TooManyRequests) => "too-many-requests",
            Self::Overloaded(Overload::Transport) => "transport-error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn fast_is_strictly_under_half_of_the_calls_own_timeout() {
        for (elapsed_ms, timeout_s, outcome) in [
            (0, 30, Outcome::FastSuccess),
            (14_999, 30, Outcome::FastSuccess),
            (15_000, 30, Outcome::SlowSuccess),
            (7_499, 15, Outcome::FastSuccess),
            (7_500, 15, Outcome::SlowSuccess),
            (0, 0, Outcome::SlowSuccess),
        ] {
            let found = Outcome::success(Duration::from_millis(elapsed_ms), Duration::from_secs(timeout_s));
            assert_eq!(found, outcome, "{elapsed_ms} ms of {timeout_s} s");
        }
        assert_eq!(Outcome::success(Duration::MAX, Duration::MAX), Outcome::SlowSuccess, "never overflows");
    }

    #[test]
    fn every_status_has_one_outcome() {
        for code in 100..=999 {
            let outcome = Outcome::of_status(StatusCode::from_u16(code).unwrap(), SECOND, 30 * SECOND);
            let expected = match code {
                200..=299 => Outcome::FastSuccess,
                429 => Outcome::Overloaded(Overload::TooManyRequests),
                500..=599 => Outcome::Overloaded(Overload::ServerError),
                _ => Outcome::Refused,
            };
            assert_eq!(outcome, expected, "{code}");
        }
    }

    #[test]
    fn every_transport_failure_has_one_outcome() {
        for (kind, outcome, load) in [
            (TransportKind::TimedOut, Outcome::TimedOut, true),
            (TransportKind::NotConnected, Outcome::Overloaded(Overload::Transport), true),
            (TransportKind::Reset, Outcome::Overloaded(Overload::Transport), true),
            (TransportKind::BodyCutOff, Outcome::Overloaded(Overload::Transport), true),
            (TransportKind::NotBuildable, Outcome::Unsent, false),
            (TransportKind::RedirectLoop, Outcome::Refused, false),
            (TransportKind::Undecodable, Outcome::Refused, false),
        ] {
            assert_eq!((Outcome::of_transport(kind), outcome.is_load()), (outcome, load), "{kind:?}");
        }
    }
}
