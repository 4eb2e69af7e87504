//! The reference homeserver: a synchronous request pool, the runtime lock, a listener that no stranger can pin.
//!
//! ```text
//!  Listener ─► PooledHomeserver ─► RequestPool ─► HomeserverRuntime ─► Portcullis (directory routes)
//!  whole         oneshot back        n threads       one lock      └─► Router (versions, keys, 404)
//!  requests      └─► Upstream: what is another homeserver's to answer, and whose a token is, before there is a thread
//! ```

pub mod admin;
pub mod assemble;
pub mod config;
pub mod descriptors;
pub mod embedded;
pub mod fair_budget;
pub mod key_document;
pub mod listener;
pub mod long_answers;
pub mod pooled;
pub mod proxy_watch;
pub mod request_pool;
pub mod router;
pub mod runtime;
mod signature_watch;
mod throw_away_files;
pub mod upstream;
