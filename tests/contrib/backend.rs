//! A server that writes down what reaches it, letter for letter.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;

/// The only token it knows.
pub(crate) const TOKEN: &str = "good";
/// The beginning of a file that is asked for as `slow`.
pub(crate) const BEGINNING: &str = "the beginning";
/// Its end, which comes when the test says so.
pub(crate) const END: &str = " and the end";

/// One request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    /// `X-Forwarded-For`, once for each line of it.
    pub(crate) forwarded_for: Vec<String>,
    pub(crate) body: String,
}

pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    go_on: Sender<()>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    go_on: Mutex<Receiver<()>>,
}

impl Backend {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (go_on, waits) = channel();
        let shared = Arc::new(Shared { seen: Mutex::default(), go_on: Mutex::new(waits) });
        let of_thread = Arc::clone(&shared);
        // Ends with the process, like its sockets.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&of_thread);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared, go_on }
    }

    /// What came since the last time.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.shared.seen.lock())
    }

    /// Lets one slow file come to its end.
    pub(crate) fn go_on(&self) {
        self.go_on.send(()).unwrap();
    }
}

/// Answers until the other end closes.
fn serve(stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some((seen, authorization)) = read(&mut reader) {
        let (whoami, slow, head) =
            (seen.target.contains("/account/whoami"), seen.target.contains("slow"), seen.method == "HEAD");
        shared.seen.lock().push(seen);
        let status = if whoami && authorization != format!("Bearer {TOKEN}") { "401 Unauthorized" } else { "200 OK" };
        let (body, rest) = if slow { (BEGINNING, END) } else { ("{}", "") };
        let length = body.len() + rest.len();
        let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        if !head {
            answer.push_str(body);
        }
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
        if slow && !head && (shared.go_on.lock().recv().is_err() || writer.write_all(rest.as_bytes()).is_err()) {
            return;
        }
    }
}

/// The request, and its `Authorization`.
fn read(reader: &mut BufReader<TcpStream>) -> Option<(Seen, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut length, mut authorization, mut forwarded_for) = (0, String::new(), Vec::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => value.clone_into(&mut authorization),
            "x-forwarded-for" => forwarded_for.push(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some((Seen { method, target, forwarded_for, body }, authorization))
}
