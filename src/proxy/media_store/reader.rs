//! [`FileReader`]: reads a file, a whole one or behind its writer, one piece at a time.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::blocking_reader::BlockingFileReader;
use super::open_file::OpenFile;
use super::place::{Following, Piece, Place};
use super::progress::Next;
use crate::limits::MEDIA_CHUNK_BYTES;
use crate::proxy::response_body::BodyCut;

/// Reads a file, or a range of it, one piece at a time; behind the writer if it is not whole yet.
///
/// Always: one piece of [`MEDIA_CHUNK_BYTES`] is in memory at most, and nothing is read before it is asked for
/// (`a_reader_holds_one_piece_however_large_the_file_is`). Never: a clean end before the end of the file, or of the range
/// (`a_writer_that_gives_up_cuts_every_reader_wherever_it_is`). It waits for the writer and asks no clock; any tokio runtime
/// may read, whichever one writes. Dropping it is fine at any time.
pub(crate) struct FileReader {
    place: Place,
    step: Step,
}

enum Step {
    Idle,
    Waiting(Pin<Box<dyn Future<Output = Next> + Send + Sync>>),
    Reading(JoinHandle<io::Result<Bytes>>),
    Done,
}

impl FileReader {
    /// A reader of a whole file.
    pub(super) fn whole(file: OpenFile, data_at: u64, data_bytes: u64) -> Self {
        Self { place: Place::whole(file, data_at, data_bytes), step: Step::Idle }
    }

    /// A reader of a file that grows.
    pub(super) fn behind(file: OpenFile, data_at: u64, writer: Following) -> Self {
        Self { place: Place::behind(file, data_at, writer), step: Step::Idle }
    }

    /// The same for a part of the file: offsets of its bytes, from the first on. What lies behind the end of a whole file is
    /// left out; of one that grows it is not known, and such a range is cut when the file turns out to be shorter.
    pub(crate) fn range(self, range: &Range<u64>) -> Self {
        Self { place: self.place.range(range), step: Step::Idle }
    }

    /// The same for a thread that may wait.
    pub(crate) fn into_blocking(self) -> BlockingFileReader {
        BlockingFileReader::new(self.place)
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyCut>>> {
        loop {
            let next = match &mut self.step {
                Step::Idle => self.place.next(),
                Step::Waiting(waiting) => ready!(waiting.as_mut().poll(context)),
                Step::Reading(reading) => {
                    let read = ready!(Pin::new(reading).poll(context));
                    return Poll::Ready(Some(self.arrived(read.unwrap_or_else(|gone| Err(io::Error::other(gone))))));
                }
                Step::Done => return Poll::Ready(None),
            };
            self.step = match next {
                Next::Until(until) => {
                    let piece = match self.place.piece(until, MEDIA_CHUNK_BYTES) {
                        Piece::Here(bytes) => return Poll::Ready(Some(self.arrived(Ok(bytes)))),
                        Piece::OnDisk(piece) => piece,
                    };
                    let mut room = piece.room();
                    if piece.read_in_memory(&mut room) {
                        return Poll::Ready(Some(self.arrived(Ok(room.into()))));
                    }
                    let Ok(runtime) = Handle::try_current() else {
                        // No runtime, so no thread for such work but this one.
                        return Poll::Ready(Some(self.arrived(piece.read(room))));
                    };
                    Step::Reading(runtime.spawn_blocking(move || piece.read(room)))
                }
                Next::Wait => Step::Waiting(Box::pin(self.place.wait())),
                Next::End => Step::Done,
                Next::Cut => {
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
                self.place.advance(bytes.len());
                self.step = Step::Idle;
                Ok(bytes)
            }
            Err(error) => {
                tracing::debug!(target: "portcullis::media", %error, "a stored file cannot be read to its end");
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
            Step::Idle => self.place.next() == Next::End,
            Step::Waiting(_) | Step::Reading(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.place.left().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FileReader").field("at", &self.place.at()).finish_non_exhaustive()
    }
}
