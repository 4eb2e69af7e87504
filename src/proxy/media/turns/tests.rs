//! The caps, the order and the wake-ups: single cases, and random ones against a naive model.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::standing::Standing;
use super::*;
use crate::admission::MediaCaps;

const STEP: Duration = Duration::from_millis(1);

fn client(last: u8) -> ClientKey {
    ClientKey::vouched([198, 51, 100, last].into(), Default::default())
}

/// Eight run, four at one origin; without standing four in all and one at an origin.
fn limits() -> MediaLimits {
    MediaLimits::new(MediaCaps { max_in_flight: 64, max_per_client: 64, max_running: 8, max_running_per_origin: 4 })
        .unwrap()
}

fn turns() -> Arc<Turns> {
    Arc::new(Turns::new(limits()))
}

fn proven(origins: &[&str]) -> Arc<Turns> {
    let turns = turns();
    for origin in origins {
        turns.prove(&Arc::from(*origin));
    }
    turns
}

/// Waits for a turn in a task of its own, and keeps it.
fn ask(turns: &Arc<Turns>, who: u8, origin: &str) -> JoinHandle<Turn> {
    tokio::spawn(turns.turn(client(who), Arc::from(origin)))
}

/// Which of them have got their turn by now.
async fn got(asked: &[JoinHandle<Turn>]) -> Vec<usize> {
    sleep(STEP).await;
    (0..asked.len()).filter(|n| asked[*n].is_finished()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_caps_hold_and_a_full_origin_keeps_nobody_else_waiting() {
    let turns = proven(&["good.example"]);
    let mut asked: Vec<_> = (0..6).map(|n| ask(&turns, n, "good.example")).collect();
    asked.extend((10..13).map(|n| ask(&turns, n, "new.example")));
    asked.extend((20..25).map(|n| ask(&turns, n, &format!("other{n}.example"))));
    // Four of the proven origin, one of a new one, and four of all new ones together.
    assert_eq!(got(&asked).await, [0, 1, 2, 3, 6, 9, 10, 11]);
    assert_eq!((turns.running(), turns.waiting()), (8, 6));
    drop(asked.remove(0).await);
    assert_eq!(got(&asked).await, [0, 1, 2, 3, 5, 8, 9, 10]);
    drop(asked.remove(5).await); // new.example's
    assert_eq!(got(&asked).await, [0, 1, 2, 3, 5, 7, 8, 9]);
}

#[tokio::test(start_paused = true)]
async fn standing_gained_or_lost_counts_at_once() {
    let turns = turns();
    let mut asked: Vec<_> = (0..6).map(|n| ask(&turns, n, "new.example")).collect();
    assert_eq!(got(&asked).await, [0]);
    let origin = Arc::from("new.example");
    turns.prove(&origin);
    assert_eq!(got(&asked).await, [0, 1, 2, 3]);
    turns.lose(&origin);
    for left in [3, 2, 1] {
        drop(asked.remove(0).await);
        let running = got(&asked).await.len();
        assert_eq!(running, left);
    }
    drop(asked.remove(0).await);
    assert_eq!((got(&asked).await.len(), turns.waiting()), (1, 1));
}

#[test]
fn clients_take_turns_however_many_fetches_one_of_them_has() {
    let mut queue = Queue::new(
        MediaLimits::new(MediaCaps {
            max_in_flight: 64,
            max_per_client: 64,
            max_running: 1,
            max_running_per_origin: 1,
        })
        .unwrap(),
    );
    let join = |queue: &mut Queue<_>, who: u8, name| queue.join(client(who), Arc::from("a.example"), name);
    let mut order = Vec::new();
    let mut serve = |queue: &mut Queue<&'static str>| {
        while let Some((running, name)) = queue.next(|_| Standing::Unproven) {
            queue.ended(&running);
            order.push(name);
            if name == "1c" {
                join(queue, 4, "4a"); // a newcomer has its turn before the rest of those with many
            }
        }
    };
    for (who, name) in [(1, "1a"), (1, "1b"), (1, "1c"), (1, "1d"), (1, "1e"), (2, "2a"), (2, "2b"), (3, "3a")] {
        join(&mut queue, who, name);
    }
    serve(&mut queue);
    assert_eq!(order, ["1a", "2a", "3a", "1b", "2b", "1c", "1d", "4a", "1e"]);
    assert!(queue.is_at_rest());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_leaves_no_trace() {
    let turns = proven(&["good.example"]);
    let held: Vec<_> = (0..4).map(|n| ask(&turns, n, "good.example")).collect();
    let (leaves, stays) = (ask(&turns, 5, "good.example"), ask(&turns, 6, "good.example"));
    assert_eq!((got(&held).await.len(), turns.waiting()), (4, 2));
    leaves.abort();
    sleep(STEP).await;
    assert_eq!(turns.waiting(), 1);
    // Never polled at all: its place was taken at once all the same, and is given back.
    let unpolled = turns.turn(client(7), Arc::from("good.example"));
    assert_eq!(turns.waiting(), 2);
    drop(unpolled);
    for turn in held {
        drop(turn.await);
    }
    drop(stays.await);
    assert!(turns.state.lock().queue.is_at_rest());
}

#[tokio::test(start_paused = true)]
async fn a_turn_given_to_one_that_has_just_left_goes_to_the_next() {
    let turns = turns();
    let held = turns.turn(client(1), Arc::from("a.example")).await;
    let leaves = turns.turn(client(2), Arc::from("a.example"));
    let stays = ask(&turns, 3, "a.example");
    drop(held); // given to the one that is not polled
    assert!(!stays.is_finished());
    assert_eq!((turns.running(), turns.waiting()), (1, 1));
    drop(leaves);
    drop(stays.await.unwrap());
    assert!(turns.state.lock().queue.is_at_rest());
}

#[derive(Clone, Debug)]
enum Op {
    Join { client: u8, origin: usize },
    Leave { which: usize },
    End { which: usize },
    Prove { origin: usize },
    Lose { origin: usize },
}

const ORIGINS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn op() -> impl Strategy<Value = Op> {
    let (origin, which) = (0..ORIGINS.len(), 0..64_usize);
    prop_oneof![
        6 => (0..4_u8, origin.clone()).prop_map(|(client, origin)| Op::Join { client, origin }),
        1 => which.clone().prop_map(|which| Op::Leave { which }),
        5 => which.prop_map(|which| Op::End { which }),
        1 => origin.clone().prop_map(|origin| Op::Prove { origin }),
        1 => origin.prop_map(|origin| Op::Lose { origin }),
    ]
}

/// A fetch as the model knows it: a list searched from end to end, and the caps counted anew each time.
struct Fetch {
    id: usize,
    client: u8,
    origin: usize,
    rank: Option<Rank>,
    running: Option<Running>,
    /// How many that came later and could have waited were served before it, while it could have run.
    passed_over: usize,
    ahead_at_first: usize,
}

impl Fetch {
    fn runs(&self) -> bool {
        self.running.is_some()
    }
}

fn room(fetches: &[Fetch], proven: &HashMap<usize, bool>, origin: usize, client: u8) -> bool {
    let proven = |origin: usize| proven.get(&origin).copied().unwrap_or_default();
    let running = || fetches.iter().filter(|fetch| fetch.runs());
    let unproven = || running().filter(|fetch| !proven(fetch.origin));
    let here = running().filter(|fetch| fetch.origin == origin).count();
    running().filter(|fetch| fetch.client == client).count() + running().count() < 8
        && if proven(origin) {
            here < 4
        } else {
            here < 1 && unproven().filter(|fetch| fetch.client == client).count() + unproven().count() < 4
        }
}

proptest! {
    #[test]
    fn a_naive_model_agrees(ops in proptest::collection::vec(op(), 1..200)) {
        let mut queue = Queue::new(limits());
        let mut fetches: Vec<Fetch> = Vec::new();
        let mut proven: HashMap<usize, bool> = HashMap::new();
        let mut ids = 0;
        for op in ops {
            match op {
                Op::Join { client: who, origin } => {
                    ids += 1;
                    let rank = queue.join(client(who), Arc::from(ORIGINS[origin]), ids);
                    let ahead_at_first = fetches.iter().filter(|fetch| !fetch.runs()).count();
                    fetches.push(Fetch {
                        id: ids, client: who, origin, rank: Some(rank), running: None, passed_over: 0, ahead_at_first,
                    });
                }
                Op::Leave { which } => {
                    let waiting: Vec<_> = fetches.iter().filter(|fetch| !fetch.runs()).map(|fetch| fetch.id).collect();
                    if let Some(id) = waiting.get(which) {
                        let place = fetches.iter().position(|fetch| fetch.id == *id).unwrap();
                        let rank = fetches.remove(place).rank.unwrap();
                        prop_assert_eq!(queue.leave(rank), Some(*id));
                        prop_assert_eq!(queue.leave(rank), None);
                    }
                }
                Op::End { which } => {
                    let running: Vec<_> = fetches.iter().filter(|fetch| fetch.runs()).map(|fetch| fetch.id).collect();
                    if let Some(id) = running.get(which % 8) {
                        let place = fetches.iter().position(|fetch| fetch.id == *id).unwrap();
                        let running = fetches.remove(place).running.unwrap();
                        queue.ended(&running);
                    }
                }
                Op::Prove { origin } => drop(proven.insert(origin, true)),
                Op::Lose { origin } => drop(proven.remove(&origin)),
            }
            let standing = |origin: &str| {
                let origin = ORIGINS.iter().position(|name| *name == origin).unwrap();
                if proven.get(&origin).copied().unwrap_or_default() { Standing::Proven } else { Standing::Unproven }
            };
            while let Some((running, id)) = queue.next(standing) {
                let place = fetches.iter().position(|fetch| fetch.id == id).unwrap();
                let (who, origin) = (fetches[place].client, fetches[place].origin);
                prop_assert!(room(&fetches, &proven, origin, who), "over a cap");
                let could: Vec<_> = fetches.iter().filter(|other| room(&fetches, &proven, other.origin, other.client)).map(|other| other.id).collect();
                for other in fetches.iter_mut().filter(|other| !other.runs() && other.id < id && other.origin == origin && could.contains(&other.id)) {
                    prop_assert!(other.client != who, "a client's own order is kept");
                    other.passed_over += 1;
                    // Each other client gets at most one in for each of those that were before it at first.
                    prop_assert!(other.passed_over <= 3 * (other.ahead_at_first + 1));
                }
                fetches[place].running = Some(running);
            }
            for fetch in fetches.iter().filter(|fetch| !fetch.runs()) {
                prop_assert!(!room(&fetches, &proven, fetch.origin, fetch.client), "{} could run", fetch.id);
            }
            let running = fetches.iter().filter(|fetch| fetch.runs()).count();
            prop_assert_eq!((queue.running(), queue.waiting()), (running, fetches.len() - running));
        }
        while let Some(fetch) = fetches.pop() {
            match fetch.running {
                Some(running) => queue.ended(&running),
                None => drop(queue.leave(fetch.rank.unwrap())),
            }
        }
        prop_assert!(queue.is_at_rest());
    }
}

/// Fresh clients keep coming, each with one fetch, and ask for the only place there is.
#[test]
fn nobody_is_passed_over_for_ever() {
    let mut queue = Queue::new(
        MediaLimits::new(MediaCaps {
            max_in_flight: 16,
            max_per_client: 16,
            max_running: 1,
            max_running_per_origin: 1,
        })
        .unwrap(),
    );
    let proven = |_: &str| Standing::Proven;
    let busy: Arc<str> = Arc::from("busy");
    for (who, name) in [(0, "holder"), (1, "before"), (1, "again"), (1, "patient")] {
        queue.join(client(who), Arc::clone(&busy), name);
    }
    let (mut running, _) = queue.next(proven).unwrap();
    let mut served = Vec::new();
    for rival in 2..8 {
        queue.join(client(rival), Arc::clone(&busy), "rival");
        queue.ended(&running);
        let (next, who) = queue.next(proven).unwrap();
        running = next;
        served.push(who);
    }
    assert_eq!(served, ["before", "again", "rival", "rival", "patient", "rival"]);
}
