//! [`ListenerLimits`]: what one connection, one client and all clients together may take of the listener.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::admission::{Ipv6ClientPrefix, TrustedProxies};
use crate::limits::{
    CLIENT_CONNECTIONS_BESIDE_MEDIA, LEAST_READ_RATE, LINGER_BYTES, LINGER_TIME, MAX_REQUEST_BODY_BYTES,
    MEDIA_DEADLINE, MEDIA_PER_CLIENT, READ_GRACE, SEND_BUFFER_BYTES, WORKER_MARGIN,
};

/// The bounds of a listener. [`ListenerLimits::default`] is what `portcullis serve` uses; tests shorten them.
///
/// Worst case of what strangers hold, with the defaults: 512 sockets, each with a head, a body, and one small answer or a
/// piece of a streamed one and what is left of the piece before it, is 512 × (32 + 64 + 2 × 64) KiB = 112 MiB, whatever
/// the size of a file; larger answers in memory that are not sent yet come to 64 MiB in all. In front of another
/// homeserver what is read ahead of its answers comes to that, a megabyte each: 192 MiB with the caps of those
/// ([`UPSTREAM_FILES`](crate::limits::UPSTREAM_FILES), [`UPSTREAM_SMALL`](crate::limits::UPSTREAM_SMALL)). Beside that the
/// system has its own buffers, 512 KiB at most for what is sent on each socket, and an answer being made counts only once it
/// is made.
#[derive(Clone, Debug)]
pub struct ListenerLimits {
    /// Connections in all; 512, which leaves room for outbound sockets under the usual 1024 descriptors (`serve` lowers it
    /// where fewer may be open, [`Descriptors`](crate::homeserver::descriptors::Descriptors)). When they are
    /// taken, a newcomer gets the place of the one that has waited longest for a whole request; if none waits, it is
    /// closed. Of these, what may take long has [a part](crate::homeserver::long_answers::LongAnswers).
    pub max_connections: usize,
    /// Connections of one client address, an IPv6 network being one client; 72, so that as many files as one client may
    /// have in flight can come side by side, and one browser's worth of others beside them.
    pub max_connections_per_client: usize,
    /// Peers that speak for many clients: only `max_connections` binds them.
    pub trusted_proxies: TrustedProxies,
    /// How many leading bits of an IPv6 address make one client.
    pub ipv6_client_prefix: Ipv6ClientPrefix,
    /// Largest request head, in bytes; 32 KiB. More is answered 431.
    pub max_head_bytes: usize,
    /// Most header lines; 100. More is answered 431.
    pub max_header_lines: usize,
    /// Largest request body, in bytes; 64 KiB. More is answered 413.
    pub max_body_bytes: usize,
    /// Time for a whole request head, from the moment the connection is ready for it; 10 s. A silent new connection, a
    /// dripping head and an idle kept-alive connection all end by this one clock.
    pub head_time: Duration,
    /// Time for a whole request body; 15 s. Slower is answered 408.
    pub body_time: Duration,
    /// Requests on one connection; 1000. The last answer says `Connection: close`.
    pub max_requests_per_connection: usize,
    /// Bytes of all answers that are not sent yet; 64 MiB. Answers up to 16 KiB are not counted, nor are streamed ones. One
    /// that does not fit is replaced by 503, and its connection closed.
    pub max_unsent_bytes: usize,
    /// Counted answers of one client that are not sent yet; 8, which of the largest size are half of those bytes. One more
    /// is replaced in the same way.
    pub max_unsent_answers_per_client: usize,
    /// Time until an answer in memory has gone out whole; 60 s. A client of a streamed one that is ahead of the least rate may
    /// stop for so long, and no longer.
    pub answer_time: Duration,
    /// Bytes per second a client has to take of a streamed answer, counted over the time in which it is waited for; 16 KiB.
    /// Below that its connection is reset.
    pub least_read_rate: NonZeroU32,
    /// Time a client may be waited for before that rate counts; 10 s. One that never reads ends after it and the time that
    /// what lies in the system's buffers is worth.
    pub read_grace: Duration,
    /// What the system is asked to hold of each connection's answers, in bytes; 256 KiB, which Linux doubles for its own
    /// needs. Larger, and a slow client that frees it part by part would look as if it stood still.
    pub send_buffer_bytes: usize,
    /// How long sent bytes may stay unacknowledged, or the client's window shut; 20 s. Linux only.
    pub write_stall: Duration,
    /// How long a client that was answered before it had said all is still heard, so that it gets to read the answer: to
    /// close on it would reset the connection, and the answer with it. 5 s. Its connection is the first to go when all are
    /// taken.
    pub linger_time: Duration,
    /// How many bytes of it are thrown away meanwhile; 16 MiB.
    pub linger_bytes: usize,
    /// How long requests in flight may take to finish once the listener stops; the media deadline, which is the longest, the
    /// worker's margin and one second. What is streamed from another server has its last byte by then; a client that has not
    /// taken it is reset.
    pub drain_time: Duration,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            max_connections: 512,
            max_connections_per_client: MEDIA_PER_CLIENT + CLIENT_CONNECTIONS_BESIDE_MEDIA,
            trusted_proxies: TrustedProxies::default(),
            ipv6_client_prefix: Ipv6ClientPrefix::default(),
            max_head_bytes: 32 * 1024,
            max_header_lines: 100,
            max_body_bytes: MAX_REQUEST_BODY_BYTES,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(15),
            max_requests_per_connection: 1000,
            max_unsent_bytes: 64 * 1024 * 1024,
            max_unsent_answers_per_client: 8,
            answer_time: Duration::from_secs(60),
            least_read_rate: LEAST_READ_RATE,
            read_grace: READ_GRACE,
            send_buffer_bytes: SEND_BUFFER_BYTES,
            write_stall: Duration::from_secs(20),
            linger_time: LINGER_TIME,
            linger_bytes: LINGER_BYTES,
            drain_time: MEDIA_DEADLINE + WORKER_MARGIN + Duration::from_secs(1),
        }
    }
}
