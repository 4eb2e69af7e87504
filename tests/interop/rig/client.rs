//! A client of a homeserver, coming through a reverse proxy that says which address it has.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::time::Instant;

/// The reverse proxy all clients come through.
pub(crate) const PROXY: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 1);

/// Clients without a number have addresses from here on.
const UNNUMBERED: usize = 1 << 20;

/// Keeps its connection for the next request, as browsers do.
pub(crate) struct Client {
    server: SocketAddr,
    /// What the proxy says its address is.
    address: Ipv4Addr,
    token: Option<String>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// From before the request was sent, and before the connection was made where one was needed.
    pub(crate) took: Duration,
}

/// An answer that was read and thrown away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drained {
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    /// It ended as it should.
    pub(crate) whole: bool,
    pub(crate) took: Duration,
}

impl Client {
    /// Without a token, at an address that nobody has had: what one test asks for is not counted against the next.
    pub(crate) fn of(server: SocketAddr) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(UNNUMBERED);
        Self::numbered(server, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The `number`th client: all have addresses of their own.
    pub(crate) fn numbered(server: SocketAddr, number: usize) -> Self {
        let mut client = Self { server, address: Ipv4Addr::UNSPECIFIED, token: None, connection: None };
        client.become_number(number);
        client
    }

    /// The next requests are those of the `number`th client, on the same connection: a reverse proxy does that too.
    pub(crate) fn become_number(&mut self, number: usize) {
        let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
        self.address = Ipv4Addr::from(first + u32::try_from(number).unwrap());
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.ask(Method::GET, path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, content: &Value) -> Answer {
        self.ask(Method::POST, path, &content.to_string()).await
    }

    /// # Panics
    /// If no whole answer comes.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, content: &str) -> Answer {
        self.try_ask(method, path, content).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn try_ask(&mut self, method: Method, path: &str, content: &str) -> Result<Answer, hyper::Error> {
        let began = Instant::now();
        let response = self.send(method, path, content).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body, took: began.elapsed() })
    }

    /// Reads the answer without keeping it.
    pub(crate) async fn drain(&mut self, path: &str) -> Result<Drained, hyper::Error> {
        let began = Instant::now();
        let response = self.send(Method::GET, path, "").await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let (mut bytes, mut whole) = (0, true);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                whole = false;
                break;
            };
            bytes += frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap());
        }
        Ok(Drained { status, bytes, whole, took: began.elapsed() })
    }

    /// The answer's head; the body is still to come.
    ///
    /// *Errors:* the connection ended, or there is none to be had.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content: &str,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("x-forwarded-for", self.address.to_string());
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !content.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::from(content.to_owned())).unwrap();
        if let Some(mut open) = self.connection.take() {
            match open.send_request(request.clone()).await {
                Ok(answer) => {
                    self.connection = Some(open);
                    return Ok(answer);
                }
                // The server had closed it: nothing was sent.
                Err(error) if error.is_canceled() || error.is_closed() => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = self.connect().await?;
        let answer = connection.send_request(request).await?;
        self.connection = Some(connection);
        Ok(answer)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, hyper::Error> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::V4(PROXY), 0)).unwrap();
        let stream = socket.connect(self.server).await.unwrap_or_else(|error| panic!("{}: {error}", self.server));
        stream.set_nodelay(true).unwrap();
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

impl Answer {
    /// # Panics
    /// If it is not JSON that a page of any origin may read.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json", "{self:?}");
        assert_eq!(self.headers["access-control-allow-origin"], "*", "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the errcode, which is empty where there is none.
    pub(crate) fn verdict(&self) -> (u16, String) {
        (self.status, self.json()["errcode"].as_str().unwrap_or_default().to_owned())
    }
}
