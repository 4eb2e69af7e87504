//! [`Descriptors`]: how many files and sockets this process may open, and who gets them.
//!
//! A server that runs out of descriptors fails where it must not: it cannot look up a name, or answer its operator. So
//! what other parts need is set aside before clients get the rest.

use crate::admission::{ClientOutboundProxyPolicy, MediaLimits};
use crate::limits::{MAX_DESCRIPTORS_PER_CALL, UPSTREAM_FILES, UPSTREAM_SMALL, UPSTREAM_TOKEN_QUESTIONS};

/// Connections of the operator's listener at once; a status page and a few scrapers.
pub const ADMIN_CONNECTIONS: usize = 16;

/// What is set aside beside calls to other servers: [`ADMIN_CONNECTIONS`], and 48 for standard streams, runtimes, the
/// listeners, files read on the way and connections that are just being refused or closed.
pub const RESERVED_DESCRIPTORS: usize = ADMIN_CONNECTIONS + 48;

/// With fewer client connections than these there is no point in serving.
pub const LEAST_CLIENT_CONNECTIONS: usize = 16;

/// What one fetch of a file holds at once: those of a call, and the file it is written to.
pub const DESCRIPTORS_PER_FETCH: usize = MAX_DESCRIPTORS_PER_CALL + 1;

/// What is set aside for calls to other servers, and what each client comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundNeeds {
    /// For lookups.
    lookups: usize,
    /// For fetches of files.
    files: usize,
    /// For the homeserver behind.
    upstream: usize,
    /// A connection, and the file that is read for it.
    per_client: usize,
}

/// The descriptors of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// How many may be open; `None` if the system sets no limit.
    limit: Option<usize>,
}

/// The limit of open files is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(*.limit, *.needed, *.needs))]
pub struct TooFewDescriptors {
    /// The limit.
    pub limit: usize,
    /// The least that would do.
    pub needed: usize,
    /// What of it is not for the server itself.
    needs: OutboundNeeds,
}

impl OutboundNeeds {
    /// Of lookups under `policy` and, where remote media is on, fetches under its limits.
    #[must_use]
    pub fn of(policy: ClientOutboundProxyPolicy, media: Option<MediaLimits>) -> Self {
        let lookups = policy.global_cap().saturating_mul(MAX_DESCRIPTORS_PER_CALL);
        match media {
            None => Self { lookups, files: 0, upstream: 0, per_client: 1 },
            Some(limits) => {
                let files = limits.max_running().saturating_mul(DESCRIPTORS_PER_FETCH);
                Self { lookups, files, upstream: 0, per_client: 2 }
            }
        }
    }

    /// The same in front of another homeserver: a connection for each question and each request that it may be asked at
    /// once. Those that are kept for the next request are among them.
    #[must_use]
    pub fn in_front_of_another(self) -> Self {
        Self { upstream: UPSTREAM_TOKEN_QUESTIONS + UPSTREAM_SMALL + UPSTREAM_FILES, ..self }
    }

    fn set_aside(self) -> usize {
        let calls = self.lookups.saturating_add(self.files).saturating_add(self.upstream);
        calls.saturating_add(RESERVED_DESCRIPTORS)
    }
}

fn told(limit: usize, needed: usize, needs: OutboundNeeds) -> String {
    let OutboundNeeds { lookups, files, upstream, per_client } = needs;
    let clients = LEAST_CLIENT_CONNECTIONS.saturating_mul(per_client);
    let (for_files, or_files) = match files {
        0 => (String::new(), ""),
        files => (format!("{files} for fetching files, "), " or media.max_running"),
    };
    let for_upstream = match upstream {
        0 => String::new(),
        upstream => format!("{upstream} for the homeserver behind, "),
    };
    format!(
        "the limit of open files is {limit}; {needed} are needed: {lookups} for lookups at other servers, \
         {for_files}{for_upstream}{RESERVED_DESCRIPTORS} for the server itself and {clients} for clients (raise ulimit -n, or lower \
         request_threads{or_files})"
    )
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

    /// How many client connections there may be, `wanted` at most, beside what is set aside for `needs`.
    ///
    /// *Errors:* [`TooFewDescriptors`]: fewer than [`LEAST_CLIENT_CONNECTIONS`] are left.
    pub fn client_connections(self, wanted: usize, needs: OutboundNeeds) -> Result<usize, TooFewDescriptors> {
        let Some(limit) = self.limit else { return Ok(wanted) };
        let left = limit.saturating_sub(needs.set_aside()) / needs.per_client.max(1);
        if left < LEAST_CLIENT_CONNECTIONS {
            let clients = LEAST_CLIENT_CONNECTIONS.saturating_mul(needs.per_client);
            return Err(TooFewDescriptors { limit, needed: needs.set_aside().saturating_add(clients), needs });
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
    use crate::admission::MediaCaps;

    fn needs(threads: usize, media: Option<MediaLimits>) -> OutboundNeeds {
        OutboundNeeds::of(ClientOutboundProxyPolicy::for_pool(threads), media)
    }

    #[test]
    fn clients_get_what_calls_and_the_server_itself_leave_and_no_more_than_was_wanted() {
        assert_eq!(MAX_DESCRIPTORS_PER_CALL, 18);
        let needs = needs(16, None);
        assert_eq!(Descriptors::limited_to(1024).client_connections(512, needs), Ok(512));
        assert_eq!(Descriptors::limited_to(256).client_connections(512, needs), Ok(256 - 8 * 18 - 64));
        assert_eq!(Descriptors::limited_to(224).client_connections(512, needs), Ok(16));
        let refused = Descriptors::limited_to(223).client_connections(512, needs).unwrap_err();
        assert_eq!((refused.limit, refused.needed), (223, 224));
        assert_eq!(
            refused.to_string(),
            "the limit of open files is 223; 224 are needed: 144 for lookups at other servers, 64 for the server itself \
             and 16 for clients (raise ulimit -n, or lower request_threads)"
        );
        assert_eq!(Descriptors { limit: None }.client_connections(512, needs), Ok(512));
    }

    #[test]
    fn each_fetch_has_a_file_and_so_has_each_client_that_reads_one() {
        let media = needs(16, Some(MediaLimits::default()));
        let set_aside = 8 * 18 + 64 * 19 + 64;
        let granted = |limit| Descriptors::limited_to(limit).client_connections(512, media);
        assert_eq!(granted(set_aside + 2 * 512), Ok(512));
        assert_eq!(granted(set_aside + 2 * 512 - 1), Ok(511));
        assert_eq!(granted(set_aside + 2 * 16), Ok(16));
        assert_eq!(
            granted(1024).unwrap_err().to_string(),
            "the limit of open files is 1024; 1456 are needed: 144 for lookups at other servers, 1216 for fetching files, \
             64 for the server itself and 32 for clients (raise ulimit -n, or lower request_threads or media.max_running)"
        );
        let few = needs(
            16,
            Some(
                MediaLimits::new(MediaCaps {
                    max_in_flight: 64,
                    max_per_client: 64,
                    max_running: 16,
                    max_running_per_origin: 16,
                })
                .unwrap(),
            ),
        );
        assert_eq!(Descriptors::limited_to(1024).client_connections(512, few), Ok((1024 - 144 - 16 * 19 - 64) / 2));
    }

    #[test]
    fn the_homeserver_behind_has_a_connection_for_all_it_may_be_asked_at_once() {
        let in_front = needs(16, None).in_front_of_another();
        let set_aside = 8 * 18 + 64 + 64 + 128 + 64;
        assert_eq!(Descriptors::limited_to(set_aside + 16).client_connections(512, in_front), Ok(16));
        let refused = Descriptors::limited_to(set_aside + 15).client_connections(512, in_front).unwrap_err();
        assert!(refused.to_string().contains(", 256 for the homeserver behind, 64 for the server itself"), "{refused}");
        assert_eq!(Descriptors::limited_to(1024).client_connections(512, in_front), Ok(512));
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
