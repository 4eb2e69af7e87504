//! [`ClientOutboundProxyPolicy`]: what a pool of `n` threads may do for strangers.

use std::time::Duration;

use crate::limits::{DIRECTORY_DEADLINE, MEDIA_DEADLINE, PER_CLIENT_CAP, RETRY_HINT, WORKER_MARGIN};

/// The caps and deadlines of client-triggered outbound calls, derived from the size of the request pool.
///
/// Always: the global cap is at most half the pool, and at least one. [`ClientOutboundProxyPolicy::for_pool`] is the only
/// source; there is no setter and no configuration key, because a key could raise the caps back over the pool size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOutboundProxyPolicy {
    global_cap: usize,
}

/// What kind of remote work a route asks for: it decides the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RouteClass {
    /// A remote room list, a remote alias, or another call of the homeserver's own.
    Directory,
    /// A remote file.
    Media,
}

/// An operator's `remote_timeout`: shortens deadlines, never lengthens them, and is never zero.
///
/// ```
/// use std::time::Duration;
/// use portcullis::{ClientOutboundProxyPolicy, RemoteTimeout, RouteClass};
///
/// let policy = ClientOutboundProxyPolicy::for_pool(8);
/// let nine = RemoteTimeout::new(Duration::from_secs(9));
/// assert_eq!(policy.deadline(RouteClass::Directory, nine), Duration::from_secs(9)); // of 10
/// assert_eq!(policy.deadline(RouteClass::Media, nine), Duration::from_secs(9)); // of 30
/// assert_eq!(RemoteTimeout::new(Duration::ZERO), None); // a mistake, and not "no limit"
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTimeout(Duration);

impl ClientOutboundProxyPolicy {
    /// The policy for a pool of `threads` request threads; 0 counts as 1. An asynchronous server passes twice the number
    /// of calls it is willing to have in flight.
    ///
    /// ```
    /// use portcullis::ClientOutboundProxyPolicy;
    ///
    /// assert_eq!(ClientOutboundProxyPolicy::for_pool(8).global_cap(), 4);
    /// ```
    #[must_use]
    pub fn for_pool(threads: usize) -> Self {
        Self { global_cap: (threads / 2).max(1) }
    }

    /// Calls in flight, all clients together.
    #[must_use]
    pub fn global_cap(self) -> usize {
        self.global_cap
    }

    /// Calls in flight of one client key.
    #[must_use]
    pub fn per_client_cap(self) -> usize {
        PER_CLIENT_CAP
    }

    /// Time for a call of this class, discovery included, shortened by the operator's timeout.
    #[must_use]
    pub fn deadline(self, class: RouteClass, remote_timeout: Option<RemoteTimeout>) -> Duration {
        let allowed = match class {
            RouteClass::Directory => DIRECTORY_DEADLINE,
            RouteClass::Media => MEDIA_DEADLINE,
        };
        remote_timeout.map_or(allowed, |limit| allowed.min(limit.0))
    }

    /// How far the waiting thread may overrun the deadline.
    #[must_use]
    pub fn worker_margin(self) -> Duration {
        WORKER_MARGIN
    }

    /// What a refused client is told to wait.
    #[must_use]
    pub fn retry_hint(self) -> Duration {
        RETRY_HINT
    }
}

impl RemoteTimeout {
    /// `None` for zero: "no time" is a mistake, not "no limit".
    #[must_use]
    pub fn new(limit: Duration) -> Option<Self> {
        (!limit.is_zero()).then_some(Self(limit))
    }
}

impl RouteClass {
    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Media => "media",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b11_b13_half_the_pool_and_at_least_one() {
        for (threads, cap) in [(0, 1), (1, 1), (2, 1), (3, 1), (8, 4), (16, 8), (32, 16), (256, 128)] {
            assert_eq!(ClientOutboundProxyPolicy::for_pool(threads).global_cap(), cap, "pool of {threads}");
        }
    }

    #[test]
    fn b12_the_record_s_figures() {
        let policy = ClientOutboundProxyPolicy::for_pool(8);
        assert_eq!(policy.per_client_cap(), 1);
        assert_eq!(policy.deadline(RouteClass::Directory, None), Duration::from_secs(10));
        assert_eq!(policy.deadline(RouteClass::Media, None), Duration::from_secs(30));
        assert_eq!(policy.retry_hint(), Duration::from_millis(1000));
        assert_eq!(policy.worker_margin(), Duration::from_secs(2));
    }

    #[test]
    fn d01_d02_the_operator_s_timeout_shortens_both_and_lengthens_none() {
        let policy = ClientOutboundProxyPolicy::for_pool(8);
        let at = |seconds, class| policy.deadline(class, RemoteTimeout::new(Duration::from_secs(seconds)));
        assert_eq!(at(60, RouteClass::Directory), Duration::from_secs(10));
        assert_eq!(at(60, RouteClass::Media), Duration::from_secs(30));
        assert_eq!(at(5, RouteClass::Directory), Duration::from_secs(5));
        assert_eq!(at(5, RouteClass::Media), Duration::from_secs(5));
        assert_eq!(RemoteTimeout::new(Duration::ZERO), None);
    }
}
