//! The Matrix routes: admission, then the way out, then the one table from outcome to answer.
//!
//! ```text
//!  parameters ─► LocalView (our own data)                                 ─► answer
//!  (public_rooms,     or
//!   room_alias)  directory: Question ─► remembered ─► RemoteDirectory     ─► answer
//! ```

pub(crate) mod answer;
#[cfg(feature = "outbound")]
pub(crate) mod denied;
#[cfg(feature = "outbound")]
pub(crate) mod directory;
#[cfg(feature = "outbound")]
mod json_object;
#[cfg(feature = "outbound")]
pub(crate) mod local_view;
#[cfg(feature = "outbound")]
pub(crate) mod media;
#[cfg(feature = "outbound")]
pub(crate) mod media_store;
#[cfg(feature = "outbound")]
pub(crate) mod public_rooms;
#[cfg(feature = "outbound")]
pub(crate) mod remembered;
#[cfg(feature = "outbound")]
pub(crate) mod response_body;
#[cfg(feature = "outbound")]
pub(crate) mod room_alias;
#[cfg(feature = "outbound")]
mod wait_here;
#[cfg(feature = "outbound")]
pub(crate) mod watch;
