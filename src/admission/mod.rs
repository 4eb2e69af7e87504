//! The entrance: may this request make a call to another server, now?
//!
//! ```text
//!  OutboundRoute ─► own server? ─► destination rules ─► client key ─► slot + deadline ─► Admitted
//!                     Refusal          Refusal                          Refusal
//! ```
//!
//! Nothing here waits, resolves or dials. Over a cap the answer is a [`Refusal`], at once. What is let through is an
//! [`Admitted`], and only [`Admission::admit`] makes one: an outbound call takes it by value, so a route that forgets
//! the budget does not compile.

mod admit;
mod budget;
mod client_key;
mod policy;
mod refusal;
mod room_alias;
mod route;

pub use admit::{Admission, Admitted, DestinationRules, DestinationVerdict, RefusedCounts};
pub use budget::{Full, InFlightBudget, Slot};
pub use client_key::{ClientKey, Ipv6ClientPrefix, TrustedProxies};
pub use policy::{ClientOutboundProxyPolicy, RemoteTimeout, RouteClass};
pub use refusal::Refusal;
pub use room_alias::{InvalidRoomAlias, RoomAlias};
#[cfg(feature = "outbound")]
pub(crate) use route::{ClientPath, query_values};
pub use route::{InvalidRoute, OutboundRoute};
