//! [`Turns`]: how many fetches run at once, and whose turn is next.
//!
//! A slot of the budget lets a fetch be in flight; a turn lets it run. Fetches without a turn wait inside their own deadline.
//! Strangers decide which servers are asked, so a server that gave no file lately gets little, and all of those together
//! leave half of the whole to the servers that did. Strangers can also have servers that give a file and are silent after
//! that, so a client that holds as much as is left gets no more of it.

mod census;
mod queue;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::census::{Caps, Census};
use self::queue::{Queue, Rank, Running};
use super::standing::Standings;
use crate::admission::{ClientKey, Full, MediaLimits};
use crate::limits::{STANDING_LASTS, STANDINGS};
use crate::sync::Mutex;

/// The caps on fetches in flight at origins and on those that run at once, and the standing of origins that both depend on,
/// behind one lock.
///
/// Always: as [`Queue`] and [`Census`] say. Worst-case memory: as many entries and waiters as there are media passes, and
/// [`STANDINGS`] origins.
pub(crate) struct Turns {
    state: Mutex<State>,
}

struct State {
    in_flight: Census,
    queue: Queue<oneshot::Sender<Turn>>,
    standings: Standings,
}

impl Turns {
    /// Nothing runs, and nobody has standing yet.
    pub(crate) fn new(limits: MediaLimits) -> Self {
        let standings = Standings::new(STANDINGS, STANDING_LASTS);
        let in_flight = Census::new(Caps::in_flight(limits));
        Self { state: Mutex::new(State { in_flight, queue: Queue::new(limits), standings }) }
    }

    /// Counts a fetch of `client` as in flight at `origin`, or says whose doing it is that there is no room. *Blocking:* no.
    pub(crate) fn enter(self: &Arc<Self>, client: ClientKey, origin: Arc<str>) -> Result<Entered, Full> {
        let mut state = self.state.lock();
        let State { in_flight, standings, .. } = &mut *state;
        let now = Instant::now();
        let standing = |origin: &str| standings.of(origin, now);
        in_flight.tally(standing).room(client, &origin, standing(&origin))?;
        in_flight.add(client, Arc::clone(&origin));
        drop(state);
        Ok(Entered { turns: Arc::clone(self), client, origin })
    }

    /// Waits for a turn at `origin`. The place in the queue is taken when this is called, not when it is first polled.
    ///
    /// *Cancel safety:* dropping the future leaves no trace; a turn given in this moment goes to the next.
    pub(crate) fn turn(
        self: &Arc<Self>,
        client: ClientKey,
        origin: Arc<str>,
    ) -> impl Future<Output = Turn> + Send + use<> {
        let (wake, woken) = oneshot::channel();
        let rank = self.settle(|state| state.queue.join(client, origin, wake));
        let place = Place { turns: Arc::clone(self), rank };
        async move {
            let _place = place;
            match woken.await {
                Ok(turn) => turn,
                // The sender leaves the queue with a turn or by the drop of the place, so this is not reached.
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// `origin` gave a whole file.
    pub(crate) fn prove(self: &Arc<Self>, origin: &Arc<str>) {
        self.settle(|state| state.standings.prove(origin, Instant::now()));
    }

    /// `origin` let the time run out.
    pub(crate) fn lose(&self, origin: &Arc<str>) {
        self.state.lock().standings.lose(origin);
    }

    /// How many fetches run.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().queue.running()
    }

    /// How many fetches wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().queue.waiting()
    }

    /// Makes a change, and gives the turns that came of it; those who wait are woken after the lock is free.
    fn settle<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, mut given) = {
            let mut state = self.state.lock();
            (change(&mut state), state.give())
        };
        while let Some((running, wake)) = given.pop() {
            let turn = Turn { turns: Arc::clone(self), running: Some(running) };
            if let Err(mut unwanted) = wake.send(turn)
                && let Some(running) = unwanted.running.take()
            {
                // Whoever waited left in this moment.
                let mut state = self.state.lock();
                state.queue.ended(&running);
                given.extend(state.give());
            }
        }
        changed
    }
}

impl State {
    fn give(&mut self) -> Vec<(Running, oneshot::Sender<Turn>)> {
        let Self { queue, standings, .. } = self;
        let now = Instant::now();
        std::iter::from_fn(|| queue.next(|origin| standings.of(origin, now))).collect()
    }
}

/// One fetch is in flight at its origin as long as this lives.
#[must_use = "dropping it gives the room to others"]
pub(crate) struct Entered {
    turns: Arc<Turns>,
    client: ClientKey,
    origin: Arc<str>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.turns.state.lock().in_flight.remove(self.client, &self.origin);
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Entered").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// One fetch runs as long as this lives.
#[must_use = "dropping the turn gives it to the next"]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    /// `None` once given back.
    running: Option<Running>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.turns.settle(|state| state.queue.ended(&running));
        }
    }
}

/// A place in the queue, left when this is dropped.
struct Place {
    turns: Arc<Turns>,
    rank: Rank,
}

impl Drop for Place {
    fn drop(&mut self) {
        let wake = self.turns.state.lock().queue.leave(self.rank);
        // Outside the lock: nobody may be woken under it.
        drop(wake);
    }
}

#[cfg(test)]
mod tests;
