//! Reading what a remote sends: counted as it comes, cut by the deadline as a whole.
//!
//! A time limit between two bytes would let a peer send one byte at a time for ever. There is none here: the body has what
//! is left of the call's deadline, and no more than its bytes.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body as _;
use http_body_util::BodyExt as _;

use crate::deadline::{Expired, OutboundDeadline};
use crate::limits::PARSE_ELSEWHERE_BYTES;
use crate::outbound::transport::{RemoteBody, TransportError};

/// A body was not read to its end. What had come is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// Larger than it may be, announced or found while reading.
    #[error("the body is larger than it may be")]
    TooLarge,
    /// The connection broke before the end.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The deadline passed.
    #[error("the deadline passed")]
    OutOfTime,
}

/// A body was not the JSON that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    /// Not JSON, or not of the type.
    #[error("the body is not the JSON expected")]
    Malformed,
    /// The deadline passed.
    #[error("the deadline passed")]
    OutOfTime,
}

/// The length a head announces, if it is a number.
pub(crate) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads `body` to its end: at most `max_bytes`, no later than `deadline`.
///
/// A body announced larger is refused unread. Worst case in memory: twice `max_bytes` while it grows, and one frame.
///
/// *Errors:* [`BodyError`]; the connection is closed then. *Panics:* never. *Cancel safety:* dropping the future closes the
/// connection. *Blocking:* no.
pub(crate) async fn read_bounded(
    body: RemoteBody,
    announced: Option<u64>,
    max_bytes: usize,
    deadline: OutboundDeadline,
) -> Result<Bytes, BodyError> {
    let at_least = announced.unwrap_or(0).max(body.size_hint().lower());
    if usize::try_from(at_least).map_or(true, |bytes| bytes > max_bytes) {
        return Err(BodyError::TooLarge);
    }
    deadline.cut(collect(body, max_bytes)).await.unwrap_or(Err(BodyError::OutOfTime))
}

async fn collect(mut body: RemoteBody, max_bytes: usize) -> Result<Bytes, BodyError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are of no use to anybody here.
        let Ok(data) = frame?.into_data() else { continue };
        if data.len() > max_bytes.saturating_sub(read.len()) {
            return Err(BodyError::TooLarge);
        }
        read.extend_from_slice(&data);
        // A body that always has a frame ready must not keep the deadline from being looked at.
        tokio::task::consume_budget().await;
    }
    Ok(read.freeze())
}

/// Does all the work that a body is for, in one go: what a peer's bytes cost must never be paid on a thread that drives
/// other calls' timers, so a body larger than [`PARSE_ELSEWHERE_BYTES`] is worked on elsewhere.
///
/// *Errors:* [`JsonError`]. *Panics:* never. *Cancel safety:* work that has begun elsewhere runs to its end, which has to be
/// bounded by the size of the body. *Blocking:* for the time that a quarter of a megabyte takes.
pub(crate) async fn digest<T: Send + 'static>(
    body: Bytes,
    deadline: OutboundDeadline,
    work: impl FnOnce(&[u8]) -> Result<T, JsonError> + Send + 'static,
) -> Result<T, JsonError> {
    if body.len() <= PARSE_ELSEWHERE_BYTES {
        return work(&body);
    }
    match deadline.cut(tokio::task::spawn_blocking(move || work(&body))).await {
        Ok(Ok(done)) => done,
        // The runtime is going down, or a type's own parser panicked.
        Ok(Err(_)) => Err(JsonError::Malformed),
        Err(Expired) => Err(JsonError::OutOfTime),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures_util::stream::{self, StreamExt as _};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use serde_json::Value;
    use tokio::time::Instant;

    use super::*;
    use crate::outbound::transport::TransportPhase;

    const SECOND: Duration = Duration::from_secs(1);

    fn deadline(seconds: u32) -> OutboundDeadline {
        OutboundDeadline::after(seconds * SECOND, Instant::now())
    }

    fn drip(pause: Duration) -> RemoteBody {
        let bytes = stream::repeat(Bytes::from_static(b"x")).then(move |byte| async move {
            tokio::time::sleep(pause).await;
            Ok(Frame::data(byte))
        });
        RemoteBody::new(StreamBody::new(bytes))
    }

    fn chunks(chunks: Vec<&'static str>) -> RemoteBody {
        let frames = chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes()))));
        RemoteBody::new(StreamBody::new(stream::iter(frames)))
    }

    fn whole(text: &'static str) -> RemoteBody {
        RemoteBody::new(http_body_util::Full::from(text).map_err(|never: Infallible| match never {}))
    }

    async fn parse_json<T>(body: Bytes, deadline: OutboundDeadline) -> Result<T, JsonError>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
    {
        digest(body, deadline, |body| serde_json::from_slice(body).map_err(|_| JsonError::Malformed)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_drip_does_not_outlast_the_deadline() {
        let start = Instant::now();
        assert_eq!(read_bounded(drip(SECOND / 2), None, 1000, deadline(10)).await, Err(BodyError::OutOfTime));
        assert_eq!(start.elapsed(), 10 * SECOND);
    }

    #[tokio::test]
    async fn a_body_that_never_waits_is_cut_too() {
        // On the real clock, because nothing ever waits here; it ends by itself so that the test cannot hang.
        let frames = stream::repeat_with(|| Ok(Frame::data(Bytes::new()))).take(20_000_000);
        let unwaiting = RemoteBody::new(StreamBody::new(frames));
        let soon = OutboundDeadline::after(Duration::from_millis(20), Instant::now());
        assert_eq!(read_bounded(unwaiting, None, 1000, soon).await, Err(BodyError::OutOfTime));
    }

    #[tokio::test(start_paused = true)]
    async fn the_size_bound_is_exact() {
        let read = async |max| read_bounded(chunks(vec!["ab", "", "cde"]), None, max, deadline(1)).await;
        assert_eq!(read(5).await.unwrap(), "abcde");
        assert_eq!(read(4).await, Err(BodyError::TooLarge));
        assert_eq!(read_bounded(chunks(vec![]), None, 0, deadline(1)).await.unwrap(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_announced_too_large_is_refused_unread() {
        let start = Instant::now();
        let unread = read_bounded(drip(SECOND), Some(1001), 1000, deadline(10)).await;
        assert_eq!(unread, Err(BodyError::TooLarge));
        assert_eq!(read_bounded(drip(SECOND), Some(u64::MAX), 1000, deadline(10)).await, Err(BodyError::TooLarge));
        assert_eq!(read_bounded(whole("abcde"), None, 4, deadline(10)).await, Err(BodyError::TooLarge));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_connection_is_no_end() {
        let error = TransportError { phase: TransportPhase::Body, timed_out: false };
        let frames = vec![Ok(Frame::data(Bytes::from_static(b"{}"))), Err(error)];
        let broken = RemoteBody::new(StreamBody::new(stream::iter(frames)));
        assert_eq!(read_bounded(broken, None, 1000, deadline(1)).await, Err(BodyError::Transport(error)));
    }

    #[tokio::test]
    async fn json_is_parsed_on_either_side_of_the_size_line() {
        for padding in [0, PARSE_ELSEWHERE_BYTES] {
            let good = Bytes::from(format!("[1]{}", " ".repeat(padding)));
            assert_eq!(parse_json::<Vec<u8>>(good, deadline(60)).await, Ok(vec![1]));
            let bad = Bytes::from(format!("[1{}", " ".repeat(padding)));
            assert_eq!(parse_json::<Value>(bad, deadline(60)).await, Err(JsonError::Malformed));
        }
        let nested = Bytes::from("[".repeat(1_000_000));
        assert_eq!(parse_json::<Value>(nested, deadline(60)).await, Err(JsonError::Malformed));
    }

    #[tokio::test]
    async fn small_json_is_parsed_here_and_large_json_on_another_thread() {
        struct ParsedBy(std::thread::ThreadId);
        impl<'de> serde::Deserialize<'de> for ParsedBy {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                serde::de::IgnoredAny::deserialize(from)?;
                Ok(Self(std::thread::current().id()))
            }
        }
        let here = std::thread::current().id();
        let json = |bytes: usize| Bytes::from(format!("{{}}{}", " ".repeat(bytes - 2)));
        let small: ParsedBy = parse_json(json(PARSE_ELSEWHERE_BYTES), deadline(60)).await.unwrap();
        let large: ParsedBy = parse_json(json(PARSE_ELSEWHERE_BYTES + 1), deadline(60)).await.unwrap();
        assert_eq!(small.0, here);
        assert_ne!(large.0, here);
    }

    #[test]
    fn only_a_number_announces_a_length() {
        let announced =
            |value: &str| announced_length(&HeaderMap::from_iter([(CONTENT_LENGTH, value.parse().unwrap())]));
        assert_eq!(announced("12"), Some(12));
        assert_eq!(announced("-1"), None);
        assert_eq!(announced("99999999999999999999999"), None);
        assert_eq!(announced_length(&HeaderMap::new()), None);
    }
}
