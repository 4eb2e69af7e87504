//! [`Census`]: who holds how many fetches at which origin, and whether there is room for one more, as plain data.

use std::collections::HashMap;
use std::sync::Arc;

use crate::admission::{ClientKey, Full, MediaLimits};
use crate::proxy::media::standing::Standing;

/// What fetches of one kind, in flight or running, may come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    all: usize,
    at_proven: usize,
    unproven: usize,
    at_unproven: usize,
}

impl Caps {
    pub(super) fn in_flight(limits: MediaLimits) -> Self {
        Self {
            all: limits.max_in_flight(),
            at_proven: limits.max_in_flight(),
            unproven: limits.unproven_in_flight(),
            at_unproven: limits.unproven_in_flight_per_origin(),
        }
    }

    pub(super) fn running(limits: MediaLimits) -> Self {
        Self {
            all: limits.max_running(),
            at_proven: limits.max_running_per_origin(),
            unproven: limits.unproven_running(),
            at_unproven: limits.unproven_running_per_origin(),
        }
    }
}

/// Fetches of one kind, by origin and client.
///
/// A fetch is counted by the standing its origin has now, not by what it had when the fetch came: an origin that loses its
/// standing takes its fetches over to the half of those without.
///
/// Always: as many entries at most as there are fetches.
#[derive(Debug)]
pub(super) struct Census {
    caps: Caps,
    at: HashMap<Arc<str>, HashMap<ClientKey, usize>>,
}

impl Census {
    pub(super) fn new(caps: Caps) -> Self {
        Self { caps, at: HashMap::new() }
    }

    pub(super) fn add(&mut self, client: ClientKey, origin: Arc<str>) {
        let held = self.at.entry(origin).or_default().entry(client).or_default();
        *held = held.saturating_add(1);
    }

    pub(super) fn remove(&mut self, client: ClientKey, origin: &str) {
        let Some(here) = self.at.get_mut(origin) else { return };
        if let Some(held) = here.get_mut(&client) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                here.remove(&client);
            }
        }
        if here.is_empty() {
            self.at.remove(origin);
        }
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.at.values().flat_map(HashMap::values).sum()
    }

    /// Counts them by the standing that origins have now.
    pub(super) fn tally(&self, standing: impl Fn(&str) -> Standing) -> Tally<'_> {
        let mut tally = Tally { census: self, all: Held::default(), unproven: Held::default() };
        for (origin, clients) in &self.at {
            let is_unproven = standing(origin) == Standing::Unproven;
            for (client, held) in clients {
                tally.all.add(*client, *held);
                if is_unproven {
                    tally.unproven.add(*client, *held);
                }
            }
        }
        tally
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
}

/// A [`Census`] that was counted.
pub(super) struct Tally<'a> {
    census: &'a Census,
    all: Held,
    unproven: Held,
}

impl Tally<'_> {
    /// Whether `client` may have one more at `origin`; if not, whether that is for what the client holds or for what others do.
    pub(super) fn room(&self, client: ClientKey, origin: &str, standing: Standing) -> Result<(), Full> {
        let caps = self.census.caps;
        if !self.all.leaves_room_for(client, caps.all) {
            return Err(if self.all.total < caps.all { Full::Key } else { Full::Global });
        }
        let here: usize = self.census.at.get(origin).map_or(0, |clients| clients.values().sum());
        let has_room = match standing {
            Standing::Proven => here < caps.at_proven,
            Standing::Unproven => here < caps.at_unproven && self.unproven.leaves_room_for(client, caps.unproven),
        };
        // Not the client's doing: another origin may still have room for it.
        if has_room { Ok(()) } else { Err(Full::Global) }
    }
}

#[derive(Default)]
struct Held {
    total: usize,
    of: HashMap<ClientKey, usize>,
}

impl Held {
    fn add(&mut self, client: ClientKey, held: usize) {
        self.total = self.total.saturating_add(held);
        let of = self.of.entry(client).or_default();
        *of = of.saturating_add(held);
    }

    /// A client that holds as many as are left takes no more of them. However much it asks for, it leaves the other half of
    /// what it found, so that a few clients do not take all.
    fn leaves_room_for(&self, client: ClientKey, cap: usize) -> bool {
        let held = self.of.get(&client).copied().unwrap_or_default();
        held < cap.saturating_sub(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> ClientKey {
        ClientKey::vouched([198, 51, 100, last].into(), Default::default())
    }

    /// Takes all it can get; how much that was.
    fn take(census: &mut Census, who: u8, origin: &str, standing: impl Fn(&str) -> Standing) -> usize {
        let mut taken = 0;
        while census.tally(&standing).room(client(who), origin, standing(origin)).is_ok() {
            census.add(client(who), Arc::from(origin));
            taken += 1;
        }
        taken
    }

    #[test]
    fn however_much_a_client_asks_for_it_leaves_half_of_what_it_found() {
        let mut census = Census::new(Caps::in_flight(MediaLimits::default()));
        let proven = |_: &str| Standing::Proven;
        // The door stops each at 64 besides: three times that, and then half of what is left.
        let taken: Vec<_> = (0..9).map(|who| take(&mut census, who, &format!("o{who}.example"), proven)).collect();
        assert_eq!(taken, [128, 64, 32, 16, 8, 4, 2, 1, 1]);
        assert_eq!(census.tally(proven).room(client(9), "o.example", Standing::Proven), Err(Full::Global));
    }

    #[test]
    fn the_parts_of_origins_without_standing_are_those_of_the_design() {
        let unproven = |_: &str| Standing::Unproven;
        for (caps, at_one, all) in
            [(Caps::in_flight(MediaLimits::default()), 64, 128), (Caps::running(MediaLimits::default()), 4, 32)]
        {
            let mut census = Census::new(caps);
            let (mut total, mut who) = (0, 0);
            for origin in 0..64 {
                let mut here = 0;
                // A client of its own for each, so that no client's share is in the way.
                while census.tally(unproven).room(client(who), &format!("o{origin}"), Standing::Unproven).is_ok() {
                    census.add(client(who), Arc::from(format!("o{origin}")));
                    (here, who) = (here + 1, who + 1);
                }
                assert_eq!(here, at_one.min(all - total));
                total += here;
            }
            assert_eq!(total, all);
            assert_eq!(census.tally(unproven).room(client(255), "good.example", Standing::Proven), Ok(()));
        }
    }

    #[test]
    fn an_origin_that_loses_its_standing_fills_the_half_of_those_without() {
        let mut census = Census::new(Caps::in_flight(MediaLimits::default()));
        for who in 0..130 {
            census.add(client(who), Arc::from("was.example"));
        }
        let proven = |_: &str| Standing::Proven;
        assert_eq!(census.tally(proven).room(client(200), "new.example", Standing::Unproven), Ok(()));
        let lost = |_: &str| Standing::Unproven;
        assert_eq!(census.tally(lost).room(client(200), "new.example", Standing::Unproven), Err(Full::Global));
        assert_eq!(census.tally(lost).room(client(200), "good.example", Standing::Proven), Ok(()));
        for who in 0..130 {
            census.remove(client(who), "was.example");
        }
        assert!(census.is_empty() && census.total() == 0);
    }
}
