//! [`MediaLimits`]: what remote media may take, [`MediaCaps`] checked against each other before anything starts.

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
/// Always: made of [`MediaCaps`] that fit together (`caps_that_contradict_each_other_are_refused`).
///
/// ```
/// use portcullis::media::{InvalidMediaLimits, MediaCaps, MediaLimits};
///
/// let limits = MediaLimits::new(MediaCaps { max_in_flight: 64, max_per_client: 16, ..MediaCaps::default() }).unwrap();
/// assert_eq!((limits.max_in_flight(), limits.max_running()), (64, 64));
/// let too_few = MediaCaps { max_in_flight: 32, ..MediaCaps::default() }; // 64 may run, and 64 be one client's
/// assert_eq!(MediaLimits::new(too_few), Err(InvalidMediaLimits::PerClient));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaLimits(MediaCaps);

/// The caps that [`MediaLimits`] are made of, by the names that the configuration has for them. Each from 1 to
/// [`MediaLimits::MOST`]; what is left out with `..MediaCaps::default()` is as it is without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaCaps {
    /// Fetches in flight, running or queued. 256 unless set.
    pub max_in_flight: usize,
    /// Fetches in flight of one client, at most `max_in_flight`. 64 unless set.
    pub max_per_client: usize,
    /// Fetches that run at once, at most `max_in_flight`. 64 unless set.
    pub max_running: usize,
    /// Fetches that run at once at one origin, at most `max_running`. 16 unless set.
    pub max_running_per_origin: usize,
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
    pub fn new(caps: MediaCaps) -> Result<Self, InvalidMediaLimits> {
        let MediaCaps { max_in_flight, max_per_client, max_running, max_running_per_origin } = caps;
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
        Ok(Self(caps))
    }

    /// The caps they were made of.
    #[must_use]
    pub fn caps(self) -> MediaCaps {
        self.0
    }

    /// Fetches in flight, running or queued.
    #[must_use]
    pub fn max_in_flight(self) -> usize {
        self.0.max_in_flight
    }

    /// Fetches in flight of one client.
    #[must_use]
    pub fn max_per_client(self) -> usize {
        self.0.max_per_client
    }

    /// Fetches that run at once.
    #[must_use]
    pub fn max_running(self) -> usize {
        self.0.max_running
    }

    /// Fetches that run at once at one origin.
    #[must_use]
    pub fn max_running_per_origin(self) -> usize {
        self.0.max_running_per_origin
    }

    /// Fetches in flight of one origin without standing.
    #[must_use]
    pub fn unproven_in_flight_per_origin(self) -> usize {
        (self.0.max_in_flight / UNPROVEN_ORIGIN_PART).max(1)
    }

    /// Fetches in flight of all origins without standing.
    #[must_use]
    pub fn unproven_in_flight(self) -> usize {
        (self.0.max_in_flight / UNPROVEN_ORIGINS_PART).max(1)
    }

    /// Fetches that run at once at one origin without standing.
    #[must_use]
    pub fn unproven_running_per_origin(self) -> usize {
        (self.0.max_running_per_origin / UNPROVEN_ORIGIN_PART).max(1)
    }

    /// Fetches that run at once at all origins without standing.
    #[must_use]
    pub fn unproven_running(self) -> usize {
        (self.0.max_running / UNPROVEN_ORIGINS_PART).max(1)
    }
}

impl Default for MediaCaps {
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

    const LEAST: MediaCaps =
        MediaCaps { max_in_flight: 1, max_per_client: 1, max_running: 1, max_running_per_origin: 1 };
    const FOUR: MediaCaps =
        MediaCaps { max_in_flight: 4, max_per_client: 4, max_running: 4, max_running_per_origin: 4 };

    #[test]
    fn the_defaults_fit_together_and_give_the_figures_of_the_design() {
        let limits = MediaLimits::default();
        let figures = MediaCaps { max_in_flight: 256, max_per_client: 64, max_running: 64, max_running_per_origin: 16 };
        assert_eq!(MediaLimits::new(figures), Ok(limits));
        assert_eq!(limits.caps(), figures);
        assert_eq!((limits.unproven_in_flight_per_origin(), limits.unproven_running_per_origin()), (64, 4));
        assert_eq!((limits.unproven_in_flight(), limits.unproven_running()), (128, 32));
    }

    #[test]
    fn each_cap_is_read_back_under_its_own_name() {
        let caps = MediaCaps { max_in_flight: 40, max_per_client: 30, max_running: 20, max_running_per_origin: 10 };
        let limits = MediaLimits::new(caps).unwrap();
        assert_eq!((limits.max_in_flight(), limits.max_per_client()), (40, 30));
        assert_eq!((limits.max_running(), limits.max_running_per_origin()), (20, 10));
    }

    #[test]
    fn caps_that_contradict_each_other_are_refused() {
        for (caps, why) in [
            (MediaCaps { max_in_flight: 0, ..LEAST }, InvalidMediaLimits::Zero("max_in_flight")),
            (MediaCaps { max_running_per_origin: 0, ..FOUR }, InvalidMediaLimits::Zero("max_running_per_origin")),
            (MediaCaps { max_in_flight: 4097, ..FOUR }, InvalidMediaLimits::TooMany("max_in_flight")),
            (MediaCaps { max_per_client: 5, ..FOUR }, InvalidMediaLimits::PerClient),
            (MediaCaps { max_running: 5, ..FOUR }, InvalidMediaLimits::Running),
            (MediaCaps { max_running: 2, max_running_per_origin: 3, ..FOUR }, InvalidMediaLimits::PerOrigin),
        ] {
            assert_eq!(MediaLimits::new(caps), Err(why), "{caps:?}");
        }
        let least = MediaLimits::new(LEAST).unwrap();
        assert_eq!((least.unproven_in_flight(), least.unproven_running_per_origin()), (1, 1));
    }
}
