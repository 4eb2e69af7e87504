//! The backfill example against a homeserver that fails now and then: every page is asked for until it comes.
#![cfg(all(feature = "outbound", feature = "gate"))]
#![expect(clippy::unwrap_used, reason = "a helper outside a test function is test code all the same")]

#[path = "../examples/background_backfill.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod background_backfill;

use std::future::{pending, ready};
use std::sync::atomic::Ordering;

use background_backfill::{Wanted, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

/// Three pages of history, then no more.
const HISTORY: [(&str, &str); 3] = [
    ("", r#"{"chunk":[{},{}],"end":"second page"}"#),
    ("second+page", r#"{"chunk":[{}],"end":"3"}"#),
    ("3", r#"{"chunk":[{},{},{}]}"#),
];

/// A homeserver on loopback that answers its first requests with `statuses` and then as it should.
struct Fake {
    base_url: String,
    /// The target of each request, with its token.
    requests: UnboundedReceiver<(String, Option<String>)>,
    serving: AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn fake(statuses: &'static [&'static str]) -> Fake {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, requests) = unbounded_channel();
    let serving = tokio::spawn(async move {
        let mut statuses = statuses.iter();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, statuses.next(), &seen).await;
        }
    });
    Fake { base_url, requests, serving: serving.abort_handle() }
}

async fn answer(mut stream: TcpStream, status: Option<&&str>, seen: &UnboundedSender<(String, Option<String>)>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split_whitespace().nth(1).unwrap().to_owned();
    let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).map(str::to_owned);
    let from = target.split_once("from=").map_or("", |(_, from)| from);
    let (_, page) = HISTORY.iter().find(|(token, _)| *token == from).unwrap();
    let (status, body) = status.map_or(("200 OK", *page), |status| (*status, "{}"));
    seen.send((target, token)).unwrap();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

fn wanted(fake: &Fake, pages: Option<u64>) -> Wanted {
    Wanted {
        base_url: format!("{}/", fake.base_url),
        access_token: "token".to_owned(),
        rooms: vec!["!a/b:c".to_owned()],
        pages,
        page_size: 2,
        // An open period of a minute is over at once.
        scale: 60_000,
        json: true,
    }
}

fn targets(fake: &mut Fake) -> Vec<String> {
    let mut targets = Vec::new();
    while let Ok((target, token)) = fake.requests.try_recv() {
        assert_eq!(token.as_deref(), Some("token"));
        targets.push(target);
    }
    targets
}

#[tokio::test]
async fn a_room_is_paged_through_to_its_beginning() {
    let mut fake = fake(&[]).await;
    let progress = run(wanted(&fake, None), pending()).await.unwrap();
    let room = "/_matrix/client/v3/rooms/!a%2Fb:c/messages?dir=b&limit=2";
    assert_eq!(targets(&mut fake), [room.to_owned(), format!("{room}&from=second+page"), format!("{room}&from=3")]);
    assert_eq!((progress.pages.load(Ordering::Relaxed), progress.events.load(Ordering::Relaxed)), (3, 6));
}

#[tokio::test]
async fn a_page_that_failed_is_asked_for_again_after_the_breaker_let_it() {
    // The limit goes from 2 to 1 to none; the first probe fails too.
    let mut fake = fake(&["503 Busy", "429 Slow down", "500 Broken"]).await;
    let progress = run(wanted(&fake, Some(2)), pending()).await.unwrap();
    let asked = targets(&mut fake);
    assert_eq!(
        asked.iter().map(|target| target.contains("from=")).collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
    assert_eq!((progress.pages.load(Ordering::Relaxed), progress.failed.load(Ordering::Relaxed)), (2, 3));
}

#[tokio::test]
async fn a_room_that_is_not_given_out_is_left_alone() {
    let mut fake = fake(&["403 Forbidden"]).await;
    let progress = run(wanted(&fake, None), pending()).await.unwrap();
    assert_eq!((targets(&mut fake).len(), progress.left_alone.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn an_interruption_ends_it_in_order() {
    let fake = fake(&[]).await;
    let progress = run(wanted(&fake, Some(u64::MAX)), ready(())).await.unwrap();
    assert_eq!(progress.left_alone.load(Ordering::Relaxed), 0);
}
