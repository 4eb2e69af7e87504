//! [`FakeDns`]: the only name server of the private network, over UDP and TCP.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hickory_resolver::proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::namespace::NAME_SERVER;

const PORT: u16 = 53;
const DEFAULT_TTL: u32 = 300;
/// What fits into a datagram of somebody who does not say otherwise (RFC 1035, section 2.3.4).
const PLAIN_UDP_BYTES: u16 = 512;

/// What the name server knows. A name that is not in it does not exist.
#[derive(Default)]
pub(crate) struct Zone {
    entries: HashMap<(String, RecordType), Entry>,
    ttl: Option<u32>,
}

/// One answer per question, the last one again and again.
struct Entry {
    answers: Vec<Answer>,
    given: usize,
}

#[derive(Clone)]
pub(crate) enum Answer {
    /// Empty: the name exists, and has no such record.
    Records(Vec<RData>),
    ServFail,
    Silence,
}

impl Zone {
    /// From the `dns` of a case: keys are "name TYPE", values lists, "SERVFAIL" or "TIMEOUT".
    pub(crate) fn of<'a>(entries: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Self {
        let mut zone = Self::default();
        for (key, value) in entries {
            zone.insert(key, vec![answer(key, value)]);
        }
        zone
    }

    /// From the `dns_sequence` of a case: a list of such values, one per question.
    pub(crate) fn insert_sequence(&mut self, key: &str, values: &[Value]) {
        self.insert(key, values.iter().map(|value| answer(key, value)).collect());
    }

    pub(crate) fn set_ttl(&mut self, ttl: u32) {
        self.ttl = Some(ttl);
    }

    fn insert(&mut self, key: &str, answers: Vec<Answer>) {
        let (name, kind) = split(key);
        self.entries.insert((lower(name), kind), Entry { answers, given: 0 });
    }

    fn next(&mut self, name: &str, kind: RecordType) -> Option<Answer> {
        let entry = self.entries.get_mut(&(name.to_owned(), kind))?;
        let answer = entry.answers[entry.given.min(entry.answers.len() - 1)].clone();
        entry.given += 1;
        Some(answer)
    }

    /// The answer section and the code, aliases followed as far as they go; `None` is silence.
    fn answer(&mut self, name: &Name, kind: RecordType) -> Option<(Vec<Record>, ResponseCode)> {
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL);
        let mut owner = lower(&name.to_ascii());
        let mut section = Vec::new();
        let mut passed = Vec::new();
        loop {
            let record = |data| Record::from_rdata(absolute(&owner), ttl, data);
            match self.next(&owner, kind) {
                Some(Answer::Silence) => return None,
                Some(Answer::ServFail) => return Some((Vec::new(), ResponseCode::ServFail)),
                Some(Answer::Records(data)) => {
                    section.extend(data.into_iter().map(record));
                    return Some((section, ResponseCode::NoError));
                }
                None => {}
            }
            let alias = self.next(&owner, RecordType::CNAME);
            let Some(Answer::Records(data)) = alias else {
                let exists = !passed.is_empty() || self.entries.keys().any(|(known, _)| *known == owner);
                let code = if exists { ResponseCode::NoError } else { ResponseCode::NXDomain };
                return Some((section, code));
            };
            let Some(RData::CNAME(target)) = data.first().cloned() else { panic!("an alias without target: {owner}") };
            section.push(record(RData::CNAME(target.clone())));
            passed.push(owner);
            owner = lower(&target.0.to_ascii());
            if passed.contains(&owner) {
                return Some((section, ResponseCode::NoError));
            }
        }
    }

    /// Every address in the zone.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let answers = self.entries.values().flat_map(|entry| &entry.answers);
        answers.flat_map(Answer::records).filter_map(RData::ip_addr).collect()
    }

    /// The addresses a name has, aliases followed, whatever the sequence.
    pub(crate) fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
        let mut owner = lower(name);
        for _ in 0..=self.entries.len() {
            let of = |kind| self.entries.get(&(owner.clone(), kind));
            let found =
                [of(RecordType::A), of(RecordType::AAAA)].into_iter().flatten().flat_map(|entry| &entry.answers);
            let found: Vec<_> = found.flat_map(Answer::records).filter_map(RData::ip_addr).collect();
            let alias = of(RecordType::CNAME).and_then(|entry| entry.answers[0].records().first().cloned());
            match alias {
                Some(RData::CNAME(target)) if found.is_empty() => owner = lower(&target.0.to_ascii()),
                _ => return found,
            }
        }
        Vec::new()
    }

    /// The ports of SRV records whose targets have addresses.
    pub(crate) fn service_ports(&self) -> Vec<u16> {
        let records = self.entries.values().flat_map(|entry| &entry.answers).flat_map(Answer::records);
        let reachable = records.filter_map(|data| match data {
            RData::SRV(srv) if !self.addresses_of(&srv.target.to_ascii()).is_empty() => Some(srv.port),
            _ => None,
        });
        reachable.filter(|port| *port != 0).collect()
    }
}

impl Answer {
    fn records(&self) -> &[RData] {
        match self {
            Self::Records(records) => records,
            Self::ServFail | Self::Silence => &[],
        }
    }
}

fn split(key: &str) -> (&str, RecordType) {
    let (name, kind) = key.rsplit_once(' ').unwrap();
    (name, kind.parse().unwrap())
}

fn answer(key: &str, value: &Value) -> Answer {
    let (_, kind) = split(key);
    match value {
        Value::String(word) if word == "SERVFAIL" => Answer::ServFail,
        Value::String(word) if word == "TIMEOUT" => Answer::Silence,
        Value::Array(records) => Answer::Records(records.iter().map(|record| data(kind, record)).collect()),
        _ => panic!("{key}: {value}"),
    }
}

fn data(kind: RecordType, value: &Value) -> RData {
    let text = || value.as_str().unwrap();
    let number = |member: &str| u16::try_from(value[member].as_u64().unwrap()).unwrap();
    if value["type"] == "TXT" {
        return RData::TXT(TXT::new(vec![value["data"].as_str().unwrap().to_owned()]));
    }
    match kind {
        RecordType::A => RData::A(A(text().parse().unwrap())),
        RecordType::AAAA => RData::AAAA(AAAA(text().parse().unwrap())),
        RecordType::CNAME => RData::CNAME(CNAME(absolute(text()))),
        RecordType::SRV => {
            let target = absolute(value["target"].as_str().unwrap());
            RData::SRV(SRV::new(number("priority"), number("weight"), number("port"), target))
        }
        _ => panic!("{kind} {value}"),
    }
}

fn absolute(name: &str) -> Name {
    let mut name = Name::from_ascii(name).unwrap();
    name.set_fqdn(true);
    name
}

/// In lower case, without a final dot.
fn lower(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// One question that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) kind: RecordType,
}

/// The server. Ends with its value.
pub(crate) struct FakeDns {
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

struct State {
    zone: Mutex<Zone>,
    asked: Mutex<Vec<Asked>>,
}

impl FakeDns {
    pub(crate) async fn start(zone: Zone) -> Self {
        let state = Arc::new(State { zone: Mutex::new(zone), asked: Mutex::default() });
        let udp = UdpSocket::bind((NAME_SERVER, PORT)).await.unwrap();
        let tcp = TcpListener::bind((NAME_SERVER, PORT)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(over_udp(udp, Arc::clone(&state)));
        tasks.spawn(over_tcp(tcp, Arc::clone(&state)));
        Self { state, _tasks: tasks }
    }

    /// From now on this is what the server knows.
    pub(crate) fn becomes(&self, zone: Zone) {
        *self.state.zone.lock() = zone;
    }

    /// Every question, those sent twice for want of an answer, or once more over TCP, among them.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().clone()
    }
}

async fn over_udp(socket: UdpSocket, state: Arc<State>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        if let Some(reply) = state.reply(&buffer[..length], Some(PLAIN_UDP_BYTES)) {
            socket.send_to(&reply, peer).await.unwrap();
        }
    }
}

async fn over_tcp(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(serve(stream, Arc::clone(&state)));
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Ok(length) = stream.read_u16().await {
        let mut question = vec![0; usize::from(length)];
        stream.read_exact(&mut question).await.unwrap();
        if let Some(reply) = state.reply(&question, None) {
            stream.write_u16(u16::try_from(reply.len()).unwrap()).await.unwrap();
            stream.write_all(&reply).await.unwrap();
        }
    }
}

impl State {
    /// `fits`: how much fits into a datagram unless the question says more.
    fn reply(&self, bytes: &[u8], fits: Option<u16>) -> Option<Vec<u8>> {
        let question = Message::from_vec(bytes).unwrap();
        let query = question.queries[0].clone();
        self.asked.lock().push(Asked { name: lower(&query.name().to_ascii()), kind: query.query_type() });
        let (records, code) = self.zone.lock().answer(query.name(), query.query_type())?;
        let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.metadata.response_code = code;
        answer.add_query(query);
        if records.is_empty() && code != ResponseCode::ServFail {
            let root = Name::root();
            let soa = SOA::new(root.clone(), root.clone(), 1, 60, 60, 60, 60);
            answer.add_authority(Record::from_rdata(root, 60, RData::SOA(soa)));
        }
        answer.insert_answers(records);
        let whole = answer.to_vec().unwrap();
        let fits = fits.map(|plain| question.edns.as_ref().map_or(plain, |edns| edns.max_payload().max(plain)));
        if fits.is_none_or(|fits| whole.len() <= usize::from(fits)) {
            return Some(whole);
        }
        answer.answers.clear();
        answer.metadata.truncation = true;
        Some(answer.to_vec().unwrap())
    }
}
