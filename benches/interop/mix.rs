//! Honest and hostile load, mixed: what a public homeserver sees on a bad day, every day.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::rig::Client;

/// Hostile lookups come in waves, so that honest ones get through between them: so long they last, in each period.
const WAVE: Duration = Duration::from_secs(20);
const PERIOD: Duration = Duration::from_secs(35);
/// So many take turns as one honest client, so that none of them goes over what one may ask for in a minute.
const CROWD: usize = 500;
/// A slow reader takes so many bytes at a time, so often.
const SIP_BYTES: usize = 512;
const SIP_PAUSE: Duration = Duration::from_millis(500);
/// How long a client holds half a request.
const HALF_A_REQUEST: Duration = Duration::from_secs(20);

/// How often each status was answered, by stream; 0 stands for a connection that ended.
pub(crate) type Told = BTreeMap<&'static str, BTreeMap<u16, u64>>;

/// The load. Dropping it ends it.
pub(crate) struct Mix {
    server: SocketAddr,
    began: Instant,
    told: Arc<Mutex<Told>>,
    clients: usize,
    at_work: JoinSet<()>,
}

/// Some clients that do the same.
pub(crate) struct Stream {
    /// As it is called in the report.
    pub(crate) name: &'static str,
    pub(crate) clients: usize,
    /// Between an answer and the next request.
    pub(crate) pause: Duration,
    pub(crate) token: Token,
    pub(crate) waves: bool,
}

/// What the clients of a stream say who they are.
#[derive(Clone)]
pub(crate) enum Token {
    None,
    /// All of them this.
    One(String),
    /// Each request another one that nobody has given out.
    Forged,
}

impl Mix {
    pub(crate) fn begin(server: SocketAddr) -> Self {
        Self { server, began: Instant::now(), told: Arc::default(), clients: 0, at_work: JoinSet::new() }
    }

    /// Lets a stream run. `path` is asked for the next path by the number of the request, which grows over all clients.
    pub(crate) fn add(&mut self, stream: Stream, path: impl Fn(usize) -> String + Clone + Send + 'static) {
        let Stream { name, clients, pause, token, waves } = stream;
        let began = self.began;
        for first in 0..clients {
            self.clients += 1;
            let number = self.clients;
            let (path, token, told, server) = (path.clone(), token.clone(), Arc::clone(&self.told), self.server);
            self.at_work.spawn(async move {
                let mut client = Client::numbered(server, number);
                for request in (first..).step_by(clients) {
                    if waves {
                        calm_is_over(began).await;
                    } else {
                        // Nobody asks for much; many ask.
                        client.become_number(CROWD * number + request % CROWD);
                    }
                    client = match &token {
                        Token::None => client,
                        Token::One(token) => client.with_token(token),
                        Token::Forged => client.with_token(&format!("syt_forged_{request}")),
                    };
                    let status = client
                        .drain(&path(request))
                        .await
                        .map_or(0, |answer| if answer.whole { answer.status } else { 0 });
                    *told.lock().entry(name).or_default().entry(status).or_default() += 1;
                    sleep(pause).await;
                }
            });
        }
    }

    /// Clients that ask for a large file and take it by sips, until they are cut off.
    pub(crate) fn add_slow_readers(&mut self, count: usize, path: &str, token: &str) {
        for _ in 0..count {
            self.clients += 1;
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 10.9.0.{}\r\nAuthorization: Bearer {token}\r\n\r\n",
                self.clients % 256
            );
            let (server, told) = (self.server, Arc::clone(&self.told));
            self.at_work.spawn(async move {
                loop {
                    let (sips, _cut) = sip(server, &request).await;
                    let status = u16::from(sips > 0) * 200;
                    *told.lock().entry("slow readers, until cut off").or_default().entry(status).or_default() += 1;
                    sleep(SIP_PAUSE).await;
                }
            });
        }
    }

    /// Clients that begin a request and let it lie.
    pub(crate) fn add_half_requests(&mut self, count: usize) {
        for _ in 0..count {
            let (server, told) = (self.server, Arc::clone(&self.told));
            self.at_work.spawn(async move {
                loop {
                    if let Ok(mut stream) = TcpStream::connect(server).await {
                        // Whether it is still wanted is for the server to say.
                        let _ended = stream.write_all(b"GET /_matrix/client/v3/publicRooms HTTP/1.1\r\nHo").await;
                        sleep(HALF_A_REQUEST).await;
                    }
                    *told.lock().entry("half a request").or_default().entry(0).or_default() += 1;
                }
            });
        }
    }

    pub(crate) fn told(&self) -> Told {
        self.told.lock().clone()
    }

    /// # Panics
    /// If a part of the load has broken down.
    pub(crate) fn assert_runs(&mut self) {
        if let Some(ended) = self.at_work.try_join_next() {
            ended.unwrap();
        }
    }
}

/// Waits until a wave begins, unless one is on.
async fn calm_is_over(began: Instant) {
    let millis = began.elapsed().as_millis() % PERIOD.as_millis();
    let into = Duration::from_millis(millis.try_into().unwrap());
    if into >= WAVE {
        sleep(PERIOD.saturating_sub(into)).await;
    }
}

/// How many sips were to be had, and how it ended.
async fn sip(server: SocketAddr, request: &str) -> (usize, std::io::Result<()>) {
    let mut sips = 0;
    let ended = async {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        socket.bind(SocketAddr::from((crate::rig::PROXY, 0)))?;
        let mut stream = socket.connect(server).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut sip = [0; SIP_BYTES];
        while stream.read(&mut sip).await? > 0 {
            sips += 1;
            sleep(SIP_PAUSE).await;
        }
        Ok(())
    };
    let ended = ended.await;
    (sips, ended)
}

/// One line of what a stream was told.
pub(crate) fn summed(told: &BTreeMap<u16, u64>) -> String {
    let word = |status: &u16| if *status == 0 { "cut off".to_owned() } else { status.to_string() };
    told.iter().map(|(status, times)| format!("{}: {times}", word(status))).collect::<Vec<_>>().join(", ")
}
