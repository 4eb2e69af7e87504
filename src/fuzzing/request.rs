//! A client's bytes, from the listener to the answer, with a world outside that is as hostile as the client.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::script::Script;
use super::sections;
use super::server_name::means_the_same_to_everybody;
use super::wire::{Answered, holds_exactly};
use crate::admission::{OutboundRoute, TrustedProxies};
use crate::federation_worker::FederationWorker;
use crate::homeserver::config::Config;
use crate::homeserver::embedded::EmbeddedHomeserver;
use crate::homeserver::key_document::KeyDocumentSigner;
use crate::homeserver::listener::{Handler, ListenerLimits, serve_stream};
use crate::homeserver::router::Router;
use crate::limits::{DIRECTORY_DEADLINE, MAX_ALIAS_BYTES, PER_CLIENT_CAP};
use crate::outbound::call::FederationClient;
use crate::outbound::signing::Ed25519Signer;
use crate::outbound::{AddressPolicy, BoxFuture, Discovery};
use crate::portcullis::{Begun, Portcullis};
use crate::proxy::answer::ResponseBody;
use crate::server_name::ServerName;
use crate::sync::Mutex;

/// What has no state of its own and takes longer to make than most inputs take to run.
static SHARED: OnceLock<Shared> = OnceLock::new();

struct Shared {
    signer: Arc<Ed25519Signer>,
    /// No call is made on it: here everything runs on one thread.
    worker: Arc<FederationWorker>,
}

const OWN_NAME: &str = "us.example";

/// Two lookups at once.
const POOL_THREADS: usize = 4;

/// The clients, one per connection. The third is a proxy whose `X-Forwarded-For` is believed.
const PEERS: [&str; 4] = ["192.0.2.1", "192.0.2.1", "10.0.0.1", "2001:db8::1"];

/// tokio's timers wake at whole milliseconds.
const TIMER: Duration = Duration::from_millis(2);

/// Every key that an answer may have; a stranger's own ones are left out.
const OUR_KEYS: [&str; 13] = [
    "room_id",
    "servers",
    "chunk",
    "next_batch",
    "prev_batch",
    "total_room_count_estimate",
    "versions",
    "unstable_features",
    "server_name",
    "verify_keys",
    "old_verify_keys",
    "valid_until_ts",
    "signatures",
];

const ROOM_KEYS: [&str; 10] = [
    "room_id",
    "num_joined_members",
    "world_readable",
    "guest_can_join",
    "canonical_alias",
    "name",
    "topic",
    "avatar_url",
    "join_rule",
    "room_type",
];

const HOMESERVER: &str = r##"
server_name = "us.example"
signing_key = "signing.key"
[[rooms]]
room_id = "!gate:us.example"
name = "Gate"
[[rooms]]
room_id = "!moat:us.example"
room_type = "m.space"
[[aliases]]
alias = "#gate:us.example"
room_id = "!gate:us.example"
[[tokens]]
token = "syt_alice"
user_id = "@alice:us.example"
"##;

/// Any bytes of up to four clients, and any answers of the world: never panics; never more than two lookups in flight,
/// nor two of one client; no lookup outlasts its deadline; every answer of ours is JSON with the headers a browser needs,
/// an error with `errcode` and `error`, with nothing in it that a stranger wrote; nothing is asked outside for what is answered here, for a name that anybody
/// could read in two ways, or for our own; and at the end the budget is empty.
///
/// The clients' bytes with `\n&&\n` between them, then `\n%%\n`, then the lines of `script.rs`. A client whose bytes
/// begin with `~` says no more afterwards, but does not hang up either.
pub async fn request(input: &[u8]) {
    let parts = sections(input, b"\n%%\n");
    let clients = sections(parts[0], b"\n&&\n");
    let own_name: ServerName = OWN_NAME.parse().unwrap();
    let world = Script::new(own_name.host().clone(), parts.get(1).copied().unwrap_or_default());
    let server = Arc::new(Server::facing(&world, &own_name, clients.len() == 1));
    join_all(clients.iter().zip(PEERS).map(|(bytes, peer)| connection(&server, bytes, peer.parse().unwrap()))).await;
    assert_eq!(server.portcullis.admission().budget().in_flight(), 0);
    assert_eq!(server.portcullis.admission().budget().tracked_keys(), 0);
}

async fn connection(server: &Arc<Server>, bytes: &[u8], peer: IpAddr) {
    let (stays, bytes) = bytes.strip_prefix(b"~").map_or((false, bytes), |rest| (true, rest));
    let answers = Arc::new(Mutex::new(Vec::new()));
    let handler = Arc::new(Client { server: Arc::clone(server), answers: Arc::clone(&answers) });
    let (client, ours) = tokio::io::duplex(64 * 1024);
    let (mut read, mut write) = tokio::io::split(client);
    let send = async {
        // The server may have hung up already.
        drop(write.write_all(bytes).await);
        if !stays {
            drop(write.shutdown().await);
        }
    };
    let mut wire = Vec::new();
    let receive = read.read_to_end(&mut wire);
    let serve = serve_stream(ours, peer, handler, ListenerLimits::default());
    let ((), received, ()) = tokio::join!(send, receive, serve);
    received.unwrap();
    holds_exactly(&wire, &answers.lock());
}

/// The reference homeserver, without its threads: these are what bytes cannot reach.
struct Server {
    portcullis: Portcullis,
    homeserver: EmbeddedHomeserver,
    router: Router,
    world: Arc<Script>,
    own_name: ServerName,
    /// What the world said last was said to this client.
    only_client: bool,
}

/// One connection's view of it.
struct Client {
    server: Arc<Server>,
    answers: Arc<Mutex<Vec<Answered>>>,
}

impl Server {
    fn facing(world: &Arc<Script>, own_name: &ServerName, only_client: bool) -> Self {
        let Shared { signer, worker } = SHARED.get_or_init(|| {
            let key = format!("ed25519 a_fuzz {}", "A".repeat(43));
            let signer = Ed25519Signer::from_key_text(own_name.clone(), &key).unwrap();
            Shared { signer: Arc::new(signer), worker: Arc::new(FederationWorker::start(1).unwrap()) }
        });
        let user_agent = HeaderValue::from_static("portcullis");
        let policy = AddressPolicy::default();
        let discovery = Discovery::new(own_name.clone(), world.clone(), world.clone(), policy, user_agent);
        let portcullis = Portcullis::builder(FederationClient::new(signer.clone(), discovery).unwrap(), POOL_THREADS)
            .federation_worker(Arc::clone(worker))
            .trusted_proxies(TrustedProxies::new(["10.0.0.0/8".parse().unwrap()]))
            .build()
            .unwrap();
        let config = Config::parse("", std::path::Path::new(""), HOMESERVER).unwrap();
        let router = Router::new(own_name.clone(), Arc::new(PublishedKey(Arc::clone(signer))));
        let homeserver = EmbeddedHomeserver::new(&config);
        Self { portcullis, homeserver, router, world: Arc::clone(world), own_name: own_name.clone(), only_client }
    }

    async fn answer(&self, peer: IpAddr, request: &Request<Bytes>) -> Response<ResponseBody> {
        if let Some(answer) = Router::preflight(request) {
            return answer;
        }
        let asked = self.world.asked();
        let begun = self.portcullis.begin(&self.homeserver, peer, request);
        assert_eq!(self.world.asked(), asked, "the first half asked somebody");
        let lookup = match begun {
            None => return self.router.answer(request),
            Some(Begun::Answer(answer)) => {
                if let Ok(Some(route)) = OutboundRoute::classify(request.method(), request.uri()) {
                    self.is_our_own_word(&route, answer.status().as_u16());
                }
                return answer;
            }
            Some(Begun::Call(lookup)) => lookup,
            Some(Begun::Media(_)) => unreachable!("the switch is off"),
        };
        let budget = self.portcullis.admission().budget();
        assert!(budget.in_flight() <= POOL_THREADS / 2);
        assert!(budget.in_flight() <= budget.tracked_keys() * PER_CLIENT_CAP);
        let route = OutboundRoute::classify(request.method(), request.uri()).unwrap().unwrap();
        means_the_same_to_everybody(route.destination());
        assert!(!route.destination().is_same_server(&self.own_name));
        if route.destination().host() == self.own_name.host() {
            self.world.own_host_was_named();
        }
        let start = Instant::now();
        let asked = self.world.asked();
        let answer = self.portcullis.finish(lookup).await;
        assert!(start.elapsed() <= DIRECTORY_DEADLINE + TIMER, "a lookup took {:?}", start.elapsed());
        let too_large = self.world.said().is_some_and(|said| said.body.len() > MAX_ALIAS_BYTES);
        if self.only_client && self.world.asked() != asked && matches!(route, OutboundRoute::RoomAlias { .. }) {
            assert!(!(too_large && answer.status().is_success()), "an answer larger than its limit was taken");
        }
        answer
    }
}

impl Server {
    /// A request for our own name is answered from our own data, however busy the server is with others.
    fn is_our_own_word(&self, route: &OutboundRoute, status: u16) {
        if route.destination().is_same_server(&self.own_name) {
            match route {
                OutboundRoute::PublicRooms { .. } => assert!([200, 400, 401].contains(&status), "{status}"),
                OutboundRoute::RoomAlias { .. } => assert!([200, 404].contains(&status), "{status}"),
                OutboundRoute::Other { .. } => unreachable!("no request is classified so"),
            }
        }
    }
}

impl Client {
    /// The answer as it is, if it is one that a Matrix client and a browser can read.
    async fn well_formed(
        answers: &Mutex<Vec<Answered>>,
        answer: Response<ResponseBody>,
        head_only: bool,
    ) -> Response<ResponseBody> {
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        for header in ["access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers"] {
            assert!(head.headers.contains_key(header), "{header} is missing");
        }
        assert_eq!(head.headers["content-type"], "application/json");
        let content: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let content = content.as_object().unwrap();
        if head.status.is_success() {
            assert!(content.keys().all(|key| OUR_KEYS.contains(&key.as_str())), "{content:?}");
            for room in content.get("chunk").and_then(serde_json::Value::as_array).into_iter().flatten() {
                assert!(room.as_object().unwrap().keys().all(|key| ROOM_KEYS.contains(&key.as_str())), "{room}");
            }
        } else {
            assert!(head.status.is_client_error() || head.status.is_server_error());
            assert_ne!(head.status.as_u16(), 500);
            assert!(content["errcode"].as_str().unwrap().starts_with("M_"));
            let text = content["error"].as_str().unwrap();
            // What is wrong with a name is said in numbers too; of other servers nothing is ever told.
            assert!(
                head.status.as_u16() == 400 || text.chars().all(|c| c.is_ascii_alphabetic() || " ',".contains(c)),
                "{text}"
            );
            assert_eq!(head.status.as_u16() == 429, head.headers.contains_key("retry-after"));
        }
        answers.lock().push(Answered { status: head.status, head_only });
        Response::from_parts(head, ResponseBody::from(body))
    }
}

impl Handler for Client {
    fn handle(&self, peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let (server, answers) = (Arc::clone(&self.server), Arc::clone(&self.answers));
        Box::pin(async move {
            let answer = server.answer(peer, &request).await;
            Self::well_formed(&answers, answer, *request.method() == Method::HEAD).await
        })
    }
}

/// Publishes the key that signs.
struct PublishedKey(Arc<Ed25519Signer>);

impl KeyDocumentSigner for PublishedKey {
    fn key_id(&self) -> &str {
        self.0.key_id()
    }

    fn verify_key(&self) -> String {
        self.0.verify_key()
    }

    fn sign_object(&self, object: &serde_json::Value) -> Option<String> {
        self.0.sign_object(object).ok()
    }
}
