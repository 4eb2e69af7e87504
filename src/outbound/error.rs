//! [`CallError`]: a slot was held and the call failed; says in which phase.

use crate::outbound::body::BodyError;
use crate::outbound::discover::DiscoveryError;
use crate::outbound::discovery::unresolved;
use crate::outbound::signing::SigningError;
use crate::outbound::transport::{TransportError, TransportPhase};
use crate::outbound::web::WebError;
use crate::outcome::{Outcome, TransportKind};

/// A call that was made and failed. Carries no text of the peer or of a resolver.
///
/// What a client is told of it, for an embedder who writes the answers:
///
/// ```
/// use http::StatusCode;
/// use portcullis::outbound::CallError;
///
/// fn status(error: CallError) -> StatusCode {
///     tracing::debug!(reason = error.as_label(), phase = error.phase.as_label(), "the lookup failed");
///     match error.timed_out {
///         true => StatusCode::GATEWAY_TIMEOUT, // time ended it
///         false => StatusCode::BAD_GATEWAY,    // a peer or a resolver did
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_label())]
#[non_exhaustive]
pub struct CallError {
    /// Where it failed.
    pub phase: CallPhase,
    /// What failed.
    pub failure: CallFailure,
    /// Whether time ended it: the deadline, or the last share with nowhere left to go.
    pub timed_out: bool,
}

/// The phases of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallPhase {
    /// Signing and building the request: nothing was looked up, or nothing dialled.
    Prepare,
    /// Server discovery.
    Discover,
    /// TCP and TLS.
    Connect,
    /// From the request to the response head.
    Send,
    /// The response body.
    Body,
}

/// What failed in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFailure {
    /// The request could not be signed.
    Unsignable,
    /// The request may be sent to one server alone, and the pass is for another.
    AnotherServer,
    /// The server name led nowhere.
    Discovery(DiscoveryError),
    /// The connection was not made, broke, or was cut.
    Exchange,
    /// The answer is larger than such an answer may be.
    TooLarge,
}

impl CallError {
    /// The request is for one server alone, and the pass for another.
    pub(crate) const ANOTHER_SERVER: Self =
        Self { phase: CallPhase::Prepare, failure: CallFailure::AnotherServer, timed_out: false };

    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        let phase = match (self.failure, self.phase) {
            (CallFailure::Unsignable, _) => return "request-not-signable",
            (CallFailure::AnotherServer, _) => return "pass-for-another-server",
            (CallFailure::Discovery(error), _) => return error.as_label(),
            (CallFailure::Exchange, CallPhase::Discover) if self.timed_out => {
                return DiscoveryError::OutOfTime.as_label();
            }
            (CallFailure::Exchange, CallPhase::Discover) => return DiscoveryError::NoAddresses.as_label(),
            (CallFailure::TooLarge, _) => return "answer-too-large",
            (CallFailure::Exchange, CallPhase::Prepare) => TransportPhase::Build,
            (CallFailure::Exchange, CallPhase::Connect) => TransportPhase::Connect,
            (CallFailure::Exchange, CallPhase::Send) => TransportPhase::Send,
            (CallFailure::Exchange, CallPhase::Body) => TransportPhase::Body,
        };
        TransportError { phase, timed_out: self.timed_out }.as_label()
    }

    /// What the failure says of the load of the server that was called, by the rule a load gate goes by.
    ///
    /// Time that ran out before anything was sent is a transport error and no timeout: the server is at work on nothing.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        let kind = match (self.failure, self.phase) {
            (CallFailure::Unsignable | CallFailure::AnotherServer, _) | (CallFailure::Exchange, CallPhase::Prepare) => {
                TransportKind::NotBuildable
            }
            (
                CallFailure::Discovery(
                    DiscoveryError::AddressRefused | DiscoveryError::SrvRefused | DiscoveryError::OwnServer,
                ),
                _,
            ) => return Outcome::unsent(),
            (CallFailure::Discovery(_), _) | (CallFailure::Exchange, CallPhase::Discover | CallPhase::Connect) => {
                TransportKind::NotConnected
            }
            (CallFailure::TooLarge, _) => TransportKind::Undecodable,
            (CallFailure::Exchange, _) if self.timed_out => TransportKind::TimedOut,
            (CallFailure::Exchange, CallPhase::Send) => TransportKind::Reset,
            (CallFailure::Exchange, CallPhase::Body) => TransportKind::BodyCutOff,
        };
        Outcome::of_transport(kind)
    }
}

impl CallPhase {
    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Discover => "discover",
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Body => "body",
        }
    }
}

impl DiscoveryError {
    /// The fixed word for logs and metrics. Unlike `portcullis resolve`, which folds the last two into others, every
    /// error has its own.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::NoAddresses => "no-addresses",
            Self::AddressRefused => "address-refused",
            Self::SrvRefused => "srv-refused",
            Self::DnsFailure => "dns-failure",
            Self::OwnServer => "own-server",
            Self::OutOfTime => "out-of-time",
        }
    }
}

impl From<SigningError> for CallError {
    fn from(_: SigningError) -> Self {
        Self { phase: CallPhase::Prepare, failure: CallFailure::Unsignable, timed_out: false }
    }
}

impl From<DiscoveryError> for CallError {
    fn from(error: DiscoveryError) -> Self {
        let timed_out = error == DiscoveryError::OutOfTime;
        Self { phase: CallPhase::Discover, failure: CallFailure::Discovery(error), timed_out }
    }
}

impl From<TransportError> for CallError {
    fn from(error: TransportError) -> Self {
        let phase = match error.phase {
            TransportPhase::Build => CallPhase::Prepare,
            TransportPhase::Connect => CallPhase::Connect,
            TransportPhase::Send => CallPhase::Send,
            TransportPhase::Body => CallPhase::Body,
        };
        Self { phase, failure: CallFailure::Exchange, timed_out: error.timed_out }
    }
}

impl From<WebError> for CallError {
    fn from(error: WebError) -> Self {
        match error {
            WebError::Dns(error) => unresolved(error).into(),
            WebError::AddressRefused => DiscoveryError::AddressRefused.into(),
            WebError::OwnServer => DiscoveryError::OwnServer.into(),
            WebError::Transport(error) => error.into(),
            WebError::TimedOut => DiscoveryError::OutOfTime.into(),
        }
    }
}

impl From<BodyError> for CallError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self { phase: CallPhase::Body, failure: CallFailure::TooLarge, timed_out: false },
            BodyError::Transport(error) => error.into(),
            BodyError::OutOfTime => TransportError { phase: TransportPhase::Body, timed_out: true }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::resolver::DnsError;
    use crate::outcome::Overload;

    #[test]
    fn every_error_has_its_own_word_and_knows_whether_time_ended_it() {
        let transport = |phase, timed_out| CallError::from(TransportError { phase, timed_out });
        for (error, label, timed_out) in [
            (CallError::from(SigningError::Content), "request-not-signable", false),
            (CallError::ANOTHER_SERVER, "pass-for-another-server", false),
            (DiscoveryError::OutOfTime.into(), "out-of-time", true),
            (DiscoveryError::DnsFailure.into(), "dns-failure", false),
            (DiscoveryError::NoAddresses.into(), "no-addresses", false),
            (DiscoveryError::AddressRefused.into(), "address-refused", false),
            (DiscoveryError::SrvRefused.into(), "srv-refused", false),
            (DiscoveryError::OwnServer.into(), "own-server", false),
            (WebError::TimedOut.into(), "out-of-time", true),
            (WebError::Dns(DnsError::TimedOut).into(), "out-of-time", true),
            (WebError::Dns(DnsError::NoRecords).into(), "no-addresses", false),
            (WebError::AddressRefused.into(), "address-refused", false),
            (WebError::OwnServer.into(), "own-server", false),
            (transport(TransportPhase::Build, false), "request-not-buildable", false),
            (transport(TransportPhase::Connect, true), "connect-timed-out", true),
            (transport(TransportPhase::Send, false), "no-response", false),
            (transport(TransportPhase::Body, false), "body-cut", false),
            (BodyError::OutOfTime.into(), "body-timed-out", true),
            (BodyError::TooLarge.into(), "answer-too-large", false),
        ] {
            assert_eq!((error.as_label(), error.timed_out), (label, timed_out));
            assert_eq!(error.to_string(), label);
        }
    }
    #[test]
    fn every_error_says_what_it_says_of_the_servers_load() {
        let transport = |phase, timed_out| CallError::from(TransportError { phase, timed_out });
        let overload = Outcome::overloaded(Overload::Transport);
        for (error, outcome) in [
            (CallError::from(SigningError::Content), Outcome::unsent()),
            (CallError::ANOTHER_SERVER, Outcome::unsent()),
            (DiscoveryError::AddressRefused.into(), Outcome::unsent()),
            (DiscoveryError::SrvRefused.into(), Outcome::unsent()),
            (DiscoveryError::OwnServer.into(), Outcome::unsent()),
            (DiscoveryError::OutOfTime.into(), overload),
            (DiscoveryError::DnsFailure.into(), overload),
            (DiscoveryError::NoAddresses.into(), overload),
            (transport(TransportPhase::Build, false), Outcome::unsent()),
            (transport(TransportPhase::Connect, false), overload),
            (transport(TransportPhase::Connect, true), overload),
            (transport(TransportPhase::Send, false), overload),
            (transport(TransportPhase::Send, true), Outcome::timeout()),
            (transport(TransportPhase::Body, false), overload),
            (transport(TransportPhase::Body, true), Outcome::timeout()),
            (BodyError::OutOfTime.into(), Outcome::timeout()),
            (BodyError::TooLarge.into(), Outcome::refused()),
        ] {
            assert_eq!(error.outcome(), outcome, "{error:?}");
        }
    }
}
