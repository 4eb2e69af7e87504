//! The load gate: calls to one homeserver that nobody is waiting for, and how many of them may be out.
//!
//! ```text
//!  background caller ─► HomeserverGate::acquire ─► Permit ─► the caller's own request ─► Permit::finish(outcome)
//!                             │ waits                                                        │
//!                             │                                                              ▼
//!                    closed:  active + held < limit                       limit · held slots · breaker
//!                    open:    nothing                                     fast successes: + 1 after ten, up to 4
//!                    probing: one, the first in line                      load: half; at none the breaker opens
//! ```
//!
//! A timed-out call ends the caller's wait and not the homeserver's work. So what is bounded is the work the homeserver is
//! believed to be doing: the slot of such a call stays taken for a quarter of an hour.
//!
//! | the call is | takes | waits | teaches |
//! |---|---|---|---|
//! | background | [`HomeserverGate::acquire`] | as long as it takes | everything |
//! | background, inside a loop that must not stall | [`HomeserverGate::acquire_within`] | briefly | everything |
//! | a long-poll | [`HomeserverGate::poll_turn`] | while the breaker is not closed | failures; no slot, no growth |
//! | one that a user waits for | [`HomeserverGate::interactive`], [`GateRegistry::interactive`] | never | load: half, never below 1 |
//!
//! The callers of the load-gate record, with their figures, are [`BackgroundCaller`], [`HomeserverGate::long_poll`] and
//! [`HomeserverGate::upstream_probe_pass`]. One gate per homeserver is the [`GateRegistry`]'s concern; what a gate does
//! is seen by [`GateStatus`] and [`GateEvents`].
//!
//! How a call ended is an [`Outcome`](crate::Outcome). The rules themselves are the pure [`state`].

mod breaker;
mod callers;
mod cells;
mod clock;
mod constants;
mod counts;
mod effects;
mod events;
mod held;
mod homeserver_gate;
mod interactive;
mod key;
mod leave;
mod limit;
mod outer_timeout;
mod permit;
mod poll_turn;
mod queue;
mod registry;
mod shared;
mod snapshot;
pub mod state;
mod status;
mod turn;

pub use callers::{BackgroundCaller, NotAnswered, ProbePass, Wait};
pub use constants::GateConstants;
pub use counts::GateCounts;
pub use effects::{Call, GaveUp, Happened};
pub use events::{GateEvent, GateEvents};
pub use homeserver_gate::{Cancelled, HomeserverGate};
pub use interactive::InteractiveStart;
pub use key::{GateKey, InvalidBaseUrl};
pub use outer_timeout::OuterTimeout;
pub use permit::Permit;
pub use poll_turn::PollTurn;
pub use queue::CallerKind;
pub use registry::{GateRegistry, RegistryFull};
pub use snapshot::{DecidedBy, WaitingCounts};
pub use status::{BreakerState, BreakerStatus, GateStatus, NextAdmissionStatus};
