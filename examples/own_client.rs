//! A homeserver's own client, held to the addresses that discovery allowed: `Discovery` and `AddressPolicy`, and nothing else
//! of the way out.
//!
//! ```text
//! cargo run --example own_client   # servers on loopback, one of them inside
//! ```
//!
//! What to look at: `YourClient::room_list`. A stranger chose the name, so a stranger chose the addresses: discovery judges
//! them, and the client is told where its host is instead of looking it up again.

#[path = "loopback/mod.rs"]
#[expect(dead_code, reason = "not each of these servers is asked here")]
mod loopback;

use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderValue, StatusCode};
use loopback::{Authority, Manners, OtherServer};
use portcullis::outbound::{
    AddressPolicy, BoxFuture, Discovery, DiscoveryError, DnsError, HttpsTransport, Resolve, SrvRecord, SrvService,
    TlsRoots,
};
use portcullis::{
    Admission, Admitted, ClientKey, ClientOutboundProxyPolicy, DnsName, Expired, OutboundDeadline, OutboundRoute,
    ServerName,
};
use reqwest::redirect::Policy;

/// In flight at most.
const CALLS: usize = 16;
const ROOM_LIST: &str = "/_matrix/federation/v1/publicRooms";

/// The federation client that this homeserver has already.
struct YourClient {
    discovery: Discovery,
    authority: reqwest::Certificate,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Nothing was connected to.
    NotFound(DiscoveryError),
    /// It could not be asked, or did not answer.
    Client(reqwest::Error),
    /// The deadline passed.
    Late,
}

impl YourClient {
    /// As you make it: authorities, user agent, a pool.
    fn builder(&self) -> reqwest::ClientBuilder {
        reqwest::Client::builder().tls_certs_only([self.authority.clone()])
    }

    /// Asks at the first of the allowed addresses that can be connected to, and at no other.
    async fn room_list(&self, server: &ServerName, deadline: OutboundDeadline) -> Result<StatusCode, NoAnswer> {
        let there = self.discovery.destination(server, deadline).await.map_err(NoAnswer::NotFound)?;
        let host = there.tls_name.to_string();
        let mut failed = NoAnswer::NotFound(DiscoveryError::NoAddresses);
        for address in &there.addresses {
            let address = address.socket_addr();
            let client = self
                .builder()
                .resolve(&host, address) // this is where the host is: no name is looked up a second time
                .redirect(Policy::none()) // an answer leads nowhere
                .no_proxy() // a proxy would look the name up itself
                .http1_only() // HTTP/2 would send the URL's host and port in place of `Host`
                .build()
                .map_err(NoAnswer::Client)?;
            // Your signature goes here.
            let request = client.get(format!("https://{host}:{}{ROOM_LIST}", address.port()));
            match request.header(HOST, &there.host_header).send().await {
                Ok(answer) => return Ok(answer.status()), // its body is read here too, and within bounds
                Err(error) if error.is_connect() => failed = NoAnswer::Client(error), // nothing was sent yet
                Err(error) => return Err(NoAnswer::Client(error)),
            }
        }
        Err(failed)
    }
}

/// The slot and the deadline around all of it.
async fn ask(client: &YourClient, pass: Admitted) -> Result<StatusCode, NoAnswer> {
    let (server, deadline) = (pass.destination().clone(), pass.deadline());
    pass.run(async { client.room_list(&server, deadline).await }).await.unwrap_or_else(|Expired| Err(NoAnswer::Late))
}

/// The DNS of this rehearsal: names with their addresses. Yours is `HickoryResolver::from_system()`.
struct Names(HashMap<&'static str, Vec<IpAddr>>);

impl Resolve for Names {
    fn addresses<'a>(
        &'a self,
        name: &'a DnsName,
        _deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
        let found = self.0.get(name.as_str()).cloned().ok_or(DnsError::NoRecords);
        Box::pin(async { found })
    }

    fn service<'a>(
        &'a self,
        _service: SrvService,
        _name: &'a DnsName,
        _deadline: OutboundDeadline,
    ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
        Box::pin(async { Err(DnsError::NoRecords) })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match rehearse().await {
        Ok(seen) => match seen.iter().find(|one| !one.is_as_promised()) {
            None => ExitCode::SUCCESS,
            Some(broken) => {
                eprintln!("{}: not as promised", broken.what);
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What came of asking one server.
#[derive(Debug)]
pub(crate) struct Seen {
    what: &'static str,
    answer: Result<StatusCode, NoAnswer>,
    /// `None`: its address is refused, and nothing is connected to.
    promised: Option<StatusCode>,
}

impl Seen {
    pub(crate) fn is_as_promised(&self) -> bool {
        match (&self.answer, self.promised) {
            (Ok(status), Some(promised)) => *status == promised,
            (Err(NoAnswer::NotFound(DiscoveryError::AddressRefused)), None) => true,
            _ => false,
        }
    }
}

/// A server with a name, one that sends its askers elsewhere, and names that lead inside.
pub(crate) async fn rehearse() -> Result<Vec<Seen>, Box<dyn Error>> {
    let authority = Authority::new()?;
    let answers = OtherServer::start(&authority, Manners::Answers)?;
    let sends_away = OtherServer::start(&authority, Manners::SendsAway)?;
    let here: IpAddr = "127.0.0.1".parse()?;
    let names = Names(HashMap::from([
        ("them.example", vec![here]),
        ("inside.example", vec!["127.0.0.2".parse()?]),
        ("half-inside.example", vec![here, "10.0.0.1".parse()?]),
    ]));
    let own_name: ServerName = "us.example".parse()?;
    let policy = AddressPolicy::default().allow(["127.0.0.1/32".parse()?])?; // for loopback; yours needs none
    let transport = Arc::new(HttpsTransport::new(TlsRoots::only(authority.pem())?)?); // for well-known files
    let agent = HeaderValue::from_static("own-client-example");
    let client = YourClient {
        discovery: Discovery::new(own_name.clone(), Arc::new(names), transport, policy, agent),
        authority: reqwest::Certificate::from_pem(authority.pem())?,
    };
    let admission = Admission::new(own_name, ClientOutboundProxyPolicy::for_calls(CALLS));

    let (port, away) = (answers.port(), sends_away.port());
    let mut seen = Vec::new();
    for (what, server, promised) in [
        ("a name that leads outside", format!("them.example:{port}"), Some(StatusCode::OK)),
        ("one that sends us elsewhere", format!("them.example:{away}"), Some(StatusCode::FOUND)),
        ("a name that leads inside", format!("inside.example:{port}"), None),
        ("one address of two is inside", format!("half-inside.example:{port}"), None),
        ("an inside address itself", format!("127.0.0.2:{port}"), None),
        ("an allowed address itself", answers.name(), Some(StatusCode::OK)),
    ] {
        let pass = admission.admit(&ClientKey::shared(), OutboundRoute::PublicRooms { server: server.parse()? });
        let answer = ask(&client, pass.map_err(|refusal| refusal.to_string())?).await;
        match &answer {
            Ok(status) => println!("{what:<30} {status}"),
            Err(NoAnswer::NotFound(error)) => println!("{what:<30} {error}"),
            Err(NoAnswer::Client(error)) => println!("{what:<30} {error}"),
            Err(NoAnswer::Late) => println!("{what:<30} too late"),
        }
        seen.push(Seen { what, answer, promised });
    }
    Ok(seen)
}
