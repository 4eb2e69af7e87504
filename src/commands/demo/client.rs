//! A client of the rehearsal: asks from an address of its own choosing on loopback, as strangers do.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;
use tokio::time::Instant;

/// One kept-alive connection from one address.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
}

/// What came back, and how long it took.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) took: Duration,
}

impl Client {
    /// Connects to `server` from `address`.
    pub(crate) async fn connect(address: IpAddr, server: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(address, 0))?;
        let connection = socket.connect(server).await?;
        let (sender, driver) = handshake(TokioIo::new(connection)).await.map_err(io::Error::other)?;
        // Ends when the sender is dropped or the server hangs up.
        tokio::spawn(driver);
        Ok(Self { sender })
    }

    /// Sends one request and reads the whole answer.
    pub(crate) async fn ask(&mut self, request: Request<Full<Bytes>>) -> io::Result<Reply> {
        let asked_at = Instant::now();
        self.sender.ready().await.map_err(io::Error::other)?;
        let response = self.sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(Reply { status, body, took: asked_at.elapsed() })
    }
}

/// A GET without a token.
pub(crate) fn get(path: &str) -> io::Result<Request<Full<Bytes>>> {
    Request::get(path).header("host", "rehearsal").body(Full::default()).map_err(io::Error::other)
}

/// A GET with a token, passed on by a reverse proxy for `client`.
pub(crate) fn get_for(client: IpAddr, path: &str, token: &str) -> io::Result<Request<Full<Bytes>>> {
    Request::get(path)
        .header("host", "rehearsal")
        .header("authorization", format!("Bearer {token}"))
        .header("x-forwarded-for", client.to_string())
        .body(Full::default())
        .map_err(io::Error::other)
}

/// A POST of a JSON body with a token.
pub(crate) fn post(path: &str, token: &str, body: &'static str) -> io::Result<Request<Full<Bytes>>> {
    Request::post(path)
        .header("host", "rehearsal")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Full::from(body))
        .map_err(io::Error::other)
}
