//! Where a waiter finds its verdict: one cell each, named by a [`WaiterId`].

use std::task::Waker;

use crate::gate::effects::Verdict;
use crate::gate::queue::WaiterId;

/// Room for so many waiters before the cells allocate.
const ROOM: usize = 8;

#[derive(Debug)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    free: Vec<usize>,
}

#[derive(Debug)]
enum Cell {
    Free,
    Waiting(Option<Waker>),
    Answered(Verdict),
}

/// A waker that is not to be woken. Dropping it may drop a task, and with it a permit of this very gate: so not under the
/// lock.
#[derive(Debug)]
#[must_use = "to be dropped once the lock is free"]
pub(super) struct Discarded(#[expect(dead_code, reason = "it is kept to be dropped")] pub(super) Waker);

impl Cells {
    pub(super) fn new() -> Self {
        Self { cells: Vec::with_capacity(ROOM), free: Vec::with_capacity(ROOM) }
    }

    /// The name of the next waiter to [`enter`](Self::enter).
    #[inline]
    pub(super) fn next_id(&self) -> WaiterId {
        WaiterId(self.free.last().copied().unwrap_or(self.cells.len()))
    }

    /// A cell for a new waiter, under the name that was announced.
    pub(super) fn enter(&mut self) -> WaiterId {
        let id = self.next_id();
        self.free.pop();
        match self.cells.get_mut(id.0) {
            Some(cell) => *cell = Cell::Waiting(None),
            None => self.cells.push(Cell::Waiting(None)),
        }
        id
    }

    /// Puts the verdict where its waiter finds it, and says whom to wake.
    pub(super) fn answer(&mut self, id: WaiterId, verdict: Verdict) -> Option<Waker> {
        let cell = self.cells.get_mut(id.0)?;
        match std::mem::replace(cell, Cell::Answered(verdict)) {
            Cell::Waiting(waker) => waker,
            Cell::Free | Cell::Answered(_) => None,
        }
    }

    /// Takes the verdict, and frees the cell, if there is one.
    pub(super) fn take_answer(&mut self, id: WaiterId) -> Option<Verdict> {
        match self.cells.get(id.0) {
            Some(Cell::Answered(verdict)) => {
                let verdict = *verdict;
                let _no_waker = self.free(id);
                Some(verdict)
            }
            _ => None,
        }
    }

    /// Frees the cell of a waiter that goes away, with or without a verdict.
    pub(super) fn free(&mut self, id: WaiterId) -> Option<Discarded> {
        let cell = self.cells.get_mut(id.0)?;
        if matches!(cell, Cell::Free) {
            return None;
        }
        self.free.push(id.0);
        match std::mem::replace(cell, Cell::Free) {
            Cell::Waiting(waker) => waker.map(Discarded),
            Cell::Free | Cell::Answered(_) => None,
        }
    }

    /// Wakes this one from now on; it has been [`unregister`](Self::unregister)ed.
    pub(super) fn register(&mut self, id: WaiterId, waker: &Waker) {
        if let Some(Cell::Waiting(registered @ None)) = self.cells.get_mut(id.0) {
            *registered = Some(waker.clone());
        }
    }

    /// Wakes nobody until registered anew: the waiter is being polled.
    pub(super) fn unregister(&mut self, id: WaiterId) -> Option<Discarded> {
        match self.cells.get_mut(id.0) {
            Some(Cell::Waiting(registered)) => registered.take().map(Discarded),
            _ => None,
        }
    }

    /// The wakers of all who wait.
    pub(super) fn take_wakers(&mut self) -> impl Iterator<Item = Waker> + '_ {
        self.cells.iter_mut().filter_map(|cell| match cell {
            Cell::Waiting(waker) => waker.take(),
            Cell::Free | Cell::Answered(_) => None,
        })
    }
}
