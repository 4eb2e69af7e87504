//! An axum homeserver with a federation client of its own: `Admission` around its call, and nothing else of this crate.
//!
//! ```text
//! cargo run --example axum_handler              # admission in the handler; rehearsed on loopback, some 3 s
//! cargo run --example axum_handler -- --layer   # the same with the tower layer in front of the handler
//! ```
//!
//! What to look at: `public_rooms`, the handler. With or without the layer it is the same; the layer refuses before a body
//! is read. A client that hangs up does not free the slot of its call: the call is spawned, and the slot lives with it.

#[path = "loopback/mod.rs"]
#[expect(dead_code, reason = "not each of these servers is asked here")]
mod loopback;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, StatusCode};
use loopback::{Authority, Manners, OtherServer};
use portcullis::layer::{AdmissionLayer, EarlyPass};
use portcullis::{
    Admission, Admitted, ClientKey, ClientOutboundProxyPolicy, Expired, Ipv6ClientPrefix, OutboundRoute, RemoteTimeout,
    ServerName, TrustedProxies,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const USAGE: &str = "\
usage: axum_handler [--layer]

  --layer  admits in a tower layer in front of the handler";

/// Two calls in flight; a server without a pool passes twice the number.
const TWICE_THE_CALLS: usize = 4;
/// Shorter than the ten seconds there are, as an operator may have it.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// The homeserver.
struct Homeserver {
    admission: Admission,
    federation: TheirFederation,
}

/// The federation client that this homeserver has already.
#[derive(Clone)]
struct TheirFederation(reqwest::Client);

/// Whose request it is.
fn client_of(headers: &HeaderMap, extensions: &Extensions) -> ClientKey {
    // Without `into_make_service_with_connect_info` there is no address, and all clients share the share of one.
    let Some(ConnectInfo(peer)) = extensions.get::<ConnectInfo<SocketAddr>>() else { return ClientKey::shared() };
    let proxies = TrustedProxies::new(["127.0.0.0/8".parse().unwrap_or_default()]); // those whose word you take
    ClientKey::from_request(peer.ip(), headers, &proxies, Ipv6ClientPrefix::default())
}

/// `GET` and `POST` of the room list.
async fn public_rooms(State(homeserver): State<Arc<Homeserver>>, request: Request) -> Response {
    let admission = &homeserver.admission;
    let route = match OutboundRoute::classify(request.method(), request.uri()) {
        Ok(route) => route.filter(|route| !route.destination().is_same_server(admission.own_name())),
        Err(invalid) => return invalid.into_response().map(Body::from), // 400
    };
    let Some(route) = route else { return json(Bytes::from_static(br#"{"chunk":[]}"#)) };
    // Here, and no earlier, if a token, a rule or a cache may still say that nobody has to be asked.
    let pass = match EarlyPass::take_from(request.extensions()) {
        Ok(Some(pass)) => Ok(pass), // put there by the layer
        // There is no layer, or it is where it does not see this path. Who relies on it answers 500.
        Ok(None) | Err(_) => admission.admit(&client_of(request.headers(), request.extensions()), route),
    };
    let pass = match pass {
        Ok(pass) => pass,
        Err(refusal) => return refusal.into_response().map(Body::from), // 429, at once
    };
    // Spawned: the call ends when it ends and not when its client hangs up, and so does its slot.
    match tokio::spawn(ask(pass, homeserver.federation.clone())).await {
        Ok(Ok(Some(list))) => json(list),
        Ok(Err(Expired)) => (StatusCode::GATEWAY_TIMEOUT, "the other server took too long").into_response(),
        Ok(Ok(None)) | Err(_) => (StatusCode::BAD_GATEWAY, "the other server gave no answer").into_response(),
    }
}

/// The only way to their federation client: by a pass, whose deadline cuts the whole of the call.
async fn ask(pass: Admitted, federation: TheirFederation) -> Result<Option<Bytes>, Expired> {
    let server = pass.destination().clone();
    pass.run(async move { federation.public_rooms(&server).await }).await
}

impl TheirFederation {
    fn new(authority: &Authority) -> Result<Self, Box<dyn Error>> {
        let root = reqwest::Certificate::from_pem(authority.pem())?;
        Ok(Self(reqwest::Client::builder().tls_certs_only([root]).no_proxy().build()?))
    }

    /// Stands for a client that finds servers and signs what it asks them. `None`: there is no answer, or too much of one.
    async fn public_rooms(&self, server: &ServerName) -> Option<Bytes> {
        let url = format!("https://{server}/_matrix/federation/v1/publicRooms");
        let mut answer = self.0.get(url).send().await.ok()?.error_for_status().ok()?;
        let mut list = Vec::new();
        while let Some(chunk) = answer.chunk().await.ok()? {
            if list.len() + chunk.len() > MAX_LIST_BYTES {
                return None;
            }
            list.extend_from_slice(&chunk);
        }
        Some(list.into())
    }
}

fn json(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let with_layer = match *arguments.as_slice() {
        [] => false,
        ["--layer"] => true,
        ["--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match rehearse(with_layer).await {
        Ok(seen) if seen.iter().all(|(_, status, promised)| status == promised) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Each request with its status, and the status that is promised.
pub(crate) type Seen = Vec<(&'static str, u16, u16)>;

/// A client asks a silent server and hangs up; its call goes on, and until it has ended its slot is taken.
pub(crate) async fn rehearse(with_layer: bool) -> Result<Seen, Box<dyn Error>> {
    let authority = Authority::new()?;
    let answers = OtherServer::start(&authority, Manners::Answers)?;
    let silent = OtherServer::start(&authority, Manners::Silent)?;
    let admission = Admission::new("us.example".parse()?, ClientOutboundProxyPolicy::for_pool(TWICE_THE_CALLS))
        .with_remote_timeout(RemoteTimeout::new(REMOTE_TIMEOUT));
    let homeserver = Homeserver { admission: admission.clone(), federation: TheirFederation::new(&authority)? };
    let listed = get(public_rooms).post(public_rooms);
    let mut routes = Router::new().route("/_matrix/client/v3/publicRooms", listed).with_state(Arc::new(homeserver));
    if with_layer {
        routes = routes.layer(AdmissionLayer::new(admission.clone(), client_of));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let us = Us { address: listener.local_addr()?, client: reqwest::Client::builder().no_proxy().build()? };
    let serving = axum::serve(listener, routes.into_make_service_with_connect_info::<SocketAddr>());
    let serving = tokio::spawn(serving.into_future());

    let mut seen = Seen::new();
    seen.push(us.ask("our own list", 200, 1, None).await?);
    seen.push(us.ask("the list of another server", 200, 1, Some(&answers.name())).await?);
    seen.push(us.ask("a name that is none", 400, 1, Some("127.1")).await?);

    let hangs_up = us.apart(1, silent.name());
    let waits = us.apart(2, silent.name());
    until(|| admission.budget().in_flight() == 2).await?;
    hangs_up.abort();
    // Gone for good, and yet its call is at work.
    let _aborted = hangs_up.await;
    seen.push(us.ask("the client that hung up asks again", 429, 1, Some(&answers.name())).await?);
    seen.push(us.ask("a third client, over the cap", 429, 3, Some(&answers.name())).await?);
    seen.push(us.ask("meanwhile: our own list", 200, 3, None).await?);
    let (status, _) = waits.await??;
    println!("{status}  a server that never answers");
    seen.push(("a server that never answers", status, 504));
    until(|| admission.budget().in_flight() == 0).await?;
    seen.push(us.ask("afterwards: another server again", 200, 1, Some(&answers.name())).await?);
    serving.abort();
    Ok(seen)
}

/// The homeserver, as its clients see it.
#[derive(Clone)]
struct Us {
    address: SocketAddr,
    client: reqwest::Client,
}

impl Us {
    async fn ask(
        &self,
        what: &'static str,
        promised: u16,
        client: u8,
        server: Option<&str>,
    ) -> Result<(&'static str, u16, u16), Box<dyn Error>> {
        let (status, retry_after) = self.status(client, server).await?;
        println!("{status}  {what}{}", retry_after.map(|after| format!(" (Retry-After: {after})")).unwrap_or_default());
        Ok((what, status, promised))
    }

    fn apart(&self, client: u8, server: String) -> JoinHandle<Result<(u16, Option<String>), reqwest::Error>> {
        let us = self.clone();
        tokio::spawn(async move { us.status(client, Some(&server)).await })
    }

    /// A request of the client 192.0.2.`client`, which a proxy on this machine passes on.
    async fn status(&self, client: u8, server: Option<&str>) -> Result<(u16, Option<String>), reqwest::Error> {
        let server = server.map(|server| format!("?server={server}")).unwrap_or_default();
        let url = format!("http://{}/_matrix/client/v3/publicRooms{server}", self.address);
        let request = self.client.get(url).header("x-forwarded-for", format!("192.0.2.{client}"));
        let answer = request.send().await?;
        let retry_after = answer.headers().get("retry-after").and_then(|after| after.to_str().ok()).map(str::to_owned);
        Ok((answer.status().as_u16(), retry_after))
    }
}

/// Waits, a minute at most.
async fn until(is_so: impl Fn() -> bool) -> Result<(), tokio::time::error::Elapsed> {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await
}
