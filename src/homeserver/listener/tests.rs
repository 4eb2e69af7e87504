//! Streamed answers through the HTTP library, over a pipe and under paused time: what they hold, and when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;
use crate::proxy::response_body::BodyCut;

const FILE: usize = 50 << 20;
const PIECE: usize = 64 * 1024;
const SECOND: Duration = Duration::from_secs(1);
const GET: &str = "GET /file HTTP/1.1\r\nHost: us.example\r\n\r\n";

/// Answers everything with a file, in pieces that each take `pause` to come.
#[derive(Default)]
struct Files {
    length: Option<u64>,
    pause: Duration,
    piece: usize,
    pieces: usize,
    held: Arc<AtomicUsize>,
    held_at_most: Arc<AtomicUsize>,
}

struct File {
    of: Arc<Files>,
    left: usize,
    next: std::pin::Pin<Box<tokio::time::Sleep>>,
}

/// Counts what is not dropped.
struct Piece {
    bytes: Vec<u8>,
    held: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len(), Ordering::SeqCst);
    }
}

impl Body for File {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if self.of.pause > Duration::ZERO {
            std::task::ready!(self.next.as_mut().poll(context));
            let next = Instant::now() + self.of.pause;
            self.next.as_mut().reset(next);
        }
        self.left -= 1;
        let held = self.of.held.fetch_add(self.of.piece, Ordering::SeqCst) + self.of.piece;
        self.of.held_at_most.fetch_max(held, Ordering::SeqCst);
        let piece = Piece { bytes: vec![b'x'; self.of.piece], held: Arc::clone(&self.of.held) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn size_hint(&self) -> SizeHint {
        self.of.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

struct Serves(Arc<Files>);

impl Handler for Serves {
    fn handle(&self, _: IpAddr, _: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let (of, left) = (Arc::clone(&self.0), self.0.pieces);
        Box::pin(async move {
            Response::new(ResponseBody::streamed(File { of, left, next: Box::pin(sleep(Duration::ZERO)) }))
        })
    }
}

/// The client's end, after it said `asks`; and the connection's end.
async fn asked(files: Files, asks: &str) -> (DuplexStream, tokio::task::JoinHandle<Instant>) {
    let (mut client, ours) = duplex(PIECE);
    let serve = serve_stream(ours, [192, 0, 2, 1].into(), Arc::new(Serves(Arc::new(files))), ListenerLimits::default());
    let served = tokio::spawn(async move {
        serve.await;
        Instant::now()
    });
    client.write_all(asks.as_bytes()).await.unwrap();
    (client, served)
}

fn file(length: Option<u64>) -> Files {
    Files { length, piece: PIECE, pieces: FILE / PIECE, ..Files::default() }
}

/// How many bytes came, one at least.
async fn some(client: &mut DuplexStream, buffer: &mut [u8]) -> usize {
    let read = client.read(buffer).await.unwrap();
    assert_ne!(read, 0, "ended early");
    read
}

/// The head, and what of the body came with it.
async fn head(client: &mut DuplexStream) -> (String, Vec<u8>) {
    let mut heard = Vec::new();
    loop {
        if let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = heard.split_off(end + 4);
            return (String::from_utf8(heard).unwrap().to_lowercase(), body);
        }
        assert_ne!(client.read_buf(&mut heard).await.unwrap(), 0, "no head");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_streamed_answer_a_piece_or_two_are_held() {
    for length in [None, Some(u64::try_from(FILE).unwrap())] {
        let files = file(length);
        let (held, held_at_most) = (Arc::clone(&files.held), Arc::clone(&files.held_at_most));
        let (mut client, served) = asked(files, GET).await;
        sleep(5 * SECOND).await;
        assert!(held.load(Ordering::SeqCst) > 0, "it waits");
        let mut total = 0;
        let mut buffer = vec![0; 10_000];
        while total < FILE {
            total += some(&mut client, &mut buffer).await;
        }
        // What is left of one, and the next.
        assert!(held_at_most.load(Ordering::SeqCst) <= 2 * PIECE, "{held_at_most:?}");
        drop(client);
        served.await.unwrap();
        assert_eq!(held.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_a_byte_per_second_ends_when_what_it_took_is_used_up() {
    let start = Instant::now();
    let (mut client, served) = asked(file(None), GET).await;
    let (mut read, mut byte) = (0, [0]);
    while !served.is_finished() {
        read += client.read(&mut byte).await.unwrap();
        sleep(SECOND).await;
    }
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    let taken = u32::try_from(read + rest.len()).unwrap();
    let patience = 10 * SECOND + SECOND * taken / (16 * 1024);
    assert_eq!((served.await.unwrap() - start).as_millis(), patience.as_millis() + 1, "{taken} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_20_kib_per_second_gets_the_whole_file_and_asks_again() {
    let length = u64::try_from(FILE).unwrap();
    let (mut client, _served) = asked(file(Some(length)), GET).await;
    let start = Instant::now();
    for _ in 0..2 {
        let (head, body) = head(&mut client).await;
        assert!(head.contains(&format!("{CONTENT_LENGTH}: {length}")), "{head}");
        let (mut total, mut buffer) = (body.len(), vec![0; 20 * 1024]);
        while total < FILE {
            sleep(SECOND).await;
            total += some(&mut client, &mut buffer).await;
        }
        assert_eq!(total, FILE);
        client.write_all(GET.as_bytes()).await.unwrap();
    }
    assert!(start.elapsed() > 5000 * SECOND, "that took its time");
}

#[tokio::test(start_paused = true)]
async fn a_slow_source_is_not_the_clients_fault() {
    let files = Files { pause: 100 * SECOND, piece: 10, pieces: 20, ..Files::default() };
    let (mut client, served) = asked(files, GET).await;
    let start = Instant::now();
    let (_, mut body) = head(&mut client).await;
    while !body.ends_with(b"0\r\n\r\n") {
        assert_ne!(client.read_buf(&mut body).await.unwrap(), 0, "ended early");
    }
    assert_eq!(start.elapsed(), 1900 * SECOND);
    assert!(!served.is_finished());
}

#[tokio::test(start_paused = true)]
async fn answers_in_memory_keep_their_own_clock_on_a_connection_that_streamed() {
    struct Large;

    impl Handler for Large {
        fn handle(&self, _: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
            let bytes = Bytes::from(vec![b'x'; FILE]);
            let body = if request.uri().path() == "/file" {
                let of = Arc::new(Files { length: Some(4), piece: 4, pieces: 1, ..Files::default() });
                ResponseBody::streamed(File { of, left: 1, next: Box::pin(sleep(Duration::ZERO)) })
            } else {
                ResponseBody::from(bytes)
            };
            Box::pin(async { Response::new(body) })
        }
    }

    let (mut client, ours) = duplex(PIECE);
    let serve = serve_stream(ours, [192, 0, 2, 1].into(), Arc::new(Large), ListenerLimits::default());
    let served = tokio::spawn(async move {
        serve.await;
        Instant::now()
    });
    client.write_all(GET.as_bytes()).await.unwrap();
    let (_, mut body) = head(&mut client).await;
    while body != b"xxxx" {
        assert_ne!(client.read_buf(&mut body).await.unwrap(), 0, "ended early");
    }
    client.write_all(b"GET /large HTTP/1.1\r\nHost: us.example\r\n\r\n").await.unwrap();
    let start = Instant::now();
    // Twice the least rate of a streamed answer, and too slow for the minute of this one.
    let mut buffer = vec![0; 32 * 1024];
    while !served.is_finished() {
        assert!(client.read(&mut buffer).await.is_ok());
        sleep(SECOND).await;
    }
    assert_eq!(served.await.unwrap() - start, 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn heads_alone_are_answers_in_memory() {
    let length = u64::try_from(FILE).unwrap();
    let start = Instant::now();
    // As many as one connection may ask; their heads come to more than lies on the way.
    let asks = "HEAD /file HTTP/1.1\r\nHost: us.example\r\n\r\n".repeat(1000);
    let (client, served) = asked(file(Some(length)), &asks).await;
    assert_eq!(served.await.unwrap() - start, 60 * SECOND);
    drop(client);
}
