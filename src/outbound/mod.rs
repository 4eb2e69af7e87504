//! The way out: from an [`Admitted`](crate::Admitted) to a bounded answer of another server.
//!
//! ```text
//!  Admitted ─► FederationClient::open ─► FederationCall::request(endpoint)
//!                                           │
//!      server discovery  (discover drives the pure steps of discovery; well_known, resolver)
//!           │  each answer of the DNS is judged by AddressPolicy before anything is dialled
//!           ▼
//!      Destination ─► sign ─► one attempt per judged address (transport) ─► bounded body ─► RemoteReply
//! ```
//!
//! A file of another server takes the same way with a pass of its own kind (`media_call`): its body is not collected but
//! streamed out of its envelope (`multipart`), and may be one unsigned GET further (`web`), which well-known files use too.
//!
//! Everything is cut by the pass's one deadline. This floor knows no route, no status code of ours and no client.
//!
//! [`FederationClient::from_system`] puts the parts together from what the system provides. Whoever needs other name
//! servers, authorities or address rules makes the parts one by one; each can be replaced by the embedder's own:
//!
//! | part | ours | your own |
//! |---|---|---|
//! | the key | [`Ed25519Signer`] | implement [`RequestSigner`], say over a key that never leaves its keeper |
//! | the DNS | [`HickoryResolver`] | implement [`Resolve`] |
//! | connections | [`HttpsTransport`] with [`TlsRoots`] | implement [`Transport`] |
//! | what may be dialled | [`AddressPolicy`] | its `deny` and `allow` rules |
//! | server discovery | [`Discovery`] | none: it alone judges addresses before they are dialled |

pub(crate) mod address_policy;
pub(crate) mod body;
mod bounded_head;
pub(crate) mod call;
mod connection;
pub(crate) mod destination;
pub(crate) mod discover;
pub(crate) mod discovery;
pub(crate) mod dns_cache;
pub(crate) mod endpoint;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod fake_world;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod flood_tests;
pub(crate) mod hickory;
pub(crate) mod https;
pub(crate) mod key_file;
pub(crate) mod line;
#[cfg(test)]
#[cfg(feature = "server")]
#[path = "../../tests/support/mod.rs"]
pub(crate) mod loopback;
pub(crate) mod media;
pub(crate) mod media_body;
pub(crate) mod media_call;
pub(crate) mod media_endpoint;
pub(crate) mod multipart;
pub(crate) mod resolver;
pub(crate) mod signing;
pub(crate) mod single_flight;
pub(crate) mod tls_roots;
pub(crate) mod trail;
pub(crate) mod transport;
pub(crate) mod transport_kind;
pub(crate) mod web;
pub(crate) mod well_known;

use std::future::Future;
use std::pin::Pin;

pub use address_policy::{AddressPolicy, AddressRefused, HostBitsSet, JudgedAddress};
pub use call::{FederationCall, FederationClient, FromSystemError, OwnNamesDiffer, RemoteReply};
pub use destination::{Destination, Source};
pub use discover::{Discovery, DiscoveryError};
pub use endpoint::{Endpoint, RequestTooLong, RoomListFilter, RoomListParameters};
pub use error::{CallError, CallFailure, CallPhase};
pub use hickory::{HickoryResolver, NoNameServers};
pub use https::HttpsTransport;
pub use key_file::KeyFileError;
pub use resolver::{DnsError, Resolve, SrvRecord, SrvService, SrvTarget};
pub use signing::{Ed25519Signer, InvalidSigningKey, RequestSigner, SigningError};
pub use tls_roots::{TlsRoots, TlsRootsError};
pub use trail::{DiscoveryStep, Explained, StepOutcome, TakenStep};
pub use transport::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};
pub use transport_kind::transport_kind;

/// A boxed future, as the object-safe traits of this floor return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
