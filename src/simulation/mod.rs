//! Rehearsals of the load gate under virtual time: what it would have done in an incident, an outage, an overload.
//!
//! ```text
//!  callers ── page ──► [ the gate's own step ] ──► a server that is scripted or shares its places
//!     ▲                                                   │
//!     └──── answered, refused or given up at 30 s ◄───────┘        the same run without the gate stands beside it
//! ```
//!
//! Nothing waits and nothing is random: nine hours pass in milliseconds, and every run gives the same figures. The gate in
//! it is the real one, [`gate::state::State`](crate::gate::state::State). For `portcullis simulate` and tests alone, and
//! no part of the crate's promises.

mod curve;
mod incident;
mod outage;
mod overload;
mod recording;
mod run;
mod server;
mod sharing;
mod trace;

pub use curve::Curve;
pub use incident::{Incident, all_time_out, ungoverned, with_the_same_outcomes};
pub use outage::{Outage, OutageKind};
pub use overload::Overloaded;
pub use recording::{BreakerSpan, Page, Recording, SpanKind};
pub use run::{Gated, Load, Seen, run};
pub use server::{Answer, PageServer, Scripted};
pub use sharing::{Burst, SharingServer};
pub use trace::{Fate, HOURS, IncidentTrace, TracedPage};

#[cfg(test)]
mod tests;
