//! The fetch of one file: a turn, the call, the store. It writes the stored file and nothing else.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::failure::MediaFailure;
use super::files::{Coming, RemoteFiles, Ride};
use super::flights::Landing;
use super::turns::Turn;
use crate::admission::{MediaPass, MediaVariant};
use crate::deadline::Expired;
use crate::limits::MEDIA_FAIR_TRIAL_PART;
use crate::outbound::media::{MediaCallError, MediaFetch, MediaWanted, RemoteMedia};
use crate::proxy::answer::media::thumbnail_type_is_one;
use crate::proxy::media_store::{FileKey, FileMeta, StoreFault, StoredFile, Unfinished};
use crate::proxy::watch::{Ended, Subject, Watch, Why, tell};

/// What a fetch is given.
pub(super) struct Errand {
    pub(super) key: FileKey,
    /// Whose slot it is under, until the call has ended.
    pub(super) pass: MediaPass,
    pub(super) wanted: MediaWanted,
    /// Where it says how it goes.
    pub(super) ticket: Ride,
}

/// What was in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Call(MediaCallError),
    Store(StoreFault),
    Deadline,
}

impl RemoteFiles {
    /// Fetches one file, or ends when it is to be cut short. Whoever follows learns of every end, a panic included.
    pub(super) async fn fetch(self: Arc<Self>, errand: Errand) {
        let Errand { key, pass, wanted, ticket } = errand;
        let mut cut_short = self.cut_short.clone();
        // The sender's end means the same: there is no more `Portcullis`.
        let stopped = async move { drop(cut_short.wait_for(|stop| *stop).await) };
        let landing = tokio::select! {
            biased;
            // First, so that nothing is started once the stop has come.
            () = stopped => Err(MediaFailure::Stopping),
            landing = self.bring(&key, pass, wanted, &ticket) => landing,
        };
        if let Err(failure) = &landing {
            self.refused.remember(&key, *failure);
        }
        ticket.land(landing);
    }

    async fn bring(&self, key: &FileKey, pass: MediaPass, wanted: MediaWanted, ticket: &Ride) -> Landing<StoredFile> {
        let origin = Arc::from(pass.destination().canonical());
        // On a thread of the pool it has its turn already: there are fewer of those.
        let turn = if pass.is_inline() { None } else { Some(self.turn(&pass, &origin, wanted.variant).await?) };
        let mut file = self.call(key, pass, &wanted, &origin, ticket).await?;
        // The slots are free, and those who read may see the end.
        file.complete().await?;
        let kept = file.keep().await;
        drop(turn);
        Ok(kept?)
    }

    async fn turn(&self, pass: &MediaPass, origin: &Arc<str>, variant: MediaVariant) -> Result<Turn, MediaFailure> {
        let began = Instant::now();
        let deadline = pass.deadline();
        let turn = deadline.cut(self.turns.turn(pass.client(), Arc::clone(origin))).await;
        // One that comes together with the deadline is the next one's.
        turn.ok().filter(|_| !deadline.is_expired(Instant::now())).ok_or_else(|| {
            tell(&subject(origin, variant), Why { phase: "turn", reason: "deadline" }, None, began);
            MediaFailure::TimedOut
        })
    }

    /// From the opened call to its end. The slot is free when this returns.
    async fn call(
        &self,
        key: &FileKey,
        pass: MediaPass,
        wanted: &MediaWanted,
        origin: &Arc<str>,
        ticket: &Ride,
    ) -> Result<Unfinished, MediaFailure> {
        let deadline = pass.deadline();
        let mut watch = Watch::new(&self.outcomes, subject(origin, wanted.variant), deadline);
        let mut call = self.source.open(pass);
        let outcome = deadline.cut(self.receive(key, &mut *call, wanted, ticket)).await;
        drop(call);
        ticket.free_riders();
        let obstacle = match outcome {
            Ok(Ok(file)) => {
                self.turns.prove(origin);
                watch.ended(Ended::Answered, None);
                return Ok(file);
            }
            Ok(Err(obstacle)) => obstacle,
            Err(Expired) => Obstacle::Deadline,
        };
        let failure = MediaFailure::from(obstacle);
        match failure {
            // One that waited for its turn until the end proves nothing about the origin.
            MediaFailure::TimedOut if watch.elapsed() >= deadline.allowed() / MEDIA_FAIR_TRIAL_PART => {
                self.turns.lose(origin);
            }
            _ => {}
        }
        watch.answered_with(obstacle.status());
        watch.ended(obstacle.ended(failure), Some(obstacle.why()));
        Err(failure)
    }

    /// Asks for the file and writes what comes. Nothing is told to anybody before the first bytes are there.
    ///
    /// The size is not checked here: [`RemoteMedia`] is never larger than was wanted, nor another length than it announced.
    async fn receive(
        &self,
        key: &FileKey,
        call: &mut dyn MediaFetch,
        wanted: &MediaWanted,
        ticket: &Ride,
    ) -> Result<Unfinished, Obstacle> {
        let RemoteMedia { content_type, content_disposition, length, mut body } = call.fetch(wanted).await?;
        let is_picture = content_type.as_deref().is_some_and(thumbnail_type_is_one);
        if matches!(wanted.variant, MediaVariant::Thumbnail(_)) && !is_picture {
            return Err(MediaCallError::Malformed.into());
        }
        let meta = FileMeta::new(content_type, content_disposition);
        let mut file = None;
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame?.into_data() else { continue };
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(self.begin(key, &meta, length, ticket).await?),
            };
            file.write(bytes).await?;
        }
        match file {
            Some(file) => Ok(file),
            None => Ok(self.begin(key, &meta, length, ticket).await?),
        }
    }

    async fn begin(
        &self,
        key: &FileKey,
        meta: &FileMeta,
        length: Option<u64>,
        ticket: &Ride,
    ) -> Result<Unfinished, StoreFault> {
        let file = self.store.begin(key.clone(), meta.clone()).await?;
        ticket.coming(Coming { meta: Arc::new(meta.clone()), length, readers: file.readers() });
        Ok(file)
    }
}

fn subject(origin: &Arc<str>, variant: MediaVariant) -> Subject {
    let route = match variant {
        MediaVariant::Download => "media-download",
        MediaVariant::Thumbnail(_) => "media-thumbnail",
    };
    Subject { server: origin.as_ref().to_owned(), route, failed: "media fetch failed" }
}

fn store_word(fault: StoreFault) -> &'static str {
    match fault {
        StoreFault::NoRoom => "no-room",
        StoreFault::TooLarge => "too-large",
        StoreFault::DiskFull => "disk-full",
        StoreFault::Io => "io",
        StoreFault::Incomplete => "incomplete",
    }
}

impl Obstacle {
    fn ended(self, failure: MediaFailure) -> Ended {
        match (self, failure) {
            (_, MediaFailure::TimedOut) => Ended::TimedOut,
            // To say no is to answer.
            (
                Self::Call(
                    MediaCallError::NotFound
                    | MediaCallError::NotYetUploaded
                    | MediaCallError::TooLarge
                    | MediaCallError::NoThumbnail,
                ),
                _,
            ) => Ended::Answered,
            _ => Ended::Failed,
        }
    }

    fn status(self) -> Option<u16> {
        match self {
            Self::Call(MediaCallError::Status(status)) => Some(status),
            _ => None,
        }
    }

    fn why(self) -> Why {
        let (phase, reason) = match self {
            Self::Deadline => ("call", "deadline"),
            Self::Store(fault) => ("store", store_word(fault)),
            Self::Call(MediaCallError::Call(error)) => (error.phase.as_label(), error.as_label()),
            Self::Call(MediaCallError::NotFound) => ("answer", "not-found"),
            Self::Call(MediaCallError::NotYetUploaded) => ("answer", "not-yet-uploaded"),
            Self::Call(MediaCallError::TooLarge) => ("answer", "too-large"),
            Self::Call(MediaCallError::NoThumbnail) => ("answer", "no-thumbnail"),
            Self::Call(MediaCallError::Status(_)) => ("answer", "unexpected-status"),
            Self::Call(MediaCallError::Malformed) => ("answer", "answer-malformed"),
        };
        Why { phase, reason }
    }
}

impl From<Obstacle> for MediaFailure {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Call(error) => error.into(),
            Obstacle::Store(fault) => fault.into(),
            Obstacle::Deadline => Self::TimedOut,
        }
    }
}

impl From<MediaCallError> for Obstacle {
    fn from(error: MediaCallError) -> Self {
        Self::Call(error)
    }
}

impl From<StoreFault> for Obstacle {
    fn from(fault: StoreFault) -> Self {
        Self::Store(fault)
    }
}
