//! Answers that come piece by piece: they end whole or with a reset, take no room, and have to be read.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use portcullis::BodyCut;
use tokio::sync::mpsc;

use super::*;

const PIECE: usize = 64 * 1024;

/// Pieces as the test sends them.
struct Sent {
    pieces: mpsc::UnboundedReceiver<Result<Bytes, BodyCut>>,
    length: Option<u64>,
}

impl Body for Sent {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// So many bytes, as fast as they are taken.
struct Generated {
    left: usize,
    made: Arc<AtomicUsize>,
}

impl Body for Generated {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        let piece = self.left.min(PIECE);
        self.left -= piece;
        self.made.fetch_add(piece, Ordering::SeqCst);
        Poll::Ready((piece > 0).then(|| Ok(Frame::data(Bytes::from(vec![b'x'; piece])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.left).unwrap())
    }
}

/// Streams a large file under `/large`, one without end under `/endless`, what a test has given under any other path, and answers `/` at once.
#[derive(Default)]
struct Streams {
    given: Mutex<HashMap<String, ResponseBody>>,
    made: Arc<AtomicUsize>,
}

impl Handler for Streams {
    fn handle(&self, _peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let body = match request.uri().path() {
            "/" => ResponseBody::from(Bytes::from_static(b"here")),
            "/large" => ResponseBody::streamed(Generated { left: LARGE, made: Arc::clone(&self.made) }),
            "/endless" => ResponseBody::streamed(Generated { left: usize::MAX, made: Arc::default() }),
            path => self.given.lock().remove(path).unwrap(),
        };
        Box::pin(async { Response::new(body) })
    }
}

fn streams(limits: ListenerLimits) -> (Rig, Arc<Streams>) {
    let handler = Arc::new(Streams::default());
    let pool = Arc::new(RequestPool::start(1, 1).unwrap());
    (rig_around(Arc::<Streams>::clone(&handler), pool, limits), handler)
}

impl Streams {
    /// The next answer under `path` comes from the sender.
    fn give(&self, path: &str, length: Option<usize>) -> mpsc::UnboundedSender<Result<Bytes, BodyCut>> {
        let (send, pieces) = mpsc::unbounded_channel();
        let length = length.map(|length| u64::try_from(length).unwrap());
        self.given.lock().insert(path.to_owned(), ResponseBody::streamed(Sent { pieces, length }));
        send
    }

    /// Until nobody takes any more of the large files.
    async fn until_nothing_moves(&self) {
        let standstill = async {
            let mut made = 0;
            while made == 0 || made < self.made.load(Ordering::SeqCst) {
                made = self.made.load(Ordering::SeqCst);
                sleep(Duration::from_millis(300)).await;
            }
        };
        timeout(LONG, standstill).await.expect("it never came to a standstill");
    }
}

fn get(path: &str, version: &str) -> String {
    format!("GET {path} HTTP/{version}\r\nHost: us.example\r\n\r\n")
}

async fn until_heard(stream: &mut TcpStream, what: &str) -> String {
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains(what) {
        let read = timeout(LONG, stream.read_buf(&mut heard)).await.expect("nothing came").unwrap();
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&heard));
    }
    String::from_utf8(heard).unwrap()
}

/// Reads the head and `length` bytes after it.
async fn whole_answer(stream: &mut TcpStream, length: usize) -> String {
    let mut heard = Vec::new();
    loop {
        if let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n")
            && heard.len() >= end + 4 + length
        {
            assert_eq!(heard.len(), end + 4 + length);
            heard.truncate(end + 4);
            return String::from_utf8(heard).unwrap().to_lowercase();
        }
        let read = timeout(LONG, stream.read_buf(&mut heard)).await.expect("nothing came").unwrap();
        assert_ne!(read, 0, "closed after {} bytes", heard.len());
    }
}

/// What still comes, and that it ends with a reset.
async fn is_reset(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("it should have ended");
    assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset), "after {} bytes", rest.len());
    rest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_body_never_ends_cleanly() {
    let (rig, handler) = streams(patient());
    for (version, length) in [("1.1", None), ("1.1", Some(100)), ("1.0", None), ("1.0", Some(100))] {
        let pieces = handler.give("/cut", length);
        let mut stream = connect(&rig, "127.0.0.1").await;
        stream.write_all(get("/cut", version).as_bytes()).await.unwrap();
        pieces.send(Ok(Bytes::from_static(b"half a file"))).unwrap();
        until_heard(&mut stream, "half a file").await;
        pieces.send(Err(BodyCut)).unwrap();
        let rest = is_reset(&mut stream).await;
        assert!(!String::from_utf8(rest).unwrap().contains("0\r\n\r\n"), "HTTP/{version}, {length:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_body_ends_as_its_version_has_it_and_one_of_known_length_leaves_the_connection_open() {
    let (rig, handler) = streams(patient());
    let give = |length| {
        let pieces = handler.give("/file", length);
        pieces.send(Ok(Bytes::from_static(b"all "))).unwrap();
        pieces.send(Ok(Bytes::from_static(b"of it"))).unwrap();
    };

    give(Some(9));
    let mut stream = connect(&rig, "127.0.0.1").await;
    stream.write_all(get("/file", "1.1").as_bytes()).await.unwrap();
    let head = whole_answer(&mut stream, 9).await;
    assert!(head.contains("\r\ncontent-length: 9\r\n") && !head.contains("transfer-encoding"), "{head}");
    give(None);
    stream.write_all(get("/file", "1.1").as_bytes()).await.unwrap();
    let heard = until_heard(&mut stream, "\r\n0\r\n\r\n").await;
    assert!(heard.to_lowercase().contains("\r\ntransfer-encoding: chunked\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\n4\r\nall \r\n5\r\nof it\r\n0\r\n\r\n"), "{heard}");
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut stream).await.ends_with("here"));

    for length in [None, Some(9)] {
        give(length);
        let mut old = connect(&rig, "127.0.0.1").await;
        old.write_all(get("/file", "1.0").as_bytes()).await.unwrap();
        let mut heard = String::new();
        timeout(LONG, old.read_to_string(&mut heard)).await.expect("it should have ended").unwrap();
        assert!(heard.ends_with("\r\n\r\nall of it"), "{heard}");
        let heard = heard.to_lowercase();
        assert_eq!(heard.contains("\r\ncontent-length: 9\r\n"), length.is_some(), "{heard}");
        assert!(!heard.contains("transfer-encoding"), "{heard}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_head_has_the_headers_of_the_file_and_nothing_of_it() {
    let (rig, handler) = streams(patient());
    let mut stream = connect(&rig, "127.0.0.1").await;
    for length in [Some(9), None] {
        let pieces = handler.give("/file", length);
        stream.write_all(b"HEAD /file HTTP/1.1\r\nHost: us.example\r\n\r\n").await.unwrap();
        let head = until_heard(&mut stream, "\r\n\r\n").await.to_lowercase();
        assert!(head.starts_with("http/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert_eq!(head.contains("\r\ncontent-length: 9\r\n"), length.is_some(), "{head}");
        assert_eq!(head.contains("content-length"), length.is_some(), "{head}");
        // What was the body is gone, although nothing of it came.
        timeout(LONG, pieces.closed()).await.expect("it is still waited for");
    }
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut stream).await.ends_with("here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_is_sent_sixty_files_at_once_and_they_take_no_room_of_other_answers() {
    // No room at all, and still each is sent.
    let limits = ListenerLimits { max_unsent_bytes: 0, max_unsent_answers_per_client: 0, ..ListenerLimits::default() };
    let (rig, handler) = streams(limits);
    let mut clients = Vec::new();
    for _ in 0..60 {
        let mut stream = connect(&rig, "127.0.0.1").await;
        stream.write_all(GET_LARGE.as_bytes()).await.unwrap();
        clients.push(stream);
    }
    handler.until_nothing_moves().await;
    assert!(handler.made.load(Ordering::SeqCst) < 60 * LARGE, "none was read, and none is in memory");
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut stream| tokio::spawn(async move { whole_answer(&mut stream, LARGE).await }))
        .collect();
    for reader in readers {
        assert!(reader.await.unwrap().starts_with("http/1.1 200"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_a_streamed_answer_is_reset_and_one_that_reads_gets_it_from_a_slow_source() {
    let soon = Duration::from_millis(500);
    // The rate is out of sight, so that what the system buffers is soon used up.
    let limits = ListenerLimits {
        read_grace: soon,
        answer_time: soon,
        least_read_rate: u32::MAX.try_into().unwrap(),
        max_connections_per_client: 1,
        ..patient()
    };
    let (rig, handler) = streams(limits);
    let pieces = handler.give("/slow", None);
    let mut reads = connect(&rig, "127.0.0.2").await;
    reads.write_all(get("/slow", "1.1").as_bytes()).await.unwrap();
    let mut never_reads = connect(&rig, "127.0.0.1").await;
    never_reads.write_all(GET_LARGE.as_bytes()).await.unwrap();
    answered_soon(&rig, "127.0.0.1").await; // its one place came back
    let rest = is_reset(&mut never_reads).await;
    assert!(rest.len() < LARGE);
    for _ in 0..3 {
        sleep(soon).await;
        pieces.send(Ok(Bytes::from_static(b"a piece"))).unwrap();
        until_heard(&mut reads, "a piece").await;
    }
    drop(pieces);
    until_heard(&mut reads, "0\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_listener_ends_the_stream_that_is_not_read_and_not_the_one_that_is() {
    let (rig, handler) = streams(ListenerLimits { max_connections: 3, ..patient() });
    let pieces = handler.give("/slow", None);
    let mut waits_for_us = connect(&rig, "127.0.0.2").await;
    waits_for_us.write_all(get("/slow", "1.1").as_bytes()).await.unwrap();
    pieces.send(Ok(Bytes::from_static(b"a piece"))).unwrap();
    until_heard(&mut waits_for_us, "a piece").await;
    let mut never_reads = connect(&rig, "127.0.0.1").await;
    never_reads.write_all(GET_LARGE.as_bytes()).await.unwrap();
    handler.until_nothing_moves().await;
    let (read, mut reads) = (Arc::new(AtomicUsize::new(0)), connect(&rig, "127.0.0.3").await);
    reads.write_all(get("/endless", "1.1").as_bytes()).await.unwrap();
    let counter = Arc::clone(&read);
    let reads = tokio::spawn(async move {
        let mut buffer = vec![0; PIECE];
        loop {
            match timeout(LONG, reads.read(&mut buffer)).await.expect("nothing came").unwrap() {
                0 => break,
                bytes => drop(counter.fetch_add(bytes, Ordering::SeqCst)),
            }
        }
    });
    rig.until(&read, LARGE).await;
    let mut newcomer = connect(&rig, "127.0.0.4").await;
    newcomer.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut newcomer).await.ends_with("here"));
    is_reset(&mut never_reads).await;
    rig.until(&read, read.load(Ordering::SeqCst) + LARGE).await;
    assert!(!reads.is_finished());
    reads.abort();
    pieces.send(Ok(Bytes::from_static(b"another"))).unwrap();
    until_heard(&mut waits_for_us, "another").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_lets_a_streamed_answer_finish_and_resets_one_that_does_not() {
    for finishes in [true, false] {
        let drain_time = if finishes { NEVER } else { Duration::from_millis(300) };
        let (mut rig, handler) = streams(ListenerLimits { drain_time, ..patient() });
        let pieces = handler.give("/slow", None);
        let mut stream = connect(&rig, "127.0.0.1").await;
        stream.write_all(get("/slow", "1.0").as_bytes()).await.unwrap();
        pieces.send(Ok(Bytes::from_static(b"first"))).unwrap();
        until_heard(&mut stream, "first").await;
        rig.stop.take().unwrap().send(()).unwrap();
        if finishes {
            sleep(Duration::from_millis(100)).await;
            pieces.send(Ok(Bytes::from_static(b"last"))).unwrap();
            drop(pieces);
            assert_eq!(until_closed(&mut stream).await, "last");
        } else {
            assert_eq!(is_reset(&mut stream).await, b"");
        }
        timeout(LONG, &mut rig.serving).await.expect("never stopped").unwrap().unwrap();
    }
}
