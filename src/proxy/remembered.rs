//! [`Remembered`]: each question is asked once, and its answer kept for a minute.
//!
//! A link posted in a busy room makes a thousand clients ask the same server the same thing within seconds. One of them
//! asks; those who come meanwhile wait for its answer, each in a slot and under a deadline of its own; those who come
//! later take no slot at all.
//!
//! A turn passes from asker to asker by a lock that is held while asking. Whoever gets the turn finds an outcome, or asks.
//! So an asker that ran out of *its* time, was dropped or panicked leaves no outcome, and the next in line asks with the
//! time that it has left. Only the outcome of time is kept back like this: what the other server answered to one, it
//! would answer to all.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

use crate::admission::Admitted;
use crate::proxy::directory::{Found, LookupFailure, Question};
use crate::sync::Mutex;

type Outcome = Result<Found, LookupFailure>;

/// Answers given lately, and questions in flight.
///
/// Always: at most `answers` entries, at most `bytes` of questions and answers together, plus what inserts in progress
/// have not yet weighed (`what_is_remembered_is_bounded`); at most as many questions in flight as slots are held. Never: a
/// failure is remembered (`a_failure_is_shared_and_not_remembered`).
pub(crate) struct Remembered {
    kept: Cache<Arc<Question>, Kept>,
    time_to_live: Duration,
    in_flight: Mutex<HashMap<Arc<Question>, InFlight>>,
}

/// How much is remembered, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RememberedBounds {
    /// Most answers.
    pub(crate) answers: u64,
    /// Most bytes, questions included.
    pub(crate) bytes: u64,
    /// How long an answer is good.
    pub(crate) time_to_live: Duration,
}

#[derive(Clone)]
struct Kept {
    found: Found,
    expires_at: Instant,
}

struct InFlight {
    turn: Arc<Turn>,
    aboard: usize,
}

/// Held while asking; holds the outcome once there is one.
type Turn = tokio::sync::Mutex<Option<Outcome>>;

impl Remembered {
    /// Remembers nothing yet.
    pub(crate) fn new(bounds: RememberedBounds) -> Self {
        // One capacity bounds both: no entry weighs less than its share of the bytes.
        let least = bounds.bytes / bounds.answers.max(1);
        let kept = Cache::builder()
            .max_capacity(bounds.bytes)
            // A flood of questions asked often must not keep the next answer out.
            .eviction_policy(EvictionPolicy::lru())
            .weigher(move |question: &Arc<Question>, kept: &Kept| {
                let body = match &kept.found {
                    Found::Content(body) => body.len(),
                    Found::NoSuchAlias => 0,
                };
                let bytes = u64::try_from(question.weight_bytes().saturating_add(body)).unwrap_or(u64::MAX);
                u32::try_from(bytes.max(least)).unwrap_or(u32::MAX)
            })
            // Gives the memory back. What counts is `expires_at`, which a test can move.
            .time_to_live(bounds.time_to_live)
            .build();
        Self { kept, time_to_live: bounds.time_to_live, in_flight: Mutex::new(HashMap::new()) }
    }

    /// An answer that is still good. *Blocking:* no.
    pub(crate) fn answer(&self, question: &Question) -> Option<Found> {
        self.kept.get(question).filter(|kept| kept.expires_at > Instant::now()).map(|kept| kept.found)
    }

    /// The answer to `question`: remembered, got by an equal question in flight, or got by `ask`.
    ///
    /// Ends by the deadline of `pass`; its slot is free when this returns, before a follower learns the outcome.
    /// *Cancel safety:* dropping the future frees the slot and passes the turn on.
    pub(crate) async fn share<F>(&self, question: Question, pass: Admitted, ask: impl FnOnce(Admitted) -> F) -> Outcome
    where
        F: Future<Output = Outcome>,
    {
        let deadline = pass.deadline();
        let seat = self.board(question);
        let turn_or_outcome = async {
            let mut turn = seat.turn.lock().await;
            if let Some(outcome) = turn.as_ref() {
                return outcome.clone();
            }
            // Given between our first look and our boarding.
            if let Some(found) = self.answer(&seat.question) {
                return Ok(found);
            }
            if deadline.is_expired(Instant::now()) {
                return Err(LookupFailure::TimedOut);
            }
            let outcome = ask(pass).await;
            match &outcome {
                Ok(found) => self.keep(&seat.question, found.clone()),
                Err(LookupFailure::TimedOut) => return outcome,
                Err(_) => {}
            }
            seat.close();
            *turn = Some(outcome.clone());
            outcome
        };
        // The deadline is around the turn, not inside it: an asker cut here leaves the turn to the next.
        deadline.cut(turn_or_outcome).await.unwrap_or(Err(LookupFailure::TimedOut))
    }

    fn keep(&self, question: &Arc<Question>, found: Found) {
        let kept = Kept { found, expires_at: Instant::now() + self.time_to_live };
        self.kept.insert(Arc::clone(question), kept);
        // Evicts now what is over the bounds, rather than some inserts later.
        self.kept.run_pending_tasks();
    }

    fn board(&self, question: Question) -> Seat<'_> {
        let question = Arc::new(question);
        let mut in_flight = self.in_flight.lock();
        let entry = in_flight
            .entry(Arc::clone(&question))
            .or_insert_with(|| InFlight { turn: Arc::new(Turn::new(None)), aboard: 0 });
        entry.aboard += 1;
        Seat { remembered: self, turn: Arc::clone(&entry.turn), question }
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remembered").field("kept", &self.kept.entry_count()).finish_non_exhaustive()
    }
}

/// One that asks or waits. The last to leave forgets the question.
struct Seat<'a> {
    remembered: &'a Remembered,
    question: Arc<Question>,
    turn: Arc<Turn>,
}

impl Seat<'_> {
    /// There is an outcome: who comes from here on looks at what is remembered, or asks anew.
    fn close(&self) {
        let mut in_flight = self.remembered.in_flight.lock();
        if in_flight.get(&self.question).is_some_and(|entry| Arc::ptr_eq(&entry.turn, &self.turn)) {
            in_flight.remove(&self.question);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.remembered.in_flight.lock();
        let Some(entry) = in_flight.get_mut(&self.question) else { return };
        if Arc::ptr_eq(&entry.turn, &self.turn) {
            entry.aboard -= 1;
            if entry.aboard == 0 {
                in_flight.remove(&self.question);
            }
        }
    }
}

#[cfg(test)]
mod tests;
