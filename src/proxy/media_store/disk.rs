//! Reading and writing at a place in a file, without a cursor that readers and the writer would share.

use std::fs::File;
use std::io;

/// Reads until `buffer` is full or the file ends; says how many bytes it got. *Blocking:* yes.
pub(super) fn read_at(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<usize> {
    let mut got = 0;
    while !buffer.is_empty() {
        match once::read(file, buffer, at) {
            Ok(0) => break,
            Ok(read) => {
                got += read;
                at += to_u64(read);
                buffer = buffer.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Reads what is in memory anyway, without waiting for the disk: what was written a moment ago, and what is read often.
///
/// Says whether it filled `buffer`; it did not where the system cannot say, or would have to wait for some of it.
/// *Blocking:* no, but for copying.
#[cfg(target_os = "linux")]
pub(super) fn read_in_memory(file: &File, buffer: &mut [u8], at: u64) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let wanted = buffer.len();
    preadv2(file, &mut [io::IoSliceMut::new(buffer)], at, ReadWriteFlags::NOWAIT).is_ok_and(|read| read == wanted)
}

/// As on Linux; elsewhere the system cannot say.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_in_memory(_file: &File, _buffer: &mut [u8], _at: u64) -> bool {
    false
}

/// Fills `buffer`. *Errors:* also when the file ends before. *Blocking:* yes.
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    let wanted = buffer.len();
    if read_at(file, buffer, at)? == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes all of `bytes`. *Blocking:* yes.
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match once::write(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += to_u64(written);
                bytes = bytes.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A length in memory as a length in a file.
pub(super) fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(unix)]
mod once {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt as _;

    pub(super) fn read(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        file.read_at(buffer, at)
    }

    pub(super) fn write(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.write_at(bytes, at)
    }
}

#[cfg(windows)]
mod once {
    use std::fs::File;
    use std::io;
    use std::os::windows::fs::FileExt as _;

    pub(super) fn read(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        file.seek_read(buffer, at)
    }

    pub(super) fn write(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.seek_write(bytes, at)
    }
}
