//! In front of another homeserver, over real sockets: what it is sent, what it is never sent, and what happens when it
//! says nothing.
//!
//! | test | says | unplugged |
//! |---|---|---|
//! | `rebuilt` | nothing of a request is passed on as it was written | see there |
//! | `passed_on` | answers come as they are, headers for one connection aside, files piece by piece | see there |
//! | `tokens` | a token is asked about once a minute, and only the homeserver says that it is bad | see there |
//! | `stopped` | a homeserver that hangs holds no request thread | see there |
//! | `down` | what needs no token goes on without it | see there |
//! | `gate` | its gate hears of accounts' requests alone | see there |
//! | `circle` | requests do not go round in a circle | see there |
//! | `another_name` | its users' server_name is not ours: told once | see there |
//! | `signature` | whether others can accept our signature is found out, and told | see there |
//! | `https` | over TLS, under a private authority, and nothing is told to anybody else | see there |
#![cfg(feature = "server")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper outside a test function is test code all the same"
)]

mod another_name;
mod circle;
mod down;
mod gate;
mod https;
mod passed_on;
mod rebuilt;
mod rig;
mod signature;
mod stopped;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
