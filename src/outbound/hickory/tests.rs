//! The resolver against a name server on loopback that says what the test wants.

use hickory_resolver::proto::op::{Message, MessageType, OpCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV, TXT};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;

/// What the fake name server does with one question.
#[derive(Clone)]
enum Says {
    /// These records are the answer section.
    Records(Vec<Record>),
    /// NXDOMAIN, with an SOA of this time to live or without.
    NxDomain(Option<u32>),
    Code(ResponseCode),
    Silence,
    /// Cut short over UDP, whole over TCP.
    OnlyOverTcp(Vec<Record>),
    /// Cut short over UDP; over TCP nothing comes, and nothing more on that connection.
    StallsOverTcp,
}

type Zone = Vec<(Name, RecordType, Says)>;

/// A name server on a loopback port. Whatever it was not told about is NXDOMAIN. Ends with its value.
struct FakeDns {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl FakeDns {
    async fn start(zone: &[(&str, RecordType, Says)]) -> Self {
        let zone = Arc::new(Mutex::new(parsed(zone)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        // A port that is free for the one may be taken for the other.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let over_udp = (Arc::clone(&zone), Arc::clone(&asked));
        let over_tcp = over_udp.clone();
        tasks.spawn(async move {
            let (zone, log) = over_udp;
            let mut buffer = [0; 4096];
            loop {
                let (length, peer) = udp.recv_from(&mut buffer).await.unwrap();
                if let Some(reply) = reply(&buffer[..length], &zone, &log, false) {
                    udp.send_to(&reply, peer).await.unwrap();
                }
            }
        });
        tasks.spawn(async move {
            let (zone, log) = over_tcp;
            let mut connections = JoinSet::new();
            loop {
                let (mut stream, _) = tcp.accept().await.unwrap();
                let (zone, log) = (Arc::clone(&zone), Arc::clone(&log));
                connections.spawn(async move {
                    while let Ok(length) = stream.read_u16().await {
                        let mut question = vec![0; usize::from(length)];
                        stream.read_exact(&mut question).await.unwrap();
                        let Some(reply) = reply(&question, &zone, &log, true) else { std::future::pending().await };
                        stream.write_u16(u16::try_from(reply.len()).unwrap()).await.unwrap();
                        stream.write_all(&reply).await.unwrap();
                    }
                });
            }
        });
        Self { address, zone, asked, _tasks: tasks }
    }

    fn resolver(&self) -> HickoryResolver {
        HickoryResolver::with_name_servers(&[self.address]).unwrap()
    }

    /// From now on this is what the server knows.
    fn becomes(&self, zone: &[(&str, RecordType, Says)]) {
        *self.zone.lock() = parsed(zone);
    }

    /// Every question, those sent twice for want of a prompt answer among them.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

fn parsed(zone: &[(&str, RecordType, Says)]) -> Zone {
    zone.iter().map(|(name, kind, says)| (Name::from_ascii(name).unwrap(), *kind, says.clone())).collect()
}

fn reply(bytes: &[u8], zone: &Mutex<Zone>, log: &Mutex<Vec<String>>, tcp: bool) -> Option<Vec<u8>> {
    let question = Message::from_vec(bytes).unwrap();
    let query = question.queries[0].clone();
    log.lock().push(format!("{} {}", query.name(), query.query_type()));
    let says = zone
        .lock()
        .iter()
        .find(|(name, kind, _)| name == query.name() && *kind == query.query_type())
        .map_or(Says::NxDomain(None), |(_, _, says)| says.clone());
    let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    match says {
        Says::Records(records) => answer.insert_answers(records),
        Says::OnlyOverTcp(records) if tcp => answer.insert_answers(records),
        Says::StallsOverTcp if tcp => return None,
        Says::OnlyOverTcp(_) | Says::StallsOverTcp => answer.metadata.truncation = true,
        Says::Code(code) => answer.metadata.response_code = code,
        Says::Silence => return None,
        Says::NxDomain(soa) => {
            answer.metadata.response_code = ResponseCode::NXDomain;
            if let Some(ttl) = soa {
                let zone = Name::from_ascii("example.").unwrap();
                let soa = SOA::new(zone.clone(), zone.clone(), 1, 60, 60, 60, ttl);
                answer.add_authority(Record::from_rdata(zone, ttl, RData::SOA(soa)));
            }
        }
    }
    Some(answer.to_vec().unwrap())
}

fn record(owner: &str, data: RData) -> Record {
    Record::from_rdata(Name::from_ascii(owner).unwrap(), 300, data)
}

fn a(owner: &str, address: &str) -> Record {
    record(owner, RData::A(A(address.parse().unwrap())))
}

fn aaaa(owner: &str, address: &str) -> Record {
    record(owner, RData::AAAA(AAAA(address.parse().unwrap())))
}

fn cname(owner: &str, target: &str) -> Record {
    record(owner, RData::CNAME(CNAME(Name::from_ascii(target).unwrap())))
}

fn srv(owner: &str, priority: u16, port: u16, target: &str) -> Record {
    record(owner, RData::SRV(SRV::new(priority, 5, port, Name::from_ascii(target).unwrap())))
}

fn soon() -> OutboundDeadline {
    OutboundDeadline::after(Duration::from_secs(20), Instant::now())
}

/// For questions that nobody answers.
fn at_once() -> OutboundDeadline {
    OutboundDeadline::after(Duration::from_millis(300), Instant::now())
}

fn name(text: &str) -> DnsName {
    text.parse().unwrap()
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

const ALPHA: &str = "alpha.example.";

#[tokio::test]
async fn both_families_are_asked_by_the_absolute_name_and_kept_s03() {
    let dns = FakeDns::start(&[
        (ALPHA, RecordType::A, Says::Records(vec![a(ALPHA, "44.128.10.1"), a(ALPHA, "44.128.10.1")])),
        (ALPHA, RecordType::AAAA, Says::Records(vec![aaaa(ALPHA, "2a0e:fade:10::1")])),
        ("intranet.", RecordType::A, Says::Records(vec![a("intranet.", "44.128.10.2")])),
    ])
    .await;
    let resolver = dns.resolver();
    let mut found = resolver.addresses(&name("Alpha.example"), soon()).await;
    // On a busy machine the second family may miss its grace; it is asked for again then.
    for _ in 0..100 {
        if found.as_ref().is_ok_and(|addresses| addresses.len() < 2) {
            found = resolver.addresses(&name("Alpha.example"), soon()).await;
        }
    }
    assert_eq!(found, Ok(ips(&["44.128.10.1", "2a0e:fade:10::1"])));
    let mut asked = dns.asked();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["alpha.example. A", "alpha.example. AAAA"]);
    assert_eq!(resolver.addresses(&name("intranet"), soon()).await, Ok(ips(&["44.128.10.2"])));
    assert_eq!(resolver.addresses(&name("localhost"), soon()).await, Err(DnsError::NoRecords), "no special word");
    dns.becomes(&[]);
    assert_eq!(resolver.addresses(&name("alpha.example"), soon()).await, found, "remembered");
}

#[tokio::test]
async fn aliases_are_followed_inside_one_answer_and_across_answers() {
    let (edge, pop) = ("edge_1.delta.example.", "pop.delta.example.");
    let dns = FakeDns::start(&[
        ("one.example.", RecordType::A, Says::Records(vec![a(edge, "44.128.10.2"), cname("one.example.", edge)])),
        ("two.example.", RecordType::A, Says::Records(vec![cname("TWO.example.", edge)])),
        (edge, RecordType::A, Says::Records(vec![cname(edge, pop), a(pop, "44.128.10.3"), a("x.", "10.0.0.1")])),
    ])
    .await;
    let resolver = dns.resolver();
    assert_eq!(resolver.addresses(&name("one.example"), soon()).await, Ok(ips(&["44.128.10.2"])));
    assert_eq!(resolver.addresses(&name("two.example"), soon()).await, Ok(ips(&["44.128.10.3"])));
}

#[tokio::test]
async fn an_alias_circle_and_a_chain_that_is_too_long_end_soon() {
    let mut zone = vec![
        ("loop.example.".to_owned(), RecordType::A, Says::Records(vec![cname("loop.example.", "loop2.example.")])),
        ("loop2.example.".to_owned(), RecordType::A, Says::Records(vec![cname("loop2.example.", "loop.example.")])),
    ];
    for hop in 0..20 {
        let (owner, target) = (format!("hop{hop}.example."), format!("hop{}.example.", hop + 1));
        zone.push((owner.clone(), RecordType::A, Says::Records(vec![cname(&owner, &target)])));
    }
    zone.push(("hop20.example.".to_owned(), RecordType::A, Says::Records(vec![a("hop20.example.", "44.128.10.1")])));
    let zone: Vec<_> = zone.iter().map(|(name, kind, says)| (name.as_str(), *kind, says.clone())).collect();
    let dns = FakeDns::start(&zone).await;
    let resolver = dns.resolver();
    assert_eq!(resolver.addresses(&name("loop.example"), soon()).await, Err(DnsError::AliasLoop));
    assert_eq!(resolver.addresses(&name("hop0.example"), soon()).await, Err(DnsError::AliasLoop));
    assert!(dns.asked().len() <= 40, "{:?}", dns.asked());
    assert_eq!(resolver.addresses(&name("hop12.example"), soon()).await, Ok(ips(&["44.128.10.1"])), "eight are fine");
}

#[tokio::test]
async fn service_records_are_found_also_behind_an_alias_s05() {
    let (plain, alias) = ("_matrix-fed._tcp.alpha.example.", "_matrix-fed._tcp.beta.example.");
    let hosted = "srv.host.example.";
    let dns = FakeDns::start(&[
        (
            plain,
            RecordType::SRV,
            Says::Records(vec![
                srv(plain, 10, 8450, "SRV1.Gamma.Example."),
                srv(plain, 20, 0, "."),
                srv(plain, 30, 8448, "127.0.0.1."),
                srv(plain, 30, 8448, "a_b.example."),
            ]),
        ),
        (alias, RecordType::SRV, Says::Records(vec![cname(alias, hosted)])),
        (hosted, RecordType::SRV, Says::Records(vec![srv(hosted, 1, 443, "x.host.example.")])),
        (
            "_matrix._tcp.alpha.example.",
            RecordType::SRV,
            Says::Records(vec![record("_matrix._tcp.alpha.example.", RData::TXT(TXT::new(vec!["nonsense".into()])))]),
        ),
    ])
    .await;
    let resolver = dns.resolver();
    let found = resolver.service(SrvService::MatrixFed, &name("alpha.example"), soon()).await.unwrap();
    let target = |text: &str| SrvTarget::Name(name(text));
    assert_eq!(
        found,
        [
            SrvRecord { priority: 10, weight: 5, port: 8450, target: target("srv1.gamma.example") },
            SrvRecord { priority: 20, weight: 5, port: 0, target: SrvTarget::Root },
            SrvRecord { priority: 30, weight: 5, port: 8448, target: SrvTarget::Unusable },
            SrvRecord { priority: 30, weight: 5, port: 8448, target: SrvTarget::Unusable },
        ]
    );
    let found = resolver.service(SrvService::MatrixFed, &name("beta.example"), soon()).await.unwrap();
    assert_eq!(found, [SrvRecord { priority: 1, weight: 5, port: 443, target: target("x.host.example") }]);
    let deprecated = resolver.service(SrvService::Matrix, &name("alpha.example"), soon()).await;
    assert_eq!(deprecated, Err(DnsError::NoRecords), "records of another type only");
}

#[tokio::test]
async fn the_kinds_of_failure_are_told_apart_and_none_hides_the_other() {
    let dns = FakeDns::start(&[
        ("fail.example.", RecordType::A, Says::Code(ResponseCode::ServFail)),
        ("refused.example.", RecordType::A, Says::Code(ResponseCode::Refused)),
        ("silent.example.", RecordType::A, Says::Silence),
        ("half.example.", RecordType::A, Says::Records(vec![a("half.example.", "44.128.10.1")])),
        ("half.example.", RecordType::AAAA, Says::Silence),
    ])
    .await;
    let resolver = dns.resolver();
    assert_eq!(resolver.addresses(&name("none.example"), soon()).await, Err(DnsError::NoRecords));
    assert_eq!(resolver.addresses(&name("fail.example"), soon()).await, Err(DnsError::ServFail));
    assert_eq!(resolver.addresses(&name("refused.example"), soon()).await, Err(DnsError::Failed));
    assert_eq!(resolver.addresses(&name("silent.example"), at_once()).await, Err(DnsError::TimedOut));
    assert_eq!(resolver.addresses(&name("half.example"), soon()).await, Ok(ips(&["44.128.10.1"])));
    assert_eq!(resolver.addresses(&name("half.example"), at_once()).await, Ok(ips(&["44.128.10.1"])));
    let longest = format!("{0}.{0}.{0}.{0}", "a".repeat(63));
    assert_eq!(resolver.addresses(&name(&longest), soon()).await, Err(DnsError::NoRecords), "S19");
}

#[tokio::test]
async fn an_answer_cut_short_is_asked_for_over_tcp_s20() {
    let many: Vec<_> = (1..=200).map(|last| a(ALPHA, &format!("44.128.10.{last}"))).collect();
    let dns = FakeDns::start(&[(ALPHA, RecordType::A, Says::OnlyOverTcp(many))]).await;
    assert_eq!(dns.resolver().addresses(&name("alpha.example"), soon()).await.unwrap().len(), 200);
}

#[tokio::test]
async fn a_server_that_stalls_over_tcp_on_one_question_answers_the_next() {
    let dns = FakeDns::start(&[
        ("stalls.example.", RecordType::A, Says::StallsOverTcp),
        (ALPHA, RecordType::A, Says::OnlyOverTcp(vec![a(ALPHA, "44.128.10.1")])),
    ])
    .await;
    let resolver = dns.resolver();
    let stalled = {
        let resolver = resolver.clone();
        tokio::spawn(async move { resolver.addresses(&name("stalls.example"), soon()).await })
    };
    assert_eq!(resolver.addresses(&name("stalls.example"), at_once()).await, Err(DnsError::TimedOut));
    assert_eq!(resolver.addresses(&name("alpha.example"), soon()).await, Ok(ips(&["44.128.10.1"])));
    assert!(!stalled.is_finished());
    stalled.abort();
}

/// A name server that hears every question and answers none: who asked, from which socket.
struct SilentDns {
    address: SocketAddr,
    askers: Arc<Mutex<Vec<SocketAddr>>>,
    _tasks: JoinSet<()>,
}

impl SilentDns {
    async fn start() -> Self {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (address, askers) = (udp.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let seen = Arc::clone(&askers);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut buffer = [0; 4096];
            loop {
                let (_, asker) = udp.recv_from(&mut buffer).await.unwrap();
                seen.lock().push(asker);
            }
        });
        Self { address, askers, _tasks: tasks }
    }
}

#[tokio::test]
async fn silent_and_dead_name_servers_do_not_keep_a_living_one_from_being_asked() {
    // No port that was free a moment ago: it may be another name server's by now.
    let gone = "127.0.0.1:9".parse().unwrap();
    let silent = [SilentDns::start().await, SilentDns::start().await];
    let alive = FakeDns::start(&[
        (ALPHA, RecordType::A, Says::Records(vec![a(ALPHA, "44.128.10.1")])),
        ("long.example.", RecordType::A, Says::OnlyOverTcp(vec![a("long.example.", "44.128.10.2")])),
    ])
    .await;
    for servers in [
        vec![gone, alive.address],
        vec![silent[0].address, alive.address],
        vec![alive.address, silent[0].address],
        vec![silent[0].address, silent[1].address, gone, alive.address],
    ] {
        let resolver = HickoryResolver::with_name_servers(&servers).unwrap();
        assert_eq!(resolver.addresses(&name("alpha.example"), soon()).await, Ok(ips(&["44.128.10.1"])), "{servers:?}");
        assert_eq!(resolver.addresses(&name("long.example"), soon()).await, Ok(ips(&["44.128.10.2"])), "{servers:?}");
    }
    let resolver = HickoryResolver::with_name_servers(&[gone]).unwrap();
    assert_eq!(resolver.addresses(&name("alpha.example"), at_once()).await, Err(DnsError::TimedOut), "nobody is there");
}

#[tokio::test]
async fn a_question_is_sent_three_times_from_one_socket_to_each_of_two_servers_at_once() {
    let silent = [SilentDns::start().await, SilentDns::start().await, SilentDns::start().await];
    let servers = NameServers::new(silent.iter().map(|dns| dns.address).collect());
    let question = Query::query(Name::from_ascii(ALPHA).unwrap(), RecordType::A);
    let three_times = async {
        while silent[0].askers.lock().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answer = servers.answer(&question) => panic!("{answer:?}"),
        () = three_times => {}
    }
    let sockets = |dns: &SilentDns| {
        let mut askers = dns.askers.lock().clone();
        askers.sort();
        askers.dedup();
        askers.len()
    };
    assert_eq!(sockets(&silent[0]), 1);
    assert!(silent[1..].iter().all(|dns| sockets(dns) == 1), "the others took turns");
}

#[tokio::test]
async fn what_answers_another_question_is_not_listened_to() {
    let forger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let resolver = HickoryResolver::with_name_servers(&[forger.local_addr().unwrap()]).unwrap();
    let answering = async {
        let zone = |says| Mutex::new(vec![(Name::from_ascii(ALPHA).unwrap(), RecordType::A, says)]);
        let lie = zone(Says::Records(vec![a(ALPHA, "44.128.10.66")]));
        let truth = zone(Says::Records(vec![a(ALPHA, "44.128.10.1")]));
        let mut buffer = [0; 4096];
        loop {
            let (length, asker) = forger.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let mut other_id = question.clone();
            other_id.metadata.id = question.metadata.id.wrapping_add(1);
            let reply_to =
                |question: &Message, zone| reply(&question.to_vec().unwrap(), zone, &Mutex::default(), false).unwrap();
            let mut other_name = Message::from_vec(&reply_to(&question, &lie)).unwrap();
            other_name.queries[0].name = Name::from_ascii("beta.example.").unwrap();
            let echo = buffer[..length].to_vec();
            elsewhere.send_to(&reply_to(&question, &lie), asker).await.unwrap();
            for datagram in
                [vec![0], echo, reply_to(&other_id, &lie), other_name.to_vec().unwrap(), reply_to(&question, &truth)]
            {
                forger.send_to(&datagram, asker).await.unwrap();
            }
        }
    };
    let alpha = name("alpha.example");
    tokio::select! {
        () = answering => {}
        found = resolver.addresses(&alpha, soon()) => assert_eq!(found, Ok(ips(&["44.128.10.1"]))),
    }
}

#[tokio::test]
async fn what_does_not_exist_is_remembered_as_the_zone_says() {
    let (kept, gone) = ("_matrix._tcp.kept.example.", "_matrix._tcp.gone.example.");
    let dns = FakeDns::start(&[
        (kept, RecordType::SRV, Says::NxDomain(Some(60))),
        (gone, RecordType::SRV, Says::NxDomain(Some(0))),
    ])
    .await;
    let resolver = dns.resolver();
    let ask = async |host: &str| resolver.service(SrvService::Matrix, &name(host), soon()).await;
    assert_eq!(ask("kept.example").await, Err(DnsError::NoRecords));
    assert_eq!(ask("gone.example").await, Err(DnsError::NoRecords));
    dns.becomes(&[
        (kept, RecordType::SRV, Says::Records(vec![srv(kept, 1, 443, "x.example.")])),
        (gone, RecordType::SRV, Says::Records(vec![srv(gone, 1, 443, "x.example.")])),
    ]);
    assert_eq!(ask("kept.example").await, Err(DnsError::NoRecords), "for a minute");
    assert!(ask("gone.example").await.is_ok(), "not at all");
}

#[tokio::test(start_paused = true)]
async fn the_slower_family_gets_fifty_milliseconds_and_no_more() {
    let found = |text: &str| Ok::<Arc<[IpAddr]>, DnsError>(Arc::from(ips(&[text])));
    let after = async |pause: u64, answer| {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        answer
    };
    let start = Instant::now();
    let both = side_by_side(after(30, found("44.128.10.1")), after(79, found("2a0e:fade:10::1"))).await;
    assert_eq!(both, Ok(ips(&["44.128.10.1", "2a0e:fade:10::1"])));
    let one = side_by_side(after(5000, found("44.128.10.1")), after(0, found("2a0e:fade:10::1"))).await;
    assert_eq!(one, Ok(ips(&["2a0e:fade:10::1"])));
    assert_eq!(start.elapsed(), Duration::from_millis(79 + 50));
    let waited = side_by_side(after(0, Err(DnsError::NoRecords)), after(5000, found("2a0e:fade:10::1"))).await;
    assert_eq!(waited, Ok(ips(&["2a0e:fade:10::1"])), "an error is no reason to hurry");
    let graver = side_by_side(after(9, Err(DnsError::TimedOut)), after(0, Err(DnsError::NoRecords))).await;
    assert_eq!(graver, Err(DnsError::TimedOut));
}

#[test]
fn without_a_name_server_there_is_no_resolver_and_none_needs_a_runtime_to_be_made() {
    HickoryResolver::with_name_servers(&["127.0.0.1:53".parse().unwrap()]).unwrap();
    assert_eq!(HickoryResolver::with_name_servers(&[]).unwrap_err(), NoNameServers::Empty);
}

#[tokio::test]
async fn a_server_that_only_says_it_failed_does_not_keep_a_better_answer_away() {
    let good = || Says::Records(vec![a(ALPHA, "44.128.10.1")]);
    for no_help in [ResponseCode::ServFail, ResponseCode::Refused] {
        let broken = FakeDns::start(&[(ALPHA, RecordType::A, Says::Code(no_help))]).await;
        let healthy = FakeDns::start(&[(ALPHA, RecordType::A, good())]).await;
        for servers in [[broken.address, healthy.address], [healthy.address, broken.address]] {
            let resolver = HickoryResolver::with_name_servers(&servers).unwrap();
            assert_eq!(resolver.addresses(&name("alpha.example"), soon()).await, Ok(ips(&["44.128.10.1"])));
        }
        let alone = HickoryResolver::with_name_servers(&[broken.address]).unwrap();
        assert!(alone.addresses(&name("alpha.example"), soon()).await.is_err(), "with nobody better it counts");
    }
}
