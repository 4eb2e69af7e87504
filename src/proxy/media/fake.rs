//! A fake way out to files: says what it is told to, holds passes as the real one does, and keeps count.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};

use crate::admission::{MediaPass, RemoteFile};
use crate::outbound::BoxFuture;
use crate::outbound::error::{CallError, CallFailure, CallPhase};
use crate::outbound::media::{
    MediaCallError, MediaFetch, MediaWanted, RemoteMedia, RemoteMediaBody, RemoteMediaSource,
};

/// What an origin does about a file.
#[derive(Clone)]
pub(crate) enum Does {
    /// Gives it at once.
    Give(&'static [u8]),
    /// Takes a while, then gives it.
    GiveAfter(Duration, &'static [u8]),
    /// Gives it in these pieces, each after a while, of the announced length.
    Drip(Vec<Piece>, Option<u64>),
    /// Gives nothing before the test says so.
    GiveWhenTold(Arc<Semaphore>, &'static [u8]),
    /// Takes a while, then says no.
    SayAfter(Duration, MediaCallError),
    /// Stays silent; the call ends by its own deadline, as a real one does.
    StaySilent,
    /// The call panics.
    Panic,
}

/// A piece of a body, or its end.
#[derive(Clone)]
pub(crate) enum Piece {
    After(Duration, &'static [u8]),
    Zeros(usize),
    Break(MediaCallError),
    Stall,
    Panic,
}

pub(crate) const TIMED_OUT: MediaCallError =
    MediaCallError::Call(CallError { phase: CallPhase::Send, failure: CallFailure::Exchange, timed_out: true });

pub(crate) const BROKEN: MediaCallError =
    MediaCallError::Call(CallError { phase: CallPhase::Connect, failure: CallFailure::Exchange, timed_out: false });

#[derive(Clone)]
pub(crate) struct FakeOrigin(Arc<Shared>);

struct Shared {
    script: Box<dyn Fn(&RemoteFile) -> Does + Send + Sync>,
    content_type: &'static str,
    opened: AtomicUsize,
    open: AtomicUsize,
}

impl FakeOrigin {
    pub(crate) fn new(script: impl Fn(&RemoteFile) -> Does + Send + Sync + 'static) -> Self {
        Self::of_type("image/png", script)
    }

    pub(crate) fn of_type(
        content_type: &'static str,
        script: impl Fn(&RemoteFile) -> Does + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            script: Box::new(script),
            content_type,
            opened: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        }))
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> usize {
        self.0.opened.load(Ordering::SeqCst)
    }

    /// How many of them have not ended.
    pub(crate) fn open_calls(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }
}

struct FakeFetch {
    origin: FakeOrigin,
    pass: MediaPass,
}

impl Drop for FakeFetch {
    fn drop(&mut self) {
        self.origin.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RemoteMediaSource for FakeOrigin {
    fn open(&self, pass: MediaPass) -> Box<dyn MediaFetch> {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        self.0.open.fetch_add(1, Ordering::SeqCst);
        Box::new(FakeFetch { origin: self.clone(), pass })
    }
}

impl FakeFetch {
    fn media(&self, body: RemoteMediaBody, length: Option<u64>) -> RemoteMedia {
        RemoteMedia {
            content_type: Some(self.origin.0.content_type.to_owned()),
            content_disposition: Some("inline; filename=\"cat.png\"".to_owned()),
            length,
            body,
        }
    }

    fn whole(&self, bytes: &'static [u8]) -> RemoteMedia {
        let body = http_body_util::Full::new(Bytes::from_static(bytes)).map_err(|never| match never {});
        self.media(body.boxed_unsync(), None)
    }
}

impl MediaFetch for FakeFetch {
    fn fetch<'a>(&'a mut self, _: &'a MediaWanted) -> BoxFuture<'a, Result<RemoteMedia, MediaCallError>> {
        let does = (self.origin.0.script)(self.pass.allowed().file());
        let deadline = self.pass.deadline();
        Box::pin(async move {
            let work = async {
                match does {
                    Does::Give(bytes) => Ok(self.whole(bytes)),
                    Does::GiveAfter(delay, bytes) => {
                        sleep(delay).await;
                        Ok(self.whole(bytes))
                    }
                    Does::GiveWhenTold(told, bytes) => {
                        told.acquire().await.unwrap().forget();
                        Ok(self.whole(bytes))
                    }
                    Does::Drip(pieces, length) => {
                        let pieces = Pieces { left: pieces.into(), pause: None };
                        Ok(self.media(pieces.boxed_unsync(), length))
                    }
                    Does::SayAfter(delay, error) => {
                        sleep(delay).await;
                        Err(error)
                    }
                    Does::StaySilent => std::future::pending().await,
                    Does::Panic => panic!("inside the call"),
                }
            };
            deadline.cut(work).await.unwrap_or(Err(TIMED_OUT))
        })
    }
}

/// A body that comes in pieces.
struct Pieces {
    left: VecDeque<Piece>,
    pause: Option<(Pin<Box<Sleep>>, &'static [u8])>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = MediaCallError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, MediaCallError>>> {
        if let Some((pause, bytes)) = &mut self.pause {
            let bytes = *bytes;
            std::task::ready!(pause.as_mut().poll(context));
            self.pause = None;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(bytes)))));
        }
        match self.left.pop_front() {
            None => Poll::Ready(None),
            Some(Piece::Break(error)) => Poll::Ready(Some(Err(error))),
            Some(Piece::Zeros(length)) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; length]))))),
            Some(Piece::Panic) => panic!("inside the body"),
            Some(Piece::Stall) => {
                self.left.push_front(Piece::Stall);
                Poll::Pending
            }
            Some(Piece::After(delay, bytes)) => {
                self.pause = Some((Box::pin(sleep(delay)), bytes));
                self.poll_frame(context)
            }
        }
    }
}
