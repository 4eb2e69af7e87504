//! A client that sends what it is told, letter for letter.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Only a test that fails waits this long.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// What is said in place of the front while that is gone.
    pub(crate) fn assert_says_so_to_browsers(&self) {
        let head = self.head.to_ascii_lowercase();
        assert_eq!(self.status, 502);
        assert!(head.contains("\r\naccess-control-allow-origin: *"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/json"), "{head}");
        let said = r#"{"errcode":"M_UNKNOWN","error":"Lookups at other servers are not available"}"#;
        assert_eq!(self.body, said);
    }
}

/// One request over a connection of its own. It claims to speak for somebody else.
pub(crate) fn ask(server: SocketAddr, method: &str, target: &str, lines: &str, body: &str) -> Answer {
    let mut stream = send(server, method, target, lines, body);
    let mut heard = Vec::new();
    // A reset after the answer is an end like any other.
    let _ = stream.read_to_end(&mut heard);
    let heard = String::from_utf8(heard).unwrap();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {target}: {heard:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(server: SocketAddr, target: &str) -> Answer {
    ask(server, "GET", target, "", "")
}

/// Sends a request and leaves its answer to be read.
pub(crate) fn send(server: SocketAddr, method: &str, target: &str, lines: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: matrix.example.org\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\
         {lines}{length}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}
