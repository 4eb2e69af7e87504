//! [`BlockingFileReader`]: a [`FileReader`](super::FileReader) for a thread that may wait.

use std::fmt;
use std::io;

use bytes::Buf as _;

use super::place::{Piece, Place};
use super::progress::Next;
use crate::proxy::response_body::BodyCut;
use crate::proxy::wait_here::wait_here;

/// Reads a file, behind its writer if it is not whole yet, on a thread that may wait.
pub(crate) struct BlockingFileReader {
    place: Place,
}

impl BlockingFileReader {
    pub(super) fn new(place: Place) -> Self {
        Self { place }
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
        let next = match self.place.next() {
            Next::Wait => wait_here(self.place.wait()),
            next => next,
        };
        match next {
            Next::Until(until) => {
                let read = match self.place.piece(until, buffer.len()) {
                    Piece::Here(bytes) => bytes.reader().read(buffer)?,
                    Piece::OnDisk(piece) => piece.read_into(buffer)?,
                };
                self.place.advance(read);
                Ok(read)
            }
            Next::End => Ok(0),
            Next::Cut | Next::Wait => Err(io::Error::new(io::ErrorKind::UnexpectedEof, BodyCut)),
        }
    }
}

impl fmt::Debug for BlockingFileReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BlockingFileReader").field("at", &self.place.at()).finish_non_exhaustive()
    }
}
