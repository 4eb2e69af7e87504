//! [`MediaLimits`]: what remote media may take, checked against each other before anything starts.

use crate::limits::{
    MEDIA_IN_FLIGHT, MEDIA_PER_CLIENT, MEDIA_RUNNING, MEDIA_RUNNING_PER_ORIGIN, UNPROVEN_ORIGIN_PART,
    UNPROVEN_ORIGINS_PART,
};

/// The caps of remote media off the request pool. They can be configured, because they take no threads.
///
/// An origin without standing (no whole file in the last ten minutes, or a time-out since) gets a quarter of what one may
/// take, and all such origins together half of the whole: strangers' silent servers cannot crowd out those that answer. Of
/// the whole, in flight or running, and of that half, a client that holds as much as is left gets no more.
///
/// ```
/// use portcullis::MediaLimits;
///
/// let limits = MediaLimits::default();
/// assert_eq!((limits.max_in_flight(), limits.max_running()), (256, 64));
/// assert!(MediaLimits::new(64, 8, 65, 16).is_err()); // more running than in flight
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the names of the configuration")]
pub struct MediaLimits {
    max_in_flight: usize,
    max_per_client: usize,
    max_running: usize,
    max_running_per_origin: usize,
}

/// Which caps contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMediaLimits {
    /// A cap of 0 lets nothing through; it is not "unlimited".
    #[error("{0} is 0, which lets nothing through; use remote_fetch_enabled to switch remote media off")]
    Zero(&'static str),
    /// More than any process has descriptors for.
    #[error("{0} is over {most}, more than there are descriptors for", most = MediaLimits::MOST)]
    TooMany(&'static str),
    /// One client may have more in flight than all together.
    #[error("max_per_client is over max_in_flight")]
    PerClient,
    /// More run than are in flight.
    #[error("max_running is over max_in_flight")]
    Running,
    /// One origin may run more than all together.
    #[error("max_running_per_origin is over max_running")]
    PerOrigin,
}

impl MediaLimits {
    /// The largest cap.
    pub const MOST: usize = 4096;

    /// Caps that fit together.
    ///
    /// *Errors:* [`InvalidMediaLimits`]. *Panics:* never.
    pub fn new(
        max_in_flight: usize,
        max_per_client: usize,
        max_running: usize,
        max_running_per_origin: usize,
    ) -> Result<Self, InvalidMediaLimits> {
        for (name, cap) in [
            ("max_in_flight", max_in_flight),
            ("max_per_client", max_per_client),
            ("max_running", max_running),
            ("max_running_per_origin", max_running_per_origin),
        ] {
            if cap == 0 {
                return Err(InvalidMediaLimits::Zero(name));
            }
            if cap > Self::MOST {
                return Err(InvalidMediaLimits::TooMany(name));
            }
        }
        if max_per_client > max_in_flight {
            return Err(InvalidMediaLimits::PerClient);
        }
        if max_running > max_in_flight {
            return Err(InvalidMediaLimits::Running);
        }
        if max_running_per_origin > max_running {
            return Err(InvalidMediaLimits::PerOrigin);
        }
        Ok(Self { max_in_flight, max_per_client, max_running, max_running_per_origin })
    }

    /// Fetches in flight, running or queued.
    #[must_use]
    pub fn max_in_flight(self) -> usize {
        self.max_in_flight
    }

    /// Fetches in flight of one client.
    #[must_use]
    pub fn max_per_client(self) -> usize {
        self.max_per_client
    }

    /// Fetches that run at once.
    #[must_use]
    pub fn max_running(self) -> usize {
        self.max_running
    }

    /// Fetches that run at once at one origin.
    #[must_use]
    pub fn max_running_per_origin(self) -> usize {
        self.max_running_per_origin
    }

    /// Fetches in flight of one origin without standing.
    #[must_use]
    pub fn unproven_in_flight_per_origin(self) -> usize {
        (self.max_in_flight / UNPROVEN_ORIGIN_PART).max(1)
    }

    /// Fetches in flight of all origins without standing.
    #[must_use]
    pub fn unproven_in_flight(self) -> usize {
        (self.max_in_flight / UNPROVEN_ORIGINS_PART).max(1)
    }

    /// Fetches that run at once at one origin without standing.
    #[must_use]
    pub fn unproven_running_per_origin(self) -> usize {
        (self.max_running_per_origin / UNPROVEN_ORIGIN_PART).max(1)
    }

    /// Fetches that run at once at all origins without standing.
    #[must_use]
    pub fn unproven_running(self) -> usize {
        (self.max_running / UNPROVEN_ORIGINS_PART).max(1)
    }
}

impl Default for MediaLimits {
    fn default() -> Self {
        Self {
            max_in_flight: MEDIA_IN_FLIGHT,
            max_per_client: MEDIA_PER_CLIENT,
            max_running: MEDIA_RUNNING,
            max_running_per_origin: MEDIA_RUNNING_PER_ORIGIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_together_and_give_the_figures_of_the_design() {
        let limits = MediaLimits::default();
        assert_eq!(MediaLimits::new(256, 64, 64, 16), Ok(limits));
        assert_eq!((limits.unproven_in_flight_per_origin(), limits.unproven_running_per_origin()), (64, 4));
        assert_eq!((limits.unproven_in_flight(), limits.unproven_running()), (128, 32));
    }

    #[test]
    fn caps_that_contradict_each_other_are_refused() {
        assert_eq!(MediaLimits::new(0, 1, 1, 1), Err(InvalidMediaLimits::Zero("max_in_flight")));
        assert_eq!(MediaLimits::new(4, 4, 4, 0), Err(InvalidMediaLimits::Zero("max_running_per_origin")));
        assert_eq!(MediaLimits::new(4097, 4, 4, 4), Err(InvalidMediaLimits::TooMany("max_in_flight")));
        assert_eq!(MediaLimits::new(4, 5, 4, 4), Err(InvalidMediaLimits::PerClient));
        assert_eq!(MediaLimits::new(4, 4, 5, 4), Err(InvalidMediaLimits::Running));
        assert_eq!(MediaLimits::new(4, 4, 2, 3), Err(InvalidMediaLimits::PerOrigin));
        let least = MediaLimits::new(1, 1, 1, 1).unwrap();
        assert_eq!((least.unproven_in_flight(), least.unproven_running_per_origin()), (1, 1));
    }
}
