//! Every number of the two records and of the design, in one place: value, unit, reason and source.
//!
//! Numbers that bound threads are constants on purpose: a configuration key would let an operator raise them back over
//! the pool size, which is the fault they exist to prevent.

use std::time::Duration;

/// How many calls one client key may have in flight on the request pool. *Source: in-flight-budget record.*
pub const PER_CLIENT_CAP: usize = 1;

/// Time for a directory lookup, discovery included. *Source: in-flight-budget record.*
pub const DIRECTORY_DEADLINE: Duration = Duration::from_secs(10);

/// Time for a remote media fetch, discovery included. *Source: in-flight-budget record.*
pub const MEDIA_DEADLINE: Duration = Duration::from_secs(30);

/// How far the thread that waits for the federation worker may overrun a call's deadline. *Source: in-flight-budget
/// record (`worker_margin_seconds`).*
pub const WORKER_MARGIN: Duration = Duration::from_secs(2);

/// What a refused client is told to wait: `retry_after_ms` 1000, `Retry-After: 1`. *Source: in-flight-budget record.*
pub const RETRY_HINT: Duration = Duration::from_secs(1);

/// Request pool sizes the reference homeserver accepts. A pool of one could not keep half of itself free. *Source:
/// design, decision 20.*
pub const REQUEST_THREADS: std::ops::RangeInclusive<usize> = 2..=256;

/// Request pool size when none is configured. *Source: design, decision 20.*
pub const DEFAULT_REQUEST_THREADS: usize = 16;

/// The port of a server name that gives none. *Source: Matrix v1.19, server-server API, resolving server names.*
pub const DEFAULT_FEDERATION_PORT: u16 = 8448;

/// Longest server name in bytes. *Source: Matrix v1.19, appendices, server name.*
pub const MAX_SERVER_NAME_BYTES: usize = 255;

/// Longest DNS label in bytes. *Source: RFC 1035, section 2.3.4.*
pub const MAX_DNS_LABEL_BYTES: usize = 63;

/// Longest room alias in bytes. *Source: Matrix v1.19, appendices, common identifier format.*
pub const MAX_ROOM_ALIAS_BYTES: usize = 255;

/// IPv6 addresses that share this many leading bits share a client key. *Source: the record's rate limiter; a /64 is what
/// one subscriber is given.*
pub const DEFAULT_IPV6_CLIENT_PREFIX: u8 = 64;

/// One DNS question may take at most this part of what is left of the deadline. *Source: design, decision 6.*
pub const DNS_QUESTION_SHARE: u32 = 4;

/// The well-known lookup may take at most this part of what is left. *Source: design, decision 6.*
pub const WELL_KNOWN_SHARE: u32 = 3;

/// One connect attempt (TCP and TLS, one address) may take at most this part of what is left. *Source: design,
/// decision 6.*
pub const CONNECT_SHARE: u32 = 3;

/// How long the slower address family is waited for once the other has answered. *Source: RFC 8305, section 3.*
pub const ADDRESS_FAMILY_GRACE: Duration = Duration::from_millis(50);

/// Most aliases followed for one DNS question. *Source: design, decision 12.*
pub const MAX_CNAME_HOPS: usize = 8;

/// Longest time a DNS answer is remembered, whatever its TTL. *Source: design, decision 13.*
pub const DNS_CACHE_MAX: Duration = Duration::from_secs(3600);

/// Most redirects followed for one well-known lookup. *Source: spec notes, section 3.1.*
pub const MAX_WELL_KNOWN_REDIRECTS: usize = 5;

/// Largest well-known body, in bytes. *Source: design, decision 23.*
pub const MAX_WELL_KNOWN_BYTES: usize = 50 * 1024;

/// Largest room list answer, in bytes. *Source: design, decision 23.*
pub const MAX_ROOM_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Largest alias answer, in bytes. *Source: design, decision 23.*
pub const MAX_ALIAS_BYTES: usize = 64 * 1024;

/// Most header lines read from a remote. *Source: design, decision 23.*
pub const MAX_REMOTE_HEADER_LINES: usize = 256;

/// Most header bytes read from a remote. *Source: design, decision 23.*
pub const MAX_REMOTE_HEADER_BYTES: usize = 64 * 1024;

/// Bodies larger than this are parsed off the async threads. *Source: design, decision 23.*
pub const PARSE_ELSEWHERE_BYTES: usize = 256 * 1024;

/// How long an alias answer or a room-list page is remembered. *Source: design, decision 22.*
pub const DIRECTORY_ANSWER_TTL: Duration = Duration::from_secs(60);
