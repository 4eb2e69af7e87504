//! [`Multipart`]: reads the answer to a media request, a metadata part and the file's, as its bytes come in.
//!
//! No I/O here, and no clock: chunks go in, the file comes out as slices of them. What a file is must not depend on where
//! the network cut it, so every test feeds its bodies whole, byte by byte, and cut at every offset.
//!
//! ```text
//!  preamble   --b   metadata   --b   headers, empty line   file   --b--   (rest)
//!  ≤ 16 KiB         ≤ 64 KiB         ≤ 16 KiB              Data   End     never read
//! ```
//!
//! Taken besides what RFC 2046 asks: lines that end with a line feed alone, a first part of any kind, and a last boundary
//! without its two closing hyphens where the body as a whole ended cleanly; current servers write that.

mod boundary;
mod delimiter;
mod part_head;

use bytes::Bytes;

pub(crate) use boundary::Boundary;
use delimiter::{Delimiters, Scanned};
use part_head::HeadReader;
pub(crate) use part_head::PartHead;

use crate::limits::{MAX_MEDIA_METADATA_BYTES, MAX_MULTIPART_PREAMBLE_BYTES};

/// Reads one body of exactly two parts.
///
/// Always: the same bytes give the same events in the same order, however they are cut (only the slices of the data differ).
/// Never: data that was not received; an end before the boundary that ends the file.
pub(crate) struct Multipart {
    delimiters: Delimiters,
    section: Section,
}

/// What a body holds, in this order: one head, any number of slices, one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The headers of the file's part.
    Head(PartHead),
    /// The next bytes of the file, never empty.
    Data(Bytes),
    /// The file is whole. Whatever follows in the body is of no interest.
    End,
}

/// The body is not what such an answer has to be, or larger around the file than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a multipart answer of two parts")]
pub(crate) struct MalformedMultipart;

enum Section {
    Preamble {
        left: usize,
    },
    Metadata {
        left: usize,
    },
    Head(HeadReader),
    File,
    /// A boundary without closing hyphens ended the file: nothing but the body's end may follow.
    AfterFile,
    Ended,
    Broken,
}

impl Multipart {
    pub(crate) fn new(boundary: &Boundary) -> Self {
        let section = Section::Preamble { left: MAX_MULTIPART_PREAMBLE_BYTES };
        Self { delimiters: Delimiters::new(boundary), section }
    }

    /// Takes bytes off `chunk` up to the next event. `None`: it is empty, and more is needed.
    ///
    /// *Errors:* [`MalformedMultipart`]; it stays one. *Panics:* never.
    pub(crate) fn read(&mut self, chunk: &mut Bytes) -> Result<Option<Event>, MalformedMultipart> {
        let event = self.next(chunk);
        if event.is_err() {
            self.section = Section::Broken;
        }
        event
    }

    /// The body has ended, and its end was no broken connection: whether that was the end of the file.
    ///
    /// *Errors:* [`MalformedMultipart`]: it ended before or inside the boundary after the file. *Panics:* never.
    pub(crate) fn finish_clean(&self) -> Result<(), MalformedMultipart> {
        match self.section {
            Section::AfterFile | Section::Ended => Ok(()),
            Section::File if self.delimiters.is_after_boundary() => Ok(()),
            _ => Err(MalformedMultipart),
        }
    }

    fn next(&mut self, chunk: &mut Bytes) -> Result<Option<Event>, MalformedMultipart> {
        loop {
            self.section = match &mut self.section {
                Section::Preamble { left } | Section::Metadata { left } => match self.delimiters.scan(chunk) {
                    None => return Ok(None),
                    Some(Scanned::Text(text)) => {
                        *left = left.checked_sub(text.len()).ok_or(MalformedMultipart)?;
                        continue;
                    }
                    Some(Scanned::Close) => return Err(MalformedMultipart),
                    Some(Scanned::Delimiter) => match self.section {
                        Section::Preamble { .. } => Section::Metadata { left: MAX_MEDIA_METADATA_BYTES },
                        _ => Section::Head(HeadReader::default()),
                    },
                },
                Section::Head(reader) => {
                    let Some(head) = reader.read(chunk)? else { return Ok(None) };
                    self.section = Section::File;
                    return Ok(Some(Event::Head(head)));
                }
                Section::File => match self.delimiters.scan(chunk) {
                    None => return Ok(None),
                    Some(Scanned::Text(data)) => return Ok(Some(Event::Data(data))),
                    Some(Scanned::Delimiter) => Section::AfterFile,
                    Some(Scanned::Close) => {
                        self.section = Section::Ended;
                        return Ok(Some(Event::End));
                    }
                },
                // A third part.
                Section::AfterFile if !chunk.is_empty() => return Err(MalformedMultipart),
                Section::AfterFile => return Ok(None),
                Section::Ended => {
                    chunk.clear();
                    return Ok(None);
                }
                Section::Broken => return Err(MalformedMultipart),
            };
        }
    }
}

/// A header's value, if it is a text with something in it and nothing that could not stand in a header again.
pub(crate) fn header_text(value: &[u8]) -> Option<String> {
    plain(std::str::from_utf8(value).ok()?)
}

/// A `Content-Disposition`, under the same rule. Bytes that are no UTF-8 are ISO-8859-1, as older servers write names in a
/// quoted string (RFC 6266, section 4.3).
pub(crate) fn disposition_text(value: &[u8]) -> Option<String> {
    match std::str::from_utf8(value) {
        Ok(text) => plain(text),
        Err(_) => plain(&value.iter().copied().map(char::from).collect::<String>()),
    }
}

fn plain(text: &str) -> Option<String> {
    let text = text.trim_matches([' ', '\t']);
    let plain = !text.is_empty() && !text.contains(|c: char| c.is_control() && c != '\t');
    plain.then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
