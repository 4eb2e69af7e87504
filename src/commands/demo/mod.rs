//! `portcullis demo`: an attack on a server's request threads, rehearsed on real loopback sockets.
//!
//! One process holds the homeserver, its attackers and the remotes they send it to. Nothing is simulated: the remotes
//! speak TLS with a private CA, the only one trusted here, each attacker connects from a loopback address of its own, and the deadline is shortened
//! the way an operator would shorten it, by `remote_timeout`.

mod client;
mod homeserver;
mod media;
mod peers;
mod report;

use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use super::{DONE, FAILED, Trouble, say, status, tell};

use client::{Client, get, post};
use homeserver::{Homeserver, RemoteMedia};
use peers::{DeadResolver, Manners, Peer, PrivateCa};
use report::{Attack, Healthy, OneAddress, Report, ms, p99_ms};

/// The record's pool.
const POOL: usize = 8;
/// Strangers per attack, each with an address of its own.
const STRANGERS: u8 = 20;
/// Shortened from the record's 10 s, so that the show takes less than half a minute.
const DEADLINE: Duration = Duration::from_millis(2500);
/// Local requests measured before each attack.
const IDLE_REQUESTS: usize = 200;
/// Between two local requests of one client.
const LOCAL_PACE: Duration = Duration::from_millis(2);
/// A client keeps one connection for this many requests.
const REQUESTS_PER_CONNECTION: usize = 100;
/// Longest wait for something that takes no time on a healthy machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a run that could not begin ends with.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Sockets open at once, with room to spare: both ends of [`STRANGERS`] connections and of the calls they cause.
const DESCRIPTORS: usize = 900;

const TOKEN: &str = "rehearsal-token";
const LOCAL_PATHS: [&str; 2] = ["/_matrix/client/versions", "/_matrix/client/v3/publicRooms"];

/// Runs the rehearsal and prints what it saw. Exit status 1 when a promise was broken.
pub(crate) fn run(json: bool) -> ExitCode {
    status(rehearse_and_report(json))
}

fn rehearse_and_report(json: bool) -> Result<u8, Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(rehearse());
    let (report, broken) = match outcome {
        Ok(seen) => seen,
        Err(fault) => {
            tell(&format!("the rehearsal could not be held: {fault}"));
            return Ok(FAILED);
        }
    };
    if json {
        say(&serde_json::to_string_pretty(&report)?);
        for promise in &broken {
            tell(&format!("broken promise: {promise}"));
        }
    } else {
        say(report.render(&broken).trim_end());
    }
    Ok(if broken.is_empty() { DONE } else { FAILED })
}

/// A homeserver with its remotes, ready to be attacked.
struct Stage {
    homeserver: Homeserver,
    ca: PrivateCa,
    healthy: Peer,
    images: Peer,
    silent: Peer,
    dripping: Peer,
    dead_resolver: DeadResolver,
}

async fn rehearse() -> Result<(Report, Vec<String>), Failure> {
    let stage = Stage::set().await?;
    announce("healthy peer: a room list twice, an alias");
    let healthy_peer = stage.ask_the_healthy_peer().await?;
    announce("silent peer: 20 lookups from 20 addresses");
    let silent_peer = stage.attack(1, &stage.silent.server_name(), Some(&stage.silent)).await?;
    announce("dripping peer: 20 lookups from 20 addresses");
    let dripping_peer = stage.attack(2, &stage.dripping.server_name(), Some(&stage.dripping)).await?;
    announce("dead resolver: 20 lookups from 20 addresses");
    let dead_resolver = stage.attack(3, "nobody-answers.example", None).await?;
    announce("one address: two lookups at once");
    let one_address = stage.two_from_one_address().await?;

    announce("media: a page of images twice, then silent origins");
    let media = stage.media().await?;
    announce("media switched off: every route");
    let switched_off = Homeserver::start(&stage.ca, &stage.dead_resolver, RemoteMedia::Off)?;
    let switch_off = stage.switch_off(&switched_off).await?;
    switched_off.stop().await;

    let policy = stage.homeserver.assembled.runtime.client_outbound_proxy_policy();
    let mut report = Report {
        pool: POOL,
        global_cap: policy.global_cap(),
        per_client_cap: policy.per_client_cap(),
        deadline_ms: u64::try_from(DEADLINE.as_millis())?,
        silent_peer,
        dripping_peer,
        dead_resolver,
        healthy_peer,
        one_address,
        media,
        switch_off,
        slots_after: stage.slots_held(),
        threads_after: stage.ready_threads().await,
        kept: false,
    };
    let broken = report.broken_promises(policy.worker_margin());
    report.kept = broken.is_empty();
    stage.homeserver.stop().await;
    Ok((report, broken))
}

impl Stage {
    async fn set() -> Result<Self, Failure> {
        enough_descriptors()?;
        let ca = PrivateCa::new()?;
        let dead_resolver = DeadResolver::start().await?;
        Ok(Self {
            homeserver: Homeserver::start(&ca, &dead_resolver, RemoteMedia::On)?,
            healthy: Peer::start(&ca, Manners::Healthy).await?,
            images: Peer::start(&ca, Manners::HoldingFilesBack).await?,
            silent: Peer::start(&ca, Manners::Silent).await?,
            dripping: Peer::start(&ca, Manners::Dripping).await?,
            dead_resolver,
            ca,
        })
    }

    fn slots_held(&self) -> usize {
        self.homeserver.assembled.runtime.client_outbound_budget().in_flight()
    }

    async fn ask_the_healthy_peer(&self) -> Result<Healthy, Failure> {
        let peer = self.healthy.server_name();
        let rooms_path = format!("/_matrix/client/v3/publicRooms?server={peer}");
        let mut client = Client::connect(stranger(0, 1), self.homeserver.address).await?;
        let listed = client.ask(get(&rooms_path)?).await?;
        let posted = client.ask(post(&rooms_path, TOKEN, r#"{"filter":{"generic_search_term":"hall"}}"#)?).await?;
        let alias = client.ask(get(&format!("/_matrix/client/v3/directory/room/%23hall:{peer}"))?).await?;
        let rooms = serde_json::from_slice::<serde_json::Value>(&listed.body)
            .ok()
            .and_then(|list| list.get("chunk")?.as_array().map(Vec::len))
            .unwrap_or(0);
        Ok(Healthy {
            public_rooms_get: listed.status.as_u16(),
            public_rooms_post: posted.status.as_u16(),
            alias: alias.status.as_u16(),
            rooms,
        })
    }

    /// Twenty strangers ask for pages of `server`'s room list at once, each for another page so that no lookup is
    /// shared; while the slots are held, a local client goes about its business.
    async fn attack(&self, phase: u8, server: &str, peer: Option<&Peer>) -> Result<Attack, Failure> {
        let idle = self.local_requests(phase, Local::Count(IDLE_REQUESTS)).await?;
        let strangers: Vec<_> = (1..=STRANGERS)
            .map(|n| {
                let path = format!("/_matrix/client/v3/publicRooms?server={server}&limit={n}");
                let address = self.homeserver.address;
                tokio::spawn(async move { Client::connect(stranger(phase, n), address).await?.ask(get(&path)?).await })
            })
            .collect();
        self.until(|| self.slots_held() >= self.cap()).await;
        let during = self.local_requests(phase, Local::WhileSlotsAreHeld).await?;

        let mut attack = Attack { lookups: strangers.len(), ..Attack::default() };
        let (mut held, mut refused) = (Vec::new(), Vec::new());
        for stranger in strangers {
            let reply = stranger.await??;
            match reply.status.as_u16() {
                504 => held.push(reply.took),
                429 => refused.push(reply.took),
                _ => {}
            }
        }
        attack.timed_out_504 = held.len();
        attack.refused_429 = refused.len();
        attack.longest_hold_ms = held.into_iter().max().map_or(0.0, ms).round();
        attack.refusal_ms_p99 = p99_ms(refused);
        attack.peer_connections_peak = peer.map_or(0, Peer::peak);
        attack.local_requests = during.times.len().saturating_add(during.failed);
        attack.local_failed = idle.failed.saturating_add(during.failed);
        attack.local_ms_p99_idle = p99_ms(idle.times);
        attack.local_ms_p99_attack = p99_ms(during.times);
        if let Some(peer) = peer {
            self.until(|| peer.open() == 0).await;
        }
        Ok(attack)
    }

    async fn two_from_one_address(&self) -> Result<OneAddress, Failure> {
        let ask = async |page: u8| {
            let path = format!("/_matrix/client/v3/publicRooms?server={}&limit={page}", self.silent.server_name());
            Client::connect(stranger(4, 1), self.homeserver.address).await?.ask(get(&path)?).await
        };
        let (one, other) = tokio::join!(ask(101), ask(102));
        let statuses = [one?.status.as_u16(), other?.status.as_u16()];
        let count = |status| statuses.iter().filter(|seen| **seen == status).count();
        Ok(OneAddress { parallel: statuses.len(), admitted: count(504), refused_429: count(429) })
    }

    /// One client of this server's own, asking for what needs nobody else.
    async fn local_requests(&self, phase: u8, how_many: Local) -> Result<LocalResult, Failure> {
        let mut result = LocalResult::default();
        let mut client = None;
        for n in 0.. {
            match how_many {
                Local::Count(wanted) if n >= wanted => break,
                Local::WhileSlotsAreHeld if self.slots_held() < self.cap() => break,
                Local::WhileMediaIsInFlight if self.homeserver.media_in_flight() == 0 => break,
                _ => {}
            }
            let mut connected = match client.take() {
                Some(connected) if n % REQUESTS_PER_CONNECTION != 0 => connected,
                _ => Client::connect(stranger(phase, 250), self.homeserver.address).await?,
            };
            let path = LOCAL_PATHS.get(n % LOCAL_PATHS.len()).copied().unwrap_or_default();
            match connected.ask(get(path)?).await {
                Ok(reply) if reply.status == 200 => {
                    result.times.push(reply.took);
                    client = Some(connected);
                }
                Ok(_) | Err(_) => result.failed = result.failed.saturating_add(1),
            }
            tokio::time::sleep(LOCAL_PACE).await;
        }
        Ok(result)
    }

    fn cap(&self) -> usize {
        self.homeserver.assembled.runtime.client_outbound_proxy_policy().global_cap()
    }

    /// Waits for what comes within moments on any machine; the figures say if it did not.
    async fn until(&self, happened: impl Fn() -> bool) {
        let patience_ends = Instant::now() + PATIENCE;
        while !happened() && Instant::now() < patience_ends {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Request threads that wait for work, once the last one had time to come back.
    async fn ready_threads(&self) -> usize {
        self.until(|| self.homeserver.assembled.pool.idle_threads() == POOL).await;
        self.homeserver.assembled.pool.idle_threads()
    }
}

#[derive(Clone, Copy)]
enum Local {
    Count(usize),
    WhileSlotsAreHeld,
    WhileMediaIsInFlight,
}

#[derive(Default)]
struct LocalResult {
    times: Vec<Duration>,
    failed: usize,
}

/// A loopback address of its own for each stranger of each phase.
fn stranger(phase: u8, n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 1, phase, n))
}

/// Both ends of every connection are in this process: without descriptors for them promises would seem broken.
fn enough_descriptors() -> Result<(), Failure> {
    let probe = || std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let probes: io::Result<Vec<_>> = (0..DESCRIPTORS).map(|_| probe()).collect();
    probes.map(drop).map_err(|error| format!("{DESCRIPTORS} open files are needed (see ulimit -n): {error}").into())
}

/// Progress for a person; a pipe stays silent.
fn announce(step: &str) {
    if io::stderr().is_terminal() {
        tell(&format!("{step} …"));
    }
}
