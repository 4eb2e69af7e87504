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

/// How long a call took, of what it was given.
///
/// What runs a call under a timeout of its own hands one to whoever classifies the answer, so that the two times are those
/// of that call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Took {
    /// From when it was let go to its end.
    pub elapsed: Duration,
    /// The call's own timeout.
    pub timeout: Duration,
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
    /// A success, fast if it took strictly less than half of the call's own timeout.
    ///
    /// ```
    /// use portcullis::{Outcome, Took};
    /// use std::time::Duration;
    ///
    /// let timeout = Duration::from_secs(30);
    /// let after = |elapsed| Outcome::success(Took { elapsed, timeout });
    /// assert_eq!(after(Duration::from_millis(14_999)), Outcome::FastSuccess);
    /// assert_eq!(after(Duration::from_secs(15)), Outcome::SlowSuccess);
    /// ```
    #[must_use]
    pub fn success(Took { elapsed, timeout }: Took) -> Self {
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
    /// use portcullis::{Outcome, Overload, Took};
    /// use std::time::Duration;
    ///
    /// let took = Took { elapsed: Duration::from_secs(1), timeout: Duration::from_secs(30) };
    /// let of = |status| Outcome::of_status(status, took);
    /// assert_eq!(of(StatusCode::OK), Outcome::FastSuccess);
    /// assert_eq!(of(StatusCode::NOT_FOUND), Outcome::Refused);
    /// assert_eq!(of(StatusCode::TOO_MANY_REQUESTS), Outcome::Overloaded(Overload::TooManyRequests));
    /// assert_eq!(of(StatusCode::BAD_GATEWAY), Outcome::Overloaded(Overload::ServerError));
    /// ```
    #[must_use]
    pub fn of_status(status: StatusCode, took: Took) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::Overloaded(Overload::TooManyRequests),
            status if status.is_success() => Self::success(took),
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
            let (elapsed, timeout) = (Duration::from_millis(elapsed_ms), Duration::from_secs(timeout_s));
            let found = Outcome::success(Took { elapsed, timeout });
            assert_eq!(found, outcome, "{elapsed_ms} ms of {timeout_s} s");
        }
        let for_ever = Took { elapsed: Duration::MAX, timeout: Duration::MAX };
        assert_eq!(Outcome::success(for_ever), Outcome::SlowSuccess, "never overflows");
    }

    #[test]
    fn every_status_has_one_outcome() {
        for code in 100..=999 {
            let outcome =
                Outcome::of_status(StatusCode::from_u16(code).unwrap(), Took { elapsed: SECOND, timeout: 30 * SECOND });
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
