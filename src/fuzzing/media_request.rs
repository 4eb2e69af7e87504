//! Clients' requests for files, with a world outside that sends whatever the input says.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use self::world::Answers;
use super::{lines, sections};
use crate::admission::{MediaCaps, MediaLimits, MediaRoute, RemoteFetchPolicy};
use crate::federation_worker::FederationWorker;
use crate::homeserver::config::Config;
use crate::homeserver::embedded::EmbeddedHomeserver;
use crate::limits::{MEDIA_CACHE_TTL, MEDIA_DEADLINE, WORKER_MARGIN};
use crate::outbound::call::FederationClient;
use crate::outbound::signing::Ed25519Signer;
use crate::outbound::{AddressPolicy, Discovery};
use crate::portcullis::{Begun, MediaStoreConfig, Portcullis};
use crate::proxy::answer::ResponseBody;
use crate::proxy::media_store::{MediaStore, StoreBounds, StoreUsage};
use crate::server_name::ServerName;

mod envelope;
mod world;

/// What takes longer to make than most inputs take to run. No call is made on the worker.
static WORKER: OnceLock<Arc<FederationWorker>> = OnceLock::new();
static HOMESERVER: OnceLock<EmbeddedHomeserver> = OnceLock::new();

thread_local! {
    /// One store for all inputs of a thread, emptied before each: making its 256 folders takes a hundred times as long as an
    /// input. Removed when the thread ends.
    static STORE: KeptStore = KeptStore::open();
}

struct KeptStore {
    store: MediaStore,
    folder: tempfile::TempDir,
}

const OWN_NAME: &str = "us.example";

const CONFIGURATION: &str = r#"
server_name = "us.example"
signing_key = "signing.key"
[[tokens]]
token = "t"
user_id = "@alice:us.example"
"#;

/// Most requests of one input.
const MOST_REQUESTS: usize = 8;

/// Every status there is a reason for.
const STATUSES: [u16; 12] = [200, 206, 304, 400, 401, 404, 416, 429, 502, 503, 504, 204];

/// tokio's timers wake at whole milliseconds.
const TIMER: Duration = Duration::from_millis(2);

/// Any requests, one after the other, and any answers of the world: never panics; nothing is looked up or dialled in a
/// request's first half, while the switch is off, where `allow_remote=false` stands, or for our own name; every status is
/// one of ours, in time; a file is boxed in, and one that ends cleanly is the file in the envelope, as a plain look at its
/// lines finds it; and after each request no slot is held, nothing runs, and nothing is unfinished in the store.
///
/// A line of letters (`o`: the switch is off, `l`: no legacy paths), then a request on each line, `GET /path⇥Range: bytes=0-1`,
/// with `!` in front for one without a token; then `\n%%\n`, and the answers with `\n&&\n` between them, as `world.rs` has
/// them.
pub async fn media_request(input: &[u8]) {
    let parts = sections(input, b"\n%%\n");
    let world = Answers::new(parts.get(1).copied().unwrap_or_default());
    let said = lines(parts[0]);
    let off = said[0].contains('o');
    let homeserver =
        HOMESERVER.get_or_init(|| EmbeddedHomeserver::new(&Config::parse("", Path::new(""), CONFIGURATION).unwrap()));
    let (store, nowhere) = STORE.with(|kept| (kept.store.clone(), kept.folder.path().join("nowhere")));
    store.empty();
    let portcullis = portcullis(&world, &said[0], &store, &nowhere);
    for line in said.iter().skip(1).take(MOST_REQUESTS) {
        let Some(request) = request(line) else { continue };
        let asked = world.asked();
        let Some((answer, took)) = answer(&portcullis, homeserver, &world, &request).await else { continue };
        let dialled = world.asked() - asked;
        if off || forbids(&request) {
            assert_eq!(dialled, 0, "somebody was asked for {line:?}");
        }
        assert!(took <= MEDIA_DEADLINE + TIMER, "the answer took {took:?}");
        is_well_formed(answer, &world, &request).await;
        comes_to_rest(&portcullis).await;
    }
    if off {
        assert_eq!(world.asked(), 0);
        assert!(!nowhere.exists(), "something was written");
    }
    drop(portcullis);
    store.empty();
    // The writer of a file that is kept closes it a moment later; time stands still until it has.
    let start = Instant::now();
    while store.usage().pinned > 0 && start.elapsed() < WORKER_MARGIN {
        sleep(TIMER).await;
    }
    let StoreUsage { files, bytes, unfinished, unfinished_bytes, pinned, pinned_bytes, .. } = store.usage();
    let left = [files, bytes, unfinished, unfinished_bytes, pinned, pinned_bytes];
    assert_eq!(left, [0; 6], "what an emptied store holds");
}

impl KeptStore {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bounds = StoreBounds {
            dir: folder.path().join("store"),
            bytes: 64 * 1024 * 1024,
            time_to_live: MEDIA_CACHE_TTL,
            max_file: 64 * 1024,
        };
        Self { store: MediaStore::open(bounds).unwrap(), folder }
    }
}

/// Switched off it is given a folder of its own, which is not there and must not come to be.
fn portcullis(world: &Arc<Answers>, letters: &str, store: &MediaStore, nowhere: &Path) -> Portcullis {
    let own_name: ServerName = OWN_NAME.parse().unwrap();
    let key = format!("ed25519 a_fuzz {}", "A".repeat(43));
    let signer = Arc::new(Ed25519Signer::from_key_text(own_name.clone(), &key).unwrap());
    let worker = WORKER.get_or_init(|| Arc::new(FederationWorker::start(1).unwrap()));
    let user_agent = HeaderValue::from_static("portcullis");
    let discovery = Discovery::new(own_name, world.clone(), world.clone(), AddressPolicy::default(), user_agent);
    let off = letters.contains('o');
    let builder = Portcullis::builder(FederationClient::new(signer, discovery).unwrap(), 4);
    let builder = if off {
        builder.media_store(MediaStoreConfig::in_dir(nowhere))
    } else {
        builder.open_media_store(store.clone())
    };
    builder
        .federation_worker(Arc::clone(worker))
        .media_tasks(Handle::current())
        .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: !off })
        .legacy_media(!letters.contains('l'))
        .media_limits(
            MediaLimits::new(MediaCaps {
                max_in_flight: 4,
                max_per_client: 2,
                max_running: 4,
                max_running_per_origin: 4,
            })
            .unwrap(),
        )
        .build()
        .unwrap()
}

/// The request on a line, if it can be one at all.
fn request(line: &str) -> Option<Request<Bytes>> {
    let (line, token) = line.strip_prefix('!').map_or((line, true), |rest| (rest, false));
    let mut fields = line.split('\t');
    let (method, path) = fields.next()?.split_once(' ')?;
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).ok()?).uri(path);
    for (name, value) in fields.filter_map(|field| field.split_once(':')) {
        let (Ok(name), Ok(value)) = (name.trim().parse::<HeaderName>(), value.trim().parse::<HeaderValue>()) else {
            continue;
        };
        request = request.header(name, value);
    }
    if token {
        request = request.header("authorization", "Bearer t");
    }
    request.body(Bytes::new()).ok()
}

/// Whether it says plainly that nobody is to be asked.
fn forbids(request: &Request<Bytes>) -> bool {
    let path = request.uri().path().to_ascii_lowercase();
    let own = path.contains("/us.example/") || path.contains("/us.example:8448/");
    own || request.uri().query().unwrap_or_default().split('&').any(|pair| pair == "allow_remote=false")
}

/// The answer, and after how long, if the request is for a file.
async fn answer(
    portcullis: &Portcullis,
    homeserver: &EmbeddedHomeserver,
    world: &Answers,
    request: &Request<Bytes>,
) -> Option<(Response<ResponseBody>, Duration)> {
    let (asked, start) = (world.asked(), Instant::now());
    let peer: IpAddr = [192, 0, 2, 1].into();
    let begun = portcullis.begin(homeserver, peer, request);
    assert_eq!(world.asked(), asked, "the first half asked somebody");
    assert!(portcullis.status().budgets.media.in_flight <= 1);
    let route = MediaRoute::classify(request.method(), request.uri());
    let answer = match begun? {
        // The other routes have a target of their own.
        Begun::Call(_) => return None,
        Begun::Answer(answer) => answer,
        Begun::Media(lookup) => {
            assert!(route.is_ok_and(|route| route.is_some()));
            portcullis.finish_media(lookup).await
        }
    };
    Some((answer, start.elapsed()))
}

async fn is_well_formed(answer: Response<ResponseBody>, world: &Answers, request: &Request<Bytes>) {
    let (head, mut body) = answer.into_parts();
    let status = head.status.as_u16();
    assert!(STATUSES.contains(&status), "{status}");
    assert_eq!(head.headers["access-control-allow-origin"], "*");
    let (mut bytes, mut whole) = (Vec::new(), true);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
            Err(_) => whole = false,
        }
    }
    let is_json = head.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    if status >= 400 {
        let content: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert!(is_json && whole && content["errcode"].is_string() && content["error"].is_string());
        assert_eq!(status == 429, content["errcode"] == "M_LIMIT_EXCEEDED");
    } else if (status == 200 || status == 206) && *request.method() != Method::OPTIONS && is_a_file(&head.headers) {
        assert_eq!(head.headers["x-content-type-options"], "nosniff");
        assert!(head.headers["content-security-policy"].to_str().unwrap().starts_with("sandbox"));
        let disposition = head.headers["content-disposition"].as_bytes();
        assert!(disposition.iter().all(|byte| (b' '..=b'~').contains(byte)));
        if status == 200 && whole && *request.method() == Method::GET {
            world.has_sent(&bytes);
        }
    }
}

fn is_a_file(headers: &http::HeaderMap) -> bool {
    headers.contains_key("etag")
}

/// The fetch may outlive the answer, but not its deadline.
async fn comes_to_rest(portcullis: &Portcullis) {
    let start = Instant::now();
    loop {
        let status = portcullis.status();
        let unfinished = status.media.store.map_or(0, |store| store.unfinished);
        let busy = status.budgets.media.in_flight + status.media.running + status.media.waiting;
        if busy == 0 && unfinished == 0 {
            return;
        }
        assert!(start.elapsed() <= MEDIA_DEADLINE + WORKER_MARGIN, "{status:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
