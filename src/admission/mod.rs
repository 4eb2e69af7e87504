//! The entrance: may this request make a call to another server, now?
//!
//! ```text
//!  OutboundRoute ─► own server? ─► destination rules ─► client key ─► rate ─► slot + deadline ─► Admitted
//!                     Refusal          Refusal                     Refusal     Refusal
//! ```
//!
//! A file of another server takes two steps more: [`MediaRoute`] is parsed, and [`RemoteFetchPolicy`], the switch, turns
//! it into a [`RemoteFetchAllowed`], without which there is no [`MediaPass`] and so no fetch.
//!
//! Nothing here waits, resolves or dials. Over a cap the answer is a [`Refusal`], at once. What is let through is an
//! [`Admitted`], and only [`Admission`] makes one: an outbound call takes it by value, so a route that forgets
//! the budget does not compile.

mod admit;
mod admitted;
mod budget;
mod client_key;
mod client_rate;
#[cfg(feature = "outbound")]
mod media_admission;
mod media_id;
mod media_limits;
mod media_pass;
mod media_route;
mod policy;
mod refusal;
mod remote_fetch;
mod room_alias;
mod route;
mod thumbnail;

pub use admit::{Admission, DestinationRules, DestinationVerdict, RefusedCounts};
pub use admitted::Admitted;
pub use budget::{Full, InFlightBudget, InFlightCaps, Slot};
#[cfg(feature = "server")]
pub(crate) use client_key::client_address;
pub use client_key::{ClientKey, Ipv6ClientPrefix, TrustedProxies};
pub use client_rate::{RateCaps, RateLimit};
#[cfg(feature = "outbound")]
pub(crate) use media_admission::MediaAdmission;
pub use media_id::{InvalidMediaId, MediaId, RemoteFile};
pub use media_limits::{InvalidMediaLimits, MediaCaps, MediaLimits};
pub use media_pass::MediaPass;
#[cfg(feature = "outbound")]
pub(crate) use media_route::MediaPath;
pub use media_route::{MediaGeneration, MediaRoute, MediaVariant};
pub use policy::{ClientOutboundProxyPolicy, RemoteTimeout, RouteClass, ZeroTimeout};
pub use refusal::Refusal;
pub use remote_fetch::{AllowRemote, RemoteFetchAllowed, RemoteFetchPolicy};
pub use room_alias::{InvalidRoomAlias, RoomAlias};
#[cfg(any(feature = "outbound", feature = "tower"))]
pub(crate) use route::ClientPath;
#[cfg(feature = "server")]
pub(crate) use route::decode;
#[cfg(feature = "outbound")]
pub(crate) use route::query_values;
pub use route::{InvalidRoute, OutboundRoute};
pub use thumbnail::{Thumbnail, ThumbnailMethod, ThumbnailSize};
