//! The rehearsal: a homeserver, a server that answers, one that does not, and the clients of the homeserver.

use std::error::Error;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::HeaderValue;
use portcullis::local_view::ListedRoom;
use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};
use portcullis::outbound::{
    AddressPolicy, Discovery, Ed25519Signer, FederationClient, HickoryResolver, HttpsTransport, TlsRoots,
};
use portcullis::{Portcullis, RemoteTimeout, ServerName, TrustedProxies};

use super::homeserver::{Homeserver, Rooms, Way, listen};
use super::loopback::{Authority, Manners, OtherServer};
use super::pool::Pool;

const POOL_THREADS: usize = 4;
/// Shorter than the ten seconds there are, as an operator may have it.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client of ours waits longer than any answer takes.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);

/// Everybody there is.
pub(crate) struct World {
    homeserver: Arc<Homeserver>,
    address: SocketAddr,
    answers: OtherServer,
    silent: OtherServer,
    files: std::path::PathBuf,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) what: &'static str,
    pub(crate) status: u16,
    pub(crate) promised: u16,
    pub(crate) body: String,
    took: Duration,
}

impl World {
    pub(crate) fn start(way: Way, address: &str) -> Result<Self, Box<dyn Error>> {
        let authority = Authority::new()?;
        let answers = OtherServer::start(&authority, Manners::Answers)?;
        let silent = OtherServer::start(&authority, Manners::Silent)?;
        let files = std::env::temp_dir().join(format!("portcullis-sync-pool-{}-{way:?}", std::process::id()));

        let mut portcullis = Portcullis::builder(client("us.example".parse()?, &authority)?, POOL_THREADS)
            .remote_timeout(RemoteTimeout::new(REMOTE_TIMEOUT)?)
            .trusted_proxies(TrustedProxies::new(["127.0.0.0/8".parse()?])) // the clients below say who they are
            .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true })
            .media_store(MediaStoreConfig::in_dir(&files));
        if way == Way::OneCall {
            portcullis = portcullis.inline_media();
        }
        let hall = ListedRoom {
            room_id: "!hall:us.example".to_owned(),
            name: Some("The hall".to_owned()),
            canonical_alias: Some("#hall:us.example".to_owned()),
            num_joined_members: 2,
            ..ListedRoom::default()
        };
        let pool = Pool::start(POOL_THREADS, 4 * POOL_THREADS)?;
        let homeserver = Arc::new(Homeserver::new(Rooms(vec![hall]), portcullis.build()?, pool, way));
        let (listener, address) = listen(address)?;
        homeserver.serve(listener);
        Ok(Self { homeserver, address, answers, silent, files })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server that answers.
    pub(crate) fn other_server(&self) -> String {
        self.answers.name()
    }

    /// The whole story, each step with the status that is promised.
    pub(crate) fn rehearse(&self) -> Result<Vec<Seen>, Box<dyn Error>> {
        let (answers, silent) = (self.answers.name(), self.silent.name());
        let rooms = |server: &str| format!("/_matrix/client/v3/publicRooms?server={server}");
        let alias = |name: &str, server: &str| format!("/_matrix/client/v3/directory/room/%23{name}:{server}");
        let local = "/_matrix/client/v3/publicRooms";
        let mut seen = vec![
            self.ask("our own list", 200, 1, local)?,
            self.ask("an alias of ours", 200, 1, &alias("hall", "us.example"))?,
            self.ask("one that we do not have", 404, 1, &alias("attic", "us.example"))?,
            self.ask("the list of another server", 200, 1, &rooms(&answers))?,
            self.ask("an alias of another server", 200, 1, &alias("garden", &answers))?,
            self.ask("a file of another server", 200, 1, &format!("/_matrix/client/v1/media/download/{answers}/leaf"))?,
            self.ask("a name that is none", 400, 1, &rooms("127.1"))?,
        ];

        let waiting: Vec<_> = [1, 2]
            .into_iter()
            .map(|client| self.apart("a server that never answers", 504, client, rooms(&silent)))
            .collect();
        self.until_in_flight(waiting.len())?;
        seen.push(self.ask("meanwhile: a third client, over the cap", 429, 3, &alias("shed", &answers))?);
        seen.push(self.ask("meanwhile: an answer that is remembered", 200, 3, &rooms(&answers))?);
        seen.push(self.ask("meanwhile: our own list", 200, 3, local)?);
        seen.push(self.ask("meanwhile: our versions", 200, 3, "/_matrix/client/versions")?);
        for waits in waiting {
            seen.push(waits.join().map_err(|_| "a client panicked")??);
        }
        seen.push(self.ask("afterwards: another server again", 200, 3, &alias("shed", &answers))?);
        Ok(seen)
    }

    fn ask(&self, what: &'static str, promised: u16, client: u8, target: &str) -> io::Result<Seen> {
        ask(self.address, what, promised, client, target)
    }

    fn apart(&self, what: &'static str, promised: u16, client: u8, target: String) -> JoinHandle<io::Result<Seen>> {
        let address = self.address;
        std::thread::spawn(move || ask(address, what, promised, client, &target))
    }

    /// Waits until so many lookups are in flight.
    fn until_in_flight(&self, lookups: usize) -> Result<(), &'static str> {
        let began = now();
        while self.homeserver.portcullis().status().budgets.directory.in_flight < lookups {
            if began.elapsed() > CLIENT_PATIENCE {
                return Err("the lookups did not go out");
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    }

    /// How many requests asked another server, as the homeserver counted them under its lock.
    pub(crate) fn errands(&self) -> u64 {
        self.homeserver.errands()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.homeserver.end(self.address);
        // A file may be written there to the end; what is left is the system's to tidy up.
        let _left = std::fs::remove_dir_all(&self.files);
    }
}

impl Seen {
    pub(crate) fn is_as_promised(&self) -> bool {
        self.status == self.promised
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:>6} ms  {}  {}", self.took.as_millis(), self.status, self.what)?;
        if !self.is_as_promised() {
            write!(out, "  (promised: {})", self.promised)?;
        }
        let body = self.body.chars().map(|char| if char.is_control() { ' ' } else { char }).take(100);
        write!(out, "\n               {}", body.collect::<String>().trim_end())
    }
}

/// Signed calls to servers on loopback. One that asks the public federation has it from `FederationClient::from_system`.
fn client(own_name: ServerName, authority: &Authority) -> Result<FederationClient, Box<dyn Error>> {
    let signer = Arc::new(Ed25519Signer::generate(own_name.clone())); // yours comes from your key file
    let resolver = Arc::new(HickoryResolver::with_name_servers(&["127.0.0.1:53".parse()?])?); // names here are addresses
    let transport = Arc::new(HttpsTransport::new(TlsRoots::only(authority.pem())?)?);
    let policy = AddressPolicy::default().allow(["127.0.0.1/32".parse()?])?;
    let agent = HeaderValue::from_static("sync-pool-example");
    Ok(FederationClient::new(signer, Discovery::new(own_name, resolver, transport, policy, agent))?)
}

/// One request of the client 192.0.2.`client`, which a proxy on this machine passes on.
fn ask(address: SocketAddr, what: &'static str, promised: u16, client: u8, target: &str) -> io::Result<Seen> {
    let began = now();
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(CLIENT_PATIENCE))?;
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: us.example\r\nAuthorization: Bearer change-me\r\nX-Forwarded-For: 192.0.2.{client}\r\n\r\n"
    );
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let is_chunked = head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked");
    let body = if is_chunked { joined(body).ok_or(io::ErrorKind::UnexpectedEof)? } else { body.to_owned() };
    Ok(Seen { what, status, promised, body, took: began.elapsed() })
}

/// A body whose length was not known when it began. `None`: it is not whole.
fn joined(mut chunks: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (length, rest) = chunks.split_once("\r\n")?;
        let (chunk, rest) = rest.split_at_checked(usize::from_str_radix(length, 16).ok()?)?;
        if chunk.is_empty() {
            return Some(body);
        }
        body.push_str(chunk);
        chunks = rest.strip_prefix("\r\n")?;
    }
}

#[expect(clippy::disallowed_methods, reason = "the time it took is for a reader")]
fn now() -> Instant {
    Instant::now()
}
