//! Every number of this crate, in one place: value, unit, reason and source.
//!
//! The sources are named by these words. The documents behind the first three are not part of the repository; all that
//! follows from them for this crate is what is written here and at the types.
//!
//! - *In-flight-budget record*, or "the record" where it is about calls for clients: a homeserver's decision on how many
//!   threads of its request pool may be out at other servers at once (half of them, one call for each client), for how long
//!   (ten seconds, thirty for a file), and that whoever comes above that is refused at once.
//! - *Load-gate record*, or "the record" where it is about the gate: the decision, taken after an incident in which the
//!   history of rooms was asked for faster than a homeserver could give it, on how many background calls one homeserver is
//!   sent, when fewer, and when none.
//! - *Design*: the list of decisions taken while this crate was built.
//! - *Spec notes*: what follows from Matrix v1.19 where it leaves a choice.
//! - *Ours*: a choice of this crate alone.
//!
//! What the reference homeserver and the binary go by alone is here with the feature `server` only.
//!
//! Numbers that bound threads are constants on purpose: a configuration key would let an operator raise them back over
//! the pool size, which is the fault they exist to prevent.

use std::num::NonZeroUsize;
use std::time::Duration;

#[cfg(feature = "server")]
mod serve;

#[cfg(feature = "server")]
pub use serve::*;

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

/// What may be configured of the four above. The most is a thousand a second: as good as no limit. *Source: ours.*
pub const RATE_LIMIT_RANGE: std::ops::RangeInclusive<u32> = 1..=60_000;

/// Most clients whose rate is remembered, for each class of call: those that spent of theirs and have not got it back. As
/// long as there are fewer, each has a whole bucket. Worst case: 2 MB. *Source: ours; at the default rate it takes more than
/// ten thousand lookups a second to fill it.*
pub const RATE_LIMIT_CLIENTS: NonZeroUsize = match NonZeroUsize::new(16_384) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};

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

/// Most address questions whose DNS answer is remembered; each family of a name is one. Worst case, every answer at its
/// record limit: some 4 MB. *Source: ours.*
pub const DNS_CACHE_ENTRIES: u64 = 4096;

/// Most SRV questions whose DNS answer is remembered. Worst case, every answer at its record limit and every target of the
/// greatest length: some 10 MB. *Source: ours.*
pub const DNS_SRV_CACHE_ENTRIES: u64 = 1024;

/// Largest DNS answer that is remembered, in records. A larger one is used and forgotten. *Source: ours.*
pub const DNS_CACHE_MAX_RECORDS: usize = 32;

/// How long "no such records" is remembered when the zone does not say. *Source: ours.*
pub const DNS_NEGATIVE_DEFAULT: Duration = Duration::from_secs(30);

/// Longest time "no such records" is remembered, whatever the zone says: a record just published is soon found.
/// *Source: ours.*
pub const DNS_NEGATIVE_MAX: Duration = Duration::from_secs(60);

/// How long SERVFAIL is remembered: enough for the retries of one impatient client. *Source: ours.*
pub const DNS_SERVFAIL_KEEP: Duration = Duration::from_secs(5);

/// Most addresses of one name that are candidates for dialling. All are judged, also those past it. *Source: ours.*
pub const MAX_ADDRESSES_PER_NAME: usize = 8;

/// Most candidates of one destination, all SRV targets together. *Source: ours.*
pub const MAX_ADDRESSES_PER_DESTINATION: usize = 32;

/// Most SRV records used, best first: at most 8 address questions at once. With the two of the well-known host and the two
/// for SRV itself one discovery asks at most 12, redirects and aliases aside. *Source: ours.*
pub const MAX_SRV_RECORDS: usize = 4;

/// How many name servers are asked one question at once, so that a dead one costs no time. *Source: ours.*
pub const MAX_NAME_SERVERS_AT_ONCE: usize = 2;

/// Most redirects followed for one well-known lookup. *Source: spec notes, section 3.1.*
pub const MAX_WELL_KNOWN_REDIRECTS: usize = 5;

/// Most connect attempts of one well-known lookup that may fail, all its hops together; so at most three and one for each
/// hop are made. *Source: ours.*
pub const MAX_WELL_KNOWN_FAILED_CONNECTS: usize = 3;

/// Largest well-known body, in bytes. *Source: design, decision 23.*
pub const MAX_WELL_KNOWN_BYTES: usize = 50 * 1024;

/// Longest redirect target that is followed, in bytes. *Source: ours.*
pub const MAX_REDIRECT_BYTES: usize = 2048;

/// Most hosts whose well-known answer is remembered. Worst case: two names of 255 bytes each, some 4 MB in all.
/// *Source: ours.*
pub const WELL_KNOWN_CACHE_ENTRIES: u64 = 4096;

/// How long a well-known answer without cache headers is remembered, give or take
/// [`WELL_KNOWN_JITTER_PERCENT`]. *Source: Matrix v1.19, resolving server names (recommended).*
pub const WELL_KNOWN_DEFAULT_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Spread of the default lifetime, so that answers fetched together are not fetched again together. *Source: spec notes,
/// section 3.2.*
pub const WELL_KNOWN_JITTER_PERCENT: u32 = 10;

/// Shortest lifetime of a well-known answer, `no-store` included: else a stranger makes us fetch per request. *Source:
/// spec notes, section 3.2.*
pub const WELL_KNOWN_MIN_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Longest lifetime of a well-known answer. *Source: Matrix v1.19, resolving server names (recommended).*
pub const WELL_KNOWN_MAX_LIFETIME: Duration = Duration::from_secs(48 * 3600);

/// How long a good answer is used past its end while the host does not give a new one. *Source: spec notes, section 3.2.*
pub const WELL_KNOWN_GRACE: Duration = Duration::from_secs(2 * 3600);

/// How long the first failure to fetch a well-known is remembered; it doubles with each further one. *Source: ours.*
pub const WELL_KNOWN_FAILURE_MIN: Duration = Duration::from_secs(60);

/// Longest time a failure to fetch a well-known is remembered. *Source: Matrix v1.19, resolving server names.*
pub const WELL_KNOWN_FAILURE_MAX: Duration = Duration::from_secs(3600);

/// How long a failure is remembered while an older good answer is still in use. *Source: spec notes, section 3.2.*
pub const WELL_KNOWN_FAILURE_AFTER_SUCCESS: Duration = Duration::from_secs(2 * 60);

/// A fetch that was cut after less than this proves nothing about the host, so it is not remembered as a failure.
/// *Source: ours; a third of the directory deadline is three times as long.*
pub const WELL_KNOWN_FAIR_TRIAL: Duration = Duration::from_secs(1);

/// No trial shorter than this counts, however short the operator's timeout: a handshake across an ocean takes as long.
/// *Source: ours.*
pub const WELL_KNOWN_LEAST_TRIAL: Duration = Duration::from_millis(250);

/// Largest room list answer, in bytes. *Source: design, decision 23.*
pub const MAX_ROOM_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Largest file of a signing key that is read, in bytes: a line, or a few of them. *Source: ours.*
pub const MAX_KEY_FILE_BYTES: u64 = 64 * 1024;

/// Largest alias answer, in bytes. *Source: design, decision 23.*
pub const MAX_ALIAS_BYTES: usize = 64 * 1024;

/// Largest body read of an answer that is not a 200, in bytes: an errcode and a sentence. *Source: our own choice; as large
/// as an alias answer.*
pub const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// Most connect attempts of one request. With a third of what is left for each, the sixth of a call of ten seconds gets
/// 0.4 s: less is no fair attempt. *Source: our own choice.*
pub const MAX_CONNECT_ATTEMPTS: usize = 6;

/// Most header lines read from a remote. *Source: design, decision 23.*
pub const MAX_REMOTE_HEADER_LINES: usize = 256;

/// Most header bytes read from a remote. *Source: design, decision 23.*
pub const MAX_REMOTE_HEADER_BYTES: usize = 64 * 1024;

/// What a connection to a remote may hold that nobody has taken yet: a head of [`MAX_REMOTE_HEADER_BYTES`] with its first
/// line, or as much of a body. Also what is read of interim answers (103 and its like) and the head after them, together. *Source: our own choice.*
pub const REMOTE_READ_BYTES: usize = MAX_REMOTE_HEADER_BYTES + 4 * 1024;

/// Bodies larger than this are parsed off the async threads. *Source: design, decision 23.*
pub const PARSE_ELSEWHERE_BYTES: usize = 256 * 1024;

/// How long an alias answer or a room-list page is remembered. *Source: design, decision 22.*
pub const DIRECTORY_ANSWER_TTL: Duration = Duration::from_secs(60);

/// How many directory answers are remembered at most. *Source: ours; a busy room holds a handful of links.*
pub const REMEMBERED_ANSWERS: u64 = 8192;

/// How many bytes the remembered directory answers and their questions weigh at most, so that eight room lists of the
/// largest size fit. *Source: ours.*
pub const REMEMBERED_BYTES: u64 = 32 * 1024 * 1024;

/// Longest pagination token or network name of a room list that is passed on, in bytes: both travel in a URL, percent
/// escapes and all. *Source: ours.*
pub const MAX_LIST_TOKEN_BYTES: usize = 8 * 1024;

/// Longest search term of a room list, in bytes. Where the other server cannot filter, each of its rooms is searched for
/// it here. *Source: ours.*
pub const MAX_SEARCH_TERM_BYTES: usize = 512;

/// Most room types a room list is filtered by. *Source: ours; the specification knows two.*
pub const MAX_ROOM_TYPES: usize = 32;

/// Largest `limit` of a room list: a signed body holds no larger integer. *Source: Matrix v1.19, canonical JSON.*
pub const MAX_LIST_LIMIT: u64 = (1 << 53) - 1;

/// Longest media id in bytes. *Source: ours; ids in the wild have 18 to 65.*
pub const MAX_MEDIA_ID_BYTES: usize = 255;

/// Longest file name a client gives a download in its path, in bytes after decoding. *Source: ours; what a file system
/// takes.*
pub const MAX_FILE_NAME_BYTES: usize = 255;

/// Sizes of cut thumbnails, smallest first. With [`THUMBNAIL_SCALES`] the only ones that are fetched and kept: a stranger
/// cannot make more. *Source: ours; five of the six are those servers commonly make ahead.*
pub const THUMBNAIL_CROPS: [(u32, u32); 2] = [(32, 32), (96, 96)];

/// Boxes of scaled thumbnails, smallest first. *Source: ours; the last is for large screens.*
pub const THUMBNAIL_SCALES: [(u32, u32); 4] = [(320, 240), (640, 480), (800, 600), (1600, 1200)];

/// How long a client waits for a file that is not uploaded yet, if it does not say. *Source: Matrix v1.19, `timeout_ms`.*
pub const NOT_YET_UPLOADED_PATIENCE: Duration = Duration::from_secs(20);

/// Longest such wait, whatever a client says. *Source: spec notes, section 1.4.*
pub const NOT_YET_UPLOADED_PATIENCE_MAX: Duration = Duration::from_secs(60);

/// How much earlier than our own deadline the other server is asked to give up waiting, so that its answer still arrives.
/// *Source: spec notes, section 1.4.*
pub const NOT_YET_UPLOADED_MARGIN: Duration = Duration::from_secs(1);

/// Media fetches in flight, running or queued, all clients together. Configurable: they take no request threads. *Source:
/// design, decision 4.*
pub const MEDIA_IN_FLIGHT: usize = 256;

/// Media fetches in flight of one client: a page of a chat room. *Source: design, decision 4.*
pub const MEDIA_PER_CLIENT: usize = 64;

/// Media fetches that run at once. *Source: design, decision 4.*
pub const MEDIA_RUNNING: usize = 64;

/// Media fetches that run at once at one origin: a default Synapse refuses from about 55. *Source: design, decision 4.*
pub const MEDIA_RUNNING_PER_ORIGIN: usize = 16;

/// An origin without standing gets this part of the fetches in flight and of those running at one origin. *Source:
/// design, decision 4.*
pub const UNPROVEN_ORIGIN_PART: usize = 4;

/// All origins without standing together get this part of the fetches in flight and running. *Source: design, decision 4.*
pub const UNPROVEN_ORIGINS_PART: usize = 2;

/// How long a success gives an origin its standing. *Source: design, decision 4.*
pub const STANDING_LASTS: Duration = Duration::from_secs(600);

/// Most origins whose standing is remembered. *Source: ours.*
pub const STANDINGS: usize = 8192;

/// A time-out costs an origin its standing only if the call had at least this part of its whole time: one whose turn came
/// late proves nothing. *Source: ours; a connect attempt may take a third.*
pub const MEDIA_FAIR_TRIAL_PART: u32 = 4;

/// With less time than this left, nobody asks again for a file whose fetch ran out of time: the followers of a silent
/// origin would ask it one after the other, each for a moment. *Source: ours; what a handshake and a small file take.*
pub const MEDIA_TAKEOVER_LEAST: Duration = Duration::from_secs(1);

/// Largest file that is fetched, unless configured. *Source: design, "The binary".*
pub const MEDIA_MAX_FILE_BYTES: u64 = 50 * 1024 * 1024;

/// Bytes of remote files that are kept, unless configured. *Source: design, "The binary".*
pub const MEDIA_CACHE_BYTES: u64 = 1024 * 1024 * 1024;

/// How long a remote file is kept, unless configured. *Source: design, "The binary".*
pub const MEDIA_CACHE_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long a browser keeps a file without asking again. *Source: spec notes, section 1.5.*
pub const MEDIA_BROWSER_CACHE: Duration = Duration::from_secs(24 * 3600);

/// What a client is told to wait when a file finds no room on this server's disk. *Source: ours; a disk is not emptied in a
/// second.*
pub const MEDIA_NO_ROOM_RETRY: Duration = Duration::from_secs(10);

/// Longest media type of a remote file that is passed on, in bytes. *Source: ours; what a database column for it holds.*
pub const MAX_CONTENT_TYPE_BYTES: usize = 255;

/// Longest `Content-Disposition` of a remote file that is read, in bytes. *Source: ours; a name of the greatest length, each
/// byte written as three, twice.*
pub const MAX_CONTENT_DISPOSITION_BYTES: usize = 2048;

/// How long "not found" and "too large" are remembered. *Source: ours; long enough for the clients of one room, short enough
/// for a file that is uploaded late.*
pub const MEDIA_REFUSAL_TTL: Duration = Duration::from_secs(30);

/// Most such answers remembered. *Source: ours.*
pub const MEDIA_REFUSALS: u64 = 8192;

/// Largest piece of a media file that is read or written at once, in bytes: what a slow client's answer costs. *Source:
/// ours; a hundred of these a second already carry 6 MiB/s.*
pub const MEDIA_CHUNK_BYTES: usize = 64 * 1024;

/// Bytes of a fetched file that wait for the disk at most. *Source: ours; one piece is written while the next arrives.*
pub const MEDIA_WRITE_BUFFER_BYTES: usize = 2 * MEDIA_CHUNK_BYTES;

/// What a stored file is counted in: a block of the common file systems. *Source: ours.*
pub const MEDIA_BLOCK_BYTES: u64 = 4096;

/// Room that an unfinished file takes first, in bytes, head and end included. *Source: ours; most thumbnails fit.*
pub const MEDIA_FIRST_ROOM_BYTES: u64 = 64 * 1024;

/// Most room that an unfinished file takes ahead of its bytes. *Source: ours; a fiftieth of the largest file.*
pub const MEDIA_ROOM_STEP_BYTES: u64 = 1024 * 1024;

/// Most files stored, whatever their size. In memory a file takes some 600 bytes and its two texts: 40 MB in all with short
/// ones, and 200 MB at worst, every one with the longest (`what_a_stored_file_takes_of_memory`). *Source: ours; at the
/// default `cache_size` none counts for less than 16 KiB.*
pub const MEDIA_STORED_FILES: u64 = 65_536;

/// How often files past their time are looked for, at least. *Source: ours.*
pub const MEDIA_SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Largest header block of one part of a multipart answer, in bytes. *Source: ours; two lines are expected.*
pub const MAX_PART_HEADER_BYTES: usize = 16 * 1024;

/// Most header lines of one part. *Source: ours.*
pub const MAX_PART_HEADER_LINES: usize = 64;

/// Largest first part (metadata) of a multipart answer, in bytes. *Source: spec notes, section 2.2.*
pub const MAX_MEDIA_METADATA_BYTES: usize = 64 * 1024;

/// Largest text before the first boundary, in bytes. *Source: ours.*
pub const MAX_MULTIPART_PREAMBLE_BYTES: usize = 16 * 1024;

/// Longest multipart boundary, in bytes. *Source: RFC 2046, section 5.1.1.*
pub const MAX_BOUNDARY_BYTES: usize = 70;

/// Most blanks between a boundary and the end of its line; with more of them the line is none of a boundary. *Source: ours;
/// RFC 2046 allows any number and everybody writes none.*
pub const MAX_BOUNDARY_PADDING_BYTES: usize = 128;

/// How much longer than the largest file a multipart answer may say it is. *Source: ours; metadata and header lines at
/// their bounds.*
pub const MEDIA_ENVELOPE_SLACK_BYTES: usize = MAX_MEDIA_METADATA_BYTES + MAX_PART_HEADER_BYTES;

/// Threads of the federation worker. They only drive sockets and timers; the second keeps the calls going while the
/// first parses an answer. *Source: ours.*
pub const FEDERATION_WORKER_THREADS: usize = 2;

/// Threads of the federation worker that may wait for the disk or parse a large answer. They come and go with the work.
/// *Source: ours; a disk with more at once gets no faster, and a fetch writes one piece at a time.*
pub const FEDERATION_WORKER_BLOCKING_THREADS: usize = 16;

/// Largest body of a request to our routes, in bytes: a filter of the room list, with its longest search term and most room
/// types, is well below. *Source: the record's HTTP server.*
pub const MAX_REQUEST_BODY_BYTES: usize = 64 * 1024;

/// What a client is told to wait while nobody can tell whose its token is. *Source: ours; a database that changes over is
/// back within seconds.*
pub const TOKEN_RETRY: Duration = Duration::from_secs(5);

/// Callbacks of `Portcullis::spawn_media` that run at once, each on a thread that comes and goes with it; more wait their
/// turn, and hold no slot. *Source: ours; a page of images for each of several clients at once, and 64 threads that wait for
/// a socket cost next to nothing.*
pub const MEDIA_CALLBACKS: usize = 64;

/// This part of a listener's connections is for what is over soon: lookups, which have a request thread, and what is answered
/// at once. What may hold a connection for long (files, and what the homeserver behind is asked) gets the rest. *Source: ours;
/// 64 of 512, where each cap but one of those alone would fit and all together would not.*
pub const CONNECTIONS_FOR_LOOKUPS_PART: usize = 8;

/// Connections that are for lookups at least, for each that may be in flight: its own, and that of one who is told to come
/// again. *Source: ours.*
pub const CONNECTIONS_PER_LOOKUP: usize = 2;

/// This part of the places of what may take long is for lists and aliases of the homeserver behind: they are over soon where
/// it is well, and nobody who reads files slowly is to be in their way. *Source: ours; 56 of 448, nearly as many as their own
/// cap.*
pub const LONG_ANSWERS_FOR_SMALL_PART: usize = 8;

/// Steps in which the lengths of calls are counted, shortest first. After each deadline
/// ([`DIRECTORY_DEADLINE`], [`MEDIA_DEADLINE`]) comes the same with [`WORKER_MARGIN`]: what a deadline cut is counted there,
/// and a call past the last step overran. *Source: ours; 2.5 s is the deadline in `portcullis demo`.*
pub const CALL_TIME_STEPS: [Duration; 12] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_millis(1_000),
    Duration::from_millis(2_500),
    Duration::from_millis(5_000),
    DIRECTORY_DEADLINE,
    DIRECTORY_DEADLINE.saturating_add(WORKER_MARGIN),
    Duration::from_millis(20_000),
    MEDIA_DEADLINE,
    MEDIA_DEADLINE.saturating_add(WORKER_MARGIN),
];

/// Most servers shown as lately asked, for lookups and for files each. *Source: ours; what a person reads, and next to no
/// memory (30 KB each).*
pub const DESTINATIONS_SHOWN: usize = 64;

/// A server that was not asked for so long is the first to make room for another among those shown. *Source: ours; how far
/// back an operator who is called looks.*
pub const DESTINATION_FORGOTTEN: Duration = Duration::from_secs(3600);

/// How many background calls one homeserver is sent at once before anything is known of it: one caller that pages one room
/// at a time, and another beside it. *Source: load-gate record (`INITIAL_LIMIT`).*
pub const INITIAL_LIMIT: usize = 2;

/// Most background calls at one homeserver at once: such work is never urgent, and a small ceiling bounds the worst case of
/// one process. *Source: load-gate record (`MAX_LIMIT`).*
pub const MAX_LIMIT: usize = 4;

/// So many fast successes since the limit last changed raise it by one: a homeserver that recovers is not hit with the
/// full limit at once. *Source: load-gate record (`GROW_AFTER`).*
pub const GROW_AFTER: u32 = 10;

/// A success is fast in under one part in so many of the call's own timeout: under half. *Source: load-gate record
/// (`FAST_FRACTION`, ½).*
pub const FAST_FRACTION: u32 = 2;

/// How long a call that timed out keeps its slot, because the homeserver works on: longer than 43 % of the calls of the
/// record's incident did; twice as long would cover 56 % only. *Source: load-gate record (`TIMEOUT_HOLD`).*
pub const TIMEOUT_HOLD: Duration = Duration::from_secs(15 * 60);

/// How long the breaker stays open at first; it doubles with each probe that fails. *Source: load-gate record
/// (`COOLDOWN`).*
pub const COOLDOWN: Duration = Duration::from_secs(60);

/// Longest time the breaker stays open, holds aside: the end of an outage is noticed within half an hour. *Source:
/// load-gate record (`COOLDOWN_MAX`).*
pub const COOLDOWN_MAX: Duration = Duration::from_secs(30 * 60);

/// Timeout of one page of a room's history. *Source: load-gate record, inventory of callers.*
pub const BACKFILL_PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of one probe of an upstream room. *Source: load-gate record, inventory of callers.*
pub const UPSTREAM_PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// Most rooms one pass of the upstream probe asks about. *Source: load-gate record, inventory of callers.*
pub const UPSTREAM_PROBE_ROOMS: usize = 8;

/// Outer timeout of one room's key-backup download, retries inside it and the import of the keys included. *Source:
/// load-gate record, decision 1.*
pub const KEY_BACKUP_DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Outer timeout of one automatic join, retries inside it included. *Source: load-gate record, decision 1.*
pub const AUTO_JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a caller inside a loop that must not stall waits for a permit. *Source: load-gate record, first amendment.*
pub const BRIEF_WAIT: Duration = Duration::from_secs(10);

/// How long a long-poll asks the homeserver to wait for news. *Source: load-gate record, first amendment.*
pub const LONG_POLL_SERVER_WAIT: Duration = Duration::from_secs(30);

/// Outer timeout of a long-poll. *Source: load-gate record, first amendment.*
pub const LONG_POLL_TIMEOUT: Duration = Duration::from_secs(90);

/// Most homeservers a process keeps gates for; a gate and its events take some 25 KB. *Source: ours; a client-side service
/// knows a handful.*
pub const GATES: usize = 1024;

/// How many of its latest events a gate remembers: a day of the record's worst incident, and some hours of a busy
/// backfill's refusals. *Source: ours.*
pub const GATE_EVENTS_KEPT: u64 = 256;

/// Longest host in the name of a gate, in bytes. *Source: RFC 1035, section 2.3.4, as for a server name.*
pub const MAX_GATE_HOST_BYTES: usize = 255;

/// Longest user id that is remembered with a token, in bytes. *Source: Matrix v1.19, appendices, user identifiers.*
pub const MAX_USER_ID_BYTES: usize = 255;
