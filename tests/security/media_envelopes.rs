//! Answers that are almost a file.
//!
//! *Attack:* send pieces of a multipart answer in any order, any number of times, cut anywhere: a reader that panics, waits
//! for ever or takes half a file for a whole one is the server's, not the sender's. *Control:* `Multipart`
//! (`src/outbound/multipart.rs`) takes exactly two parts and nothing that could be read as three. *Unplug:* let
//! `finish_clean` say yes: half a file ends cleanly, and the test fails.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::loopback::media::{MediaAnswer, ask, download};
use crate::loopback::{World, client};
use crate::support::{Behaviour, SeenRequest};

const ANSWERS: usize = 400;
const AT_ONCE: usize = 4;
const BOUNDARY: &str = "b";

/// What envelopes are made of, and what readers of them have stumbled over.
const TOKENS: [&[u8]; 22] = [
    b"--b\r\n",
    b"\r\n--b\r\n",
    b"\n--b\n",
    b"\r\n--b  \t\r\n",
    b"\r\n--b--\r\n",
    b"\r\n--b--",
    b"\r\n--b-",
    b"\r\n--bx\r\n",
    b"--b",
    b"\r\n\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"{}",
    b"Content-Type: application/json\r\n",
    b"Content-Type: image/png\r\n",
    b"Content-Disposition: inline; filename=a\r\n",
    b"no colon\r\n",
    b" folded\r\n",
    b"bytes of a file",
    b"\0\xff",
    b"-",
];

/// A good answer in tokens, which some of the soups begin as.
const GOOD: [usize; 8] = [0, 14, 10, 13, 1, 15, 10, 19];

/// The same sequence in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    /// Some soup; half of them a good answer with one token changed, taken out or put in.
    fn soup(&mut self) -> Vec<u8> {
        let mut tokens: Vec<usize> = GOOD.into();
        tokens.push([4, 5, 1][self.below(3)]);
        let (kind, at, token) = (self.below(8), self.below(9), self.below(TOKENS.len()));
        match kind {
            0 => tokens[at] = token,
            1 => drop(tokens.remove(at)),
            2 => tokens.insert(at, token),
            3 => {}
            _ => tokens = (0..=self.below(14)).map(|_| self.below(TOKENS.len())).collect(),
        }
        let mut soup = tokens.into_iter().flat_map(|token| TOKENS[token]).copied().collect::<Vec<_>>();
        if self.below(6) == 0 {
            soup.truncate(self.below(soup.len() + 1));
        }
        soup
    }
}

/// Our own opinion, which owes nothing to the reader: the lines of the body, from one that is a boundary to the next.
fn file_in(body: &[u8]) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    let mut rest = body;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        lines.push(&rest[..=end]);
        rest = &rest[end + 1..];
    }
    lines.push(rest);
    let word = |line: &[u8]| -> Option<bool> {
        let text = line.strip_prefix(b"--b")?;
        let end = text.iter().rposition(|byte| !b" \t\r\n".contains(byte)).map_or(0, |at| at + 1);
        // A boundary is a line of its own, but the last one may lack its end.
        match &text[..end] {
            b"" => Some(false),
            [b'-', b'-', ..] => Some(true),
            _ => None,
        }
    };
    let marks: Vec<_> = (0..lines.len()).filter_map(|at| Some((at, word(lines[at])?))).collect();
    let [(_, false), (second, false), (third, _), ..] = marks[..] else { return None };
    let part = lines[second + 1..third].concat();
    // The line end before a boundary is the boundary's.
    let part = part.strip_suffix(b"\n").map(|part| part.strip_suffix(b"\r").unwrap_or(part));
    // There may be no line at all between the two: then the part is less than its own empty line.
    let part = part.unwrap_or_default();
    let mut after = [b"\n".as_slice(), part].concat();
    let ends: Vec<_> = [b"\n\r\n".as_slice(), b"\n\n"]
        .iter()
        .filter_map(|end| after.windows(end.len()).position(|window| window == *end).map(|at| (at, at + end.len())))
        .collect();
    match ends.into_iter().min() {
        Some((_, end)) => Some(after.split_off(end)),
        // Headers whose last line end is the boundary's: an empty file.
        None => Some(Vec::new()),
    }
}

fn is_in_order(answer: &MediaAnswer, soup: &[u8]) -> bool {
    if answer.status != 200 {
        assert_eq!(answer.error(), (502, "M_UNKNOWN".to_owned()), "{:?}", String::from_utf8_lossy(soup));
        return false;
    }
    if answer.whole {
        let expected = file_in(soup);
        assert_eq!(expected.as_deref(), Some(&answer.bytes[..]), "{:?}", String::from_utf8_lossy(soup));
    }
    answer.whole
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_hundred_soups_of_envelopes_are_a_file_or_an_error_and_never_half_of_one() {
    let world = World::new().await;
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let soups: Arc<Vec<Vec<u8>>> = Arc::new((0..ANSWERS).map(|_| dice.soup()).collect());
    let sent = Arc::clone(&soups);
    let (peer, server) = world
        .peer(
            "r.example",
            Behaviour::Pieces {
                pieces: Arc::new(move |request: &SeenRequest| {
                    let number: usize = request.target().split(['/', '?']).nth(6).unwrap().parse().unwrap();
                    let soup = &sent[number];
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; boundary={BOUNDARY}\r\nContent-Length: {}\r\n\r\n",
                        soup.len()
                    );
                    // In two pieces, cut where the number says.
                    let cut = number % (soup.len() + 1);
                    vec![head.into_bytes(), soup[..cut].to_vec(), soup[cut..].to_vec()]
                }),
                pause: Duration::from_millis(1),
            },
        )
        .await;
    let home = world.media(Some(Duration::from_secs(10)));
    let next = Arc::new(Mutex::new(0..ANSWERS));
    let mut asking = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (portcullis, server) = (home.portcullis.clone(), server.clone());
        let (next, soups) = (Arc::clone(&next), Arc::clone(&soups));
        asking.spawn(async move {
            let mut whole = 0;
            loop {
                let Some(number) = next.lock().next() else { break whole };
                let answer = ask(&portcullis, client(1), &download(&server, &number.to_string())).await;
                whole += usize::from(is_in_order(&answer, &soups[number]));
            }
        });
    }
    let whole: usize = asking.join_all().await.into_iter().sum();
    // Both kinds, or nothing was tried.
    assert!((ANSWERS / 10..ANSWERS - ANSWERS / 10).contains(&whole), "{whole} of {ANSWERS} were files");
    home.at_rest().await;
    assert_eq!(peer.requests().len(), ANSWERS);
    assert_eq!(home.portcullis.status().federation_worker.overruns, 0);
}
