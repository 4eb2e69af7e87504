//! [`FileReader`]: reads a file, a whole one or behind its writer, one piece at a time.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::{self, Thread};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::disk::{read_at, to_u64};
use super::progress::{Next, Progress, wait};
use crate::limits::MEDIA_CHUNK_BYTES;
use crate::proxy::response_body::BodyCut;
use crate::sync::Arc;

/// Reads a file, or a range of it, one piece at a time; behind the writer if it is not whole yet.
///
/// Always: one piece of [`MEDIA_CHUNK_BYTES`] is in memory at most, and nothing is read before it is asked for. Never: a
/// clean end before the end of the file, or of the range. It waits for the writer and asks no clock; any tokio runtime may
/// read, whichever one writes. Dropping it is fine at any time.
pub(crate) struct FileReader {
    place: Place,
    following: Option<watch::Receiver<Progress>>,
    step: Step,
}

/// A [`FileReader`] for a thread that may wait.
pub(crate) struct BlockingFileReader {
    place: Place,
    following: Option<watch::Receiver<Progress>>,
}

/// Where in the file the reader is.
#[derive(Clone)]
struct Place {
    file: Arc<File>,
    /// Where the bytes begin in `file`.
    data_at: u64,
    at: u64,
    /// `None`: wherever the file ends.
    end: Option<u64>,
}

enum Step {
    Idle,
    Waiting(Pin<Box<dyn Future<Output = Next> + Send + Sync>>),
    Reading(JoinHandle<io::Result<Bytes>>),
    Done,
}

impl FileReader {
    /// A reader of a whole file.
    pub(super) fn whole(file: Arc<File>, data_at: u64, data_bytes: u64) -> Self {
        Self { place: Place { file, data_at, at: 0, end: Some(data_bytes) }, following: None, step: Step::Idle }
    }

    /// A reader of a file that grows.
    pub(super) fn behind(file: Arc<File>, data_at: u64, progress: watch::Receiver<Progress>) -> Self {
        Self { place: Place { file, data_at, at: 0, end: None }, following: Some(progress), step: Step::Idle }
    }

    /// The same for a part of the file: offsets of its bytes, from the first on. What lies behind the end of a whole file is
    /// left out; of one that grows it is not known, and such a range is cut when the file turns out to be shorter.
    pub(crate) fn range(mut self, range: Range<u64>) -> Self {
        let end = self.place.end.map_or(range.end, |end| range.end.min(end));
        self.place.at = range.start.min(end);
        self.place.end = Some(end);
        self.step = Step::Idle;
        self
    }

    /// The same for a thread that may wait.
    pub(crate) fn into_blocking(self) -> BlockingFileReader {
        BlockingFileReader { place: self.place, following: self.following }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyCut>>> {
        loop {
            let next = match &mut self.step {
                Step::Idle => self.place.next(self.following.as_ref()),
                Step::Waiting(waiting) => ready!(waiting.as_mut().poll(context)),
                Step::Reading(reading) => {
                    let read = ready!(Pin::new(reading).poll(context));
                    return Poll::Ready(Some(self.arrived(read.unwrap_or_else(|gone| Err(io::Error::other(gone))))));
                }
                Step::Done => return Poll::Ready(None),
            };
            self.step = match (next, &self.following) {
                (Next::Until(until), _) => {
                    let place = self.place.clone();
                    let length = place.piece_bytes(until, MEDIA_CHUNK_BYTES);
                    match Handle::try_current() {
                        Ok(runtime) => Step::Reading(runtime.spawn_blocking(move || place.read_piece(length))),
                        // No runtime, so no thread for such work but this one.
                        Err(_) => return Poll::Ready(Some(self.arrived(place.read_piece(length)))),
                    }
                }
                (Next::Wait, Some(following)) => {
                    Step::Waiting(Box::pin(wait(following.clone(), self.place.at, self.place.end)))
                }
                (Next::End, _) => Step::Done,
                (Next::Cut | Next::Wait, _) => {
                    self.step = Step::Done;
                    return Poll::Ready(Some(Err(BodyCut)));
                }
            };
        }
    }

    /// Passes a piece on. One that cannot be read ends the body: the rest is not to be had.
    fn arrived(&mut self, read: io::Result<Bytes>) -> Result<Bytes, BodyCut> {
        match read {
            Ok(bytes) => {
                self.place.at += to_u64(bytes.len());
                self.step = Step::Idle;
                Ok(bytes)
            }
            Err(error) => {
                tracing::warn!(target: "portcullis::media", %error, "a stored file cannot be read to its end");
                self.step = Step::Done;
                Err(BodyCut)
            }
        }
    }
}

impl Body for FileReader {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        self.poll_piece(context).map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self.step {
            Step::Done => true,
            Step::Idle => self.place.next(self.following.as_ref()) == Next::End,
            Step::Waiting(_) | Step::Reading(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let whole = self.following.as_ref().map(|following| *following.borrow());
        let end = match (self.place.end, whole) {
            (Some(end), _) | (None, Some(Progress::Whole(end))) => end,
            _ => return SizeHint::default(),
        };
        SizeHint::with_exact(end.saturating_sub(self.place.at))
    }
}

impl io::Read for BlockingFileReader {
    /// Waits until there is something to read: as long as the fetch takes, which its deadline ends.
    ///
    /// *Errors:* [`BodyCut`] in an `UnexpectedEof` where the file ends too early.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let next = match (self.place.next(self.following.as_ref()), &self.following) {
            (Next::Wait, Some(following)) => wait_here(wait(following.clone(), self.place.at, self.place.end)),
            (next, _) => next,
        };
        match next {
            Next::Until(until) => {
                let length = self.place.piece_bytes(until, buffer.len());
                let buffer = buffer.get_mut(..length).unwrap_or_default();
                let read = self.place.read_into(buffer)?;
                self.place.at += to_u64(read);
                Ok(read)
            }
            Next::End => Ok(0),
            Next::Cut | Next::Wait => Err(io::Error::new(io::ErrorKind::UnexpectedEof, BodyCut)),
        }
    }
}

impl Place {
    fn next(&self, following: Option<&watch::Receiver<Progress>>) -> Next {
        match (following, self.end) {
            (Some(following), end) => following.borrow().next(self.at, end),
            (None, Some(end)) => Progress::Whole(end).next(self.at, self.end),
            (None, None) => Next::Cut,
        }
    }

    /// Bytes of the next piece, where there are bytes up to `until` and room for `most`.
    fn piece_bytes(&self, until: u64, most: usize) -> usize {
        usize::try_from(until.saturating_sub(self.at)).unwrap_or(usize::MAX).min(most)
    }

    fn read_piece(&self, length: usize) -> io::Result<Bytes> {
        let mut piece = vec![0; length];
        self.read_into(&mut piece)?;
        Ok(piece.into())
    }

    /// Fills `buffer`; the bytes have to be there, else somebody took them away.
    fn read_into(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read_at(&self.file, buffer, self.data_at + self.at)?;
        if read == buffer.len() { Ok(read) } else { Err(io::Error::new(io::ErrorKind::UnexpectedEof, BodyCut)) }
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FileReader").field("at", &self.place.at).field("end", &self.place.end).finish_non_exhaustive()
    }
}

impl fmt::Debug for BlockingFileReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BlockingFileReader").field("at", &self.place.at).finish_non_exhaustive()
    }
}

/// Waits for `future` on this thread, which belongs to no runtime.
fn wait_here<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
