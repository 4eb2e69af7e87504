//! The rows: how far a call gets, and what goes wrong there.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_resolver::proto::op::ResponseCode;

use super::file_stage::{FILE, FileStage};
use crate::loopback::World;
use crate::support::media::MULTIPART;
use crate::support::{
    Behaviour, BlackHole, PrivateCa, Says, SeenRequest, SentFile, TlsPeer, json_answer, tls_peer::refusing_address,
};

/// In every text a peer of this matrix says, and never in an answer of ours.
pub(crate) const PEER_WORD: &str = "peerword";

pub(crate) const NAME: &str = "stage.example";
pub(crate) const DRIP: Duration = Duration::from_millis(10);

/// The one thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Nothing,
    DnsSilent,
    DnsPortClosed,
    DnsCode(ResponseCode),
    DnsNoSuchName,
    DnsAliasLoop,
    AddressNotAllowed,
    OneAddressNotAllowed,
    SrvSilent,
    SrvDeclaredAbsent,
    SrvTargetSilent,
    ConnectSilent,
    ConnectRefused,
    TlsSilent,
    TlsWrongName,
    TlsOtherAuthority,
    NoTls,
    NeverAnswers,
    Reset,
    ClosesUnanswered,
    HalfAStatusLine,
    HalfAHead,
    NotHttp,
    HeaderDrip,
    HeaderFlood,
    InterimDrip,
    InterimFlood,
    BodyDrip,
    BodyStalls,
    BodyFlood,
    ExtensionFlood,
    TrailerFlood,
    BodyAnnouncedHuge,
    BodyCutShort,
    ChunksCutShort,
    Gzip,
    DeeplyNested,
    NotUtf8,
    /// A 200 with this body.
    Body(&'static str),
    /// A status with a good answer as its body, which it is not.
    GoodAnswerAs(u16),
    /// A status with a page of HTML.
    Html(u16),
    /// A status without a body.
    Empty(u16),
    /// A status with an errcode.
    Errcode(u16, &'static str),
    RedirectElsewhere(u16),
    RedirectLoop,
    /// Goes wrong with files alone.
    File(FileStage),
}

/// A stage set up: whom to ask, and who takes part.
pub(crate) struct Scene {
    /// The server name a client asks for.
    pub(crate) server: String,
    /// Where the name leads to.
    pub(crate) port: u16,
    /// The name server, where it is not the world's.
    pub(crate) dns: Option<SocketAddr>,
    pub(crate) peer: Option<TlsPeer>,
    /// Must not be dialled.
    pub(crate) bystander: Option<TlsPeer>,
    /// Where a file is said to be; is asked once.
    pub(crate) second: Option<TlsPeer>,
    pub(crate) _black_hole: Option<BlackHole>,
}

impl Scene {
    fn without_peer(server: String, port: u16) -> Self {
        Self { server, port, dns: None, peer: None, bystander: None, second: None, _black_hole: None }
    }

    pub(crate) fn of((peer, server): (TlsPeer, String)) -> Self {
        Self { peer: Some(peer), ..Self::without_peer(server, 0) }.with_port_of_peer()
    }

    fn with_port_of_peer(mut self) -> Self {
        self.port = self.peer.as_ref().map_or(0, |peer| peer.address().port());
        self
    }
}

impl Stage {
    pub(crate) async fn set_up(self, world: &World) -> Scene {
        match self {
            Self::DnsSilent | Self::DnsCode(_) | Self::DnsNoSuchName | Self::DnsAliasLoop | Self::DnsPortClosed => {
                self.without_addresses(world)
            }
            Self::AddressNotAllowed => Self::beside_a_peer(world, &[[10, 0, 0, 1]]).await,
            Self::OneAddressNotAllowed => Self::beside_a_peer(world, &[[127, 0, 0, 1], [10, 0, 0, 1]]).await,
            Self::SrvSilent | Self::SrvDeclaredAbsent | Self::SrvTargetSilent => self.by_service(world).await,
            Self::ConnectSilent => {
                let black_hole = BlackHole::new().await;
                let server = world.name(NAME, black_hole.address());
                let scene = Scene::without_peer(server, black_hole.address().port());
                Scene { _black_hole: Some(black_hole), ..scene }
            }
            Self::ConnectRefused => {
                let nobody = refusing_address();
                Scene::without_peer(world.name(NAME, nobody), nobody.port())
            }
            Self::TlsWrongName => {
                let tls = world.ca.server_config(&["other.example", PEER_WORD]);
                let peer = TlsPeer::start(tls, Behaviour::answers(good_answer)).await;
                let server = world.name(NAME, peer.address());
                Scene::of((peer, server))
            }
            Self::TlsOtherAuthority => {
                let tls = PrivateCa::new().server_config(&[NAME]);
                let peer = TlsPeer::start(tls, Behaviour::answers(good_answer)).await;
                let server = world.name(NAME, peer.address());
                Scene::of((peer, server))
            }
            Self::RedirectElsewhere(status) => {
                let (bystander, elsewhere) = world.peer("elsewhere.example", Behaviour::answers(good_answer)).await;
                let redirect = redirect(status, &format!("https://{elsewhere}/{PEER_WORD}"));
                let peer = world.peer(NAME, Behaviour::answers(move |_| redirect.clone())).await;
                Scene { bystander: Some(bystander), ..Scene::of(peer) }
            }
            Self::File(stage) => stage.set_up(world).await,
            _ => Scene::of(world.peer(NAME, self.behaviour()).await),
        }
    }

    fn without_addresses(self, world: &World) -> Scene {
        match self {
            Self::DnsSilent => world.dns.say(NAME, Says::Nothing),
            Self::DnsCode(code) => world.dns.say(NAME, Says::Code(code)),
            Self::DnsAliasLoop => {
                world.dns.say(NAME, Says::AliasOf("peerword.example"));
                world.dns.say("peerword.example", Says::AliasOf(NAME));
            }
            _ => {}
        }
        let nobody = refusing_address();
        let scene = Scene::without_peer(format!("{NAME}:{}", nobody.port()), nobody.port());
        match self {
            Self::DnsPortClosed => Scene { dns: Some(refusing_address()), ..scene },
            _ => scene,
        }
    }

    /// A healthy peer on 127.0.0.1, and a name that leads to these addresses.
    async fn beside_a_peer(world: &World, addresses: &[[u8; 4]]) -> Scene {
        let (peer, server) = world.peer(NAME, Behaviour::answers(good_answer)).await;
        world.at(NAME, &addresses.iter().map(|&address| address.into()).collect::<Vec<_>>());
        let port = peer.address().port();
        Scene { bystander: Some(peer), ..Scene::without_peer(server, port) }
    }

    /// A name without a port. Nobody gives its well-known file: nothing listens on its address.
    async fn by_service(self, world: &World) -> Scene {
        world.at(NAME, &[Ipv4Addr::new(127, 83, 82, 86).into()]);
        let black_hole = BlackHole::new().await;
        let port = black_hole.address().port();
        world.at("target.example", &[black_hole.address().ip()]);
        let (fed, deprecated) = ("_matrix-fed._tcp.stage.example", "_matrix._tcp.stage.example");
        match self {
            Self::SrvSilent => {
                world.dns.say(fed, Says::Nothing);
                world.dns.say(deprecated, Says::Nothing);
            }
            Self::SrvDeclaredAbsent => world.dns.say(fed, Says::Served(vec![("", 0)])),
            _ => world.dns.say(fed, Says::Served(vec![("target.example", port)])),
        }
        Scene { _black_hole: Some(black_hole), ..Scene::without_peer(NAME.to_owned(), port) }
    }

    fn behaviour(self) -> Behaviour {
        let endless = |head, part: &[u8], pause| Behaviour::Endless { head, part: part.to_vec(), pause };
        let always = |answer: Vec<u8>| Behaviour::answers(move |_| answer.clone());
        match self {
            Self::TlsSilent => Behaviour::TcpSilent,
            Self::NoTls => Behaviour::NoTls(b"HTTP/1.1 400 peerword\r\nContent-Length: 8\r\n\r\npeerword"),
            Self::NeverAnswers => Behaviour::TlsSilent,
            Self::Reset => Behaviour::Reset,
            Self::ClosesUnanswered => Behaviour::EndsAfter(Vec::new()),
            Self::HalfAStatusLine => Behaviour::EndsAfter(b"HTTP/1.1 200 peerw".to_vec()),
            Self::HalfAHead => Behaviour::EndsAfter(b"HTTP/1.1 200 OK\r\nX-Peer: peerword\r\n".to_vec()),
            Self::NotHttp => Behaviour::EndsAfter(b"SSH-2.0-peerword\r\n\r\n\r\n".to_vec()),
            Self::HeaderDrip => Behaviour::HeaderDrip,
            Self::HeaderFlood => endless(b"HTTP/1.1 200 OK\r\n", &LINE.repeat(100), Duration::ZERO),
            Self::InterimDrip => endless(b"", INTERIM, DRIP),
            Self::InterimFlood => endless(b"", &INTERIM.repeat(100), Duration::ZERO),
            Self::BodyDrip => Behaviour::BodyDrip,
            Self::BodyStalls => always(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"chunk\":[".to_vec()),
            Self::BodyFlood => Behaviour::EndlessChunks,
            Self::ExtensionFlood => {
                endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", &[b'x'; 1000], Duration::ZERO)
            }
            Self::TrailerFlood => endless(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
                &LINE.repeat(100),
                Duration::ZERO,
            ),
            Self::BodyAnnouncedHuge => always(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{".to_vec()),
            Self::BodyCutShort => Behaviour::Truncated,
            Self::ChunksCutShort => Behaviour::EndsAfter(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"chunk\":[]}\r\n".to_vec(),
            ),
            Self::Gzip => always(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00"
                    .to_vec(),
            ),
            Self::DeeplyNested => always(json_answer(200, &"[".repeat(60_000))),
            Self::NotUtf8 => always(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"chunk\":\"\xff".to_vec()),
            Self::Body(body) => always(json_answer(200, body)),
            Self::GoodAnswerAs(status) => Behaviour::answers(move |request| answer_as(status, request)),
            Self::Html(status) => always(with_body(status, "text/html", "<html><h1>peerword 127.0.0.1</h1></html>")),
            Self::Empty(status) => always(with_body(status, "text/plain", "")),
            Self::Errcode(status, errcode) => {
                let body = format!(r#"{{"errcode":"{errcode}","error":"{PEER_WORD}","retry_after_ms":77000}}"#);
                always(with_body(status, "application/json", &body))
            }
            Self::RedirectLoop => Behaviour::answers(|request| redirect(307, &here(request))),
            _ => Behaviour::answers(good_answer),
        }
    }
}

const LINE: &[u8] = b"X-Peer: peerword\r\n";
const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: <peerword>\r\n\r\n";

fn good_answer(request: &SeenRequest) -> Vec<u8> {
    answer_as(200, request)
}

fn answer_as(status: u16, request: &SeenRequest) -> Vec<u8> {
    if request.target().starts_with("/_matrix/federation/v1/media/") {
        let file = SentFile::png(FILE).envelope();
        let head = format!("HTTP/1.1 {status} peerword\r\nX-Peer: peerword\r\nContent-Type: {MULTIPART}\r\n");
        return [format!("{head}Content-Length: {}\r\n\r\n", file.len()).into_bytes(), file].concat();
    }
    let list = request.target().starts_with("/_matrix/federation/v1/publicRooms");
    let alias = r#"{"room_id":"!r:stage.example","servers":["stage.example"]}"#;
    json_answer(status, if list { r#"{"chunk":[]}"# } else { alias })
}

/// The request's own URL.
pub(crate) fn here(request: &SeenRequest) -> String {
    format!("https://{}{}", request.only("host"), request.target())
}

pub(crate) fn redirect(status: u16, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} peerword\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into()
}

/// As a server that has much to tell in its head.
pub(crate) fn with_body(status: u16, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} peerword\r\nServer: peerword\r\nRetry-After: 77\r\nSet-Cookie: peerword=1\r\nX-Peer: peerword\r\n\
         WWW-Authenticate: peerword\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into()
}
