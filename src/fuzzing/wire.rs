//! What a client sees of the answers it was given.

use http::StatusCode;

/// What was answered to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    /// The client asked for the head alone.
    pub(super) head_only: bool,
}

/// The bytes on the wire are exactly these answers, in this order; at the end there may be one that refuses a request
/// before it is handed on: ours in JSON, or the HTTP library's, which has no body.
pub(super) fn holds_exactly(mut wire: &[u8], answers: &[Answered]) {
    for answered in answers {
        let (head, rest) = read_head(wire).unwrap();
        assert_eq!(head.status, answered.status.as_u16());
        assert!(head.is_ours);
        let length = if answered.head_only { 0 } else { head.length.unwrap() };
        assert!(length <= rest.len(), "an answer is cut short");
        wire = &rest[length..];
    }
    if !wire.is_empty() {
        let (head, rest) = read_head(wire).unwrap();
        assert!((400..500).contains(&head.status), "{} out of nowhere", head.status);
        if head.is_ours && !rest.is_empty() {
            let content: serde_json::Value = serde_json::from_slice(rest).unwrap();
            assert!(content["errcode"].is_string() && content["error"].is_string());
        }
        assert!(rest.is_empty() || head.is_ours && head.length == Some(rest.len()));
    }
}

struct Head {
    status: u16,
    length: Option<usize>,
    /// It has the headers of every answer that is not the HTTP library's.
    is_ours: bool,
}

/// The first response that is not interim, and what follows its head.
fn read_head(mut wire: &[u8]) -> Option<(Head, &[u8])> {
    loop {
        let end = wire.windows(4).position(|window| window == b"\r\n\r\n")?;
        let text = std::str::from_utf8(&wire[..end]).ok()?;
        wire = &wire[end + 4..];
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
        if status == 100 {
            continue;
        }
        let mut head = Head { status, length: None, is_ours: false };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.trim().parse().ok(),
                "access-control-allow-origin" => head.is_ours = true,
                _ => {}
            }
        }
        return Some((head, wire));
    }
}
