//! Discovery, one signed call and a bounded answer, without the routes and without a server of ours.
//!
//! ```text
//! cargo run --example outbound_only                           # servers on loopback
//! cargo run --example outbound_only -- matrix.org us.example  # a real one, asked in the name of us.example
//! ```
//!
//! For a homeserver that keeps its routes and its answers and replaces the way out. A call takes a pass by value, so each
//! call here has a slot and a deadline too. A real server answers 401: it asks `us.example` for the key of the signature.

#[path = "loopback/mod.rs"]
#[expect(dead_code, reason = "not each of these servers is asked here")]
mod loopback;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use http::HeaderValue;
use loopback::{Authority, Manners, OtherServer};
use portcullis::outbound::{
    AddressPolicy, CallError, Discovery, Ed25519Signer, Endpoint, FederationClient, HickoryResolver, HttpsTransport,
    RemoteReply, RoomListParameters, TlsRoots,
};
use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute, Refusal, RemoteTimeout, ServerName};

const USAGE: &str = "\
usage: outbound_only [SERVER_NAME OWN_NAME]

  SERVER_NAME  the server whose room list is asked for; without it, three servers on loopback
  OWN_NAME     the server in whose name it is asked, with a key made up here";

/// In flight at most.
const CALLS: usize = 16;

/// What it takes to ask other servers.
struct WayOut {
    admission: Admission,
    discovery: Discovery,
    client: FederationClient,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Nothing was done.
    Refused(Refusal),
    /// A slot was held, and the call failed.
    Failed(CallError),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match *arguments.as_slice() {
        [] => rehearse().await.map(drop),
        ["--help"] => {
            println!("{USAGE}");
            Ok(())
        }
        [server, own_name] => one_real_server(server, own_name).await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn one_real_server(server: &str, own_name: &str) -> Result<(), Box<dyn Error>> {
    let roots = TlsRoots::system()?;
    let way_out = WayOut::new(own_name, HickoryResolver::from_system()?, roots, AddressPolicy::default(), None)?;
    way_out.ask(server).await.map(drop)
}

/// A server that answers, one whose answer is too large, one that never answers, and one inside.
pub(crate) async fn rehearse() -> Result<Vec<Result<RemoteReply, NoAnswer>>, Box<dyn Error>> {
    let authority = Authority::new()?;
    let answers = OtherServer::start(&authority, Manners::Answers)?;
    let huge = OtherServer::start(&authority, Manners::Huge)?;
    let silent = OtherServer::start(&authority, Manners::Silent)?;
    // Names here are addresses, so nobody is asked for one.
    let resolver = HickoryResolver::with_name_servers(&["127.0.0.1:53".parse()?])?;
    let policy = AddressPolicy::default().allow(["127.0.0.1/32".parse()?])?;
    let shorter = Some(RemoteTimeout::new(std::time::Duration::from_secs(4))?);
    let way_out = WayOut::new("us.example", resolver, TlsRoots::only(authority.pem())?, policy, shorter)?;
    let mut seen = Vec::new();
    for server in [answers.name(), huge.name(), silent.name(), "127.0.0.2:8448".to_owned(), "us.example".to_owned()] {
        seen.push(way_out.ask(&server).await?);
    }
    println!("slots held at the end: {}", way_out.admission.budget().in_flight());
    Ok(seen)
}

impl WayOut {
    fn new(
        own_name: &str,
        resolver: HickoryResolver,
        roots: TlsRoots,
        policy: AddressPolicy,
        timeout: Option<RemoteTimeout>,
    ) -> Result<Self, Box<dyn Error>> {
        let own_name: ServerName = own_name.parse()?;
        let signer = Arc::new(Ed25519Signer::generate(own_name.clone())); // yours comes from your key file
        let transport = Arc::new(HttpsTransport::new(roots)?);
        let agent = HeaderValue::from_static("outbound-only-example");
        let discovery = Discovery::new(own_name.clone(), Arc::new(resolver), transport, policy, agent);
        let client = FederationClient::new(signer, discovery.clone())?;
        let mut admission = Admission::new(own_name, ClientOutboundProxyPolicy::for_calls(CALLS));
        if let Some(shorter) = timeout {
            admission = admission.with_remote_timeout(shorter);
        }
        Ok(Self { admission, discovery, client })
    }

    /// Asks `server` for its room list, and tells each step of the way.
    async fn ask(&self, server: &str) -> Result<Result<RemoteReply, NoAnswer>, Box<dyn Error>> {
        println!("{server}");
        let route = OutboundRoute::PublicRooms { server: server.parse()? };
        // Whose call it is: the client's address where there is one.
        let pass = match self.admission.admit(&ClientKey::shared(), route) {
            Ok(pass) => pass,
            Err(refusal) => return Ok(Err(told(NoAnswer::Refused(refusal)))),
        };
        // For a reader: the call below finds its way by itself, and what was looked up here is remembered.
        for taken in self.discovery.explain(pass.destination(), pass.deadline()).await.steps {
            println!("  {:<14} {:<8} {}", taken.step.as_label(), taken.outcome.as_label(), taken.detail);
        }
        let five = RoomListParameters { limit: Some(5), ..RoomListParameters::default() };
        let endpoint = Endpoint::public_rooms_get(&five)?;
        // The pass moves into the call: the slot is free when it is dropped, at the end of this statement.
        let reply = self.client.open(pass).request(&endpoint).await;
        Ok(reply
            .inspect(|reply| println!("  {}, {} bytes", reply.status, reply.body.len()))
            .map_err(|error| told(NoAnswer::Failed(error))))
    }
}

fn told(no_answer: NoAnswer) -> NoAnswer {
    match &no_answer {
        NoAnswer::Refused(refusal) => println!("  refused: {refusal}"),
        NoAnswer::Failed(error) => println!("  no answer: {error} (phase: {})", error.phase.as_label()),
    }
    no_answer
}
