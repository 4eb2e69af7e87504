//! The callers of the load-gate record, with the figures it gives them.

use std::future::Future;
use std::time::Duration;

use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::outer_timeout::OuterTimeout;
use crate::limits::{
    AUTO_JOIN_TIMEOUT, BACKFILL_PAGE_TIMEOUT, BRIEF_WAIT, KEY_BACKUP_DOWNLOAD_TIMEOUT, LONG_POLL_TIMEOUT,
    UPSTREAM_PROBE_ROOMS, UPSTREAM_PROBE_TIMEOUT,
};
use crate::outcome::{Outcome, Took};

/// A caller nobody is waiting for.
///
/// | caller | call | timeout | waits |
/// |---|---|---|---|
/// | backfill | one page of a room's history, retries off | 30 s | as long as it takes |
/// | upstream room probe | one room's create event, retries off | 15 s | 10 s |
/// | key-backup download of the boot sweep | one room's keys, retries inside | 30 s outer | as long as it takes; not at all while backups are off |
/// | automatic join | one join, retries inside | 30 s outer | 10 s |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackgroundCaller {
    /// Pages through a room's history.
    BackfillPage,
    /// Asks whether a room is still there.
    UpstreamRoomProbe,
    /// Downloads one room's keys from the backup. A success teaches nothing, because a download without a backup succeeds
    /// without asking anybody.
    KeyBackupDownload {
        /// Whether backups are enabled. While they are not, the download takes no permit and reports like a call that a
        /// user waits for.
        backups_enabled: bool,
    },
    /// Joins the direct chat of a known contact.
    AutoJoin,
}

/// How long a caller waits for its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// [`HomeserverGate::acquire`].
    AsLongAsItTakes,
    /// [`HomeserverGate::acquire_within`].
    Briefly(Duration),
    /// It takes no permit: [`HomeserverGate::interactive`].
    NotAtAll,
}

/// There is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    /// No permit was to be had in the time the caller waits. Nothing was sent; it is for the caller's next round.
    #[error("no permit in time")]
    NoPermit,
    /// The call was sent, and took too long.
    #[error(transparent)]
    TimedOut(#[from] OuterTimeout),
}

/// What came of one pass of the upstream room probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "rooms that were left are for the next pass"]
pub struct ProbePass<R, T> {
    /// Rooms that were asked about, in order.
    pub asked: Vec<(R, Result<T, OuterTimeout>)>,
    /// Rooms left for the next pass, in order: those past the eighth, and all from the first that got no permit.
    pub left: Vec<R>,
}

impl BackgroundCaller {
    /// The timeout of one call, its retries included.
    #[must_use]
    pub fn timeout(self) -> Duration {
        match self {
            Self::BackfillPage => BACKFILL_PAGE_TIMEOUT,
            Self::UpstreamRoomProbe => UPSTREAM_PROBE_TIMEOUT,
            Self::KeyBackupDownload { .. } => KEY_BACKUP_DOWNLOAD_TIMEOUT,
            Self::AutoJoin => AUTO_JOIN_TIMEOUT,
        }
    }

    /// How long it waits for a permit.
    #[must_use]
    pub fn wait(self) -> Wait {
        match self {
            Self::BackfillPage | Self::KeyBackupDownload { backups_enabled: true } => Wait::AsLongAsItTakes,
            Self::UpstreamRoomProbe | Self::AutoJoin => Wait::Briefly(BRIEF_WAIT),
            Self::KeyBackupDownload { backups_enabled: false } => Wait::NotAtAll,
        }
    }

    /// What an outcome of this caller's teaches.
    #[must_use]
    pub fn taught_by(self, outcome: Outcome) -> Outcome {
        match (self, outcome) {
            (Self::KeyBackupDownload { .. }, Outcome::FastSuccess | Outcome::SlowSuccess) => Outcome::UnknownSuccess,
            (_, outcome) => outcome,
        }
    }
}

impl HomeserverGate {
    /// One call of a background caller: waits as that caller does, runs `call` under its timeout, and reports.
    ///
    /// `call` is made once there is a permit, so that nothing is prepared in vain; `classify` says how it ended, from its
    /// answer and the time it took.
    ///
    /// *Errors:* [`NotAnswered`]. *Cancel safety:* dropping the future leaves the line, or drops the call and teaches
    /// nothing. *Panics:* never, inside a tokio runtime with its timer on.
    ///
    /// ```
    /// use portcullis::Outcome;
    /// use portcullis::gate::{BackgroundCaller, GateKey, HomeserverGate};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// # let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org").unwrap());
    /// let caller = BackgroundCaller::BackfillPage;
    /// let messages = || async { http::StatusCode::OK }; // your own request, retries off
    /// let page = gate.call(caller, messages, |status, took| Outcome::of_status(*status, took));
    /// assert_eq!(page.await, Ok(http::StatusCode::OK));
    /// # });
    /// ```
    pub async fn call<T, F: Future<Output = T>>(
        &self,
        caller: BackgroundCaller,
        call: impl FnOnce() -> F,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, NotAnswered> {
        let classify = |answer: &T, took| caller.taught_by(classify(answer, took));
        let permit = match caller.wait() {
            Wait::AsLongAsItTakes => self.acquire().await,
            Wait::Briefly(wait) => self.acquire_within(wait).await.ok_or(NotAnswered::NoPermit)?,
            Wait::NotAtAll => {
                return Ok(self.interactive().run_within(caller.timeout(), call(), classify).await?);
            }
        };
        Ok(permit.run_within(caller.timeout(), call(), classify).await?)
    }

    /// One call of a caller that is none of the record's, with a timeout of its own: waits as long as it takes, runs `call`
    /// for `timeout` at most, its retries included, and reports. Whoever does not wait as long puts
    /// [`acquire_within`](Self::acquire_within) before [`Permit::run_within`](crate::gate::Permit::run_within).
    ///
    /// *Errors:* [`OuterTimeout`]; `call` was dropped and its slot is held. *Cancel safety*, *Panics:* as
    /// [`call`](Self::call).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use http::StatusCode;
    /// use portcullis::Outcome;
    /// use portcullis::gate::{GateKey, HomeserverGate};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// # let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org").unwrap());
    /// let members = || async { StatusCode::SERVICE_UNAVAILABLE }; // your own request
    /// let timeout = Duration::from_secs(60);
    /// let answer = gate.call_within(timeout, members, |status, took| Outcome::of_status(*status, took)).await;
    /// assert_eq!(answer, Ok(StatusCode::SERVICE_UNAVAILABLE));
    /// assert_eq!(gate.status().limit, 1); // it was 2
    /// # });
    /// ```
    pub async fn call_within<T, F: Future<Output = T>>(
        &self,
        timeout: Duration,
        call: impl FnOnce() -> F,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, OuterTimeout> {
        self.acquire().await.run_within(timeout, call(), classify).await
    }

    /// One long-poll under its outer timeout of 90 s: waits while the breaker is not closed, and only then. Ask the
    /// homeserver itself to wait for [`LONG_POLL_SERVER_WAIT`](crate::limits::LONG_POLL_SERVER_WAIT).
    ///
    /// *Errors:* [`OuterTimeout`]. *Cancel safety*, *Panics:* as [`call`](Self::call).
    pub async fn long_poll<T, F: Future<Output = T>>(
        &self,
        call: impl FnOnce() -> F,
        classify: impl FnOnce(&T, Took) -> Outcome,
    ) -> Result<T, OuterTimeout> {
        self.poll_turn().await.run_within(LONG_POLL_TIMEOUT, call(), classify).await
    }

    /// One pass of the upstream room probe: asks about eight rooms at most, one after the other. A room that gets no permit
    /// in its brief wait ends the pass; it and the rest are left for the next one.
    ///
    /// *Cancel safety:* dropping the future drops the call it is at, which teaches nothing; what was asked is lost.
    /// *Panics:* as [`call`](Self::call).
    pub async fn upstream_probe_pass<R, T, F: Future<Output = T>>(
        &self,
        rooms: impl IntoIterator<Item = R>,
        mut probe: impl FnMut(&R) -> F,
        mut classify: impl FnMut(&T, Took) -> Outcome,
    ) -> ProbePass<R, T> {
        let mut rooms = rooms.into_iter();
        let mut pass = ProbePass { asked: Vec::with_capacity(UPSTREAM_PROBE_ROOMS), left: Vec::new() };
        for room in rooms.by_ref().take(UPSTREAM_PROBE_ROOMS) {
            match self.call(BackgroundCaller::UpstreamRoomProbe, || probe(&room), &mut classify).await {
                Ok(answer) => pass.asked.push((room, Ok(answer))),
                Err(NotAnswered::TimedOut(timeout)) => pass.asked.push((room, Err(timeout))),
                Err(NotAnswered::NoPermit) => {
                    pass.left.push(room);
                    break;
                }
            }
        }
        pass.left.extend(rooms);
        pass
    }
}
