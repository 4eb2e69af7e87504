//! A name server on loopback, in as few lines as the wire format allows.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// What to say to a question for a name: its IPv4 address, for no time at all, or that there is no such name.
pub(crate) type Zone = dyn Fn(&str) -> Option<Ipv4Addr> + Send + Sync;

/// Counts the questions; ended with the test.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    asked: Arc<AtomicUsize>,
    answering: JoinHandle<()>,
}

const HEADER: usize = 12;
const TYPE_A: [u8; 2] = [0, 1];

impl NameServer {
    /// Takes every question and answers none.
    pub(crate) async fn silent() -> Self {
        Self::start(None).await
    }

    /// Answers questions for A records; there are no others.
    pub(crate) async fn answering(zone: impl Fn(&str) -> Option<Ipv4Addr> + Send + Sync + 'static) -> Self {
        Self::start(Some(Box::new(zone))).await
    }

    async fn start(zone: Option<Box<Zone>>) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let answering = tokio::spawn(async move {
            let mut question = [0; 1024];
            loop {
                let (length, peer) = socket.recv_from(&mut question).await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                if let Some(zone) = &zone {
                    socket.send_to(&reply(&question[..length], zone), peer).await.unwrap();
                }
            }
        });
        Self { address, asked, answering }
    }

    /// Questions so far, those sent twice for want of a prompt answer among them.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

fn reply(question: &[u8], zone: &Zone) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).into_owned());
        at = end;
    }
    let (kind, end) = (&question[at + 1..at + 3], at + 5);
    // A name that exists has no records of other types: no error, and no answer.
    let known = zone(&labels.join("."));
    let answer = known.filter(|_| kind == TYPE_A);
    let code = if known.is_some() { 0 } else { 3 };
    // Identity, flags (a response, recursion available), one question, the answers, nothing else.
    let counts = [0, 1, 0, u8::from(answer.is_some()), 0, 0, 0, 0];
    let mut reply = [&question[..2], &[0x81, 0x80 | code], &counts, &question[HEADER..end]].concat();
    if let Some(address) = answer {
        // The name of the question, type A, class IN, no time to live, four bytes.
        reply.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        reply.extend(address.octets());
    }
    reply
}
