//! The numbers of the reference homeserver and the binary, which no other user of the crate meets.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{MAX_NAME_SERVERS_AT_ONCE, MAX_SRV_RECORDS};

/// Lookups a minute that one client may cause, unless configured. A person who searches a directory, turns pages and follows
/// links makes some twenty; with a server that answers at once, one slot alone would let thousands out. Behind one shared
/// address a whole office has these, and one in flight. *Source: ours.*
pub const LOOKUPS_PER_MINUTE: u32 = 60;

/// Lookups of one client at once after a pause, unless configured: one for each stop while somebody types into a search box
/// and turns the first pages. *Source: ours.*
pub const LOOKUP_BURST: u32 = 20;

/// Media fetches a minute that one client may cause, unless configured. A page of a chat room has 60 images and a browser
/// does not ask again for one that was refused: ten such pages a minute, none of them known here yet. *Source: ours.*
pub const MEDIA_FETCHES_PER_MINUTE: u32 = 600;

/// Media fetches of one client at once after a pause, unless configured: five pages scrolled through in one go. *Source:
/// ours.*
pub const MEDIA_FETCH_BURST: u32 = 300;

/// Refusals of one client within [`STEADY_REFUSALS_WITHIN`] that the operator hears of: one every other second is no person.
/// *Source: ours.*
pub const STEADY_REFUSALS: u32 = 30;

/// Within how long. *Source: ours.*
pub const STEADY_REFUSALS_WITHIN: Duration = Duration::from_secs(60);

/// Most clients whose refusals are counted at once for that. *Source: ours; the steady one is soon among the first.*
pub const WATCHED_CLIENTS: usize = 64;

/// How seldom the operator hears of it at least. *Source: ours.*
pub const WATCH_LINE_INTERVAL: Duration = Duration::from_secs(3600);

/// Most unlisted peers that the operator is told of by name: a proxy or two, and no stranger can fill a log. *Source: ours.*
pub const WATCH_LINES_AT_MOST: usize = 4;

/// Request pool sizes the reference homeserver accepts. A pool of one could not keep half of itself free. *Source:
/// design, decision 20.*
pub const REQUEST_THREADS: std::ops::RangeInclusive<usize> = 2..=256;

/// Request pool size when none is configured. *Source: design, decision 20.*
pub const DEFAULT_REQUEST_THREADS: usize = 16;

/// Most descriptors that one call holds at once: two families of each SRV target, each asked at two name servers over a
/// socket of its own ([`MAX_SRV_RECORDS`] × 2 × [`MAX_NAME_SERVERS_AT_ONCE`] = 16), and two for a connection to a remote
/// and one that is just being closed. Attempts follow one another, and an answer fetched over TCP takes the place of its
/// UDP socket. *Source: ours.*
pub const MAX_DESCRIPTORS_PER_CALL: usize = MAX_SRV_RECORDS * 2 * MAX_NAME_SERVERS_AT_ONCE + 2;

/// Smallest store that may be configured, in bytes. *Source: ours; in less, thumbnails push each other out.*
pub const MEDIA_CACHE_LEAST_BYTES: u64 = 1024 * 1024;

/// The store takes at least so many files of the largest size: one that is read and one that comes. *Source: ours.*
pub const MEDIA_CACHE_LEAST_FILES: u64 = 2;

/// Bytes per second that a client has to take of a streamed answer. *Source: the record's HTTP server.*
pub const LEAST_READ_RATE: NonZeroU32 = match NonZeroU32::new(16 * 1024) {
    Some(rate) => rate,
    None => NonZeroU32::MIN,
};

/// How long a client of a streamed answer may be waited for before its rate counts. *Source: the record's HTTP server.*
pub const READ_GRACE: Duration = Duration::from_secs(10);

/// What the system is asked to buffer of one connection's answers, in bytes. Linux doubles it and reports room once a third
/// is free: at the least rate that takes 11 s, well below the minute a client may stop for. *Source: ours.*
pub const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// How long a client that was answered before it had said all is still heard. It has the answer after a round trip, and one
/// that sends a large body may have a second's worth on the way. *Source: ours.*
pub const LINGER_TIME: Duration = Duration::from_secs(5);

/// How many bytes of such a client are thrown away. What Linux buffers by default of a connection that is not read, 4 MiB
/// where they are sent and 6 MiB where they come in, is sent without a look at the answer; and half as much again. *Source:
/// ours; to read and forget them takes some milliseconds, fewer than as many bytes of small requests.*
pub const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// Connections of one client beside those that may carry its files; what one browser opens to a host, and two. *Source:
/// ours.*
pub const CLIENT_CONNECTIONS_BESIDE_MEDIA: usize = 8;

/// How long the homeserver behind may take until the head of its answer is there. *Source: design, decision 21.*
pub const UPSTREAM_HEAD_TIME: Duration = Duration::from_secs(10);

/// Questions about access tokens that the homeserver behind is asked at once; who waits for another's answer counts by
/// [`UPSTREAM_TOKEN_WAITERS`]. *Source: design, decision 21.*
pub const UPSTREAM_TOKEN_QUESTIONS: usize = 64;

/// The same for one client. *Source: design, decision 21.*
pub const UPSTREAM_TOKEN_QUESTIONS_PER_CLIENT: usize = 4;

/// Requests that wait for the answer to somebody's equal question about a token at once. Each holds a connection that nobody
/// else gets, up to ten seconds: without a bound one made-up token would take them all. *Source: ours; two pages of a chat
/// room.*
pub const UPSTREAM_TOKEN_WAITERS: usize = 128;

/// The same for one client, a page of a chat room: its images come all at once, with one token, and a browser asks for none
/// of them again. *Source: ours.*
pub const UPSTREAM_TOKEN_WAITERS_PER_CLIENT: usize = super::MEDIA_PER_CLIENT;

/// Local lists and aliases that the homeserver behind is asked for at once, until the last byte is here. *Source: ours; it
/// answers them in milliseconds, and one that takes a second answers 64 a second.*
pub const UPSTREAM_SMALL: usize = 64;

/// The same for one client. *Source: ours; somebody who types into a search box and opens a room with a dozen links.*
pub const UPSTREAM_SMALL_PER_CLIENT: usize = 16;

/// Files of the homeserver behind that are on their way at once, until the last byte is here, which a slow client puts off. The
/// HTTP library reads ahead of each, and cannot be told to read less: a megabyte, measured. *Source: ours; two pages of a
/// chat room.*
pub const UPSTREAM_FILES: usize = 128;

/// The same for one client: a page of a chat room. *Source: design, decision 21.*
pub const UPSTREAM_FILES_PER_CLIENT: usize = 64;

/// How long it is remembered whose an access token is, or that it is nobody's: so long after its revocation a token may
/// still be good here. *Source: design, decision 21.*
pub const TOKEN_REMEMBERED: Duration = Duration::from_secs(60);

/// Most good tokens remembered; each is a hash and a user id, some 6 MB in all. *Source: ours; the users of a large server
/// that are active in one minute.*
pub const GOOD_TOKENS: u64 = 16_384;

/// Most bad tokens remembered, apart from the good ones: whoever makes tokens up pushes out nobody's but such. *Source:
/// ours; a client that has lost its session asks with one token.*
pub const BAD_TOKENS: u64 = 8192;

/// How seldom the log says that the homeserver behind does not answer, or makes no sense, at least: strangers' requests bring
/// it about, and they must not fill a log. *Source: ours; somebody who looks at a log during an outage finds a line in it.*
pub const UPSTREAM_LINE_INTERVAL: Duration = Duration::from_secs(60);

/// How long a connection to the homeserver behind is kept for the next request: shorter than the 5 s that common
/// application servers keep theirs, so that none is found closed. One that is closed in the very moment in which a request is
/// written costs that request a 502: to send it again could give a homeserver that struggles the same work twice, and the HTTP
/// client does not tell a kept connection from a new one. What it had not begun to write it sends over another by itself.
/// *Source: ours.*
pub const UPSTREAM_IDLE: Duration = Duration::from_secs(4);

/// How long the addresses of the homeserver behind are remembered, where it is given by name: a container that starts anew
/// has another one. *Source: ours.*
pub const UPSTREAM_ADDRESSES_REMEMBERED: Duration = Duration::from_secs(5);

/// Servers whose latest answer is 401, without one that answers, that make the operator hear of our signature. *Source: ours; one
/// or two may have trouble of their own.*
pub const UNACCEPTED_SIGNATURES: usize = 3;

/// How often the servers asked lately are looked at for that. *Source: ours; somebody who tries it out looks at the log soon after,
/// and to look is to copy two short tables.*
pub const SIGNATURE_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// How often the homeserver behind is asked which signing key it publishes, until it answers. With pauses that double from
/// [`UPSTREAM_KEY_FIRST_PAUSE`] that is some ten minutes. *Source: ours; a homeserver that starts together with this one, or is
/// being updated, is there by then.*
pub const UPSTREAM_KEY_QUESTIONS: u32 = 8;

/// How long after the first of these questions the second is asked. *Source: ours.*
pub const UPSTREAM_KEY_FIRST_PAUSE: Duration = Duration::from_secs(5);

/// Most ids of its keys that the log shows. *Source: ours; a homeserver has one, and two while it changes keys.*
pub const UPSTREAM_KEY_IDS_SHOWN: usize = 4;

/// Longest of these that is shown, in bytes. *Source: ours; `ed25519:a_` and four letters are common.*
pub const UPSTREAM_KEY_ID_BYTES: usize = 64;
