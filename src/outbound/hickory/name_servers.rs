//! [`NameServers`]: one question, put to two name servers at once.
//!
//! A question takes one UDP socket per server asked and sends again over the same one: how many descriptors a stranger's
//! zone can make us open depends on nothing but the number of questions. An answer that was cut short is fetched over a
//! TCP connection of its own, which ends with the question: a server that stalls on one answer does not hold the next.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use hickory_resolver::proto::op::{DnsRequest, DnsRequestOptions, DnsResponse, OpCode, Query, ResponseCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// When a question is sent again for want of an answer; each further pause is twice as long.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How often a question is sent to one server.
const TIMES_SENT: usize = 3;

/// How long a server beside the favourite is waited for while another one waits for its turn.
const TURN: Duration = Duration::from_millis(700);

/// Larger than any answer a server may send to the size we announce; what is cut off here is not read.
const UDP_BUFFER_BYTES: usize = 4096;

/// The name servers, and which of them answered last.
///
/// Always: one question is with at most [`MAX_NAME_SERVERS_AT_ONCE`](crate::limits::MAX_NAME_SERVERS_AT_ONCE) servers, and
/// holds one socket for each of them.
pub(super) struct NameServers {
    all: Vec<SocketAddr>,
    favourite: AtomicUsize,
}

impl NameServers {
    pub(super) fn new(all: Vec<SocketAddr>) -> Self {
        Self { all, favourite: AtomicUsize::new(0) }
    }

    /// The first answer that settles the question. The server that answered last is asked all along; beside it the others
    /// take turns, so that no number of dead ones keeps a living one from being asked. An answer that only says that its
    /// server failed, or refuses, is kept for when no other has a better one.
    ///
    /// *Errors:* every server failed. Ends only then or with an answer: the caller's deadline cuts it. *Cancel safety:*
    /// dropping the future closes its sockets.
    pub(super) async fn answer(&self, query: &Query) -> io::Result<DnsResponse> {
        let first = self.favourite.load(Ordering::Relaxed);
        let mut in_turn = self.all.iter().copied().enumerate().cycle().skip(first).take(self.all.len());
        let Some(favourite) = in_turn.next() else { return Err(io::ErrorKind::NotFound.into()) };
        let favourite = pin!(self.ask(favourite, query));
        let others = pin!(self.one_after_the_other(in_turn.collect(), query));
        match select(favourite, others).await {
            Either::Left((Ok(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
            Either::Left((Err(favourites), others)) => favourites.unless_settled(others).await,
            Either::Right((Err(others), favourite)) => others.unless_settled(favourite).await,
        }
    }

    async fn one_after_the_other(
        &self,
        servers: Vec<(usize, SocketAddr)>,
        query: &Query,
    ) -> Result<DnsResponse, Missed> {
        let mut missed = Missed::Nothing(io::ErrorKind::NotFound.into());
        let mut left = servers.len();
        for server in servers {
            left = left.saturating_sub(1);
            let asking = self.ask(server, query);
            let answer = if left == 0 {
                asking.await
            } else {
                timeout(TURN, asking).await.unwrap_or_else(|late| Err(Missed::Nothing(late.into())))
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(again) => missed = missed.or(again),
            }
        }
        Err(missed)
    }

    async fn ask(&self, (index, server): (usize, SocketAddr), query: &Query) -> Result<DnsResponse, Missed> {
        let answer = whole_answer(server, query).await.map_err(Missed::Nothing)?;
        if !matches!(answer.metadata.response_code, ResponseCode::NoError | ResponseCode::NXDomain) {
            return Err(Missed::NoHelp(Box::new(answer)));
        }
        self.favourite.store(index, Ordering::Relaxed);
        Ok(answer)
    }
}

/// What one or more servers came to without settling the question.
enum Missed {
    /// A whole answer that says the server failed, or refuses.
    NoHelp(Box<DnsResponse>),
    /// No answer.
    Nothing(io::Error),
}

impl Missed {
    /// An answer that is no help says more than none.
    fn or(self, other: Self) -> Self {
        if let Self::NoHelp(_) = self { self } else { other }
    }

    /// What is left to say when `other` does not settle it either. Beside an answer that is no help, the rest get a turn.
    async fn unless_settled(self, other: impl Future<Output = Result<DnsResponse, Self>>) -> io::Result<DnsResponse> {
        let other = match &self {
            Self::NoHelp(_) => timeout(TURN, other).await.unwrap_or_else(|late| Err(Self::Nothing(late.into()))),
            Self::Nothing(_) => other.await,
        };
        match other.map_err(|other| self.or(other)) {
            Ok(answer) => Ok(answer),
            Err(Self::NoHelp(answer)) => Ok(*answer),
            Err(Self::Nothing(error)) => Err(error),
        }
    }
}

async fn whole_answer(server: SocketAddr, query: &Query) -> io::Result<DnsResponse> {
    let question = DnsRequest::from_query(query.clone(), DnsRequestOptions::default());
    let mut answer = over_udp(server, &question).await?;
    if answer.truncation {
        answer = over_tcp(server, &question).await?;
    }
    if answer.truncation {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

/// The socket's port is drawn by the system. It is not connected: a server that is just being started again, or somebody
/// who claims to be a router on the way, does not end the question by "nobody is there"; silence is all it comes to.
async fn over_udp(server: SocketAddr, question: &DnsRequest) -> io::Result<DnsResponse> {
    let any_port: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any_port).await?;
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let mut pause = SENT_AGAIN_AFTER;
    for _ in 1..TIMES_SENT {
        socket.send_to(&bytes, server).await?;
        if let Ok(heard) = timeout(pause, hear(&socket, server, question)).await {
            return heard;
        }
        pause = pause.saturating_mul(2);
    }
    socket.send_to(&bytes, server).await?;
    hear(&socket, server, question).await
}

/// The first datagram of `server` that answers `question`. Whatever else comes may be forged, and ends nothing.
async fn hear(socket: &UdpSocket, server: SocketAddr, question: &DnsRequest) -> io::Result<DnsResponse> {
    let mut buffer = vec![0; UDP_BUFFER_BYTES];
    loop {
        let (length, sender) = socket.recv_from(&mut buffer).await?;
        let is_server = sender.ip().to_canonical() == server.ip().to_canonical() && sender.port() == server.port();
        let datagram = buffer.get(..length).filter(|_| is_server).unwrap_or_default();
        // Before it is read whole: a flood of forgeries must not cost more than a look at each.
        if !datagram.starts_with(&question.metadata.id.to_be_bytes()) {
            continue;
        }
        if let Ok(answer) = DnsResponse::from_buffer(datagram.to_vec())
            && answers(&answer, question)
        {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &DnsRequest) -> io::Result<DnsResponse> {
    let mut stream = TcpStream::connect(server).await?;
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), bytes.as_slice()].concat()).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    let answer = DnsResponse::from_buffer(answer).map_err(io::Error::other)?;
    if answers(&answer, question) { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn answers(answer: &DnsResponse, question: &DnsRequest) -> bool {
    answer.metadata.id == question.metadata.id
        && answer.metadata.op_code == OpCode::Query
        && answer.queries == question.queries
}
