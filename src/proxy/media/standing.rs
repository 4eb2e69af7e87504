//! [`Standings`]: which origins have lately shown that they give files.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Whether an origin has lately shown that it gives files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Proven,
    Unproven,
}

/// Origins with standing, by [`canonical`](crate::ServerName::canonical) name. Plain data: whoever owns it locks it.
///
/// An origin is proven for a while after it gave a whole file; a time-out ends that at once. To say that there is no file
/// proves nothing: any name can be made to say so for nothing. Always: at most `most` origins, some 600 bytes each; the one whose proof is oldest makes room
/// (`the_oldest_proof_makes_room`).
#[derive(Debug)]
pub(crate) struct Standings {
    most: usize,
    lasts: Duration,
    proven_at: HashMap<Arc<str>, Instant>,
    by_age: BTreeSet<(Instant, Arc<str>)>,
}

impl Standings {
    /// Nobody has standing yet. It lasts for `lasts` after a proof.
    pub(crate) fn new(most: usize, lasts: Duration) -> Self {
        Self { most, lasts, proven_at: HashMap::new(), by_age: BTreeSet::new() }
    }

    /// The standing of `origin` at `now`.
    pub(crate) fn of(&self, origin: &str, now: Instant) -> Standing {
        match self.proven_at.get(origin) {
            Some(at) if now.saturating_duration_since(*at) < self.lasts => Standing::Proven,
            _ => Standing::Unproven,
        }
    }

    /// `origin` gave a whole file.
    pub(crate) fn prove(&mut self, origin: &Arc<str>, now: Instant) {
        self.lose(origin);
        self.proven_at.insert(Arc::clone(origin), now);
        self.by_age.insert((now, Arc::clone(origin)));
        while self.by_age.len() > self.most {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.proven_at.remove(&oldest);
        }
    }

    /// `origin` let the time run out.
    pub(crate) fn lose(&mut self, origin: &Arc<str>) {
        if let Some(at) = self.proven_at.remove(origin) {
            self.by_age.remove(&(at, Arc::clone(origin)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(600);
    const STEP: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_proof_lasts_ten_minutes_to_the_millisecond_and_a_time_out_ends_it() {
        let mut standings = Standings::new(8, LASTS);
        let (origin, start) = (Arc::from("them.example"), Instant::now());
        assert_eq!(standings.of(&origin, start), Standing::Unproven);
        standings.prove(&origin, start);
        assert_eq!(standings.of(&origin, start + LASTS - STEP), Standing::Proven);
        assert_eq!(standings.of(&origin, start + LASTS), Standing::Unproven);
        standings.prove(&origin, start + LASTS);
        assert_eq!(standings.of(&origin, start + LASTS + STEP), Standing::Proven);
        standings.lose(&origin);
        assert_eq!(standings.of(&origin, start + LASTS + STEP), Standing::Unproven);
        assert!(standings.proven_at.is_empty() && standings.by_age.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_proof_makes_room() {
        let mut standings = Standings::new(3, LASTS);
        let (origins, start) = (["a", "b", "c", "d"].map(Arc::from), Instant::now());
        for (n, origin) in (0..).zip(&origins[..3]) {
            standings.prove(origin, start + STEP * n);
        }
        standings.prove(&origins[0], start + STEP * 3); // proven again: b is the oldest now
        standings.prove(&origins[3], start + STEP * 4);
        let left: Vec<_> = origins.iter().map(|origin| standings.of(origin, start + STEP * 4)).collect();
        assert_eq!(left, [Standing::Proven, Standing::Unproven, Standing::Proven, Standing::Proven]);
        assert_eq!((standings.proven_at.len(), standings.by_age.len()), (3, 3));
    }
}
