//! [`ListenerLimits`]: what one connection, one client and all clients together may take of the listener.

use std::time::Duration;

use crate::admission::{Ipv6ClientPrefix, TrustedProxies};
use crate::limits::{DIRECTORY_DEADLINE, WORKER_MARGIN};

/// The bounds of a listener. [`ListenerLimits::default`] is what `portcullis serve` uses; tests shorten them.
///
/// Worst case of what strangers hold, with the defaults: 512 sockets, each with a head, a body and one small answer, is
/// 512 × (32 + 64 + 16) KiB = 56 MiB; larger answers that are not sent yet come to 64 MiB in all. Beside that, each
/// socket has the buffers the system gives it, and an answer being made counts only once it is made.
#[derive(Clone, Debug)]
pub struct ListenerLimits {
    /// Connections in all; 512, which leaves room for outbound sockets under the usual 1024 descriptors (`serve` lowers it
    /// where fewer may be open, [`Descriptors`](crate::homeserver::descriptors::Descriptors)). When they are
    /// taken, a newcomer gets the place of the one that has waited longest for a whole request; if none waits, it is
    /// closed.
    pub max_connections: usize,
    /// Connections of one client address, an IPv6 network being one client; 32, five browsers' worth.
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
    /// Bytes of all answers that are not sent yet; 64 MiB. Answers up to 16 KiB are not counted. One that does not fit is
    /// replaced by 503, and its connection closed.
    pub max_unsent_bytes: usize,
    /// Counted answers of one client that are not sent yet; 8, which of the largest size are half of those bytes. One more
    /// is replaced in the same way.
    pub max_unsent_answers_per_client: usize,
    /// Time until an answer has gone out whole; 60 s.
    pub answer_time: Duration,
    /// How long sent bytes may stay unacknowledged, or the client's window shut; 20 s. Linux only.
    pub write_stall: Duration,
    /// How long requests in flight may take to finish once the listener stops; the directory deadline, the worker's
    /// margin and one second.
    pub drain_time: Duration,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            max_connections: 512,
            max_connections_per_client: 32,
            trusted_proxies: TrustedProxies::default(),
            ipv6_client_prefix: Ipv6ClientPrefix::default(),
            max_head_bytes: 32 * 1024,
            max_header_lines: 100,
            max_body_bytes: 64 * 1024,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(15),
            max_requests_per_connection: 1000,
            max_unsent_bytes: 64 * 1024 * 1024,
            max_unsent_answers_per_client: 8,
            answer_time: Duration::from_secs(60),
            write_stall: Duration::from_secs(20),
            drain_time: DIRECTORY_DEADLINE + WORKER_MARGIN + Duration::from_secs(1),
        }
    }
}
