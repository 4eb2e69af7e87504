//! [`Latest`]: the piece a writer took last, for readers that keep up: they need not wait for the disk, nor read from it.

use bytes::Bytes;

#[cfg(test)]
use super::disk::to_u64;
use crate::sync::Mutex;

/// The piece that was taken last.
///
/// Always: everything before it is on the disk. A piece is replaced only once it was written.
#[derive(Default)]
pub(super) struct Latest(Mutex<Option<(u64, Bytes)>>);

/// Where the next bytes of a reader are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// In memory: these.
    Here(Bytes),
    /// On the disk, up to this place at least.
    OnDisk(u64),
}

impl Latest {
    /// The next piece, which begins at `at`.
    pub(super) fn put(&self, at: u64, bytes: Bytes) {
        // Outside of the lock: its memory may be given back.
        let before = self.0.lock().replace((at, bytes));
        drop(before);
    }

    /// Everything is on the disk, or will never be.
    pub(super) fn clear(&self) {
        let before = self.0.lock().take();
        drop(before);
    }

    /// Where a reader at `at` finds what lies before `until`, at most `most` bytes of it.
    pub(super) fn find(&self, at: u64, until: u64, most: usize) -> Whereabouts {
        let latest = self.0.lock();
        let Some((begins, bytes)) = latest.as_ref() else { return Whereabouts::OnDisk(until) };
        let Some(skipped) = at.checked_sub(*begins) else { return Whereabouts::OnDisk(until.min(*begins)) };
        let from = usize::try_from(skipped).unwrap_or(usize::MAX).min(bytes.len());
        let wanted = usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX).min(most);
        let to = from.saturating_add(wanted).min(bytes.len());
        Whereabouts::Here(bytes.slice(from..to))
    }

    /// Where the piece ends, for tests.
    #[cfg(test)]
    fn end(&self) -> Option<u64> {
        self.0.lock().as_ref().map(|(at, bytes)| at + to_u64(bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_up_is_served_from_memory_and_who_lags_reads_what_the_disk_has() {
        let latest = Latest::default();
        assert_eq!(latest.find(3, 9, 100), Whereabouts::OnDisk(9));
        latest.put(10, Bytes::from_static(b"abcdef"));
        assert_eq!(latest.end(), Some(16));
        assert_eq!(latest.find(3, 16, 100), Whereabouts::OnDisk(10), "the piece itself may not be written yet");
        assert_eq!(latest.find(10, 16, 100), Whereabouts::Here(Bytes::from_static(b"abcdef")));
        assert_eq!(latest.find(12, 16, 2), Whereabouts::Here(Bytes::from_static(b"cd")));
        assert_eq!(latest.find(12, 13, 100), Whereabouts::Here(Bytes::from_static(b"c")), "a range ends there");
        latest.clear();
        assert_eq!(latest.find(10, 16, 100), Whereabouts::OnDisk(16));
    }
}
