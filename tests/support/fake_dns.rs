//! A name server on a loopback port, UDP and TCP, that says what its test tells it to; ended when it is dropped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_resolver::proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

const TTL_SECONDS: u32 = 300;
/// The two sockets have to share a port; a free one for UDP may be taken for TCP.
const PORTS_TRIED: usize = 16;

/// What the name server says about a name.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// Its addresses.
    At(Vec<IpAddr>),
    /// The targets of its SRV records and their ports; "" is the root.
    Served(Vec<(&'static str, u16)>),
    /// It is an alias of another name.
    AliasOf(&'static str),
    /// An error code.
    Code(ResponseCode),
    /// Nothing at all.
    Nothing,
}

/// Whatever it was not told about does not exist.
pub(crate) struct FakeDns {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    zone: Mutex<Vec<(Name, Says)>>,
    asked: Mutex<Vec<String>>,
}

impl FakeDns {
    pub(crate) async fn start() -> Self {
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve_udp(udp, Arc::clone(&shared)));
        serving.spawn(serve_tcp(tcp, Arc::clone(&shared)));
        Self { address, shared, _serving: serving }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on `name` is said to be this, in place of what was said before.
    pub(crate) fn say(&self, name: &str, says: Says) {
        let name = Name::from_ascii(format!("{name}.")).unwrap();
        let mut zone = self.shared.zone.lock();
        zone.retain(|(other, _)| *other != name);
        zone.push((name, says));
    }

    /// Every question that came, those sent twice for want of an answer among them.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().clone()
    }
}

async fn sockets() -> (UdpSocket, TcpListener) {
    for _ in 0..PORTS_TRIED {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
    panic!("no port is free for UDP and for TCP");
}

async fn serve_udp(udp: UdpSocket, shared: Arc<Shared>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, peer) = udp.recv_from(&mut buffer).await.unwrap();
        if let Some(reply) = shared.reply(&buffer[..length]) {
            udp.send_to(&reply, peer).await.unwrap();
        }
    }
}

async fn serve_tcp(tcp: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (mut stream, _) = tcp.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            while let Ok(length) = stream.read_u16().await {
                let mut question = vec![0; usize::from(length)];
                if stream.read_exact(&mut question).await.is_err() {
                    return;
                }
                let Some(reply) = shared.reply(&question) else { continue };
                let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
                if stream.write_all(&[&length, &reply[..]].concat()).await.is_err() {
                    return;
                }
            }
        });
    }
}

impl Shared {
    fn reply(&self, question: &[u8]) -> Option<Vec<u8>> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        self.asked.lock().push(format!("{} {}", query.name(), query.query_type()));
        let said = self.zone.lock().iter().find(|(name, _)| name == query.name()).map(|(_, says)| says.clone());
        let mut reply = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        reply.metadata.recursion_available = true;
        reply.add_query(query.clone());
        match said {
            None => reply.metadata.response_code = ResponseCode::NXDomain,
            Some(Says::Nothing) => return None,
            Some(Says::Code(code)) => reply.metadata.response_code = code,
            Some(says) => {
                let data = says.data().into_iter().filter(|data| {
                    let kind = data.record_type();
                    kind == query.query_type() || kind == RecordType::CNAME
                });
                let records = data.map(|data| Record::from_rdata(query.name().clone(), TTL_SECONDS, data));
                reply.insert_answers(records.collect());
            }
        }
        Some(reply.to_vec().unwrap())
    }
}

impl Says {
    fn data(self) -> Vec<RData> {
        let name = |text: &str| Name::from_ascii(format!("{text}.")).unwrap();
        match self {
            Self::At(addresses) => addresses
                .into_iter()
                .map(|address| match address {
                    IpAddr::V4(v4) => RData::A(A(v4)),
                    IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
                })
                .collect(),
            Self::Served(targets) => {
                targets.into_iter().map(|(target, port)| RData::SRV(SRV::new(1, 1, port, name(target)))).collect()
            }
            Self::AliasOf(target) => vec![RData::CNAME(CNAME(name(target)))],
            Self::Code(_) | Self::Nothing => Vec::new(),
        }
    }
}
