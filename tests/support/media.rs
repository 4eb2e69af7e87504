//! Files as a server sends them to another one: wrapped in a multipart answer.

/// The file in an answer: its headers and its bytes.
pub(crate) struct SentFile<'a> {
    /// Whole header lines without their ends.
    pub(crate) headers: &'a [&'a str],
    pub(crate) bytes: &'a [u8],
}

const BOUNDARY: &str = "0123456789abcdef";
/// The `Content-Type` of the envelope.
pub(crate) const MULTIPART: &str = "multipart/mixed; boundary=0123456789abcdef";

impl<'a> SentFile<'a> {
    pub(crate) fn png(bytes: &'a [u8]) -> Self {
        Self { headers: &["Content-Type: image/png"], bytes }
    }

    /// The body of the multipart answer.
    pub(crate) fn envelope(&self) -> Vec<u8> {
        let headers: String = self.headers.iter().flat_map(|line| [*line, "\r\n"]).collect();
        let before =
            format!("\r\n--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{{}}\r\n--{BOUNDARY}\r\n{headers}\r\n");
        [before.as_bytes(), self.bytes, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat()
    }

    /// The whole HTTP answer, with its length.
    pub(crate) fn answer(&self) -> Vec<u8> {
        let envelope = self.envelope();
        [answer_head(envelope.len()), envelope].concat()
    }
}

/// The head of a multipart answer that announces `length` bytes.
pub(crate) fn answer_head(length: usize) -> Vec<u8> {
    multipart_head(&format!("Content-Length: {length}"))
}

/// The head of a multipart answer with one header line more.
pub(crate) fn multipart_head(line: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {MULTIPART}\r\n{line}\r\n\r\n").into()
}

/// The bytes as HTTP chunks of at most `size`, with the last one.
pub(crate) fn chunked(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut sent = Vec::new();
    for chunk in bytes.chunks(size) {
        sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        sent.extend_from_slice(chunk);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b"0\r\n\r\n");
    sent
}
