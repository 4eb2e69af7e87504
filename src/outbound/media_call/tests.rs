//! One file, over every road: what is asked of whom, what comes, and what ends it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

mod bounds;
mod roads;
#[cfg(feature = "server")]
mod sockets;

use super::*;
use crate::admission::{
    Admission, AllowRemote, ClientKey, ClientOutboundProxyPolicy, MediaAdmission, MediaCaps, MediaLimits,
    RemoteFetchPolicy, RemoteFile, Thumbnail, ThumbnailMethod, ThumbnailSize,
};
use crate::limits::MEDIA_DEADLINE;
use crate::outbound::fake_world::{Page, World};
use crate::outbound::signing::Ed25519Signer;

const SECOND: Duration = Duration::from_secs(1);

/// Largest file taken in these tests.
const MOST: u64 = 1000;

const SIGNED: &str = "https://alpha.example:8448/_matrix/federation/v1/media/download/abc?timeout_ms=20000";
const LEGACY: &str = "https://alpha.example:8448/_matrix/media/v3/download/alpha.example%3A8448/abc\
                      ?allow_remote=false&timeout_ms=20000";
const ELSEWHERE: &str = "https://cdn.gamma.example/f";

const MULTIPART: &str = "multipart/mixed; boundary=b";

/// A file that came, to its end.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    content_type: Option<String>,
    content_disposition: Option<String>,
    length: Option<u64>,
    file: Result<Bytes, MediaCallError>,
}

/// A world with the server `alpha.example:8448` and the host `cdn.gamma.example` in it.
fn world() -> Arc<World> {
    let world = World::new();
    world.name("alpha.example", &["44.128.10.1"]);
    world.name("cdn.gamma.example", &["44.128.10.8"]);
    world
}

fn world_with(url: &str, page: Page) -> Arc<World> {
    let world = world();
    world.page(url, page);
    world
}

fn envelope(part: &str) -> Page {
    let body = format!("--b\r\nContent-Type: application/json\r\n\r\n{{}}\r\n--b\r\n{part}\r\n--b--\r\n");
    Page::answer(200, &body).with("content-type", MULTIPART)
}

fn error(status: u16, errcode: &str) -> Page {
    Page::answer(status, &format!("{{\"errcode\": \"{errcode}\", \"error\": \"no\"}}"))
}

fn unrecognized() -> Page {
    error(404, "M_UNRECOGNIZED")
}

/// A pass for the file `abc` of `server`.
fn pass(server: &str) -> MediaPass {
    let file = RemoteFile { server: server.parse().unwrap(), media_id: "abc".parse().unwrap() };
    let allowed = RemoteFetchPolicy { remote_fetch_enabled: true }.check(file, AllowRemote::Yes).unwrap();
    let limits =
        MediaLimits::new(MediaCaps { max_in_flight: 16, max_per_client: 6, max_running: 8, max_running_per_origin: 4 })
            .unwrap();
    let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    let door = MediaAdmission::beside(&admission, limits);
    door.admit(ClientKey::shared(), allowed, |_| Ok(())).unwrap()
}

fn open(world: &Arc<World>, server: &str) -> Box<dyn MediaFetch> {
    let own_name = "hs.self.example".parse().unwrap();
    let signer = Arc::new(Ed25519Signer::generate(own_name));
    let client = FederationClient::new(signer, world.discovery()).unwrap();
    RemoteMediaSource::open(&client, pass(server))
}

fn download() -> MediaWanted {
    MediaWanted { variant: MediaVariant::Download, patience: 20 * SECOND, max_bytes: MOST }
}

fn thumbnail() -> MediaWanted {
    let variant = MediaVariant::Thumbnail(Thumbnail::no_smaller_than(
        ThumbnailSize { width: 96, height: 96, method: ThumbnailMethod::Crop },
        false,
    ));
    MediaWanted { variant, ..download() }
}

async fn fetch(world: &Arc<World>, wanted: &MediaWanted) -> Result<Came, MediaCallError> {
    let mut call = open(world, "alpha.example:8448");
    let media = call.fetch(wanted).await;
    let came = match media {
        Ok(media) => Ok(came(media).await),
        Err(error) => Err(error),
    };
    assert_eq!(world.open_bodies(), 0, "no connection outlives its answer");
    came
}

async fn came(media: RemoteMedia) -> Came {
    let RemoteMedia { content_type, content_disposition, length, body } = media;
    Came { content_type, content_disposition, length, file: to_the_end(body).await }
}

async fn to_the_end(mut body: crate::outbound::media::RemoteMediaBody) -> Result<Bytes, MediaCallError> {
    let mut file = BytesMut::new();
    while let Some(frame) = body.frame().await {
        file.extend_from_slice(&frame?.into_data().unwrap());
    }
    assert!(body.frame().await.is_none(), "an end is an end");
    Ok(file.freeze())
}

fn png(length: Option<u64>, file: &'static [u8]) -> Came {
    Came {
        content_type: Some("image/png".to_owned()),
        content_disposition: None,
        length,
        file: Ok(Bytes::from_static(file)),
    }
}

fn urls(world: &World) -> Vec<String> {
    world.dialled().into_iter().map(|one| one.url).collect()
}
