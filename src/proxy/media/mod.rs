//! Files of other servers: one fetch each, off the request pool, read by everybody who asks.
//!
//! ```text
//!  RemoteFiles::get ─► flights: one leads, the others follow
//!        │                │ leads
//!        │                ▼ a task that owns the pass
//!        │             turns ─► RemoteMediaSource ─► MediaStore ─► index
//!        │             (standing)      │ refused        │
//!        └── reads behind the store ◄──┴────────────────┘
//! ```
//!
//! | held | from | to |
//! |---|---|---|
//! | the leader's slot | admission | the end of the call |
//! | a follower's slot | admission | the end of the call it follows, or its own deadline |
//! | a turn | its turn | the file is in the index, so that a slow disk slows the fetches down |
//!
//! Nobody's client holds anything of the fetch: a client that leaves, or reads a byte a second, changes nothing.

pub(crate) mod answers;
pub(crate) mod ask;
pub(crate) mod failure;
mod fetch;
pub(crate) mod files;
pub(crate) mod flights;
mod refused;
mod standing;
mod turns;

#[cfg(test)]
pub(crate) mod fake;
