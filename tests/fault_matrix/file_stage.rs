//! The rows of the files alone: what goes wrong with an envelope, with the place that a file is said to be at, with the older
//! endpoint.

use std::time::Duration;

use super::stage::{DRIP, NAME, PEER_WORD, Scene, redirect, with_body};
use crate::loopback::{OWN_NAME, World};
use crate::support::media::MULTIPART;
use crate::support::{Behaviour, BlackHole, SeenRequest, SentFile, TlsPeer, tls_peer::refusing_address};

/// The file, wherever all of it comes.
pub(crate) const FILE: &[u8] = b"0123456789 and so on to the end";
/// How much of it comes where it stalls.
pub(crate) const BEGINNING: usize = 10;
const CDN: &str = "cdn.example";

/// The one thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileStage {
    NoBoundary,
    FormData,
    Compressed,
    OnePart,
    ThreeParts,
    EndsBeforeTheFile,
    EndsInTheFile,
    EndsInsideTheEnd,
    BreaksInTheFile,
    FewerThanAnnounced,
    StallsBeforeTheFile,
    StallsInTheFile,
    Drips,
    AnnouncedHuge,
    Endless,
    NoPicture,
    /// The file is said to be elsewhere.
    Location(Elsewhere),
    /// The endpoint is not known, the older one is.
    Legacy(Elsewhere),
}

/// What there is where else the file is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Elsewhere {
    TheFile,
    Inside,
    OneAddressInside,
    OurOwnHost,
    PlainHttp,
    TheSameEndpoint,
    Refuses,
    ConnectSilent,
    Silent,
    Redirects(u16),
    Says(u16, &'static str),
    Compressed,
    AnnouncedHuge,
    Stalls,
    EndsEarly,
}

impl FileStage {
    pub(crate) async fn set_up(self, world: &World) -> Scene {
        match self {
            Self::Location(elsewhere) => elsewhere.by_location(world).await,
            Self::Legacy(elsewhere) => elsewhere.by_the_older_endpoint(world).await,
            _ => Scene::of(world.peer(NAME, self.behaviour()).await),
        }
    }

    fn behaviour(self) -> Behaviour {
        let file = SentFile::png(FILE);
        let envelope = file.envelope();
        let announced = |length: usize| format!("Content-Length: {length}");
        let whole = |content_type: &str, more: &str| {
            let head = head(content_type, &format!("{more}{}", announced(envelope.len())));
            always([head, envelope.clone()].concat())
        };
        // Until the connection ends.
        let sent = |envelope: &[u8]| [head(MULTIPART, "Connection: close"), envelope.to_vec()].concat();
        let up_to = |bytes: usize| envelope[..at(&envelope, FILE) + bytes].to_vec();
        match self {
            Self::NoBoundary => whole("multipart/mixed", ""),
            Self::FormData => whole(&MULTIPART.replace("mixed", "form-data"), ""),
            Self::Compressed => whole(MULTIPART, "Content-Encoding: gzip\r\n"),
            Self::OnePart => {
                let second = at(&envelope, b"{}\r\n--") + 2;
                Behaviour::EndsAfter(sent(&envelope[second..]))
            }
            Self::ThreeParts => {
                let two = &envelope[..envelope.len() - b"--\r\n".len()];
                Behaviour::EndsAfter(sent(
                    &[two, &envelope[at(&envelope, b"{}") + 2 + b"\r\n--0123456789abcdef".len()..]].concat(),
                ))
            }
            Self::EndsBeforeTheFile => Behaviour::EndsAfter(sent(&envelope[..at(&envelope, b"image/png")])),
            Self::EndsInTheFile => Behaviour::EndsAfter(sent(&up_to(BEGINNING))),
            Self::EndsInsideTheEnd => Behaviour::EndsAfter(sent(&up_to(FILE.len() + b"\r\n--01234567".len()))),
            Self::BreaksInTheFile => Behaviour::BreaksAfter(sent(&up_to(BEGINNING))),
            Self::FewerThanAnnounced => {
                let head = head(MULTIPART, &announced(envelope.len() + 1));
                Behaviour::EndsAfter([head, up_to(FILE.len())].concat())
            }
            Self::StallsBeforeTheFile => always(sent(&envelope[..at(&envelope, b"image/png")])),
            Self::StallsInTheFile => always(sent(&up_to(BEGINNING))),
            Self::Drips => Behaviour::Endless { head: ENDLESS, part: b"x".to_vec(), pause: DRIP },
            Self::Endless => Behaviour::Endless { head: ENDLESS, part: vec![b'x'; 0x1000], pause: Duration::ZERO },
            Self::AnnouncedHuge => always([head(MULTIPART, &announced(99_999_999_999)), up_to(1)].concat()),
            Self::NoPicture => {
                let text = SentFile { headers: &["Content-Type: text/plain"], bytes: FILE }.envelope();
                Behaviour::EndsAfter(sent(&text))
            }
            Self::Location(_) | Self::Legacy(_) => unreachable!("set up otherwise"),
        }
    }
}

impl Elsewhere {
    /// The peer says that the file is elsewhere.
    async fn by_location(self, world: &World) -> Scene {
        let (mut second, mut bystander, mut black_hole) = (None, None, None);
        let guarded = |addresses: &'static [[u8; 4]]| async move {
            let (peer, name) = world.peer(CDN, always(self.bare())).await;
            world.at(CDN, &addresses.iter().map(|&address| address.into()).collect::<Vec<_>>());
            (Some(peer), name)
        };
        let place = match self {
            Self::Inside => {
                let name;
                (bystander, name) = guarded(&[[10, 0, 0, 1]]).await;
                name
            }
            Self::OneAddressInside => {
                let name;
                (bystander, name) = guarded(&[[127, 0, 0, 1], [10, 0, 0, 1]]).await;
                name
            }
            Self::OurOwnHost => {
                let (peer, name) = world.peer(OWN_NAME, always(self.bare())).await;
                bystander = Some(peer);
                name
            }
            Self::PlainHttp => {
                let name;
                (bystander, name) = guarded(&[[127, 0, 0, 1]]).await;
                name
            }
            Self::TheSameEndpoint => String::new(),
            Self::Refuses => world.name(CDN, refusing_address()),
            Self::ConnectSilent => {
                let hole = BlackHole::new().await;
                let name = world.name(CDN, hole.address());
                black_hole = Some(hole);
                name
            }
            Self::Redirects(status) => {
                let (third, name) = world.peer("third.example", always(Self::TheFile.bare())).await;
                bystander = Some(third);
                let redirect = redirect(status, &format!("https://{name}/{PEER_WORD}"));
                let (peer, name) = world.peer(CDN, always(redirect)).await;
                second = Some(peer);
                name
            }
            _ => {
                let (peer, name) = world.peer(CDN, self.as_peer()).await;
                second = Some(peer);
                name
            }
        };
        let scheme = if matches!(self, Self::PlainHttp) { "http" } else { "https" };
        let here = matches!(self, Self::TheSameEndpoint);
        let (peer, server) = world
            .peer(
                NAME,
                Behaviour::answers(move |request| {
                    let url =
                        if here { super::stage::here(request) } else { format!("{scheme}://{place}/{PEER_WORD}") };
                    SentFile { headers: &[&format!("Location: {url}")], bytes: b"" }.answer()
                }),
            )
            .await;
        Scene { second, bystander, _black_hole: black_hole, ..Scene::of((peer, server)) }
    }

    async fn by_the_older_endpoint(self, world: &World) -> Scene {
        let mut bystander: Option<TlsPeer> = None;
        let legacy = match self {
            Self::Redirects(status) => {
                let (third, name) = world.peer("third.example", always(Self::TheFile.bare())).await;
                bystander = Some(third);
                redirect(status, &format!("https://{name}/{PEER_WORD}"))
            }
            _ => self.bare(),
        };
        let unrecognized = with_body(404, "application/json", r#"{"errcode":"M_UNRECOGNIZED","error":"peerword"}"#);
        let peer = Behaviour::answers(move |request: &SeenRequest| {
            let is_old = request.target().starts_with("/_matrix/media/v3/");
            if is_old { legacy.clone() } else { unrecognized.clone() }
        });
        Scene { bystander, ..Scene::of(world.peer(NAME, peer).await) }
    }

    fn as_peer(self) -> Behaviour {
        match self {
            Self::EndsEarly => Behaviour::EndsAfter(self.bare()),
            _ => always(self.bare()),
        }
    }

    /// The answer there; no bytes are silence.
    fn bare(self) -> Vec<u8> {
        let file = |more: &str, length: usize, sent: &[u8]| {
            let head = head("image/png", &format!("{more}Content-Length: {length}"));
            [head, sent.to_vec()].concat()
        };
        match self {
            Self::Silent => Vec::new(),
            Self::Says(status, errcode) => {
                let body = format!(r#"{{"errcode":"{errcode}","error":"{PEER_WORD}","retry_after_ms":77000}}"#);
                with_body(status, "application/json", &body)
            }
            Self::Compressed => file("Content-Encoding: gzip\r\n", FILE.len(), FILE),
            Self::AnnouncedHuge => file("", 99_999_999_999, &FILE[..1]),
            Self::Stalls | Self::EndsEarly => file("", FILE.len(), &FILE[..BEGINNING]),
            _ => file("", FILE.len(), FILE),
        }
    }
}

/// Up to the first byte of the file; what follows has no end.
const ENDLESS: &[u8] =
    b"HTTP/1.1 200 OK\r\nX-Peer: peerword\r\nContent-Type: multipart/mixed; boundary=0123456789abcdef\r\n\r\n\
      --0123456789abcdef\r\n\r\n{}\r\n--0123456789abcdef\r\nContent-Type: image/png\r\n\r\n";

/// As a server that has much to tell in its head.
fn head(content_type: &str, line: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 peerword\r\nServer: peerword\r\nSet-Cookie: peerword=1\r\nX-Peer: peerword\r\nETag: \"peerword\"\r\n\
         Content-Type: {content_type}\r\n{line}\r\n\r\n"
    )
    .into()
}

fn always(answer: Vec<u8>) -> Behaviour {
    Behaviour::answers(move |_| answer.clone())
}

/// Where `part` is in `bytes`.
fn at(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}
