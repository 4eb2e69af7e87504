//! [`PartHead`]: the three header lines of a part that matter, read in whatever pieces they come.

use bytes::Bytes;
use http::HeaderName;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use memchr::memchr;

use super::{MalformedMultipart, disposition_text, header_text};
use crate::limits::{MAX_PART_HEADER_BYTES, MAX_PART_HEADER_LINES};

/// What the headers of the file's part say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartHead {
    /// As it was sent; `None` if it is missing, empty, said twice, or no text.
    pub(crate) content_type: Option<String>,
    /// The same, with ISO-8859-1 read as such.
    pub(crate) content_disposition: Option<String>,
    /// Where the file is, if it is not in this part. What comes after these headers is to be ignored then.
    pub(crate) location: Option<String>,
}

/// Collects header lines up to the empty one.
///
/// Always: at most [`MAX_PART_HEADER_BYTES`] and [`MAX_PART_HEADER_LINES`] are held.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    block: Vec<u8>,
    /// Where the line that is being read begins.
    line_at: usize,
    lines: usize,
}

impl HeadReader {
    /// Takes header lines off `chunk`. `None`: it is empty, and there are more to come.
    pub(super) fn read(&mut self, chunk: &mut Bytes) -> Result<Option<PartHead>, MalformedMultipart> {
        while !chunk.is_empty() {
            let line_ends = memchr(b'\n', chunk);
            let piece = chunk.split_to(line_ends.map_or(chunk.len(), |at| at.saturating_add(1)));
            if piece.len() > MAX_PART_HEADER_BYTES.saturating_sub(self.block.len()) {
                return Err(MalformedMultipart);
            }
            self.block.extend_from_slice(&piece);
            if line_ends.is_none() {
                break;
            }
            let (before, line) = self.block.split_at_checked(self.line_at).unwrap_or_default();
            if matches!(line, b"\n" | b"\r\n") {
                return PartHead::read(before).map(Some);
            }
            self.line_at = self.block.len();
            self.lines = self.lines.saturating_add(1);
            if self.lines > MAX_PART_HEADER_LINES {
                return Err(MalformedMultipart);
            }
        }
        Ok(None)
    }
}

/// A header that may be said once.
#[derive(Default)]
enum Said {
    #[default]
    Never,
    Once(Vec<u8>),
    Twice,
}

impl PartHead {
    fn read(block: &[u8]) -> Result<Self, MalformedMultipart> {
        let (mut content_type, mut disposition, mut location) = <(Said, Said, Said)>::default();
        for line in unfolded(block)? {
            let colon = memchr(b':', &line).ok_or(MalformedMultipart)?;
            let (name, value) = line.split_at_checked(colon).ok_or(MalformedMultipart)?;
            let name = HeaderName::from_bytes(name).map_err(|_| MalformedMultipart)?;
            let said = match name {
                CONTENT_TYPE => &mut content_type,
                CONTENT_DISPOSITION => &mut disposition,
                LOCATION => &mut location,
                _ => continue,
            };
            *said = match said {
                Said::Never => Said::Once(value.get(1..).unwrap_or_default().trim_ascii().to_vec()),
                _ => Said::Twice,
            };
        }
        let location = match location {
            Said::Never => None,
            // It is where the file is: nothing else may be taken in its place.
            once_or_twice => Some(once_or_twice.read(header_text).ok_or(MalformedMultipart)?),
        };
        let (content_type, content_disposition) = (content_type.read(header_text), disposition.read(disposition_text));
        Ok(Self { content_type, content_disposition, location })
    }
}

/// The lines of `block`, those that go on on the next one (RFC 5322, section 2.2.3) joined by a blank.
fn unfolded(block: &[u8]) -> Result<Vec<Vec<u8>>, MalformedMultipart> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            let begun = lines.last_mut().ok_or(MalformedMultipart)?;
            begun.push(b' ');
            begun.extend_from_slice(line.trim_ascii_start());
        } else {
            lines.push(line.to_vec());
        }
    }
    Ok(lines)
}

impl Said {
    fn read(self, text: fn(&[u8]) -> Option<String>) -> Option<String> {
        let Self::Once(bytes) = self else { return None };
        text(&bytes)
    }
}
