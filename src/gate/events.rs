//! What happened at a gate: the latest events, numbered, and a reader that follows them.

use std::fmt;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::gate::effects::{Dated, Happened};
use crate::gate::homeserver_gate::HomeserverGate;
use crate::limits::GATE_EVENTS_KEPT;

/// Something that happened at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateEvent {
    /// Its number: one more than that of the event before it, from 0. A gap says how many were missed.
    pub seq: u64,
    /// When, as time since the gate was made ([`HomeserverGate::age`]).
    pub at: Duration,
    /// What.
    pub what: Happened,
}

/// Follows what happens at one gate.
///
/// The gate remembers its latest 256 events; a reader that falls behind further misses the oldest, and sees it by the gap
/// in [`GateEvent::seq`]. Admissions and ends of calls are events only while there is a reader: at a gate nobody watches,
/// they do not push out what is rarer. A hold's end is reported when the gate is next used or looked at, with the time it ended at.
///
/// ```
/// use portcullis::gate::{Happened, HomeserverGate};
///
/// /// For a log of your own; ends with the task it runs in.
/// async fn watch(gate: HomeserverGate) {
///     let mut events = gate.events();
///     loop {
///         let event = events.next().await;
///         match event.what {
///             Happened::Opened { outcome, .. } => println!("{:?}: nothing goes out: {}", event.at, outcome.as_label()),
///             Happened::Closed => println!("{:?}: calls go out again", event.at),
///             _ => {}
///         }
///     }
/// }
/// ```
pub struct GateEvents {
    gate: HomeserverGate,
    next_seq: u64,
    reader: usize,
}

impl GateEvents {
    pub(super) fn of(gate: HomeserverGate) -> Self {
        let reader = gate.shared.with_log(EventLog::add_reader);
        Self { gate, next_seq: 0, reader }
    }

    /// The next event that has happened already, the oldest remembered first.
    ///
    /// *Panics:* never. *Blocking:* no.
    #[must_use]
    pub fn try_next(&mut self) -> Option<GateEvent> {
        let event = self.gate.shared.with_log(|log| log.first_from(self.next_seq))?;
        self.next_seq = event.seq.wrapping_add(1);
        Some(event)
    }

    /// The next event, waited for if there is none yet.
    ///
    /// *Cancel safety:* dropping the future loses no event.
    pub async fn next(&mut self) -> GateEvent {
        let event = poll_fn(|context| {
            let waker = context.waker().clone();
            let (event, discarded) = self.gate.shared.with_log(|log| match log.first_from(self.next_seq) {
                Some(event) => (Poll::Ready(event), Some(waker)),
                None => (Poll::Pending, log.wake_on_event(self.reader, waker)),
            });
            // Dropping a waker may drop a task, and with it a permit of this gate: not under its lock.
            drop(discarded);
            event
        })
        .await;
        self.next_seq = event.seq.wrapping_add(1);
        event
    }
}

impl Drop for GateEvents {
    fn drop(&mut self) {
        let discarded = self.gate.shared.with_log(|log| log.remove_reader(self.reader));
        drop(discarded);
    }
}

impl fmt::Debug for GateEvents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("GateEvents")
            .field("gate", self.gate.key())
            .field("next_seq", &self.next_seq)
            .finish_non_exhaustive()
    }
}

impl Happened {
    /// The fixed word for logs and metrics.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Admitted { .. } => "admitted",
            Self::Finished { .. } => "finished",
            Self::LimitChanged { .. } => "limit-changed",
            Self::Held { .. } => "held",
            Self::HoldExpired => "hold-expired",
            Self::Opened { .. } => "opened",
            Self::Probing => "probing",
            Self::Closed => "closed",
            Self::GaveUp { .. } => "gave-up",
        }
    }
}

/// The latest events of one gate.
#[derive(Debug)]
pub(super) struct EventLog {
    /// A ring: the event numbered `n` has its place at `n` modulo its length.
    ring: Vec<Dated>,
    /// The number of the next event.
    next_seq: u64,
    readers: Vec<Option<Reader>>,
}

#[derive(Debug, Default)]
struct Reader {
    waker: Option<Waker>,
}

impl EventLog {
    pub(super) fn new() -> Self {
        Self {
            ring: Vec::with_capacity(usize::try_from(GATE_EVENTS_KEPT).unwrap_or_default()),
            next_seq: 0,
            readers: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn note(&mut self, event: Dated) {
        let is_ordinary = matches!(event.what, Happened::Admitted { .. } | Happened::Finished { .. });
        if is_ordinary && !self.has_readers() {
            return;
        }
        match self.ring.get_mut(place_of(self.next_seq)) {
            Some(oldest) => *oldest = event,
            None => self.ring.push(event),
        }
        self.next_seq = self.next_seq.wrapping_add(1);
    }

    /// The wakers of the readers that wait.
    pub(super) fn take_wakers(&mut self) -> impl Iterator<Item = Waker> + '_ {
        self.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take())
    }

    #[inline]
    pub(super) fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    /// The event numbered `seq`, or the oldest there is after it.
    fn first_from(&self, seq: u64) -> Option<GateEvent> {
        let kept = u64::try_from(self.ring.len()).unwrap_or(u64::MAX);
        let seq = seq.max(self.next_seq.saturating_sub(kept));
        if seq >= self.next_seq {
            return None;
        }
        self.ring.get(place_of(seq)).map(|dated| GateEvent { seq, at: dated.at, what: dated.what })
    }

    fn add_reader(&mut self) -> usize {
        let reader = Some(Reader::default());
        if let Some((index, place)) = self.readers.iter_mut().enumerate().find(|(_, place)| place.is_none()) {
            *place = reader;
            return index;
        }
        self.readers.push(reader);
        self.readers.len().saturating_sub(1)
    }

    fn remove_reader(&mut self, index: usize) -> Option<Reader> {
        let reader = self.readers.get_mut(index).and_then(Option::take);
        while self.readers.pop_if(|last| last.is_none()).is_some() {}
        reader
    }

    /// Takes the reader's waker, and gives back the one that it replaces.
    fn wake_on_event(&mut self, index: usize, waker: Waker) -> Option<Waker> {
        match self.readers.get_mut(index) {
            Some(Some(reader)) => reader.waker.replace(waker),
            _ => Some(waker),
        }
    }
}

#[inline]
fn place_of(seq: u64) -> usize {
    usize::try_from(seq % GATE_EVENTS_KEPT).unwrap_or_default()
}
