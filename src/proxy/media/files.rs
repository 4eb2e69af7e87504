//! [`RemoteFiles`]: the files of other servers, fetched once each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::failure::MediaFailure;
use super::fetch::Errand;
use super::flights::{Arrived, Boarded, Flights, Landing, Seat, Ticket};
use super::refused::Refused;
use super::turns::{Entered, Turns};
use crate::admission::{ClientKey, Full, MediaLimits, MediaPass, MediaVariant};
use crate::deadline::OutboundDeadline;
use crate::limits::{MEDIA_REFUSAL_TTL, MEDIA_REFUSALS, MEDIA_SWEEP_INTERVAL, MEDIA_TAKEOVER_LEAST, WORKER_MARGIN};
use crate::outbound::media::{MediaWanted, RemoteMediaSource};
use crate::proxy::media_store::{FileKey, FileMeta, MediaStore, Readers, StoreUsage, StoredFile};
use crate::proxy::watch::{CallCounts, CallTimes, DestinationStatus, Outcomes};

/// What is known of a file once it begins to come.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    /// What its server says of it.
    pub(crate) meta: Arc<FileMeta>,
    /// Its length, where it is known before the end.
    pub(crate) length: Option<u64>,
    /// Makes readers that follow the writer.
    pub(crate) readers: Readers,
}

pub(super) type Fleet = Flights<FileKey, Coming, StoredFile, MediaPass>;
pub(super) type Ride = Ticket<FileKey, Coming, StoredFile, MediaPass>;
type Place = Seat<Coming, StoredFile, MediaPass>;

/// Asks other servers for files, each file once, and stores what comes.
///
/// Always: one fetch per file at a time (`br48_fifty_at_once_are_one_call`); fetches end by their deadline, whoever left
/// meanwhile, and when there is no more [`Portcullis`](crate::Portcullis).
pub(crate) struct RemoteFiles {
    pub(super) source: Box<dyn RemoteMediaSource>,
    pub(super) store: MediaStore,
    pub(super) max_file_bytes: u64,
    pub(super) turns: Arc<Turns>,
    pub(super) refused: Refused,
    pub(super) outcomes: Outcomes,
    flights: Arc<Fleet>,
    tasks: Handle,
    /// True once fetches are to be dropped; so is the end of its sender.
    pub(super) cut_short: watch::Receiver<bool>,
}

/// What [`RemoteFiles`] works with.
pub(crate) struct RemoteFilesParts {
    /// The way out.
    pub(crate) source: Box<dyn RemoteMediaSource>,
    /// Where files are put.
    pub(crate) store: MediaStore,
    /// Largest file that is taken.
    pub(crate) max_file_bytes: u64,
    /// How many fetches run.
    pub(crate) limits: MediaLimits,
    /// Where fetches run. It has I/O, timers and threads for the disk.
    pub(crate) tasks: Handle,
    /// True, or without a sender: fetches end.
    pub(crate) cut_short: watch::Receiver<bool>,
}

/// How much of a file has to be there for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// Its beginning: the rest is read as it comes.
    Beginning,
    /// All of it: the answer is made on a thread that does not wait for readers.
    Whole,
}

impl RemoteFiles {
    /// Starts with what is stored, and sweeps the store now and then.
    pub(crate) fn new(parts: RemoteFilesParts) -> Self {
        let RemoteFilesParts { source, store, max_file_bytes, limits, tasks, cut_short } = parts;
        tasks.spawn(sweep_now_and_then(store.clone(), cut_short.clone()));
        Self {
            source,
            store,
            max_file_bytes,
            turns: Arc::new(Turns::new(limits)),
            refused: Refused::new(MEDIA_REFUSALS, MEDIA_REFUSAL_TTL),
            outcomes: Outcomes::default(),
            flights: Arc::new(Flights::new()),
            tasks,
            cut_short,
        }
    }

    /// What is known of a file without asking anybody: that it is stored, or that there is none. *Blocking:* no.
    pub(crate) fn known(&self, key: &FileKey) -> Option<Landing<StoredFile>> {
        let refused = self.refused.of(key).map(Err);
        refused.or_else(|| self.store.find(key).map(Ok))
    }

    /// The file of `key`: fetched, or awaited from a fetch that is on its way.
    ///
    /// The fetch is a task of its own that owns the pass of its leader. Who follows keeps its own pass, and is answered by
    /// its own deadline. Where a leader's time ran out, or it failed, the next follower leads with the time it has left; a
    /// second failure in a row that was not a matter of time is everybody's: however many follow, a server that fails is
    /// asked twice. A time-out is nobody else's, and "not yet uploaded" not that of one whose client would have waited longer
    /// for the upload; but who has next to no time left does not lead any more.
    ///
    /// *Cancel safety:* dropping the future gives up a follower's slot; a fetch that has begun goes on.
    pub(crate) async fn get(
        self: &Arc<Self>,
        key: &FileKey,
        pass: MediaPass,
        variant: MediaVariant,
        patience: Duration,
        needed: Needed,
    ) -> Landing<Arrived<Coming, StoredFile>> {
        let deadline = pass.deadline();
        let mut failed_before = false;
        loop {
            let mut seat = match self.flights.board(key, patience) {
                Boarded::Lead(ticket, seat) => {
                    if let Some(known) = self.known(key) {
                        // Found out between our first look and our boarding.
                        ticket.land(known.clone());
                        return known.map(Arrived::Whole);
                    }
                    let wanted = MediaWanted { variant, patience, max_bytes: self.max_file_bytes };
                    let errand = Errand { key: key.clone(), pass, wanted, ticket };
                    self.tasks.spawn(Arc::clone(self).fetch(errand));
                    return self.own_arrival(seat, deadline, needed).await;
                }
                Boarded::Follow(seat) => seat,
            };
            let outcome = deadline.cut(wait(&mut seat, needed)).await.unwrap_or(Err(MediaFailure::TimedOut));
            match outcome {
                Ok(arrived) => {
                    if matches!(arrived, Arrived::Coming(_)) {
                        seat.ride(pass);
                    }
                    return Ok(arrived);
                }
                // Its leader would not wait for the upload as long as we would. Each of these takes its own time to ask.
                Err(MediaFailure::NotYetUploaded) if seat.patience() < patience => {
                    if deadline.remaining(Instant::now()).unwrap_or_default() < MEDIA_TAKEOVER_LEAST {
                        return Err(MediaFailure::NotYetUploaded);
                    }
                }
                Err(failure) if failure.holds_for_all() => return Err(failure),
                Err(MediaFailure::TimedOut) => {
                    let left = deadline.remaining(Instant::now()).unwrap_or_default();
                    if left < MEDIA_TAKEOVER_LEAST {
                        return Err(MediaFailure::TimedOut);
                    }
                }
                Err(failure) if failed_before => return Err(failure),
                Err(_) => failed_before = true,
            }
        }
    }

    /// What became of the fetch we lead. It ends by its deadline by itself, unless nothing runs any more where it runs.
    async fn own_arrival(
        &self,
        mut seat: Place,
        deadline: OutboundDeadline,
        needed: Needed,
    ) -> Landing<Arrived<Coming, StoredFile>> {
        let left = deadline.remaining(Instant::now()).unwrap_or_default();
        let outcome = tokio::time::timeout(left.saturating_add(WORKER_MARGIN), wait(&mut seat, needed)).await;
        match outcome.unwrap_or(Err(MediaFailure::TimedOut)) {
            // The task was dropped together with where it ran.
            Err(MediaFailure::Failed) if self.is_cut_short() => Err(MediaFailure::Stopping),
            outcome => outcome,
        }
    }

    fn is_cut_short(&self) -> bool {
        *self.cut_short.borrow() || self.cut_short.has_changed().is_err()
    }

    /// Counts a fetch of `client` as in flight at `origin`, or says whose doing it is that there is no room. *Blocking:* no.
    pub(crate) fn enter(&self, client: ClientKey, origin: &str) -> Result<Entered, Full> {
        self.turns.enter(client, Arc::from(origin))
    }

    /// How many fetches run, and how many wait for their turn.
    pub(crate) fn running_and_waiting(&self) -> (usize, usize) {
        (self.turns.running(), self.turns.waiting())
    }

    /// How the calls so far ended.
    pub(crate) fn calls(&self) -> CallCounts {
        self.outcomes.counts()
    }

    /// How long they took.
    pub(crate) fn call_times(&self) -> CallTimes {
        self.outcomes.times()
    }

    /// Whom they asked lately.
    pub(crate) fn destinations(&self) -> Vec<DestinationStatus> {
        self.outcomes.destinations()
    }

    /// What the store holds.
    pub(crate) fn usage(&self) -> StoreUsage {
        self.store.usage()
    }
}

async fn wait(seat: &mut Place, needed: Needed) -> Landing<Arrived<Coming, StoredFile>> {
    match needed {
        Needed::Beginning => seat.arrived().await,
        Needed::Whole => seat.landed().await,
    }
}

/// The store sweeps itself when files are kept; this is for the time when none are.
async fn sweep_now_and_then(store: MediaStore, mut cut_short: watch::Receiver<bool>) {
    let stopped = async move { drop(cut_short.wait_for(|stop| *stop).await) };
    let sweeps = async move {
        loop {
            tokio::time::sleep(MEDIA_SWEEP_INTERVAL).await;
            store.sweep().await;
        }
    };
    tokio::select! {
        () = stopped => {}
        () = sweeps => {}
    }
}

impl fmt::Debug for RemoteFiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (running, waiting) = self.running_and_waiting();
        out.debug_struct("RemoteFiles")
            .field("running", &running)
            .field("waiting", &waiting)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
