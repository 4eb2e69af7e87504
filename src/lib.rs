//! Keeps the calls a Matrix homeserver makes *to other servers* from harming either side.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod deadline;
pub mod limits;
#[cfg(feature = "outbound")]
pub mod outbound;
mod server_name;
mod sync;

pub use admission::{
    Admission, Admitted, ClientKey, ClientOutboundProxyPolicy, DestinationRules, DestinationVerdict, Full,
    InFlightBudget, InvalidRoomAlias, InvalidRoute, Ipv6ClientPrefix, OutboundRoute, Refusal, RefusedCounts,
    RemoteTimeout, RoomAlias, RouteClass, Slot, TrustedProxies,
};
pub use deadline::{Expired, OutboundDeadline};
pub use server_name::{DnsName, Host, InvalidServerName, ServerName};

/// The README's examples, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
