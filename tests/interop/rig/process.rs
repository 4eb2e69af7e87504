//! What the kernel says about a process (Linux).

use std::fs;
use std::path::PathBuf;

/// A process, by its id.
#[derive(Clone, Debug)]
pub(crate) struct Process(PathBuf);

/// What a process takes at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    pub(crate) resident_kib: u64,
    /// Of those, what no file is behind: the heap and the stacks.
    pub(crate) anonymous_kib: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
}

impl Process {
    pub(crate) fn of(id: u32) -> Self {
        Self(PathBuf::from(format!("/proc/{id}")))
    }

    /// `None`: it has ended.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let descriptors = fs::read_dir(self.0.join("fd")).ok()?.count();
        Some(Footprint {
            resident_kib: self.status("VmRSS:")?,
            anonymous_kib: self.status("RssAnon:")?,
            descriptors,
            threads: self.status("Threads:")?,
        })
    }

    /// The peak of resident memory since the start, or since [`Self::forget_peak`].
    pub(crate) fn peak_kib(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    /// Lets the peak begin again at what is resident now.
    pub(crate) fn forget_peak(&self) {
        fs::write(self.0.join("clear_refs"), "5").expect("the peak of a process of ours can be reset");
    }

    fn status(&self, field: &str) -> Option<u64> {
        let status = fs::read_to_string(self.0.join("status")).ok()?;
        let value = status.lines().find_map(|line| line.strip_prefix(field))?;
        value.trim().trim_end_matches(" kB").parse().ok()
    }
}
