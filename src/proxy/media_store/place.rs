//! [`Place`]: where in a file a reader is, and the [`Piece`] it reads next.

use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use tokio::sync::watch;

use super::disk::{read_at, read_in_memory, to_u64};
use super::latest::{Latest, Whereabouts};
use super::open_file::OpenFile;
use super::progress::{Next, Progress, wait};
use crate::proxy::response_body::BodyCut;
use crate::sync::Arc;

/// Where in a file a reader is.
pub(super) struct Place {
    /// In a box, for answers of every kind are moved about.
    file: Box<OpenFile>,
    /// Where the bytes begin in `file`.
    data_at: u64,
    at: u64,
    /// `None`: wherever the file ends.
    end: Option<u64>,
    following: Option<Following>,
}

/// The writer of a file that grows, as its readers see it.
#[derive(Clone)]
pub(super) struct Following {
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) latest: Arc<Latest>,
}

/// The next piece of a file.
pub(super) enum Piece {
    /// Its writer still has it.
    Here(Bytes),
    /// It is on the disk, and not read yet.
    OnDisk(Unread),
}

/// A piece that is on the disk.
pub(super) struct Unread {
    /// `None`: it was taken from its readers.
    file: Option<Arc<File>>,
    at: u64,
    length: usize,
}

impl Place {
    /// The beginning of a whole file.
    pub(super) fn whole(file: OpenFile, data_at: u64, data_bytes: u64) -> Self {
        Self { file: Box::new(file), data_at, at: 0, end: Some(data_bytes), following: None }
    }

    /// The beginning of a file that grows.
    pub(super) fn behind(file: OpenFile, data_at: u64, following: Following) -> Self {
        Self { file: Box::new(file), data_at, at: 0, end: None, following: Some(following) }
    }

    /// The beginning of a part of what lies before the end.
    pub(super) fn range(self, range: &Range<u64>) -> Self {
        let end = self.end.map_or(range.end, |end| range.end.min(end));
        Self { at: range.start.min(end), end: Some(end), ..self }
    }

    /// How many bytes from the first on are behind the reader.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes are ahead, if that is certain.
    pub(super) fn left(&self) -> Option<u64> {
        let whole = || match *self.following.as_ref()?.progress.borrow() {
            Progress::Whole(end) => Some(end),
            Progress::Growing(_) | Progress::Cut => None,
        };
        Some(self.end.or_else(whole)?.saturating_sub(self.at))
    }

    /// What there is to do.
    pub(super) fn next(&self) -> Next {
        let progress = match (&self.following, self.end) {
            (Some(following), _) => *following.progress.borrow(),
            (None, Some(end)) => Progress::Whole(end),
            (None, None) => Progress::Cut,
        };
        progress.next(self.at, self.end)
    }

    /// Waits until there is something to do.
    pub(super) fn wait(&self) -> impl Future<Output = Next> + Send + Sync + use<> {
        let (following, at, end) = (self.following.clone(), self.at, self.end);
        async move {
            match following {
                Some(following) => wait(following.progress, at, end).await,
                None => Next::Cut,
            }
        }
    }

    /// The next piece, where there are bytes up to `until` and room for `most`.
    pub(super) fn piece(&self, until: u64, most: usize) -> Piece {
        let until = match self.following.as_ref().map(|following| following.latest.find(self.at, until, most)) {
            Some(Whereabouts::Here(bytes)) => return Piece::Here(bytes),
            Some(Whereabouts::OnDisk(until)) => until,
            None => until,
        };
        let length = usize::try_from(until.saturating_sub(self.at)).unwrap_or(usize::MAX).min(most);
        Piece::OnDisk(Unread { file: self.file.get(), at: self.data_at.saturating_add(self.at), length })
    }

    /// Goes on by `bytes`.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(to_u64(bytes));
    }
}

impl Unread {
    /// Room for it.
    pub(super) fn room(&self) -> Vec<u8> {
        vec![0; self.length]
    }

    /// Reads it into its `room` if it is in memory anyway. *Blocking:* no.
    pub(super) fn read_in_memory(&self, room: &mut [u8]) -> bool {
        self.file.as_ref().is_some_and(|file| read_in_memory(file, room, self.at))
    }

    /// Reads it into its `room`. *Blocking:* yes.
    pub(super) fn read(&self, mut room: Vec<u8>) -> io::Result<Bytes> {
        self.read_into(&mut room)?;
        Ok(room.into())
    }

    /// Reads it into the beginning of `buffer`. *Blocking:* yes.
    ///
    /// *Errors:* also when the bytes are not there: somebody took them away.
    pub(super) fn read_into(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let buffer = buffer.get_mut(..self.length).unwrap_or_default();
        let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, BodyCut);
        let read = read_at(self.file.as_ref().ok_or_else(cut)?, buffer, self.at)?;
        if read == self.length { Ok(read) } else { Err(cut()) }
    }
}
