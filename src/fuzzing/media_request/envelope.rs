//! Our own opinion of what the file in an envelope is, which owes nothing to the reader's.

/// The file between the second boundary and the third, where the body's boundary is `b`.
pub(super) fn file_in(body: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<_> = body.split_inclusive(|byte| *byte == b'\n').collect();
    let marks: Vec<_> = (0..lines.len()).filter(|at| is_boundary(lines[*at])).collect();
    let [_, second, third, ..] = marks[..] else { return None };
    let part = lines[second + 1..third].concat();
    // The line end before a boundary is the boundary's.
    let part = part.strip_suffix(b"\n").map_or(&part[..], |part| part.strip_suffix(b"\r").unwrap_or(part));
    let part = [b"\n", part].concat();
    let ends = [b"\n\r\n".as_slice(), b"\n\n"].into_iter().filter_map(|end| {
        let at = part.windows(end.len()).position(|window| window == end)?;
        Some((at, at + end.len()))
    });
    // Without an empty line the last header's line end is the boundary's: an empty file.
    Some(ends.min().map_or_else(Vec::new, |(_, end)| part[end..].to_vec()))
}

fn is_boundary(line: &[u8]) -> bool {
    let Some(text) = line.strip_prefix(b"--b") else { return false };
    text.starts_with(b"--") || text.trim_ascii().is_empty()
}
