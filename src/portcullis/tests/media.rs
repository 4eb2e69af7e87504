//! Files through the facade: a real store in a folder of its own, beside an origin that keeps count.

#[cfg(feature = "gate")]
mod gates;
mod inline;
mod limits;
mod order;
mod sharing;
mod streaming;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::admission::{
    MediaCaps, MediaId, MediaLimits, MediaVariant, RateCaps, RateLimit, RemoteFetchPolicy, RouteClass,
};
use crate::outbound::media::MediaCallError;
use crate::proxy::directory::fake::Does as Answers;
use crate::proxy::local_view::LocalMedia;
use crate::proxy::media::fake::{BROKEN, Does, Piece};
use crate::proxy::response_body::BodyCut;

const ON: RemoteFetchPolicy = RemoteFetchPolicy { remote_fetch_enabled: true };
const CAT: &[u8] = b"\x89PNG a cat";

/// A homeserver with one file besides what [`Home`] has.
struct Gallery;

impl LocalView for Gallery {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        Home.user_of_token(token)
    }

    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
        Home.room_alias(alias)
    }

    fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        Home.public_rooms(query)
    }

    fn media(&self, media_id: &MediaId, variant: MediaVariant) -> Option<LocalMedia> {
        let ours = media_id.as_str() == "ours" && variant == MediaVariant::Download;
        ours.then(|| LocalMedia {
            content_type: Some("image/png".to_owned()),
            file_name: Some("own.png".to_owned()),
            content: Bytes::from_static(CAT).into(),
        })
    }
}

/// A folder for the store of one test, and what is built in it.
struct Rig {
    dir: TempDir,
    origin: FakeOrigin,
}

impl Rig {
    fn new(origin: FakeOrigin) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), origin }
    }

    fn store(&self) -> MediaStoreConfig {
        MediaStoreConfig { max_file: 256 * 1024, ..MediaStoreConfig::in_dir(self.dir.path()) }
    }

    /// Switched on.
    fn builder(&self) -> PortcullisBuilder {
        builder(8, &FakeRemote::new(|_| Answers::StaySilent))
            .remote_media(Box::new(self.origin.clone()))
            .media_store(self.store())
            .remote_fetch(ON)
            .legacy_media(true)
            .media_tasks(Handle::current())
    }

    fn portcullis(&self) -> Portcullis {
        self.builder().build().unwrap()
    }
}

/// The paths of one file: both generations, file and thumbnail.
fn paths(server: &str) -> [String; 8] {
    let thumbnail = format!("thumbnail/{server}/abc?width=96&height=96&method=crop");
    let download = format!("download/{server}/abc");
    [
        format!("/_matrix/client/v1/media/{download}"),
        format!("/_matrix/client/v1/media/{thumbnail}"),
        format!("/_matrix/media/v3/{download}"),
        format!("/_matrix/media/v3/{thumbnail}"),
        format!("/_matrix/media/r0/{download}"),
        format!("/_matrix/media/r0/{thumbnail}"),
        format!("/_matrix/media/v1/{download}"),
        format!("/_matrix/media/v1/{thumbnail}"),
    ]
}

fn request(path: &str) -> Request<Bytes> {
    Request::get(path).header("authorization", "Bearer good").body(Bytes::new()).unwrap()
}

fn file(server: &str, media_id: &str) -> Request<Bytes> {
    request(&format!("/_matrix/client/v1/media/download/{server}/{media_id}"))
}

fn with(mut request: Request<Bytes>, name: &'static str, value: &str) -> Request<Bytes> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

/// An answer with its whole body, or the news that it was cut.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    status: u16,
    errcode: String,
    body: Result<Vec<u8>, BodyCut>,
}

impl Got {
    fn outcome(&self) -> (u16, &str) {
        (self.status, &self.errcode)
    }

    fn is(&self, bytes: &[u8]) -> bool {
        self.status == 200 && self.body.as_deref() == Ok(bytes)
    }
}

async fn got(response: Response<ResponseBody>) -> Got {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map(|body| body.to_bytes().to_vec());
    let content: Option<Value> = body.as_ref().ok().and_then(|body| serde_json::from_slice(body).ok());
    let errcode = content.and_then(|content| content["errcode"].as_str().map(str::to_owned)).unwrap_or_default();
    Got { status, errcode, body }
}

async fn fetch(portcullis: &Portcullis, peer: u8, request: &Request<Bytes>) -> Got {
    got(portcullis.handle(&Gallery, address(peer), request).await.unwrap()).await
}

/// The same beside others.
fn start(portcullis: &Portcullis, peer: u8, request: &Request<Bytes>) -> JoinHandle<Got> {
    let answer = portcullis.handle(&Gallery, address(peer), request);
    tokio::spawn(async move { got(answer.await.unwrap()).await })
}

async fn all(started: Vec<JoinHandle<Got>>) -> Vec<Got> {
    let mut got = Vec::new();
    for one in started {
        got.push(one.await.unwrap());
    }
    got
}

/// The answer of the first half alone, under the media budget; `Err`: the file would be opened or fetched.
async fn begun(portcullis: &Portcullis, peer: u8, request: &Request<Bytes>) -> Result<Got, MediaLookup> {
    match portcullis.begin(&Gallery, address(peer), request).unwrap() {
        Begun::Answer(answer) => Ok(got(answer).await),
        Begun::Media(lookup) => Err(lookup),
        Begun::Call(_) => panic!("a file takes no thread"),
    }
}

/// Nothing is held, nothing runs and nothing waits, once the disk is done: the clock stands still as long as it is not.
async fn at_rest(portcullis: &Portcullis) {
    settle().await;
    let status = portcullis.status();
    assert_eq!((status.budgets.media.in_flight, status.budgets.directory.in_flight), (0, 0));
    assert_eq!((status.media.running, status.media.waiting), (0, 0));
    assert_eq!(status.media.store.unwrap().unfinished, 0);
}

/// Lets what is ready run, the disk included.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
