//! Whose a token is: asked once, remembered briefly, never logged; and only the homeserver says that one is bad.
//!
//! *Unplug:* remember nothing in `TokenCache::remember`: `a_token_is_asked_about_once` fails. Take any 401 for a bad token
//! in `judge_whoami`: `what_says_nothing_of_the_token_is_not_its_fault` fails. Log the token in `Parts::ask`: the last fails.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::rig::{Behind, Front, GOOD, LIST, REMOTE_FILE, Says, config, json};
use crate::support::PrivateCa;

#[tokio::test]
async fn a_token_is_asked_about_once_and_what_was_said_is_remembered() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    for _ in 0..3 {
        // The switch of remote media is off: that is said once the token is known.
        let answer = front.get_as(REMOTE_FILE, GOOD).await;
        assert_eq!((answer.status, answer.text().contains("M_NOT_FOUND")), (404, true), "{answer:?}");
    }
    assert_eq!(behind.questions(), 1);
    for _ in 0..3 {
        let answer = front.get_as(REMOTE_FILE, "made-up").await;
        assert_eq!(answer.status, 401);
        let said = r#"{"errcode":"M_UNKNOWN_TOKEN","error":"The access token is not known here","soft_logout":true}"#;
        assert_eq!(answer.text(), said, "a client that is not told of the soft logout throws its keys away");
    }
    assert_eq!(behind.questions(), 2);
    assert_eq!(front.get_as(REMOTE_FILE, GOOD).await.status, 404);
    assert_eq!(behind.questions(), 2);
    let answer = front.get(REMOTE_FILE).await;
    assert_eq!((answer.status, answer.text().contains("M_MISSING_TOKEN")), (401, true));
    assert_eq!(behind.questions(), 2);
    front.comes_to_rest().await;
}

#[tokio::test]
async fn the_question_says_who_asks_and_nothing_more() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let mut config = config(behind.address);
    config.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let front = Front::start(&config, &PrivateCa::new());
    let more = format!(
        "Authorization: Bearer {GOOD}\r\nX-Forwarded-For: 203.0.113.7\r\nUser-Agent: client/1\r\nCookie: a=b\r\nHost-X: y\r\n"
    );
    front.ask([127, 0, 0, 1], &format!("GET {REMOTE_FILE}"), &more).await;
    let question = behind.seen().pop().unwrap();
    let mut names: Vec<_> = question.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "authorization", "host", "user-agent", "via", "x-forwarded-for"]);
    assert_eq!(question.values("x-forwarded-for"), ["203.0.113.7"]);
    assert_eq!(question.values("user-agent"), ["client/1"]);
    assert!(question.body.is_empty());
}

#[tokio::test]
async fn what_says_nothing_of_the_token_is_not_its_fault() {
    for said in [
        json(500, "{}"),
        json(502, "<html>"),
        json(401, "<html>"),
        json(403, r#"{"errcode":"M_UNKNOWN_TOKEN"}"#),
        json(404, r#"{"errcode":"M_UNRECOGNIZED"}"#),
        json(429, r#"{"errcode":"M_LIMIT_EXCEEDED"}"#),
        json(200, "{}"),
        json(200, r#"{"user_id":7}"#),
        json(200, &format!(r#"{{"user_id":"@a:us.example","more":"{}"}}"#, "x".repeat(70_000))),
        Says::This(
            b"HTTP/1.1 302 X\r\nLocation: /_matrix/client/v3/account/whoami\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
        Says::ThenCloses(b"HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n{".to_vec()),
        Says::ThenCloses(Vec::new()),
        Says::ThenCloses(b"nonsense\r\n\r\n".to_vec()),
    ] {
        let behind = Behind::saying(move |_| said.clone()).await;
        let front = Front::of(&behind);
        for count in 1..=2 {
            let answer = front.get_as(REMOTE_FILE, GOOD).await;
            assert_eq!((answer.status, answer.text().contains("M_UNKNOWN\"")), (502, true), "{answer:?}");
            assert_eq!(behind.questions(), count, "not remembered");
        }
        front.comes_to_rest().await;
        assert_eq!(front.status().token_questions.silent, 2);
    }
}

#[tokio::test]
async fn tokens_are_asked_about_where_they_are_needed_and_nowhere_else() {
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    let remote_list = format!("{LIST}?server=127.0.0.1:1");
    assert_eq!(front.get_as(&remote_list, "made-up").await.status, 502, "nobody listens there");
    assert_eq!(front.get_as("/_matrix/client/v3/directory/room/%23a:127.0.0.1:1", "made-up").await.status, 502);
    assert_eq!(front.get_as("/_matrix/client/versions", "made-up").await.status, 200);
    assert_eq!(behind.questions(), 0);
    let posted = format!("POST {remote_list}");
    let token = "Authorization: Bearer made-up\r\n";
    assert_eq!(front.ask([127, 0, 0, 1], &posted, token).await.status, 401);
    assert_eq!(behind.questions(), 1);
    let mut config = config(behind.address);
    config.federation.require_token_for_remote = true;
    let front = Front::start(&config, &PrivateCa::new());
    assert_eq!(front.get_as(&remote_list, "made-up").await.status, 401);
    assert_eq!(front.get(&remote_list).await.status, 401);
    assert_eq!(front.get_as(&remote_list, GOOD).await.status, 502, "it is looked up");
    assert_eq!(behind.questions(), 3);
}

/// Hears every word of every thread and keeps none, but for whether the secret was among them.
struct Ear;

const SECRET: &str = "syt_this_is_never_written_anywhere";
static HEARD: AtomicBool = AtomicBool::new(false);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Words {
    fn listen(self) {
        if self.0.contains(SECRET) {
            HEARD.store(true, Ordering::SeqCst);
        }
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut words = Words(String::new());
        span.record(&mut words);
        words.listen();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut words = Words(String::new());
        values.record(&mut words);
        words.listen();
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        words.listen();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_token_is_never_logged_not_even_by_the_libraries() {
    tracing::subscriber::set_global_default(Ear).unwrap();
    let behind = Behind::with(|_| json(200, "{}")).await;
    let front = Front::of(&behind);
    assert_eq!(front.get_as(REMOTE_FILE, SECRET).await.status, 401);
    assert_eq!(front.get_as(LIST, SECRET).await.status, 200);
    drop(behind);
    assert_eq!(front.get_as(REMOTE_FILE, &format!("{SECRET}2")).await.status, 502);
    assert!(!HEARD.load(Ordering::SeqCst));
    tracing::trace!("{SECRET}");
    assert!(HEARD.load(Ordering::SeqCst), "it would have been heard");
}
