//! How a file lies on disk: head, bytes, end. The end is written last and vouches for the rest.
//!
//! ```text
//!  head   magic 8 │ length of the text 4 │ text (JSON: key, meta) │ check 16
//!  bytes  the file of the other server, as it came
//!  end    length of the bytes 8 │ stored at, ms since 1970 8 │ check 16, over the head's and the two │ magic 8
//! ```
//!
//! Numbers are little-endian; a check is the first half of a SHA-256. They tell a whole file from one that was cut off,
//! patched together or put there by somebody else; a file system that returns other bytes than were written is not theirs
//! to find.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::disk::{read_exact_at, to_u64};
use super::key::FileKey;
use super::meta::FileMeta;

const HEAD_MAGIC: &[u8; 8] = b"pcmedia1";
const END_MAGIC: &[u8; 8] = b"1aidemcp";
/// The texts at their longest, every byte of them escaped.
const MAX_TEXT_BYTES: u32 = 8 * 1024;
const HEAD_START_BYTES: usize = 12;
const CHECK_BYTES: usize = 16;

/// Bytes of the end.
pub(super) const END_BYTES: usize = 40;

type Check = [u8; CHECK_BYTES];

/// The head of a file, ready to be written.
#[derive(Clone, Debug)]
pub(super) struct Head {
    bytes: Vec<u8>,
    check: Check,
}

/// What a whole file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inspected {
    pub(super) key: FileKey,
    pub(super) meta: FileMeta,
    pub(super) extent: Extent,
}

/// Where the bytes lie, when the file was stored, and the check that stands for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) head_bytes: u64,
    pub(super) data_bytes: u64,
    pub(super) stored_at_ms: u64,
    check: Check,
}

#[derive(Serialize, Deserialize)]
struct HeadText {
    key: String,
    meta: FileMeta,
}

impl Head {
    /// The head of the file of `key`.
    pub(super) fn new(key: &FileKey, meta: &FileMeta) -> io::Result<Self> {
        let text = serde_json::to_vec(&HeadText { key: key.name().to_owned(), meta: meta.clone() })?;
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEAD_START_BYTES + text.len() + CHECK_BYTES);
        bytes.extend_from_slice(HEAD_MAGIC);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&text);
        let check = check(&[&bytes]);
        bytes.extend_from_slice(&check);
        Ok(Self { bytes, check })
    }

    /// As it is written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its length.
    pub(super) fn length(&self) -> u64 {
        to_u64(self.bytes.len())
    }

    /// The end of a file with this head, as it is written, and what it says.
    pub(super) fn end(&self, data_bytes: u64, stored_at_ms: u64) -> (Vec<u8>, Extent) {
        let (length, stored_at) = (data_bytes.to_le_bytes(), stored_at_ms.to_le_bytes());
        let check = check(&[&self.check, &length, &stored_at]);
        let bytes = [&length[..], &stored_at, &check, END_MAGIC].concat();
        (bytes, Extent { head_bytes: self.length(), data_bytes, stored_at_ms, check })
    }
}

impl Extent {
    /// Bytes of the whole file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.head_bytes.saturating_add(self.data_bytes).saturating_add(to_u64(END_BYTES))
    }
}

/// Reads what `file` says about itself; `None` if it is not a whole file of ours. *Blocking:* yes.
pub(super) fn inspect(file: &File) -> io::Result<Option<Inspected>> {
    let file_bytes = file.metadata()?.len();
    match inspect_sized(file, file_bytes) {
        // It is shorter than it says, or was cut meanwhile.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        inspected => inspected,
    }
}

fn inspect_sized(file: &File, file_bytes: u64) -> io::Result<Option<Inspected>> {
    let mut start = [0; HEAD_START_BYTES];
    read_exact_at(file, &mut start, 0)?;
    let Some((HEAD_MAGIC, length)) = start.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(length.try_into().unwrap_or([0xff; 4]));
    let Ok(length) = usize::try_from(length.min(MAX_TEXT_BYTES + 1)) else { return Ok(None) };
    let mut rest = vec![0; length + CHECK_BYTES];
    read_exact_at(file, &mut rest, to_u64(HEAD_START_BYTES))?;
    let Some((text, head_check)) = rest.split_last_chunk::<CHECK_BYTES>() else { return Ok(None) };
    if check(&[&start, text]) != *head_check {
        return Ok(None);
    }
    let Ok(text) = serde_json::from_slice::<HeadText>(text) else { return Ok(None) };
    let Some(key) = FileKey::from_name(&text.key) else { return Ok(None) };

    let head_bytes = to_u64(HEAD_START_BYTES + rest.len());
    let Some(end_at) = file_bytes.checked_sub(to_u64(END_BYTES)) else { return Ok(None) };
    let Some(data_bytes) = end_at.checked_sub(head_bytes) else { return Ok(None) };
    let mut end = [0; END_BYTES];
    read_exact_at(file, &mut end, end_at)?;
    let Some((_, stored_at)) = end.split_first_chunk::<8>() else { return Ok(None) };
    let Some((stored_at, _)) = stored_at.split_first_chunk::<8>() else { return Ok(None) };
    let head = Head { bytes: Vec::new(), check: *head_check };
    let (expected, extent) = head.end(data_bytes, u64::from_le_bytes(*stored_at));
    if expected != end {
        return Ok(None);
    }
    let extent = Extent { head_bytes, ..extent };
    Ok(Some(Inspected { key, meta: text.meta.bounded(), extent }))
}

fn check(parts: &[&[u8]]) -> Check {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let whole: [u8; 32] = hash.finalize().into();
    whole.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
