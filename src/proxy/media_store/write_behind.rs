//! [`WriteBehind`]: the bytes of a file on their way to the disk, and the word to its readers that they are there.

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::disk::to_u64;
use super::error::StoreFault;
use super::latest::Latest;
use super::open_file::OpenFile;
use super::place::Following;
use super::progress::Progress;
use super::store::Shared;
use crate::limits::{MEDIA_CHUNK_BYTES, MEDIA_WRITE_BUFFER_BYTES};
use crate::sync::{Arc, Mutex};

/// Half of the buffer waits while the other half is written.
const HALF_BYTES: usize = MEDIA_WRITE_BUFFER_BYTES / 2;
const _: () = assert!(HALF_BYTES <= MEDIA_CHUNK_BYTES, "a piece that is written is no larger than any other");

/// Writes what it is given, in order, on threads for such work.
///
/// What is there is shown to the readers and written at once, however little; what comes meanwhile waits, half of
/// [`MEDIA_WRITE_BUFFER_BYTES`] at most, and is next. Every piece queues anew, so that many files share few threads fairly.
pub(super) struct WriteBehind {
    state: Arc<State>,
}

struct State {
    shared: Arc<Shared>,
    file: OpenFile,
    data_at: u64,
    waiting: Mutex<Waiting>,
    /// One waits at most: whoever writes.
    moved: Notify,
    progress: watch::Sender<Progress>,
    latest: Arc<Latest>,
}

/// Bytes that wait for the disk. No memory is held while there are none.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Where the next piece begins.
    at: u64,
    writing: bool,
    fault: Option<StoreFault>,
}

/// A piece that is being written.
struct Taken {
    at: u64,
    bytes: Bytes,
}

impl Waiting {
    /// The next piece is this one.
    fn begin(&mut self, bytes: Bytes) -> Taken {
        let at = self.at;
        self.at += to_u64(bytes.len());
        self.writing = true;
        Taken { at, bytes }
    }
}

impl WriteBehind {
    /// Writes into `file` from `data_at` on.
    pub(super) fn new(shared: Arc<Shared>, file: OpenFile, data_at: u64) -> Self {
        let progress = watch::Sender::new(Progress::Growing(0));
        let (waiting, moved, latest) = (Mutex::default(), Notify::new(), Arc::default());
        Self { state: Arc::new(State { shared, file, data_at, waiting, moved, progress, latest }) }
    }

    /// For a reader.
    pub(super) fn follow(&self) -> Following {
        Following { progress: self.state.progress.subscribe(), latest: Arc::clone(&self.state.latest) }
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
        self.state.latest.clear();
    }

    fn take_now(&self, bytes: &[u8]) -> Result<usize, StoreFault> {
        let first = {
            let mut waiting = self.state.waiting.lock();
            if let Some(fault) = waiting.fault {
                return Err(fault);
            }
            let room = HALF_BYTES.saturating_sub(waiting.bytes.len());
            let taken = bytes.get(..bytes.len().min(room)).unwrap_or_default();
            if taken.is_empty() || waiting.writing {
                waiting.bytes.extend_from_slice(taken);
                return Ok(taken.len());
            }
            waiting.begin(Bytes::copy_from_slice(taken))
        };
        let taken = first.bytes.len();
        self.state.show(&first);
        State::write_soon(&self.state, first);
        Ok(taken)
    }

    fn is_writing(&self) -> Result<bool, StoreFault> {
        let waiting = self.state.waiting.lock();
        waiting.fault.map_or(Ok(waiting.writing), Err)
    }
}

impl State {
    /// Writes `piece` and what comes meanwhile, off this thread; without a runtime there is no other.
    fn write_soon(state: &Arc<Self>, piece: Taken) {
        if let Ok(runtime) = Handle::try_current() {
            let state = Arc::clone(state);
            runtime.spawn_blocking(move || {
                if let Some(next) = state.write(&piece) {
                    Self::write_soon(&state, next);
                }
            });
            return;
        }
        let mut next = Some(piece);
        while let Some(piece) = next {
            next = state.write(&piece);
        }
    }

    /// Writes a piece, and shows the next one if more came meanwhile. *Blocking:* yes.
    fn write(&self, piece: &Taken) -> Option<Taken> {
        // Who had to make room goes first.
        self.shared.delete_doomed();
        // Its readers were told of the end: nobody wants it.
        if !matches!(*self.progress.borrow(), Progress::Growing(_)) {
            return None;
        }
        if let Err(error) = self.shared.write(&self.file, &piece.bytes, self.data_at + piece.at) {
            let fault = self.shared.fault(&error);
            self.waiting.lock().fault = Some(fault);
            self.tell(Progress::Cut);
            self.latest.clear();
            self.moved.notify_one();
            return None;
        }
        let next = {
            let mut waiting = self.waiting.lock();
            waiting.writing = false;
            let bytes = std::mem::take(&mut waiting.bytes);
            (!bytes.is_empty()).then(|| waiting.begin(bytes.into()))
        };
        if let Some(next) = &next {
            self.show(next);
        }
        self.moved.notify_one();
        next
    }

    /// Lets readers have a piece, which the disk will have soon. What was before it is on the disk.
    fn show(&self, piece: &Taken) {
        self.latest.put(piece.at, piece.bytes.clone());
        self.tell(Progress::Growing(piece.at + to_u64(piece.bytes.len())));
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
