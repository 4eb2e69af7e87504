//! [`ClientOutboundProxyPolicy`]: what a pool of `n` threads may do for strangers.

use std::time::Duration;

use crate::limits::{DIRECTORY_DEADLINE, MEDIA_DEADLINE, PER_CLIENT_CAP, RETRY_HINT, WORKER_MARGIN};

/// The caps and deadlines of client-triggered outbound calls, derived from the size of the request pool, or from the calls in
/// flight where there is none.
///
/// Always: the global cap is at least one, and at most half the pool it was made [for](Self::for_pool). There is no setter and
/// no configuration key, because a key could raise the caps back over the pool size.
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
/// let nine = RemoteTimeout::new(Duration::from_secs(9))?;
/// assert_eq!(policy.deadline(RouteClass::Directory, Some(nine)), Duration::from_secs(9)); // of 10
/// assert_eq!(policy.deadline(RouteClass::Media, Some(nine)), Duration::from_secs(9)); // of 30
/// assert!(RemoteTimeout::new(Duration::ZERO).is_err()); // a mistake, and not "no limit"
/// # Ok::<(), portcullis::ZeroTimeout>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTimeout(Duration);

/// A timeout of zero: "no time" is a mistake, not "no limit".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the remote timeout is zero")]
pub struct ZeroTimeout;

impl ClientOutboundProxyPolicy {
    /// The policy for a pool of `threads` request threads; 0 counts as 1. Half of them may be out.
    ///
    /// ```
    /// use portcullis::ClientOutboundProxyPolicy;
    ///
    /// assert_eq!(ClientOutboundProxyPolicy::for_pool(8).global_cap(), 4);
    /// ```
    #[must_use]
    pub fn for_pool(threads: usize) -> Self {
        Self::for_calls(threads / 2)
    }

    /// The policy for a server without a pool, an asynchronous one, which is willing to have `calls` in flight; 0 counts
    /// as 1.
    ///
    /// ```
    /// use portcullis::ClientOutboundProxyPolicy;
    ///
    /// assert_eq!(ClientOutboundProxyPolicy::for_calls(16).global_cap(), 16);
    /// ```
    #[must_use]
    pub fn for_calls(calls: usize) -> Self {
        Self { global_cap: calls.max(1) }
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
    /// The timeout `limit`. *Errors:* [`ZeroTimeout`]. *Panics:* never.
    pub fn new(limit: Duration) -> Result<Self, ZeroTimeout> {
        if limit.is_zero() { Err(ZeroTimeout) } else { Ok(Self(limit)) }
    }

    /// The same as a duration, never zero.
    #[must_use]
    pub fn as_duration(self) -> Duration {
        self.0
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
        for (calls, cap) in [(0, 1), (1, 1), (2, 2), (16, 16)] {
            assert_eq!(ClientOutboundProxyPolicy::for_calls(calls).global_cap(), cap, "{calls} calls");
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
        let at = |seconds, class| policy.deadline(class, RemoteTimeout::new(Duration::from_secs(seconds)).ok());
        assert_eq!(at(60, RouteClass::Directory), Duration::from_secs(10));
        assert_eq!(at(60, RouteClass::Media), Duration::from_secs(30));
        assert_eq!(at(5, RouteClass::Directory), Duration::from_secs(5));
        assert_eq!(at(5, RouteClass::Media), Duration::from_secs(5));
        assert_eq!(RemoteTimeout::new(Duration::ZERO), Err(ZeroTimeout));
    }
}
