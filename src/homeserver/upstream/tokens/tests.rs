//! Questions about tokens under a clock of their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::proxy::answer::homeserver::upstream::judge_whoami;

const SECOND: Duration = Duration::from_secs(1);

/// A homeserver that answers when the test lets it.
struct Held {
    asked: AtomicUsize,
    go: Arc<Semaphore>,
    says: fn(&str, usize) -> Ended,
}

impl Whoami for Held {
    fn ask(&self, question: TokenQuestion, _: OutboundDeadline) -> BoxFuture<'static, Ended> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let (go, says) = (Arc::clone(&self.go), self.says);
        Box::pin(async move {
            go.acquire().await.unwrap().forget();
            says(&question.token, number)
        })
    }
}

fn good() -> TokenVerdict {
    TokenVerdict::Good("@a:us.example".into())
}

fn bad() -> TokenVerdict {
    judge_whoami(StatusCode::UNAUTHORIZED, br#"{"errcode":"M_UNKNOWN_TOKEN"}"#).unwrap()
}

fn desk(says: fn(&str, usize) -> Ended) -> (Arc<Held>, Arc<TokenDesk>) {
    let held = Arc::new(Held { asked: AtomicUsize::new(0), go: Arc::new(Semaphore::new(0)), says });
    let desk = TokenDesk::new(Arc::<Held>::clone(&held));
    (held, desk)
}

/// Nobody is to ask it.
pub(in super::super) fn desk_that_asks_nobody() -> Arc<TokenDesk> {
    desk(|_, _| panic!("asked")).1
}

fn client(last: u8) -> ClientKey {
    ClientKey::vouched(IpAddr::from([192, 0, 2, last]), Default::default())
}

fn ask(desk: &Arc<TokenDesk>, token: &str, from: u8) -> tokio::task::JoinHandle<Result<TokenVerdict, NotKnown>> {
    let question =
        TokenQuestion { token: token.into(), from: IpAddr::from([192, 0, 2, from]), user_agent: None, was_good: false };
    let desk = Arc::clone(desk);
    tokio::spawn(async move { desk.verdict(question, client(from)).await })
}

async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn equal_questions_are_asked_once_and_followers_take_no_slot() {
    let (held, desk) = desk(|_, _| Ok(good()));
    // A page of a chat room, and the next.
    let all: Vec<_> = (0..65).map(|_| ask(&desk, "one", 1)).chain((0..32).map(|_| ask(&desk, "one", 2))).collect();
    settle().await;
    assert_eq!((held.asked.load(Ordering::SeqCst), desk.slots().in_flight()), (1, 1));
    assert_eq!(desk.waiters().in_flight(), 96, "all but the one that asks");
    held.go.add_permits(1);
    for answer in all {
        assert_eq!(answer.await.unwrap(), Ok(good()));
    }
    assert_eq!(desk.waiters().in_flight(), 0);
    assert_eq!(ask(&desk, "one", 1).await.unwrap(), Ok(good()), "remembered");
    assert_eq!((held.asked.load(Ordering::SeqCst), desk.slots().in_flight()), (1, 0));
    assert_eq!(desk.user_of("one").as_deref(), Some("@a:us.example"));
    tokio::time::advance(60 * SECOND).await;
    held.go.add_permits(1);
    assert_eq!(desk.user_of("one"), None);
    assert_eq!(ask(&desk, "one", 1).await.unwrap(), Ok(good()));
    assert_eq!(held.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_anothers_answer_is_counted() {
    let (held, desk) = desk(|_, _| Ok(bad()));
    let mut all = vec![ask(&desk, "one", 1)];
    settle().await;
    // Of one address as many as a page has files, and of each that comes after it half of what is left.
    for (from, waits) in [(1, 64), (2, 96), (3, 112), (4, 120)] {
        all.extend((0..64).map(|_| ask(&desk, "one", from)));
        settle().await;
        assert_eq!(desk.waiters().in_flight(), waits);
        let refused = ask(&desk, "one", from).await.unwrap();
        assert_eq!(refused, Err(NotKnown::Crowded), "at once");
    }
    let fifth = ask(&desk, "one", 5);
    settle().await;
    assert_eq!((desk.waiters().in_flight(), held.asked.load(Ordering::SeqCst)), (121, 1));
    held.go.add_permits(1);
    assert_eq!(fifth.await.unwrap(), Ok(bad()));
    let mut verdicts = Vec::new();
    for answer in all {
        verdicts.push(answer.await.unwrap());
    }
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Ok(bad())).count(), 1 + 120);
    assert_eq!((desk.waiters().in_flight(), desk.slots().in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_waited_and_asks_now_waits_no_longer_and_who_left_does_not() {
    let (_held, desk) = desk(|_, _| Ok(good()));
    let first = ask(&desk, "one", 1);
    settle().await;
    tokio::time::advance(6 * SECOND).await;
    let (second, left) = (ask(&desk, "one", 2), ask(&desk, "one", 3));
    settle().await;
    assert_eq!(desk.waiters().in_flight(), 2);
    left.abort();
    settle().await;
    assert_eq!(desk.waiters().in_flight(), 1);
    assert_eq!(first.await.unwrap(), Err(NotKnown::Silent));
    settle().await;
    assert_eq!(desk.waiters().in_flight(), 0, "the second one's own question is out");
    assert_eq!(second.await.unwrap(), Err(NotKnown::Silent));
}

#[tokio::test(start_paused = true)]
async fn over_a_cap_nothing_is_asked() {
    let (held, desk) = desk(|_, _| Ok(bad()));
    let first: Vec<_> = (0..4).map(|number| ask(&desk, &format!("1-{number}"), 1)).collect();
    settle().await;
    assert_eq!(ask(&desk, "1-4", 1).await.unwrap(), Err(NotKnown::Busy), "a fifth of one client");
    let others: Vec<_> = (2..17).flat_map(|from| (0..4).map(move |number| (from, number))).collect::<Vec<_>>();
    let others: Vec<_> =
        others.into_iter().map(|(from, number)| ask(&desk, &format!("{from}-{number}"), from)).collect();
    settle().await;
    assert_eq!((held.asked.load(Ordering::SeqCst), desk.slots().in_flight()), (64, 64));
    assert_eq!(ask(&desk, "17-0", 17).await.unwrap(), Err(NotKnown::Busy), "a 65th of all");
    let follower = ask(&desk, "1-0", 17);
    settle().await;
    held.go.add_permits(64);
    for answer in first.into_iter().chain(others).chain([follower]) {
        assert_eq!(answer.await.unwrap(), Ok(bad()));
    }
    assert_eq!((desk.slots().in_flight(), desk.out.lock().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_time_out_is_its_own_callers_alone() {
    let (held, desk) = desk(|_, _| Ok(good()));
    let start = Instant::now();
    let first = ask(&desk, "one", 1);
    settle().await;
    tokio::time::advance(6 * SECOND).await;
    let second = ask(&desk, "one", 2);
    assert_eq!(first.await.unwrap(), Err(NotKnown::Silent));
    assert_eq!(start.elapsed(), 10 * SECOND);
    settle().await;
    assert_eq!(held.asked.load(Ordering::SeqCst), 2, "the second one asks in its own time");
    held.go.add_permits(1);
    assert_eq!(second.await.unwrap(), Ok(good()));
    assert_eq!(start.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_ten_seconds() {
    let (_held, desk) = desk(|_, _| Ok(good()));
    let start = Instant::now();
    let first = ask(&desk, "one", 1);
    tokio::time::sleep(6 * SECOND).await;
    let second = ask(&desk, "one", 2);
    assert_eq!(first.await.unwrap(), Err(NotKnown::Silent));
    assert_eq!(second.await.unwrap(), Err(NotKnown::Silent));
    assert_eq!(start.elapsed(), 16 * SECOND);
    // The second one's own question began at ten, and has its own ten.
    tokio::time::sleep(4 * SECOND).await;
    settle().await;
    assert_eq!((desk.slots().in_flight(), desk.out.lock().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_not_remembered_and_those_who_waited_hear_of_it() {
    let (held, desk) = desk(|_, number| if number == 0 { Err(Unasked::Failed) } else { Ok(good()) });
    let (first, second) = (ask(&desk, "one", 1), ask(&desk, "one", 2));
    settle().await;
    held.go.add_permits(1);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Err(NotKnown::Silent), Err(NotKnown::Silent)));
    assert_eq!(held.asked.load(Ordering::SeqCst), 1);
    held.go.add_permits(1);
    assert_eq!(ask(&desk, "one", 1).await.unwrap(), Ok(good()));
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_client_left_goes_on_under_its_slot() {
    let (held, desk) = desk(|_, _| Ok(bad()));
    let left = ask(&desk, "one", 1);
    settle().await;
    left.abort();
    settle().await;
    assert_eq!(desk.slots().in_flight(), 1);
    held.go.add_permits(1);
    settle().await;
    assert_eq!(desk.slots().in_flight(), 0);
    assert_eq!(ask(&desk, "one", 1).await.unwrap(), Ok(bad()));
    assert_eq!(held.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_asking_frees_the_place_and_the_slot() {
    let (held, desk) = desk(|_, _| panic!("on purpose"));
    let asked = ask(&desk, "one", 1);
    settle().await;
    held.go.add_permits(1);
    assert_eq!(asked.await.unwrap(), Err(NotKnown::Silent));
    assert_eq!((desk.slots().in_flight(), desk.out.lock().len()), (0, 0));
}
