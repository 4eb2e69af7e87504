//! [`Report`]: what a load gate hears of a lookup.
//!
//! Only lookups that an account asked for report, and only to a gate that is there already: anybody may name any server, and
//! a stranger's nonsense can make one answer 500.

use crate::outcome::Outcome;

#[cfg(feature = "gate")]
pub(crate) use crate::gate::GateRegistry;
#[cfg(feature = "gate")]
use crate::gate::{GateKey, InteractiveStart};
#[cfg(not(feature = "gate"))]
pub(crate) use without_gates::GateRegistry;
#[cfg(not(feature = "gate"))]
use without_gates::InteractiveStart;

/// To whom one lookup will say how it ended. Dropped on the way, it says nothing: a caller who left is no sign of load.
#[derive(Debug)]
pub(crate) enum Report {
    /// To nobody.
    Nobody,
    /// To the gate of the place it will go to, which is not known yet.
    Due(GateRegistry),
    /// It is on its way. Should the place turn out to be dead, and its server to have moved, that place's gate hears the end.
    Underway(InteractiveStart),
}

impl Report {
    /// The report of a lookup; `is_account` is asked only where there is a gate to hear it.
    pub(crate) fn of(gates: Option<&GateRegistry>, is_account: impl FnOnce() -> bool) -> Self {
        gates.filter(|_| is_account()).map_or(Self::Nobody, |gates| Self::Due(gates.clone()))
    }

    /// Whether it waits for the place.
    pub(super) fn is_due(&self) -> bool {
        matches!(self, Self::Due(_))
    }

    /// The lookup sets out to the server at `base_url`.
    pub(super) fn sets_out(&mut self, base_url: &str) {
        if let Self::Due(gates) = self {
            *self = start(gates, base_url).map_or(Self::Nobody, Self::Underway);
        }
    }

    /// The lookup ended so. One that never set out says nothing: there is no telling about whom.
    pub(super) fn ended(self, outcome: Outcome) {
        if let Self::Underway(start) = self {
            start.report(outcome);
        }
    }
}

#[cfg(feature = "gate")]
fn start(gates: &GateRegistry, base_url: &str) -> Option<InteractiveStart> {
    GateKey::from_base_url(base_url).ok().map(|key| gates.interactive(&key))
}

#[cfg(not(feature = "gate"))]
fn start(gates: &GateRegistry, _base_url: &str) -> Option<InteractiveStart> {
    match *gates {}
}

/// The same names for what cannot be there.
#[cfg(not(feature = "gate"))]
mod without_gates {
    use crate::outcome::Outcome;

    #[derive(Clone, Debug)]
    pub(crate) enum GateRegistry {}

    #[derive(Debug)]
    pub(crate) enum InteractiveStart {}

    impl InteractiveStart {
        pub(super) fn report(self, _outcome: Outcome) {
            match self {}
        }
    }
}
