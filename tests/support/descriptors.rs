//! What this process holds open, as the kernel tells it (Linux).

use std::collections::BTreeSet;

/// Descriptors this process has open.
pub(crate) fn open() -> usize {
    // The one that reads the folder is in it each time.
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The TCP sockets of this process whose other end is `port`, in whatever state: those of callers of that port.
pub(crate) fn towards(port: u16) -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
    let callers = rows.filter(|row| {
        let remote_port = row[2].split_once(':').map(|(_, port)| u16::from_str_radix(port, 16));
        remote_port == Some(Ok(port))
    });
    // The table is that of the whole machine.
    let ours = sockets();
    callers.map(|row| row[9].to_owned()).filter(|inode| ours.contains(inode)).collect()
}

fn sockets() -> BTreeSet<String> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    // One that was closed meanwhile leads nowhere.
    let links = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.ok()?.path()).ok());
    links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}
