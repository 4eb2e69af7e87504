//! [`Script`]: the world outside, as the fuzzer writes it.
//!
//! ```text
//!  addresses   44.128.10.1 2a0e:fade:10::1        !  SERVFAIL     ?  silence     @  too many aliases     -  refused
//!  services    10 5 8448 a.example;20 0 443 .     (priority weight port target)        the same marks
//!  a request   200⇥Location: /x|Age: 3⇥the body   x  refused      ~  dropped packets   -  accepted, then nothing
//! ```
//!
//! Each question takes the next line. In front of a line may stand `+3 ` (three seconds before the answer), `/3 ` (three
//! seconds before each piece of the body) and `*9 ` (nine pieces of a KiB of blanks after the body, which are still JSON).
//! When the lines are used up, there are no records, and connections are refused.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::time::{sleep, sleep_until};

use super::lines;
use crate::deadline::OutboundDeadline;
use crate::outbound::BoxFuture;
use crate::outbound::resolver::{DnsError, Resolve, SrvRecord, SrvService, SrvTarget};
use crate::outbound::transport::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};
use crate::server_name::{DnsName, Host};
use crate::sync::Mutex;

/// Most pieces of blanks: enough to pass the limit of an alias answer, and to be parsed off the async threads.
const MOST_BLANKS: usize = 300;

const BLANKS: [u8; 1024] = [b' '; 1024];

/// Answers every question from its lines, and keeps to what the two traits promise.
///
/// Always: nothing is asked about our own host unless a client named it with another port, and nothing is sent to an
/// address that is not of the public internet.
pub(super) struct Script {
    /// `None` once a client named it with another port: that is another server.
    own_host: Mutex<Option<Host>>,
    lines: Mutex<VecDeque<String>>,
    asked: Mutex<Asked>,
    said: Mutex<Option<Said>>,
}

/// The last response that was given.
#[derive(Clone)]
pub(super) struct Said {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// How often the world was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) lookups: usize,
    pub(super) requests: usize,
}

/// A line without what stands in front.
struct Line {
    text: String,
    delay: Duration,
    pause: Duration,
    blanks: usize,
}

impl Script {
    pub(super) fn new(own_host: Host, text: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            own_host: Mutex::new(Some(own_host)),
            lines: Mutex::new(lines(text).into()),
            asked: Mutex::default(),
            said: Mutex::default(),
        })
    }

    pub(super) fn asked(&self) -> Asked {
        *self.asked.lock()
    }

    /// From now on our own host may be asked about.
    pub(super) fn own_host_was_named(&self) {
        *self.own_host.lock() = None;
    }

    fn is_ours(&self, host: &Host) -> bool {
        self.own_host.lock().as_ref() == Some(host)
    }

    pub(super) fn said(&self) -> Option<Said> {
        self.said.lock().clone()
    }

    fn next(&self) -> Option<Line> {
        let mut text = self.lines.lock().pop_front()?;
        let mut line = Line { text: String::new(), delay: Duration::ZERO, pause: Duration::ZERO, blanks: 0 };
        while let Some((word, _)) = text.split_once(' ') {
            let Some((mark, Ok(number))) = word.split_at_checked(1).map(|(mark, digits)| (mark, digits.parse::<u16>()))
            else {
                break;
            };
            match mark {
                "+" => line.delay = Duration::from_secs(number.into()),
                "/" => line.pause = Duration::from_secs(number.into()),
                "*" => line.blanks = usize::from(number).min(MOST_BLANKS),
                _ => break,
            }
            text = text.split_off(word.len() + 1);
        }
        line.text = text;
        Some(line)
    }

    async fn look_up(&self, name: &DnsName, deadline: OutboundDeadline) -> Result<String, DnsError> {
        self.asked.lock().lookups += 1;
        assert!(!self.is_ours(&Host::Name(name.clone())), "our own host is looked up");
        let Some(line) = self.next() else { return Err(DnsError::NoRecords) };
        deadline.cut(sleep(line.delay)).await.map_err(|_| DnsError::TimedOut)?;
        match line.text.as_str() {
            "!" => Err(DnsError::ServFail),
            "@" => Err(DnsError::AliasLoop),
            "-" => Err(DnsError::Failed),
            "?" => {
                sleep_until(deadline.expires_at()).await;
                Err(DnsError::TimedOut)
            }
            _ => Ok(line.text),
        }
    }

    fn response(&self, line: &Line) -> Option<Response<RemoteBody>> {
        let mut fields = line.text.splitn(3, '\t');
        let mut response = Response::builder().status(fields.next()?.parse::<u16>().ok()?);
        for header in fields.next().unwrap_or_default().split('|') {
            let Some((name, value)) = header.split_once(':') else { continue };
            let (Ok(name), Ok(value)) = (name.trim().parse::<HeaderName>(), value.trim().parse::<HeaderValue>()) else {
                continue;
            };
            response = response.header(name, value);
        }
        let piece = Bytes::copy_from_slice(fields.next().unwrap_or_default().as_bytes());
        let pause = line.pause;
        let headers = response.headers_ref().cloned().unwrap_or_default();
        *self.said.lock() = Some(Said { headers, body: [&piece, BLANKS.repeat(line.blanks).as_slice()].concat() });
        let blanks = std::iter::repeat_n(Bytes::from_static(&BLANKS), line.blanks);
        let pieces = futures_util::stream::iter(std::iter::once(piece).chain(blanks)).then(move |piece| async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            Ok::<_, TransportError>(Frame::data(piece))
        });
        response.body(RemoteBody::new(StreamBody::new(pieces))).ok()
    }

    fn check(&self, attempt: &Attempt) {
        let address = attempt.address.socket_addr();
        assert!(is_public(address), "{address} is dialled");
        let host = attempt.request.headers()[http::header::HOST].to_str().unwrap();
        let host: crate::server_name::ServerName = host.parse().unwrap();
        assert!(!self.is_ours(host.host()) && !self.is_ours(&attempt.tls_name), "our own host is dialled");
        assert!(attempt.request.uri().authority().is_none());
        match attempt.tls_name {
            Host::Name(_) => {}
            Host::V4(v4) => assert_eq!(address.ip(), IpAddr::V4(v4)),
            Host::V6(v6) => assert_eq!(address.ip(), IpAddr::V6(v6)),
        }
    }
}

/// Our own opinion, coarser than the address policy's.
#[expect(clippy::disallowed_methods, reason = "an opinion that owes nothing to the address policy")]
fn is_public(address: SocketAddr) -> bool {
    let ordinary = match address.ip() {
        IpAddr::V4(v4) => {
            !(v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast())
        }
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000 || v6.segments()[..2] == [0x64, 0xff9b],
    };
    ordinary && address.port() != 0
}

impl Resolve for Script {
    fn addresses<'a>(
        &'a self,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        Box::pin(async move {
            let text = self.look_up(name, deadline).await?;
            let addresses: Vec<IpAddr> = text.split(' ').filter_map(|address| address.parse().ok()).collect();
            if addresses.is_empty() { Err(DnsError::NoRecords) } else { Ok(addresses) }
        })
    }

    fn service<'a>(
        &'a self,
        _service: SrvService,
        name: &'a DnsName,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        Box::pin(async move {
            let text = self.look_up(name, deadline).await?;
            let records: Vec<SrvRecord> = text.split(';').filter_map(srv_record).collect();
            if records.is_empty() { Err(DnsError::NoRecords) } else { Ok(records) }
        })
    }
}

fn srv_record(text: &str) -> Option<SrvRecord> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u16>().ok();
    let (priority, weight, port) = (number()?, number()?, number()?);
    let target = match words.next()? {
        "." => SrvTarget::Root,
        name => name.parse().map_or(SrvTarget::Unusable, SrvTarget::Name),
    };
    Some(SrvRecord { priority, weight, port, target })
}

impl Transport for Script {
    fn send(
        &self,
        attempt: Attempt,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'_, Result<Response<RemoteBody>, TransportError>> {
        self.asked.lock().requests += 1;
        self.check(&attempt);
        let line = self.next();
        let failed = |phase, timed_out| Err(TransportError { phase, timed_out });
        Box::pin(async move {
            let Some(line) = line else { return failed(TransportPhase::Connect, false) };
            match line.text.as_str() {
                "x" => failed(TransportPhase::Connect, false),
                "~" => {
                    sleep_until(attempt.connect_by.expires_at()).await;
                    failed(TransportPhase::Connect, true)
                }
                "-" => {
                    sleep_until(deadline.expires_at()).await;
                    failed(TransportPhase::Send, true)
                }
                _ => match deadline.cut(sleep(line.delay)).await {
                    Ok(()) => {
                        self.response(&line).ok_or(TransportError { phase: TransportPhase::Send, timed_out: false })
                    }
                    Err(_) => failed(TransportPhase::Send, true),
                },
            }
        })
    }
}
