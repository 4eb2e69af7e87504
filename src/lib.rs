//! Keeps the calls a Matrix homeserver makes *to other servers* from harming either side.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod deadline;
#[cfg(feature = "outbound")]
mod federation_worker;
#[cfg(feature = "server")]
pub mod homeserver;
pub mod limits;
#[cfg(feature = "outbound")]
pub mod outbound;
#[cfg(feature = "outbound")]
mod portcullis;
mod proxy;
mod server_name;
#[cfg(feature = "outbound")]
mod status;
mod sync;

pub use admission::{
    Admission, Admitted, ClientKey, ClientOutboundProxyPolicy, DestinationRules, DestinationVerdict, Full,
    InFlightBudget, InvalidRoomAlias, InvalidRoute, Ipv6ClientPrefix, OutboundRoute, Refusal, RefusedCounts,
    RemoteTimeout, RoomAlias, RouteClass, Slot, TrustedProxies,
};
pub use deadline::{Expired, OutboundDeadline};
#[cfg(feature = "outbound")]
pub use portcullis::{Begun, BuildError, Portcullis, PortcullisBuilder, RemoteLookup};
pub use proxy::answer::ResponseBody;
#[cfg(feature = "outbound")]
pub use proxy::local_view::{AliasAnswer, InvalidPageToken, ListedRoom, LocalView, RoomListPage, RoomListQuery};
pub use server_name::{DnsName, Host, InvalidServerName, ServerName};
#[cfg(feature = "outbound")]
pub use status::{BudgetStatus, Budgets, Status, WorkerStatus};

/// The README's examples, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
