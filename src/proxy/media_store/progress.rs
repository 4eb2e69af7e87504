//! [`Progress`]: how far the writer of a file is, for those who read behind it.

use tokio::sync::watch;

/// How far a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// So many bytes are there, more may come.
    Growing(u64),
    /// So many bytes are there, and these are all.
    Whole(u64),
    /// No more will come, and it is not whole.
    Cut,
}

/// What a reader at some place may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read up to here.
    Until(u64),
    /// Wait.
    Wait,
    /// There is nothing more.
    End,
    /// There will be nothing more, though there should be.
    Cut,
}

impl Progress {
    /// What a reader may do that is at `at` and wants what lies before `end`, or everything.
    pub(super) fn next(self, at: u64, end: Option<u64>) -> Next {
        if end.is_some_and(|end| at >= end) {
            return Next::End;
        }
        let (Self::Growing(there) | Self::Whole(there)) = self else { return Next::Cut };
        let until = end.map_or(there, |end| end.min(there));
        match self {
            _ if until > at => Next::Until(until),
            Self::Growing(_) => Next::Wait,
            // A range that ends behind the file is not there to be read whole.
            Self::Whole(_) if end.is_none() => Next::End,
            _ => Next::Cut,
        }
    }
}

/// Waits until a reader at `at` has something to do. Wakes at once when the writer gets on; asks no clock.
pub(super) async fn wait(mut progress: watch::Receiver<Progress>, at: u64, end: Option<u64>) -> Next {
    let waited = progress.wait_for(|progress| progress.next(at, end) != Next::Wait).await;
    // A writer that is gone without a word has not finished.
    waited.map_or(Next::Cut, |progress| progress.next(at, end))
}
