//! [`Delimiters`]: finds the lines that separate parts, wherever the network cut the bytes.
//!
//! A delimiter is a line of its own: two hyphens, the boundary, and then blanks up to the line's end, or two hyphens more.
//! The line end before it belongs to it. A line that only begins like one is part of the file.

use bytes::{Buf as _, Bytes};
use memchr::memmem::Finder;
use memchr::memrchr;

use super::boundary::Boundary;
use crate::limits::MAX_BOUNDARY_PADDING_BYTES;

/// The delimiters of one body.
///
/// Always: what is held back is shorter than a boundary, its padding and six bytes. Time is linear: no byte is looked at more
/// than a handful of times, whatever the bytes are (`a_file_full_of_near_boundaries_takes_linear_time`).
pub(super) struct Delimiters {
    /// For a line feed, two hyphens and the boundary. No other line feed is in it, so no two finds overlap.
    finder: Finder<'static>,
    stage: Stage,
    /// Bytes that are a delimiter's beginning, or text.
    held: Vec<u8>,
}

/// What the next bytes of a body are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    /// Never empty.
    Text(Bytes),
    /// The line of a delimiter, its end included.
    Delimiter,
    /// The delimiter after the last part. Its line may go on.
    Close,
}

/// How much of a delimiter has been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Nothing,
    /// The carriage return before the line feed.
    Return,
    /// That many bytes of what the finder looks for.
    Boundary(usize),
    /// All of it, and that many blanks.
    Blanks(usize),
    /// And the carriage return at its end.
    LastReturn,
    /// And the first of two more hyphens.
    Hyphen,
}

enum Step {
    Goes(Stage),
    Delimiter,
    Close,
    /// It was text after all; the byte is to be looked at anew.
    Text,
}

/// At the start of a line: a line feed came before, or nothing at all.
const LINE_START: Stage = Stage::Boundary(1);

impl Stage {
    fn step(self, byte: u8, needle: &[u8]) -> Step {
        match (self, byte) {
            (Self::Return, b'\n') => Step::Goes(LINE_START),
            (Self::Boundary(seen), byte) if needle.get(seen) == Some(&byte) => {
                let seen = seen.saturating_add(1);
                Step::Goes(if seen == needle.len() { Self::Blanks(0) } else { Self::Boundary(seen) })
            }
            (Self::Blanks(_) | Self::LastReturn, b'\n') => Step::Delimiter,
            (Self::Blanks(_), b'\r') => Step::Goes(Self::LastReturn),
            (Self::Blanks(seen), b' ' | b'\t') if seen < MAX_BOUNDARY_PADDING_BYTES => {
                Step::Goes(Self::Blanks(seen.saturating_add(1)))
            }
            (Self::Blanks(0), b'-') => Step::Goes(Self::Hyphen),
            (Self::Hyphen, b'-') => Step::Close,
            _ => Step::Text,
        }
    }
}

impl Delimiters {
    pub(super) fn new(boundary: &Boundary) -> Self {
        let needle = format!("\n--{}", boundary.as_str());
        Self { finder: Finder::new(&needle).into_owned(), stage: LINE_START, held: Vec::new() }
    }

    /// Takes the next text or delimiter off `chunk`. `None`: it is empty, and what it ended with is undecided.
    pub(super) fn scan(&mut self, chunk: &mut Bytes) -> Option<Scanned> {
        loop {
            if self.stage == Stage::Nothing {
                let text = chunk.split_to(self.text_length(chunk));
                if !text.is_empty() {
                    return Some(Scanned::Text(text));
                }
                // What is left begins like a delimiter.
                match chunk.first()? {
                    b'\r' => self.stage = Stage::Return,
                    _ => self.stage = LINE_START,
                }
                self.held.push(chunk.get_u8());
            }
            let byte = *chunk.first()?;
            match self.stage.step(byte, self.finder.needle()) {
                Step::Goes(stage) => {
                    self.stage = stage;
                    self.held.push(byte);
                }
                Step::Text => {
                    self.stage = Stage::Nothing;
                    if !self.held.is_empty() {
                        return Some(Scanned::Text(std::mem::take(&mut self.held).into()));
                    }
                    continue;
                }
                Step::Delimiter => return Some(self.passed(chunk, Scanned::Delimiter)),
                Step::Close => return Some(self.passed(chunk, Scanned::Close)),
            }
            chunk.advance(1);
        }
    }

    /// Whether a whole boundary has been seen, and nothing but blanks after it.
    pub(super) fn is_after_boundary(&self) -> bool {
        matches!(self.stage, Stage::Blanks(_))
    }

    fn passed(&mut self, chunk: &mut Bytes, what: Scanned) -> Scanned {
        chunk.advance(1);
        self.held.clear();
        self.stage = LINE_START;
        what
    }

    /// How many bytes of `chunk` are text for certain.
    fn text_length(&self, chunk: &[u8]) -> usize {
        let needle = self.finder.needle();
        let mut from = 0;
        while let Some(at) = chunk.get(from..).and_then(|rest| self.finder.find(rest)) {
            let at = at.saturating_add(from);
            from = at.saturating_add(needle.len());
            if may_go_on(chunk.get(from..).unwrap_or_default(), needle) {
                return with_return(chunk, at);
            }
        }
        // The end may be the beginning of one.
        match memrchr(b'\n', chunk) {
            Some(at) if chunk.get(at..).is_some_and(|end| needle.starts_with(end)) => with_return(chunk, at),
            _ if chunk.ends_with(b"\r") => chunk.len().saturating_sub(1),
            _ => chunk.len(),
        }
    }
}

/// Whether what follows a boundary makes its line a delimiter, or may still do so.
fn may_go_on(after: &[u8], needle: &[u8]) -> bool {
    let mut stage = Stage::Blanks(0);
    for byte in after {
        match stage.step(*byte, needle) {
            Step::Goes(next) => stage = next,
            Step::Delimiter | Step::Close => return true,
            Step::Text => return false,
        }
    }
    true
}

/// Where the line end with the line feed at `at` begins.
fn with_return(chunk: &[u8], at: usize) -> usize {
    match at.checked_sub(1) {
        Some(before) if chunk.get(before) == Some(&b'\r') => before,
        _ => at,
    }
}
