//! Every number of this crate, in one place: value, unit, reason and source.
//!
//! The *in-flight-budget record* among the sources ("the record") is the decision record this crate implements: how many
//! calls a request pool may have out at other servers, and for how long. *Design* is the crate's own list of decisions,
//! *spec notes* are what follows from Matrix v1.19 where it leaves a choice, *ours* is a choice of this crate alone.
//!
//! Numbers that bound threads are constants on purpose: a configuration key would let an operator raise them back over
//! the pool size, which is the fault they exist to prevent.

use std::num::{NonZeroU32, NonZeroUsize};
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

/// What may be configured of the four above. The most is a thousand a second: as good as no limit. *Source: ours.*
pub const RATE_LIMIT_RANGE: std::ops::RangeInclusive<u32> = 1..=60_000;

/// Most clients whose rate is remembered, for each class of call: those that spent of theirs and have not got it back. As
/// long as there are fewer, each has a whole bucket. Worst case: 2 MB. *Source: ours; at the default rate it takes more than
/// ten thousand lookups a second to fill it.*
pub const RATE_LIMIT_CLIENTS: NonZeroUsize = match NonZeroUsize::new(16_384) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};

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

/// Most descriptors that one call holds at once: two families of each SRV target, each asked at two name servers over a
/// socket of its own ([`MAX_SRV_RECORDS`] × 2 × [`MAX_NAME_SERVERS_AT_ONCE`] = 16), and two for a connection to a remote
/// and one that is just being closed. Attempts follow one another, and an answer fetched over TCP takes the place of its
/// UDP socket. *Source: ours.*
pub const MAX_DESCRIPTORS_PER_CALL: usize = MAX_SRV_RECORDS * 2 * MAX_NAME_SERVERS_AT_ONCE + 2;

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

/// Smallest store that may be configured, in bytes. *Source: ours; in less, thumbnails push each other out.*
pub const MEDIA_CACHE_LEAST_BYTES: u64 = 1024 * 1024;

/// The store takes at least so many files of the largest size: one that is read and one that comes. *Source: ours.*
pub const MEDIA_CACHE_LEAST_FILES: u64 = 2;

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
pub const UPSTREAM_TOKEN_WAITERS_PER_CLIENT: usize = MEDIA_PER_CLIENT;

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

/// Longest user id that is remembered with a token, in bytes. *Source: Matrix v1.19, appendices, user identifiers.*
pub const MAX_USER_ID_BYTES: usize = 255;

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
