//! [`ProcessFigures`]: what the system says of this process.

use serde::Serialize;

/// What the system says of this process; null where it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessFigures {
    /// Memory in use.
    pub resident_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open files and sockets.
    pub open_descriptors: Option<u64>,
    /// Most that may be open; null if there is no limit.
    pub max_descriptors: Option<u64>,
}

impl ProcessFigures {
    /// Now. *Blocking:* reads a few lines that the kernel writes from memory (Linux; elsewhere there are none).
    #[must_use]
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let descriptors = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            resident_bytes: field(&status, "VmRSS:").map(|kib| kib.saturating_mul(1024)),
            threads: field(&status, "Threads:"),
            // One of them is the reading's own.
            open_descriptors: descriptors.and_then(|count| u64::try_from(count.saturating_sub(1)).ok()),
            max_descriptors: field(&limits, "Max open files"),
        }
    }
}

/// The first number in the line that begins with `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_of_this_process() {
        let seen = ProcessFigures::now();
        assert!(seen.resident_bytes.unwrap() > 1024 * 1024, "{seen:?}");
        assert!(seen.threads.unwrap() >= 1 && seen.open_descriptors.unwrap() >= 3, "{seen:?}");
        assert!(seen.max_descriptors.unwrap() >= seen.open_descriptors.unwrap(), "{seen:?}");
    }

    #[test]
    fn a_line_of_another_name_is_another_line() {
        assert_eq!(field("VmRSSx:\t1 kB\nVmRSS:\t  2048 kB\nThreads:\t7\n", "VmRSS:"), Some(2048));
        assert_eq!(field("VmRSS:\tnothing\n", "VmRSS:"), None);
        assert_eq!(field("", "VmRSS:"), None);
        assert_eq!(
            field("Max open files            1024                 4096                 files\n", "Max open files"),
            Some(1024)
        );
        assert_eq!(
            field("Max open files            unlimited            unlimited            files\n", "Max open files"),
            None
        );
    }
}
