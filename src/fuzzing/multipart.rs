//! The envelope of another server's file.

use bytes::Bytes;

use crate::outbound::multipart::{Boundary, Event, MalformedMultipart, Multipart, PartHead};

/// Longest piece that the body is cut into.
const LONGEST_PIECE: usize = 64;

/// What a body came to.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    head: Option<PartHead>,
    file: Vec<u8>,
    ended: bool,
    /// Whether it would do if the body ended cleanly where it ends.
    whole: Result<(), MalformedMultipart>,
}

/// Any content type and body: never panics; the head comes first and once, data only between it and the end; what comes is
/// no longer than what went in; and all of it is the same in one piece, in any pieces, and byte by byte.
///
/// Two lines, then the body: the value of `Content-Type`, and the pieces' lengths, one for each byte, over and over.
pub fn multipart(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let (Some(content_type), Some(lengths), Some(body)) = (lines.next(), lines.next(), lines.next()) else { return };
    let Some(boundary) = Boundary::in_content_type(content_type) else { return };

    let whole = read(&boundary, [body]);
    assert!(whole.file.len() <= body.len());
    if let Some(head) = &whole.head {
        let texts = [&head.content_type, &head.content_disposition, &head.location];
        assert!(texts.into_iter().flatten().all(|text| !text.is_empty() && !text.contains(['\r', '\n', '\0'])));
    }
    assert_eq!(read(&boundary, body.chunks(1)), whole);
    assert_eq!(read(&boundary, pieces(body, lengths)), whole);
}

fn pieces<'a>(mut body: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut lengths = lengths.iter().cycle();
    let mut cut = Vec::new();
    while !body.is_empty() {
        let length = lengths.next().map_or(1, |byte| usize::from(*byte) % LONGEST_PIECE + 1);
        let (piece, rest) = body.split_at(length.min(body.len()));
        cut.push(piece);
        body = rest;
    }
    cut
}

fn read<'a>(boundary: &Boundary, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut multipart = Multipart::new(boundary);
    let mut came = Read { head: None, file: Vec::new(), ended: false, whole: Err(MalformedMultipart) };
    for piece in pieces {
        let mut chunk = Bytes::copy_from_slice(piece);
        loop {
            match multipart.read(&mut chunk) {
                Ok(None) => break assert!(chunk.is_empty()),
                Ok(Some(Event::Head(head))) => assert_eq!(came.head.replace(head), None),
                Ok(Some(Event::Data(data))) => {
                    assert!(came.head.is_some() && !came.ended && !data.is_empty());
                    came.file.extend_from_slice(&data);
                }
                Ok(Some(Event::End)) => assert!(!std::mem::replace(&mut came.ended, true)),
                Err(malformed) => {
                    assert!(!came.ended);
                    came.whole = Err(malformed);
                    return came;
                }
            }
        }
    }
    came.whole = multipart.finish_clean();
    assert!(came.whole.is_ok() || !came.ended);
    came
}
