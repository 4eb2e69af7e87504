//! The homeserver behind, which this one stands in front of: [`Upstream`].
//!
//! It answers what is its own: the local room list, local aliases, its own files, and whose an access token is. Whatever is
//! asked of it holds no request thread, so a homeserver that hangs, or a flood of made-up tokens, leaves them free; and it
//! is asked in our own words, so nothing a client writes makes it call another server.
//!
//! | question | at once, in all | of one client | time |
//! |---|---|---|---|
//! | whose is this token | 64, equal ones counted once | 4 | 10 s; the answer is remembered for 60 s |
//! | the same, asked by somebody already | 128 | 64 | 10 s |
//! | list, alias | 64 | 16 | 10 s to the head, then 16 KiB/s at least |
//! | file | 128 | 64 | the same |
//!
//! Of all but the first a client that holds as much as is left gets no more. Over a cap: 503. No answer, or no sense in it: 502,
//! and never that the token is bad. A token that is revoked may be good here for 60 s more.
//!
//! One question more is our own, once after the start: which signing key it publishes (`key_question`).

mod addresses;
mod body;
mod client;
mod homeserver;
mod key_question;
mod origin;
mod published_key;
mod rebuild;
mod report;
mod silence;
mod status;
mod token_cache;
mod tokens;
mod view;
mod whoami;

pub use self::homeserver::Upstream;
pub(crate) use self::homeserver::UpstreamParts;
pub use self::origin::{InvalidUpstream, UpstreamOrigin};
pub(crate) use self::published_key::OwnKey;
pub use self::status::{UpstreamPassedOn, UpstreamRequests, UpstreamState, UpstreamStatus};
pub use self::view::Vouched;
