//! [`Descriptors`]: how many files and sockets this process may open, and who gets them.
//!
//! A server that runs out of descriptors fails where it must not: it cannot look up a name, or answer its operator. So
//! what other parts need is set aside before clients get the rest.

use crate::limits::MAX_DESCRIPTORS_PER_CALL;

/// Connections of the operator's listener at once; a status page and a few scrapers.
pub const ADMIN_CONNECTIONS: usize = 16;

/// What is set aside beside calls to other servers: [`ADMIN_CONNECTIONS`], and 48 for standard streams, runtimes, the
/// listeners, files read on the way and connections that are just being refused or closed.
pub const RESERVED_DESCRIPTORS: usize = ADMIN_CONNECTIONS + 48;

/// With fewer client connections than these there is no point in serving.
pub const LEAST_CLIENT_CONNECTIONS: usize = 16;

/// The descriptors of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// How many may be open; `None` if the system sets no limit.
    limit: Option<usize>,
}

/// The limit of open files is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files is {limit}; {needed} are needed: {outbound} for lookups at other servers, \
     {RESERVED_DESCRIPTORS} for the server itself and {LEAST_CLIENT_CONNECTIONS} for clients (raise ulimit -n, or lower \
     request_threads)"
)]
pub struct TooFewDescriptors {
    /// The limit.
    pub limit: usize,
    /// The least that would do.
    pub needed: usize,
    /// The part of it that calls to other servers need.
    pub outbound: usize,
}

impl Descriptors {
    /// Raises the limit of open files as far as the system lets us, and says what it is then.
    ///
    /// *Panics:* never. *Blocking:* no.
    #[must_use]
    pub fn raised() -> Self {
        Self { limit: raised_limit() }
    }

    /// A limit as it is given.
    #[must_use]
    pub fn limited_to(limit: usize) -> Self {
        Self { limit: Some(limit) }
    }

    /// How many may be open; `None` if the system sets no limit.
    #[must_use]
    pub fn limit(self) -> Option<usize> {
        self.limit
    }

    /// How many client connections there may be, `wanted` at most, beside `calls` calls to other servers at once, each
    /// with the [`MAX_DESCRIPTORS_PER_CALL`] it may come to.
    ///
    /// *Errors:* [`TooFewDescriptors`]: fewer than [`LEAST_CLIENT_CONNECTIONS`] are left.
    pub fn client_connections(self, wanted: usize, calls: usize) -> Result<usize, TooFewDescriptors> {
        let Some(limit) = self.limit else { return Ok(wanted) };
        let outbound = calls.saturating_mul(MAX_DESCRIPTORS_PER_CALL);
        let set_aside = outbound.saturating_add(RESERVED_DESCRIPTORS);
        let left = limit.saturating_sub(set_aside);
        if left < LEAST_CLIENT_CONNECTIONS {
            let needed = set_aside.saturating_add(LEAST_CLIENT_CONNECTIONS);
            return Err(TooFewDescriptors { limit, needed, outbound });
        }
        Ok(left.min(wanted))
    }
}

#[cfg(unix)]
fn raised_limit() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// What systems grant that call the hard limit infinite and do not mean it.
    const MODEST: u64 = 10_240;

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    for wanted in [maximum, Some(maximum.map_or(MODEST, |maximum| maximum.min(MODEST)))] {
        let is_higher = match (current, wanted) {
            (Some(current), Some(wanted)) => wanted > current,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_higher && setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }).is_ok() {
            break;
        }
    }
    // Whatever came of it: what counts is what holds now.
    getrlimit(Resource::Nofile).current.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn raised_limit() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_calls_and_the_server_itself_leave_and_no_more_than_was_wanted() {
        assert_eq!(MAX_DESCRIPTORS_PER_CALL, 18);
        assert_eq!(Descriptors::limited_to(1024).client_connections(512, 8), Ok(512));
        assert_eq!(Descriptors::limited_to(256).client_connections(512, 8), Ok(256 - 8 * 18 - 64));
        assert_eq!(Descriptors::limited_to(224).client_connections(512, 8), Ok(16));
        let refused = Descriptors::limited_to(223).client_connections(512, 8);
        assert_eq!(refused, Err(TooFewDescriptors { limit: 223, needed: 224, outbound: 144 }));
        assert_eq!(Descriptors { limit: None }.client_connections(512, 128), Ok(512));
    }

    #[cfg(unix)]
    #[test]
    fn raising_takes_nothing_away_and_reaches_the_hard_limit_where_it_is_granted() {
        use rustix::process::{Resource, getrlimit};

        let before = getrlimit(Resource::Nofile);
        let limit = Descriptors::raised().limit().map(|limit| u64::try_from(limit).unwrap());
        assert!(limit.is_none() || limit >= before.current);
        assert!(limit == before.maximum || limit >= Some(10_240));
    }
}
