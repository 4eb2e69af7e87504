//! [`TokenDesk`]: whose an access token is, asked of the homeserver behind once, whoever waits for the answer.
//!
//! ```text
//!  said within a minute? ─► a question about it out? a place to wait (503) ─► said
//!                           └─► a slot (503) ─► whoami, a task of its own ─► said
//! ```

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::fair_budget::FairBudget;
use super::client::head_deadline;
use super::token_cache::{TokenCache, TokenHash};
use crate::admission::{ClientKey, InFlightBudget, InFlightCaps, Slot};
use crate::deadline::OutboundDeadline;
use crate::limits::{
    UPSTREAM_TOKEN_QUESTIONS, UPSTREAM_TOKEN_QUESTIONS_PER_CLIENT, UPSTREAM_TOKEN_WAITERS,
    UPSTREAM_TOKEN_WAITERS_PER_CLIENT,
};
use crate::outbound::BoxFuture;
use crate::proxy::answer::homeserver::upstream::TokenVerdict;

/// A question about a token.
#[derive(Clone)]
pub(super) struct TokenQuestion {
    /// The secret. No debug output shows it.
    pub(super) token: Box<str>,
    /// Who shows it: homeservers keep where a session was last seen.
    pub(super) from: IpAddr,
    /// With what program.
    pub(super) user_agent: Option<HeaderValue>,
    /// Whether it was a user's when it was last asked about.
    pub(super) was_good: bool,
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// Time ended the question. It says nothing to anybody else.
    TimedOut,
    /// The homeserver is not to be reached, or says nothing of the token.
    Failed,
}

/// What becomes of a request whose token is to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotKnown {
    /// Too many questions are out.
    Busy,
    /// Too many wait for the answer to somebody's equal question.
    Crowded,
    /// There was no answer.
    Silent,
}

/// Asks the homeserver behind: the client in use, a fake in tests.
pub(super) trait Whoami: Send + Sync + 'static {
    /// Ends by `deadline`.
    fn ask(
        &self,
        question: TokenQuestion,
        deadline: OutboundDeadline,
    ) -> BoxFuture<'static, Result<TokenVerdict, Unasked>>;
}

/// Knows tokens, and asks about those it does not.
///
/// Always: one question per token at a time, and no more in all and per client than the limits say
/// (`equal_questions_are_asked_once_and_followers_take_no_slot`), nor do more wait for the answers to others' questions
/// (`who_waits_for_anothers_answer_is_counted`). Never: somebody else's time-out, or a question that failed,
/// is taken for a verdict (`a_time_out_is_its_own_callers_alone`, `what_failed_is_not_remembered`).
pub(super) struct TokenDesk {
    whoami: Arc<dyn Whoami>,
    cache: TokenCache,
    /// At most one per slot.
    out: Mutex<HashMap<TokenHash, watch::Receiver<Option<Ended>>>>,
    slots: InFlightBudget<ClientKey>,
    /// Places of those who wait for the answer to somebody's equal question.
    waiters: FairBudget,
}

type Ended = Result<TokenVerdict, Unasked>;

/// What to do about a token.
enum Step {
    Said(TokenVerdict),
    /// Its own question is out.
    Asked(watch::Receiver<Option<Ended>>),
    /// Somebody else's is.
    Follow(watch::Receiver<Option<Ended>>),
}

impl TokenDesk {
    pub(super) fn new(whoami: Arc<dyn Whoami>) -> Arc<Self> {
        let slots = InFlightBudget::new(InFlightCaps {
            global: UPSTREAM_TOKEN_QUESTIONS,
            per_key: UPSTREAM_TOKEN_QUESTIONS_PER_CLIENT,
        });
        let waiters = FairBudget::new(InFlightCaps {
            global: UPSTREAM_TOKEN_WAITERS,
            per_key: UPSTREAM_TOKEN_WAITERS_PER_CLIENT,
        });
        Arc::new(Self { whoami, cache: TokenCache::new(), out: Mutex::default(), slots, waiters })
    }

    /// Whose the token is, if that was said within the last minute.
    pub(super) fn user_of(&self, token: &str) -> Option<Box<str>> {
        match self.cache.said(&self.cache.hash(token)) {
            Some(TokenVerdict::Good(user)) => Some(user),
            Some(TokenVerdict::Bad(_)) | None => None,
        }
    }

    /// Questions that are out, and how many there may be.
    pub(super) fn slots(&self) -> &InFlightBudget<ClientKey> {
        &self.slots
    }

    /// Requests that wait for the answers to others' questions, and how many there may be.
    pub(super) fn waiters(&self) -> &FairBudget {
        &self.waiters
    }

    /// What the homeserver says of a token, for `client`. Ends within ten seconds.
    ///
    /// *Cancel safety:* the question goes on, and its answer is remembered.
    pub(super) async fn verdict(
        self: &Arc<Self>,
        mut question: TokenQuestion,
        client: ClientKey,
    ) -> Result<TokenVerdict, NotKnown> {
        let hash = self.cache.hash(&question.token);
        let deadline = head_deadline();
        let mut waits: Option<Slot<ClientKey>> = None;
        loop {
            question.was_good = self.cache.was_good(&hash);
            let mut answer = match self.step(hash, &question, &client)? {
                Step::Said(verdict) => return Ok(verdict),
                Step::Asked(answer) => {
                    waits = None;
                    answer
                }
                Step::Follow(answer) => {
                    if waits.is_none() {
                        waits = Some(self.waiters.try_acquire(&client).map_err(|_| NotKnown::Crowded)?);
                    }
                    answer
                }
            };
            let ended = deadline.cut(answer.wait_for(Option::is_some)).await.map_err(|_| NotKnown::Silent)?;
            // The sender's end means that the task was dropped with its runtime.
            let ended = ended.map_err(|_| NotKnown::Silent)?.clone();
            match ended {
                Some(Ok(verdict)) => return Ok(verdict),
                Some(Err(Unasked::Failed)) | None => return Err(NotKnown::Silent),
                // It was somebody else's time, or this one's is over too, and then the next wait ends at once.
                Some(Err(Unasked::TimedOut)) => {}
            }
        }
    }

    /// The answer that is there or on its way; a question is sent out if there is none.
    fn step(self: &Arc<Self>, hash: TokenHash, question: &TokenQuestion, client: &ClientKey) -> Result<Step, NotKnown> {
        let mut out = self.out.lock();
        if let Some(answer) = out.get(&hash) {
            return Ok(Step::Follow(answer.clone()));
        }
        // Looked at with the table locked: an answer is remembered before its question leaves the table.
        if let Some(verdict) = self.cache.said(&hash) {
            return Ok(Step::Said(verdict));
        }
        let slot = self.slots.try_acquire(client).map_err(|_| NotKnown::Busy)?;
        let (say, answer) = watch::channel(None);
        out.insert(hash, answer.clone());
        drop(out);
        let asked = Asked { desk: Arc::clone(self), hash, _slot: slot };
        // A task of its own: whoever asked may leave, and what was begun is not begun again.
        tokio::spawn(asked.ask(question.clone(), say));
        Ok(Step::Asked(answer))
    }
}

/// A question that is out: its place in the table and its slot, both free once it has ended, however it does.
struct Asked {
    desk: Arc<TokenDesk>,
    hash: TokenHash,
    _slot: Slot<ClientKey>,
}

impl Asked {
    async fn ask(self, question: TokenQuestion, say: watch::Sender<Option<Ended>>) {
        let deadline = head_deadline();
        let asking = self.desk.whoami.ask(question, deadline);
        let ended = deadline.cut(asking).await.unwrap_or(Err(Unasked::TimedOut));
        if let Ok(verdict) = &ended {
            self.desk.cache.remember(self.hash, verdict);
        }
        // The place is free before anybody hears: who goes on from there finds it so.
        drop(self);
        say.send_replace(Some(ended));
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.desk.out.lock().remove(&self.hash);
    }
}

impl fmt::Debug for TokenQuestion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TokenQuestion").finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenDesk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TokenDesk").field("cache", &self.cache).field("slots", &self.slots).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests;
