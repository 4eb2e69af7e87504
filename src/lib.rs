//! Keeps the calls a Matrix homeserver makes *to other servers* from harming either side.
//!
//! A homeserver answers some requests by calling another one: a remote room list, a remote alias, a remote file. Anyone may
//! send the first two without an account, to a server of their choosing, and a peer that accepts and never answers pins a
//! request thread.
//! Here at most half a request pool is ever out on such an errand, one call per client, under one deadline, and the next
//! one is refused at once.
//!
//! ```text
//!  client request                                                                            response
//!    │                                                                                          ▲
//!    ▼                                                                                          │
//!  route ─► own server? ─► cached? ─► client key ─► SLOT + DEADLINE ─► discovery ─► signed call ─► bounded body
//!  (pure)   answer here    answer here  (pure)      429 here          └───────── 502/504 here ─────────┘
//!           nothing looked up, nothing dialled, nothing waited for    every await is cut by the one deadline
//! ```
//!
//! **The proof is a type.** An outbound call takes an [`Admitted`] by value, and only [`Admission`] makes one. The
//! slot moves into the call and lives exactly as long as the call does.
//!
//! Calls that *nobody* waits for are another matter: they can wait themselves. The `gate` module lets as many of them out to
//! one homeserver as it has shown to bear, and none while it struggles:
//!
//! ```text
//!  background caller ─► HomeserverGate::acquire ─► Permit ─► the caller's own request ─► Permit::finish(outcome)
//! ```
//!
//! # Where to begin
//!
//! | you have | take |
//! |---|---|
//! | a federation client of your own | [`Admission`] and [`Admitted::run`]: one slot and one deadline around your whole call |
//! | the same, behind tower (axum and its like), and what comes before the handler is costly | [`AdmissionLayer`] too: it refuses before a body is read |
//! | the same, and it blocks its thread | [`Admission`] and [`Admitted::run_blocking`], with no runtime at all |
//! | a client, but no guard against inside addresses | [`AddressPolicy`] and [`Discovery`] too |
//! | a homeserver with a synchronous request pool | [`Portcullis::handle_blocking`]; the example of [`Portcullis`] is about it |
//! | the same, with one lock around its data | [`Portcullis::begin`] under the lock, [`Portcullis::finish_blocking`] without it |
//! | an asynchronous homeserver | [`Portcullis::handle`] |
//! | a synchronous one that can answer later | [`Portcullis::begin`], and [`Portcullis::spawn_media`] for files: they hold no thread |
//! | background work at one homeserver: backfill, probes, joins, long-polls | [`GateRegistry`] and [`HomeserverGate`] |
//!
//! In each case there is one value made at the start ([`Admission`], or `Portcullis` which holds one; a registry of gates)
//! and one question per request. What a request is answered when it may not go out is made by [`Refusal::into_response`].
//!
//! # Files of other servers
//!
//! Downloads and thumbnails are off until `PortcullisBuilder::remote_fetch` is given a [`RemoteFetchPolicy`](media::RemoteFetchPolicy) that is on, and
//! `PortcullisBuilder::media_store` a folder. A page of a chat room loads dozens of images at once, so they have caps of their
//! own ([`MediaLimits`](media::MediaLimits)) and hold no thread of the pool while they wait and are fetched: `Portcullis::begin` hands out
//! `Begun::Media`, which `Portcullis::spawn_media` finishes for a synchronous server and `Portcullis::finish_media` for an
//! asynchronous one; `Portcullis::handle` does both halves. A server that has to answer on the thread it was asked on takes
//! `PortcullisBuilder::inline_media` or `Portcullis::handle_blocking`: then a file counts as a lookup does, one for each client.
//!
//! An answer may be sent before the last byte of its file is here: its `ResponseBody` is streamed. It is read as an
//! `http_body::Body`, or by `ResponseBody::into_reader` where threads wait; `ResponseBody::into_bytes` gives it back. A
//! body that ends in `BodyCut` is not whole: end the connection, and never cleanly.
//!
//! # Numbers
//!
//! [`ClientOutboundProxyPolicy::for_pool`] takes the size of the request pool and is the only number an integrator gives:
//! half the pool may be out, one call per client, ten seconds each (thirty for a file). A server without a pool gives the number of
//! calls it wants in flight ([`for_calls`](ClientOutboundProxyPolicy::for_calls)). [`limits`] holds every other number, with its reason and its source. Deadlines can be shortened ([`RemoteTimeout`]); of what bounds
//! threads nothing can be raised. [`MediaLimits`](media::MediaLimits) can: files off the pool take no threads.
//!
//! # Threads
//!
//! [`Admission::admit`] never waits and belongs to no runtime. What it admits is asynchronous: on a tokio runtime with I/O
//! and time it is awaited there; a thread of a request pool hands it to a small runtime of the crate's own and is back by
//! the deadline plus two seconds, whatever the call does. No lock of the crate is held while anything is awaited.
//!
//! # Features
//!
//! `outbound` (discovery, signed calls, the directory and media routes), `gate` (the load gate) and `server` (the reference
//! homeserver and the binary) are on by default, because the package is the binary too. A library user takes
//! `default-features = false` and what is needed. Without any of them the crate is admission and deadline alone, with
//! neither an HTTP client nor a resolver in the tree; `gate` adds neither.
//!
//! `tower` (a layer that admits; two crates of traits) is on by default too.
//!
//! # Examples to run
//!
//! Each runs from a clone as it is, on loopback or against a homeserver of yours: `cargo run --example NAME`.
//!
//! | example | shows |
//! |---|---|
//! | `sync_pool` | a homeserver with a pool of threads and one lock: lists, aliases, files; a 429 at the cap, and local requests meanwhile |
//! | `axum_handler` | admission around a federation client of the homeserver's own, with the layer and without |
//! | `own_client` | a client of the homeserver's own, held to the addresses that discovery allowed |
//! | `outbound_only` | discovery, a signed call and a bounded answer, without the routes |
//! | `background_backfill`, `long_poll`, `interactive` | the load gate, against a homeserver you name |
//!
//! # Logging
//!
//! Through `tracing`, under targets that begin with `portcullis::`. Refused and failed lookups are `debug`, a call that
//! outlives its deadline is `warn`; so is a gate that stops letting calls out, once per outage. No line holds a token, or a
//! URL beyond a gate's origin.
//!
//! # What this crate does not do
//!
//! It bounds concurrency; a rate per client only where one is set ([`Admission::with_client_rate`]). It does not know who a
//! client is beyond an address, so a botnet can fill the caps; it cannot take more than the caps. It makes no thumbnails.
//! A panic inside a call gives its slot back only where panics unwind (`panic = "unwind"`).
//!
// A row of "Where to begin" leads to its type, or without the type's feature to the list of features.
#![cfg_attr(feature = "tower", doc = "[`AdmissionLayer`]: layer::AdmissionLayer")]
#![cfg_attr(not(feature = "tower"), doc = "[`AdmissionLayer`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`AddressPolicy`]: outbound::AddressPolicy")]
#![cfg_attr(not(feature = "outbound"), doc = "[`AddressPolicy`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Discovery`]: outbound::Discovery")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Discovery`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Portcullis`]: Portcullis")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Portcullis`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Portcullis::handle_blocking`]: Portcullis::handle_blocking")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Portcullis::handle_blocking`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Portcullis::begin`]: Portcullis::begin")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Portcullis::begin`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Portcullis::finish_blocking`]: Portcullis::finish_blocking")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Portcullis::finish_blocking`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Portcullis::handle`]: Portcullis::handle")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Portcullis::handle`]: #features")]
#![cfg_attr(feature = "outbound", doc = "[`Portcullis::spawn_media`]: Portcullis::spawn_media")]
#![cfg_attr(not(feature = "outbound"), doc = "[`Portcullis::spawn_media`]: #features")]
#![cfg_attr(feature = "gate", doc = "[`GateRegistry`]: gate::GateRegistry")]
#![cfg_attr(not(feature = "gate"), doc = "[`GateRegistry`]: #features")]
#![cfg_attr(feature = "gate", doc = "[`HomeserverGate`]: gate::HomeserverGate")]
#![cfg_attr(not(feature = "gate"), doc = "[`HomeserverGate`]: #features")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// An example that imports what it does not use misleads whoever copies it.
#![doc(test(attr(deny(unused_imports))))]

mod admission;
mod deadline;
#[cfg(feature = "outbound")]
mod federation_worker;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "gate")]
pub mod gate;
#[cfg(feature = "server")]
pub mod homeserver;
#[cfg(feature = "tower")]
pub mod layer;
pub mod limits;
#[cfg(feature = "outbound")]
pub mod outbound;
mod outcome;
#[cfg(feature = "outbound")]
mod portcullis;
mod proxy;
mod server_name;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod simulation;
#[cfg(feature = "outbound")]
pub mod status;
mod sync;

pub use admission::{
    Admission, Admitted, ClientKey, ClientOutboundProxyPolicy, DestinationRules, DestinationVerdict, Full,
    InFlightBudget, InFlightCaps, InvalidRoomAlias, InvalidRoute, Ipv6ClientPrefix, OutboundRoute, RateCaps, RateLimit,
    Refusal, RefusedCounts, RemoteTimeout, RoomAlias, RouteClass, Slot, TrustedProxies, ZeroTimeout,
};
pub use deadline::{Expired, OutboundDeadline};
pub use outcome::{Outcome, Overload, Took, TransportKind};
#[cfg(feature = "outbound")]
pub use portcullis::{Begun, BuildError, MediaLookup, Portcullis, PortcullisBuilder, RemoteLookup};
#[cfg(feature = "outbound")]
pub use proxy::local_view::RoomListQuery;
#[cfg(feature = "outbound")]
pub use proxy::public_rooms::InvalidListRequest;
#[cfg(feature = "outbound")]
pub use proxy::response_body::{BodyCut, ResponseBody};
pub use server_name::{DnsName, Host, InvalidServerName, ServerName};

/// Files of other servers: which request asks for one, whether it may be fetched, how many at once, and where they are kept.
///
/// The way is [`MediaRoute::classify`](media::MediaRoute::classify), [`RemoteFetchPolicy::check`](media::RemoteFetchPolicy::check),
/// [`Admission::admit_media`], [`MediaPass::run`](media::MediaPass::run); `Portcullis` goes it by itself.
pub mod media {
    pub use crate::admission::{
        AllowRemote, InvalidMediaId, InvalidMediaLimits, MediaCaps, MediaGeneration, MediaId, MediaLimits, MediaPass,
        MediaRoute, MediaVariant, RemoteFetchAllowed, RemoteFetchPolicy, RemoteFile, Thumbnail, ThumbnailMethod,
        ThumbnailSize,
    };
    #[cfg(feature = "outbound")]
    pub use crate::portcullis::MediaStoreConfig;
    #[cfg(feature = "outbound")]
    pub use crate::proxy::media_store::StoreOpenError;
}

/// What `Portcullis` asks the homeserver it is linked into: the four questions of [`LocalView`](local_view::LocalView), and
/// what they are answered with.
#[cfg(feature = "outbound")]
pub mod local_view {
    pub use crate::proxy::local_view::{
        AliasAnswer, InvalidPageToken, ListedRoom, LocalMedia, LocalView, RoomListPage, TokenAnswer,
    };
    pub use crate::proxy::public_rooms::RoomFilter;
}

/// The README's examples, compiled and run with the doc tests.
#[cfg(all(doctest, feature = "outbound", feature = "gate", feature = "tower"))]
#[doc = include_str!("../README.md")]
struct Readme;
