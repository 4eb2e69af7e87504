//! A server that slows down under load: everybody at work has an equal share of its places.

use std::collections::VecDeque;
use std::time::Duration;

use crate::simulation::server::{Answer, PageServer};

/// Requests of others that fill the server for a while.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// From then.
    pub from: Duration,
    /// Until then.
    pub to: Duration,
    /// So many at work all that time: as one is done, the next is there.
    pub requests: u32,
}

/// A server with `places` workers. Each page needs the same work, and one that was given up keeps its share.
///
/// All pages are of one size and have equal shares, so they are done in the order they came.
#[derive(Debug)]
pub struct SharingServer {
    places: u32,
    work: f64,
    burst: Burst,
    /// Seconds of work that a page at work since the beginning would have had, as of `at`.
    attained: f64,
    at: Duration,
    /// Each page, with what `attained` is when it is done.
    pages: VecDeque<(usize, f64)>,
}

impl SharingServer {
    /// A server that needs `work` for a page it can give a whole place.
    #[must_use]
    pub fn new(places: u32, work: Duration, burst: Burst) -> Self {
        Self { places, work: work.as_secs_f64(), burst, attained: 0.0, at: Duration::ZERO, pages: VecDeque::new() }
    }

    /// The share of a place that each page has, as of `at`.
    fn share(&self) -> f64 {
        let foreign = if (self.burst.from..self.burst.to).contains(&self.at) { self.burst.requests } else { 0 };
        let at_work = u32::try_from(self.pages.len()).unwrap_or(u32::MAX).saturating_add(foreign).max(1);
        (f64::from(self.places) / f64::from(at_work)).min(1.0)
    }

    fn first_done_in(&self) -> Option<Duration> {
        let (_, done_at) = self.pages.front()?;
        Some(Duration::from_secs_f64(((done_at - self.attained) / self.share()).max(0.0)))
    }

    fn work_until(&mut self, now: Duration) {
        self.attained += now.saturating_sub(self.at).as_secs_f64() * self.share();
        self.at = now;
    }
}

impl PageServer for SharingServer {
    fn begin(&mut self, page: usize, now: Duration) {
        self.work_until(now);
        self.pages.push_back((page, self.attained + self.work));
    }

    fn next_event(&self) -> Option<Duration> {
        let done = self.at + self.first_done_in()?;
        // Where the burst begins or ends the shares change.
        let change = [self.burst.from, self.burst.to].into_iter().find(|change| *change > self.at);
        Some(change.map_or(done, |change| change.min(done)))
    }

    fn advance(&mut self, now: Duration) -> Option<(usize, Answer)> {
        self.work_until(now);
        if self.first_done_in()? > Duration::ZERO {
            return None;
        }
        self.pages.pop_front().map(|(page, _)| (page, Answer::Page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn quiet() -> Burst {
        Burst { from: Duration::ZERO, to: Duration::ZERO, requests: 0 }
    }

    #[test]
    fn pages_beyond_the_places_slow_each_other_down() {
        let mut server = SharingServer::new(2, 4 * SECOND, quiet());
        for page in 0..4 {
            server.begin(page, Duration::ZERO);
        }
        // Half a place each.
        assert_eq!(server.next_event(), Some(8 * SECOND));
        for page in 0..4 {
            assert_eq!(server.advance(8 * SECOND), Some((page, Answer::Page)));
        }
        assert_eq!(server.next_event(), None);
    }

    #[test]
    fn a_burst_takes_its_share_while_it_lasts() {
        let burst = Burst { from: 2 * SECOND, to: 6 * SECOND, requests: 3 };
        let mut server = SharingServer::new(1, 4 * SECOND, burst);
        server.begin(0, Duration::ZERO);
        // Two seconds alone, one second's worth beside three others, then the last one alone.
        assert_eq!((server.next_event(), server.advance(2 * SECOND)), (Some(2 * SECOND), None));
        assert_eq!((server.next_event(), server.advance(6 * SECOND)), (Some(6 * SECOND), None));
        assert_eq!((server.next_event(), server.advance(7 * SECOND)), (Some(7 * SECOND), Some((0, Answer::Page))));
    }
}
