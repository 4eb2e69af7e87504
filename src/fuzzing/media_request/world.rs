//! [`Answers`]: the world outside, which has every name and says what the input says.
//!
//! ```text
//!  200 7            status, and how many bytes come at a time; then `!`: the body breaks off, `/`: a second before each piece
//!  Content-Type: multipart/mixed; boundary=b
//!
//!  the body
//! ```
//!
//! `x` alone is a refused connection, and `-` one on which nothing ever comes. After the last answer connections are refused.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::time::{sleep, sleep_until};

use super::super::sections;
use super::envelope::file_in;
use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::resolver::{DnsError, Resolve, SrvRecord, SrvService};
use crate::outbound::transport::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};
use crate::server_name::DnsName;
use crate::sync::Mutex;

/// Where every name leads: a public address.
const SOMEWHERE: Ipv4Addr = Ipv4Addr::new(44, 128, 10, 1);

/// Answers requests one after the other, and keeps count.
pub(super) struct Answers {
    left: Mutex<VecDeque<Vec<u8>>>,
    asked: Mutex<usize>,
    /// Every body, whether it came in an envelope with the boundary `b`, and whether it did not break off.
    sent: Mutex<Vec<Sent>>,
}

struct Sent {
    body: Vec<u8>,
    enveloped: bool,
    whole: bool,
    understood: bool,
}

impl Answers {
    pub(super) fn new(text: &[u8]) -> Arc<Self> {
        let left = sections(text, b"\n&&\n").into_iter().map(<[u8]>::to_vec).collect();
        Arc::new(Self { left: Mutex::new(left), asked: Mutex::default(), sent: Mutex::default() })
    }

    /// Questions and connections so far.
    pub(super) fn asked(&self) -> usize {
        *self.asked.lock()
    }

    /// `file` is one of those that came, whole.
    ///
    /// *Panics:* if it is not.
    pub(super) fn has_sent(&self, file: &[u8]) {
        let sent = self.sent.lock();
        let is_it = |sent: &Sent| match (sent.enveloped, sent.understood) {
            (true, _) => file_in(&sent.body).is_some_and(|sent| sent == file),
            // Not in an envelope: from where a `Location` leads, or an older server.
            (false, true) => sent.whole && sent.body == file,
            // An envelope with another boundary: no opinion.
            (false, false) => true,
        };
        assert!(sent.iter().any(is_it), "nobody sent this file: {:?}", String::from_utf8_lossy(file));
    }

    /// The answer in `text`. Where a `Location` leads, a body is the file whatever its type says: only what is asked by the
    /// federation API comes in an envelope.
    fn next(&self, text: &[u8], federation: bool, deadline: OutboundDeadline) -> Option<Response<RemoteBody>> {
        let (head, body) = match text.windows(2).position(|window| window == b"\n\n") {
            Some(at) => (&text[..at], &text[at + 2..]),
            None => (text, [].as_slice()),
        };
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split('\n');
        let mut words = lines.next()?.split(' ');
        let status: u16 = words.next()?.parse().ok()?;
        let size = words.next().and_then(|size| size.parse().ok()).unwrap_or(usize::MAX).clamp(1, usize::MAX);
        let rest: Vec<_> = words.collect();
        let (breaks, pause) = (rest.contains(&"!"), rest.contains(&"/"));
        let mut response = Response::builder().status(status);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let (Ok(name), Ok(value)) = (name.trim().parse::<HeaderName>(), value.trim().parse::<HeaderValue>()) else {
                continue;
            };
            response = response.header(name, value);
        }
        let headers = response.headers_ref()?;
        let kind = headers.get("content-type").map(HeaderValue::as_bytes).unwrap_or_default();
        let enveloped = federation && kind == b"multipart/mixed; boundary=b";
        let multipart = String::from_utf8_lossy(kind).to_ascii_lowercase().contains("multipart");
        let understood = enveloped || !(federation && multipart);
        let about = Sent { body: body.to_vec(), enveloped, whole: !breaks, understood };
        self.sent.lock().push(about);
        let broken = TransportError { phase: TransportPhase::Body, timed_out: false };
        let mut pieces: Vec<_> =
            body.chunks(size).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        pieces.extend(breaks.then_some(Err(broken)));
        let pieces = futures_util::stream::iter(pieces).then(move |piece| async move {
            if pause {
                // As the transport promises: nothing comes past the deadline.
                let _ = deadline.cut(sleep(Duration::from_secs(1))).await;
            }
            piece
        });
        response.body(RemoteBody::new(StreamBody::new(pieces))).ok()
    }
}

impl Resolve for Answers {
    fn addresses<'a>(&'a self, name: &'a DnsName, _: OutboundDeadline) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        *self.asked.lock() += 1;
        Box::pin(async move {
            Ok(vec![if name.as_str().starts_with("in.") { [10, 0, 0, 1].into() } else { SOMEWHERE.into() }])
        })
    }

    fn service<'a>(
        &'a self,
        _: SrvService,
        _: &'a DnsName,
        _: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        *self.asked.lock() += 1;
        Box::pin(async { Err(DnsError::NoRecords) })
    }
}

impl Transport for Answers {
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<Response<RemoteBody>, TransportError>> {
        *self.asked.lock() += 1;
        assert!(attempt.address.socket_addr().ip() != IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), "the inside is dialled");
        let failed = |phase, timed_out| TransportError { phase, timed_out };
        // A `Location` may name any path, and is asked without a signature.
        let federation = attempt.request.headers().contains_key(http::header::AUTHORIZATION)
            && attempt.request.uri().path().starts_with("/_matrix/federation/");
        // The well-known file of a name without a port is not what is tried here.
        let text = match attempt.request.uri().path() {
            "/.well-known/matrix/server" => None,
            _ => self.left.lock().pop_front(),
        };
        Box::pin(async move {
            match text.as_deref() {
                None | Some(b"x") => Err(failed(TransportPhase::Connect, false)),
                Some(b"-") => {
                    sleep_until(deadline.expires_at()).await;
                    Err(failed(TransportPhase::Send, true))
                }
                Some(text) => self.next(text, federation, deadline).ok_or_else(|| failed(TransportPhase::Send, false)),
            }
        })
    }
}
