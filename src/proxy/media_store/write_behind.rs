//! [`WriteBehind`]: the bytes of a file on their way to the disk, and the word to its readers that they are there.

use std::fs::File;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::disk::to_u64;
use super::error::StoreFault;
use super::progress::Progress;
use super::store::Shared;
use crate::limits::{MEDIA_CHUNK_BYTES, MEDIA_WRITE_BUFFER_BYTES};
use crate::sync::{Arc, Mutex};

/// Half of the buffer waits while the other half is written.
const HALF_BYTES: usize = MEDIA_WRITE_BUFFER_BYTES / 2;
const _: () = assert!(HALF_BYTES <= MEDIA_CHUNK_BYTES, "a piece that is written is no larger than any other");

/// Writes what it is given, in order, on threads for such work.
///
/// What is there is written at once, however little; what comes meanwhile waits, half of [`MEDIA_WRITE_BUFFER_BYTES`] at
/// most, and is written next. Every piece queues anew, so that many files share few threads fairly.
pub(super) struct WriteBehind {
    state: Arc<State>,
}

struct State {
    shared: Arc<Shared>,
    file: Arc<File>,
    data_at: u64,
    waiting: Mutex<Waiting>,
    /// One waits at most: whoever writes.
    moved: Notify,
    progress: watch::Sender<Progress>,
}

/// Bytes that wait for the disk. No memory is held while there are none.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    writing: bool,
    fault: Option<StoreFault>,
}

impl WriteBehind {
    /// Writes into `file` from `data_at` on.
    pub(super) fn new(shared: Arc<Shared>, file: Arc<File>, data_at: u64) -> Self {
        let progress = watch::Sender::new(Progress::Growing(0));
        let (waiting, moved) = (Mutex::default(), Notify::new());
        Self { state: Arc::new(State { shared, file, data_at, waiting, moved, progress }) }
    }

    /// For a reader.
    pub(super) fn follow(&self) -> watch::Receiver<Progress> {
        self.state.progress.subscribe()
    }

    /// Takes as many of `bytes` as there is room for, at least one; waits for the room. *Cancel safety:* nothing is taken.
    pub(super) async fn take_some(&self, bytes: &[u8]) -> Result<usize, StoreFault> {
        loop {
            let taken = self.take_now(bytes)?;
            if taken > 0 {
                return Ok(taken);
            }
            self.state.moved.notified().await;
        }
    }

    /// Waits until the disk has everything.
    pub(super) async fn written(&self) -> Result<(), StoreFault> {
        while self.is_writing()? {
            self.state.moved.notified().await;
        }
        Ok(())
    }

    /// Tells the readers how it ended, unless they were told already.
    pub(super) fn end(&self, how: Progress) {
        self.state.tell(how);
    }

    fn take_now(&self, bytes: &[u8]) -> Result<usize, StoreFault> {
        let taken = {
            let mut waiting = self.state.waiting.lock();
            if let Some(fault) = waiting.fault {
                return Err(fault);
            }
            let taken = bytes.len().min(HALF_BYTES.saturating_sub(waiting.bytes.len()));
            waiting.bytes.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            if taken == 0 || std::mem::replace(&mut waiting.writing, true) {
                return Ok(taken);
            }
            taken
        };
        State::write_soon(&self.state);
        Ok(taken)
    }

    fn is_writing(&self) -> Result<bool, StoreFault> {
        let waiting = self.state.waiting.lock();
        waiting.fault.map_or(Ok(waiting.writing), Err)
    }
}

impl State {
    /// Writes what waits, off this thread; without a runtime there is no other.
    fn write_soon(state: &Arc<Self>) {
        match Handle::try_current() {
            Ok(runtime) => {
                let state = Arc::clone(state);
                runtime.spawn_blocking(move || {
                    if state.write_piece() {
                        Self::write_soon(&state);
                    }
                });
            }
            Err(_) => while state.write_piece() {},
        }
    }

    /// Writes what waits at this moment; says whether more came meanwhile. *Blocking:* yes.
    fn write_piece(&self) -> bool {
        // Who had to make room goes first.
        self.shared.delete_doomed();
        let piece = std::mem::take(&mut self.waiting.lock().bytes);
        self.moved.notify_one();
        let Progress::Growing(written) = *self.progress.borrow() else { return false };
        if let Err(error) = self.shared.write(&self.file, &piece, self.data_at + written) {
            let fault = self.shared.fault(&error);
            self.waiting.lock().fault = Some(fault);
            self.tell(Progress::Cut);
            self.moved.notify_one();
            return false;
        }
        self.tell(Progress::Growing(written + to_u64(piece.len())));
        let more = {
            let mut waiting = self.waiting.lock();
            waiting.writing = !waiting.bytes.is_empty();
            waiting.writing
        };
        self.moved.notify_one();
        more
    }

    /// Tells the readers, unless the end was told already.
    fn tell(&self, progress: Progress) {
        self.progress.send_if_modified(|told| {
            let grows = matches!(told, Progress::Growing(_));
            if grows {
                *told = progress;
            }
            grows
        });
    }
}
