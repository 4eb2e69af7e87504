//! Sharing, handing the turn on, and forgetting.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::*;
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
use crate::proxy::directory::About;
use crate::proxy::local_view::RoomListQuery;

const SECOND: Duration = Duration::from_secs(1);

struct World {
    remembered: Arc<Remembered>,
    admission: Admission,
    asked: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        Self::bounded(100, 1 << 20)
    }

    fn bounded(answers: u64, bytes: u64) -> Self {
        let bounds = RememberedBounds { answers, bytes, time_to_live: 60 * SECOND };
        Self {
            remembered: Arc::new(Remembered::new(bounds)),
            admission: Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(64)),
            asked: Arc::default(),
        }
    }

    fn pass(&self, client: u8) -> Admitted {
        let key = ClientKey::vouched([198, 51, 100, client].into(), Default::default());
        self.admission.admit(&key, OutboundRoute::PublicRooms { server: "r.example".parse().unwrap() }).unwrap()
    }

    /// `client` asks; if it gets the turn it works for `work` and comes to `outcome`.
    fn share(&self, client: u8, work: Duration, outcome: Outcome) -> tokio::task::JoinHandle<Outcome> {
        let (remembered, asked, pass) = (Arc::clone(&self.remembered), Arc::clone(&self.asked), self.pass(client));
        tokio::spawn(async move {
            let ask = |pass: Admitted| async move {
                asked.fetch_add(1, Ordering::SeqCst);
                let _pass = pass;
                tokio::time::sleep(work).await;
                outcome
            };
            remembered.share(question(), pass, ask).await
        })
    }

    fn assert_asked(&self, times: usize) {
        assert_eq!(self.asked.load(Ordering::SeqCst), times);
    }

    fn assert_at_rest(&self) {
        assert_eq!(self.admission.budget().in_flight(), 0);
        assert!(self.remembered.in_flight.lock().is_empty());
    }
}

fn question() -> Question {
    numbered(0)
}

fn numbered(limit: u64) -> Question {
    let query = RoomListQuery { limit: Some(limit), ..RoomListQuery::default() };
    Question::new(&"r.example".parse().unwrap(), About::RoomList(query))
}

fn found(text: &'static str) -> Found {
    Found::Content(Bytes::from_static(text.as_bytes()))
}

#[tokio::test(start_paused = true)]
async fn equal_questions_in_flight_are_asked_once_and_each_keeps_a_slot() {
    let world = World::new();
    let all: Vec<_> = (0..20).map(|client| world.share(client, SECOND, Ok(found("one")))).collect();
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(world.admission.budget().in_flight(), 20);
    for one in all {
        assert_eq!(one.await.unwrap(), Ok(found("one")));
    }
    world.assert_asked(1);
    world.assert_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_good_for_a_minute_to_the_millisecond() {
    let world = World::new();
    world.share(1, Duration::ZERO, Ok(found("old"))).await.unwrap().unwrap();
    tokio::time::advance(Duration::from_millis(59_999)).await;
    assert_eq!(world.remembered.answer(&question()), Some(found("old")));
    assert_eq!(world.share(1, Duration::ZERO, Ok(found("new"))).await.unwrap(), Ok(found("old")));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(world.remembered.answer(&question()), None);
    assert_eq!(world.share(1, Duration::ZERO, Ok(found("new"))).await.unwrap(), Ok(found("new")));
    assert_eq!(world.remembered.answer(&question()), Some(found("new")));
    world.assert_asked(2);
}

#[tokio::test(start_paused = true)]
async fn that_there_is_no_such_alias_is_remembered_too() {
    let world = World::new();
    world.share(1, SECOND, Ok(Found::NoSuchAlias)).await.unwrap().unwrap();
    assert_eq!(world.remembered.answer(&question()), Some(Found::NoSuchAlias));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_shared_and_not_remembered() {
    for failure in [LookupFailure::Failed, LookupFailure::Forbidden] {
        let world = World::new();
        let all: Vec<_> = (0..5).map(|client| world.share(client, SECOND, Err(failure))).collect();
        for one in all {
            assert_eq!(one.await.unwrap(), Err(failure));
        }
        world.assert_asked(1);
        assert_eq!(world.remembered.answer(&question()), None);
        world.assert_at_rest();
        world.share(1, SECOND, Ok(found("well again"))).await.unwrap().unwrap();
        world.assert_asked(2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_is_never_driven_keeps_no_outcome_alive() {
    let world = World::new();
    let failing = world.share(1, SECOND, Err(LookupFailure::Failed));
    tokio::task::yield_now().await;
    let idle = world.remembered.share(question(), world.pass(2), |_| async { unreachable!("it finds an outcome") });
    let mut idle = Box::pin(idle);
    assert!(tokio::time::timeout(Duration::ZERO, &mut idle).await.is_err());
    assert_eq!(failing.await.unwrap(), Err(LookupFailure::Failed));

    assert_eq!(world.share(1, SECOND, Ok(found("well again"))).await.unwrap(), Ok(found("well again")));
    assert_eq!(idle.await, Err(LookupFailure::Failed));
    world.assert_asked(2);
    world.assert_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_asker_s_deadline_is_its_own() {
    let world = World::new();
    let start = Instant::now();
    let first = world.share(1, 60 * SECOND, Ok(found("never")));
    tokio::time::sleep(4 * SECOND).await;
    let second = world.share(2, SECOND, Ok(found("second")));
    assert_eq!(first.await.unwrap(), Err(LookupFailure::TimedOut));
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_eq!(second.await.unwrap(), Ok(found("second")));
    assert_eq!(start.elapsed(), 11 * SECOND);
    world.assert_asked(2);
    world.assert_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_asker_that_says_it_ran_out_of_time_passes_the_turn_on() {
    let world = World::new();
    let first = world.share(1, SECOND, Err(LookupFailure::TimedOut));
    let second = world.share(2, SECOND, Ok(found("second")));
    assert_eq!(first.await.unwrap(), Err(LookupFailure::TimedOut));
    assert_eq!(second.await.unwrap(), Ok(found("second")));
    world.assert_asked(2);
}

#[tokio::test(start_paused = true)]
async fn a_follower_s_deadline_ends_only_itself() {
    let world = World::new();
    let start = Instant::now();
    let pass = world.pass(9);
    tokio::time::sleep(5 * SECOND).await;
    let leader = world.share(1, 8 * SECOND, Ok(found("late")));
    tokio::task::yield_now().await;
    let follower =
        world.remembered.share(question(), pass, |_| async { unreachable!("the turn is never free in time") });
    assert_eq!(follower.await, Err(LookupFailure::TimedOut));
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_eq!(world.admission.budget().in_flight(), 1);
    assert_eq!(leader.await.unwrap(), Ok(found("late")));
}

#[tokio::test(start_paused = true)]
async fn askers_whose_time_ends_together_do_not_ask_one_after_another() {
    let world = World::new();
    let all: Vec<_> = (0..5).map(|client| world.share(client, 60 * SECOND, Ok(found("never")))).collect();
    for one in all {
        assert_eq!(one.await.unwrap(), Err(LookupFailure::TimedOut));
    }
    world.assert_asked(1);
    world.assert_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_asker_that_leaves_or_panics_passes_the_turn_on() {
    let world = World::new();
    let dropped = world.share(1, 5 * SECOND, Ok(found("dropped")));
    let (remembered, pass) = (Arc::clone(&world.remembered), world.pass(2));
    tokio::task::yield_now().await;
    let panics =
        tokio::spawn(
            async move { remembered.share(question(), pass, |_pass| async { panic!("inside the call") }).await },
        );
    tokio::task::yield_now().await;
    let third = world.share(3, SECOND, Ok(found("third")));
    tokio::task::yield_now().await;
    dropped.abort();
    assert!(panics.await.unwrap_err().is_panic());
    assert_eq!(third.await.unwrap(), Ok(found("third")));
    world.assert_asked(2);
    world.assert_at_rest();
}

#[tokio::test(start_paused = true)]
async fn s23_what_is_remembered_is_bounded() {
    let world = World::bounded(10, 10_000);
    for limit in 0..500 {
        world.remembered.keep(&Arc::new(numbered(limit)), found("a small one"));
        assert!(world.remembered.kept.entry_count() <= 10);
    }
    // Larger ones are bounded by their bytes, and one too large for all is not kept.
    for limit in 0..500 {
        let body = Found::Content(vec![b'x'; 4000].into());
        world.remembered.keep(&Arc::new(numbered(limit)), body);
        assert!(world.remembered.kept.weighted_size() <= 10_000);
    }
    world.remembered.keep(&Arc::new(numbered(1000)), Found::Content(vec![b'x'; 20_000].into()));
    assert_eq!(world.remembered.answer(&numbered(1000)), None);
}
