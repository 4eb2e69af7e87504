//! Remote media in the rehearsal: a page full of images, silent servers beside a healthy one, and the switch.
//!
//! Clients come through a reverse proxy, as browsers do that ask for everything at once: the proxy's address is listed, and
//! whom it speaks for is in X-Forwarded-For.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, Reply, get_for};
use super::peers::{FILE_BYTES, Manners, Peer};
use super::report::{HEALTHY_IMAGES, Media, SilentOrigin, SwitchOff, ms, p99_ms};
use super::{Failure, Homeserver, Local, POOL, Stage, TOKEN};

/// Files on the page; each is asked for whole and as a thumbnail.
const FILES: usize = 30;
/// Times the page is loaded.
const WAVES: usize = 2;
/// Silent servers that come one after another.
const SILENT_ORIGINS: usize = 3;
/// Most requests sent to silent servers, if they are never refused.
const MOST_TO_SILENT: u16 = 600;
/// Requests sent at once while looking for the one that is refused.
const VOLLEY: u16 = 16;
/// How long request threads are looked at while every image is on its way.
const LOOKING_AT_THREADS: Duration = Duration::from_millis(200);
/// The address of the reverse proxy.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 2, 0, 1));
/// The client with the page.
const VIEWER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
/// The client that loads images during the attack.
const BYSTANDER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 8));

impl Stage {
    /// A page of images twice, then silent servers while somebody else goes on loading images.
    pub(crate) async fn media(&self) -> Result<Media, Failure> {
        let mut media = Media { images: 0, clients: 1, ..Media::default() };
        for wave in 0..WAVES {
            let mut page = JoinSet::new();
            for file in 0..FILES {
                for path in [download(&self.images, file), thumbnail(&self.images, file)] {
                    page.spawn(ask_through_the_proxy(self.homeserver.address, VIEWER, path));
                }
            }
            media.images = media.images.saturating_add(page.len());
            if wave == 0 {
                let on_their_way = page.len();
                self.until(|| self.homeserver.media_in_flight() >= on_their_way).await;
                media.pool_threads_held_peak = self.most_threads_held().await;
                self.images.let_files_go();
            }
            while let Some(reply) = page.join_next().await {
                media.count(&reply??);
            }
        }
        media.origin_requests = self.images.files_asked_for();
        media.silent_origin = self.silent_origins().await?;
        Ok(media)
    }

    /// The most request threads that were not waiting for work, over a while in which nothing needs one.
    async fn most_threads_held(&self) -> usize {
        let (looking_since, mut most) = (Instant::now(), 0);
        // Those that handed a request on a moment ago have to be back first.
        self.until(|| self.homeserver.assembled.pool.idle_threads() == POOL).await;
        while looking_since.elapsed() < LOOKING_AT_THREADS {
            most = most.max(POOL.saturating_sub(self.homeserver.assembled.pool.idle_threads()));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        most
    }

    /// Clients of many networks ask a silent server for one file after another until they are refused, then several
    /// silent servers; another client loads images of a server that has answered before.
    async fn silent_origins(&self) -> Result<SilentOrigin, Failure> {
        let mut silent = Vec::new();
        for _ in 0..=SILENT_ORIGINS {
            silent.push(Peer::start(&self.ca, Manners::Silent).await?);
        }
        let mut held = JoinSet::new();
        let mut seen = SilentOrigin::default();
        let mut stranger = 0;
        for peer in &silent {
            let refused_before = self.homeserver.media_refused();
            while self.homeserver.media_refused() == refused_before && stranger < MOST_TO_SILENT {
                for _ in 0..VOLLEY {
                    stranger = stranger.saturating_add(1);
                    let path = format!("/_matrix/client/v1/media/download/{}/never{stranger}", peer.server_name());
                    held.spawn(ask_through_the_proxy(self.homeserver.address, network(stranger), path));
                }
                // Each of the volley is in flight or refused before the next one is sent.
                let sent = held.len();
                self.until(|| {
                    self.homeserver.media_in_flight().saturating_add(self.homeserver.media_refused()) >= sent
                })
                .await;
            }
        }
        let meanwhile = async {
            let mut ok = 0;
            for file in 0..HEALTHY_IMAGES {
                let path = download(&self.images, FILES.saturating_add(file));
                let reply = ask_through_the_proxy(self.homeserver.address, BYSTANDER, path).await?;
                ok += usize::from(is_the_file(&reply));
            }
            Ok::<_, io::Error>(ok)
        };
        let (ok, local) = tokio::join!(meanwhile, self.local_requests(5, Local::WhileMediaIsInFlight));
        seen.healthy_origin_ok = ok?;
        let local = local?;
        seen.local_requests = local.times.len();
        seen.local_failed = local.failed;
        seen.local_ms_p99_attack = p99_ms(local.times);
        while let Some(reply) = held.join_next().await {
            let reply = reply??;
            match reply.status.as_u16() {
                504 => {
                    seen.held = seen.held.saturating_add(1);
                    seen.longest_hold_ms = seen.longest_hold_ms.max(ms(reply.took).round());
                }
                429 => seen.refused_429 = seen.refused_429.saturating_add(1),
                _ => seen.otherwise = seen.otherwise.saturating_add(1),
            }
        }
        self.until(|| self.homeserver.media_in_flight() == 0).await;
        seen.slots_after = self.homeserver.media_in_flight();
        Ok(seen)
    }

    /// Every media route of a server whose switch is off, asked with a token for files of a server that would answer.
    pub(crate) async fn switch_off(&self, homeserver: &Homeserver) -> Result<SwitchOff, Failure> {
        let (questions, connections) = (self.dead_resolver.asked(), self.images.connections());
        let mut seen = SwitchOff::default();
        for prefix in ["/_matrix/client/v1/media", "/_matrix/media/v3", "/_matrix/media/r0", "/_matrix/media/v1"] {
            // One server is found without the DNS, the other only with it.
            for (kind, server) in
                [("download", self.images.server_name()), ("thumbnail", "nobody-answers.example".to_owned())]
            {
                let path = format!("{prefix}/{kind}/{server}/off?width=96&height=96");
                let reply = ask_through_the_proxy(homeserver.address, VIEWER, path).await?;
                seen.routes = seen.routes.saturating_add(1);
                let not_found = reply.status == 404 && reply.body.starts_with(br#"{"errcode":"M_NOT_FOUND""#);
                seen.not_found = seen.not_found.saturating_add(usize::from(not_found));
            }
        }
        seen.dns_queries = self.dead_resolver.asked().saturating_sub(questions);
        seen.connections = self.images.connections().saturating_sub(connections);
        seen.counted = homeserver.refused_by_switch();
        Ok(seen)
    }
}

impl Media {
    fn count(&mut self, reply: &Reply) {
        self.ok = self.ok.saturating_add(usize::from(is_the_file(reply)));
        self.refused_429 = self.refused_429.saturating_add(usize::from(reply.status == 429));
    }
}

/// A whole file or a whole thumbnail, with the type it was given.
fn is_the_file(reply: &Reply) -> bool {
    reply.status == 200 && [FILE_BYTES, FILE_BYTES / 10].contains(&reply.body.len())
}

fn download(peer: &Peer, file: usize) -> String {
    format!("/_matrix/client/v1/media/download/{}/image{file}", peer.server_name())
}

fn thumbnail(peer: &Peer, file: usize) -> String {
    format!("/_matrix/client/v1/media/thumbnail/{}/image{file}?width=64&height=64&method=crop", peer.server_name())
}

/// A client of a network of its own.
fn network(number: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 1))
}

async fn ask_through_the_proxy(server: SocketAddr, client: IpAddr, path: String) -> io::Result<Reply> {
    Client::connect(PROXY, server).await?.ask(get_for(client, &path, TOKEN)?).await
}
