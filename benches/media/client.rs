//! The two ways to a file: through `serve`, and from the origin itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::origin::{BEFORE, Origin};
use super::serve::{PROXY, TOKEN};

/// How long a file took, from before the connection was made.
pub(crate) struct Download {
    pub(crate) first_byte: Duration,
    pub(crate) whole: Duration,
    pub(crate) bytes: usize,
}

/// Asks `serve` for a path, as a client behind its reverse proxy.
pub(crate) async fn through_serve(serve: SocketAddr, path: &str) -> Download {
    let began = Instant::now();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(PROXY), 0)).unwrap();
    let stream = socket.connect(serve).await.unwrap();
    let request = Request::get(path)
        .header("host", "benchmark")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("x-forwarded-for", Ipv4Addr::new(198, 51, 100, 7).to_string());
    read(stream, request.body(Empty::new()).unwrap(), began, 0).await
}

/// Asks the origin, as `serve` would, but for the signature: this origin looks at none.
pub(crate) async fn directly(origin: &Origin, media_id: &str) -> Download {
    let mut roots = RootCertStore::empty();
    roots.add(origin.ca.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let began = Instant::now();
    let stream = TcpStream::connect(origin.address).await.unwrap();
    let name = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let path = format!("/_matrix/federation/v1/media/download/{media_id}");
    read(stream, Request::get(path).header("host", "origin").body(Empty::new()).unwrap(), began, BEFORE.len()).await
}

/// Reads an answer whose file begins after `envelope` bytes.
async fn read<S>(stream: S, request: Request<Empty<Bytes>>, began: Instant, envelope: usize) -> Download
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, driver) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200, "no file came");
    let mut body = response.into_body();
    let (mut bytes, mut first_byte) = (0, None);
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            bytes += data.len();
            if bytes > envelope {
                first_byte.get_or_insert_with(|| began.elapsed());
            }
        }
    }
    Download { first_byte: first_byte.unwrap_or_else(|| began.elapsed()), whole: began.elapsed(), bytes }
}
