//! [`HomeserverGate`]: where background calls to one homeserver wait for their turn.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::gate::constants::GateConstants;
use crate::gate::events::GateEvents;
use crate::gate::interactive::InteractiveStart;
use crate::gate::key::GateKey;
use crate::gate::permit::Permit;
use crate::gate::poll_turn::PollTurn;
use crate::gate::queue::CallerKind;
use crate::gate::shared::Shared;
use crate::gate::status::GateStatus;
use crate::gate::turn::Turn;
use crate::sync::Arc;

/// The gate of one homeserver, for calls nobody is waiting for.
///
/// Clones are handles of the same gate. All of a process' background calls to one homeserver go through one gate, whatever
/// account they are for; [`GateRegistry`](crate::gate::GateRegistry) sees to it.
///
/// [`call`](Self::call) and [`call_within`](Self::call_within) wait, send and report in one. Whoever does it by hand reports
/// failures too: they are what the gate learns from.
///
/// ```
/// use portcullis::gate::{GateKey, HomeserverGate};
/// use portcullis::{Outcome, Took};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let gate = HomeserverGate::new(GateKey::from_base_url("https://matrix.example.org")?);
///
/// let permit = gate.acquire().await; // waits for as long as the homeserver struggles
/// let page = async { Err::<&str, _>(http::StatusCode::BAD_GATEWAY) }; // the caller's own request
/// let timeout = Duration::from_secs(30); // begins now: waiting was no part of the request
/// match tokio::time::timeout(timeout, page).await {
///     Ok(Ok(_page)) => permit.finish_success_within(timeout),
///     Ok(Err(status)) => {
///         let took = Took { elapsed: permit.elapsed(), timeout };
///         permit.finish(Outcome::of_status(status, took)); // a `?` here would drop the permit, and teach nothing
///     }
///     Err(_) => permit.finish(Outcome::timeout()), // the slot is held: the homeserver works on
/// }
/// assert_eq!(gate.status().limit, 1); // it was 2
/// # Ok::<(), portcullis::gate::InvalidBaseUrl>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct HomeserverGate {
    pub(super) shared: Arc<Shared>,
}

/// The caller's own wish ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled while waiting at the gate")]
pub struct Cancelled;

impl HomeserverGate {
    /// A gate that nobody has used yet, with the record's figures.
    #[must_use]
    pub fn new(key: GateKey) -> Self {
        Self::with_dangerous_constants(key, GateConstants::default())
    }

    /// The same with other figures: for rehearsals that cannot wait for a quarter of an hour. A gate with figures of its
    /// own no longer protects the homeserver as the record promises.
    #[must_use]
    pub fn with_dangerous_constants(key: GateKey, constants: GateConstants) -> Self {
        Self { shared: Arc::new(Shared::new(key, constants)) }
    }

    /// Waits for leave to send one call, as long as it takes. First come, first served.
    ///
    /// *Cancel safety:* dropping the future is how to cancel it: it leaves the line without a trace, and a turn it had just
    /// been given goes to the next. *Panics:* never, inside a tokio runtime with its timer on. *Blocking:* no; nothing is
    /// allocated if a slot is free. As with any fair queue the future has to be polled on: one that is kept and not polled
    /// stands in the way of those behind it.
    pub async fn acquire(&self) -> Permit {
        loop {
            // Whoever waits as long as it takes is never turned away.
            if let Some((grant, at)) = Turn::of(self, CallerKind::Background, None).await {
                return Permit::new(self.clone(), grant, at);
            }
        }
    }

    /// [`acquire`](Self::acquire) that ends when `cancel` does.
    ///
    /// *Errors:* [`Cancelled`]; nothing was sent and nothing is held. A permit that is to be had at once is given, whatever
    /// `cancel` says. *Cancel safety*, *Panics*, *Blocking:* as `acquire`.
    pub async fn acquire_unless(&self, cancel: impl Future<Output = ()>) -> Result<Permit, Cancelled> {
        first(self.acquire(), cancel).await
    }

    /// Waits for leave to send one call, but briefly: for callers inside a loop that must not stall.
    ///
    /// While the breaker is closed it queues behind those who came before, for `wait` at most. It gives up at once when
    /// the breaker is not closed, unless a probe is due that nobody else waits for: then it is the probe. Giving up changes
    /// nothing at the gate.
    ///
    /// *Cancel safety*, *Panics*, *Blocking:* as [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Option<Permit> {
        let (grant, at) = Turn::of(self, CallerKind::Brief, Some(wait)).await?;
        Some(Permit::new(self.clone(), grant, at))
    }

    /// Waits for leave to send one long-poll: only while the breaker is not closed. When a probe is due and nobody waits for
    /// a slot, the poll is the probe.
    ///
    /// *Cancel safety*, *Panics*, *Blocking:* as [`acquire`](Self::acquire).
    pub async fn poll_turn(&self) -> PollTurn {
        loop {
            if let Some((grant, _)) = Turn::of(self, CallerKind::LongPoll, None).await {
                return PollTurn::new(self.clone(), grant);
            }
        }
    }

    /// [`poll_turn`](Self::poll_turn) that ends when `cancel` does.
    ///
    /// *Errors:* [`Cancelled`]. *Cancel safety*, *Panics*, *Blocking:* as [`acquire_unless`](Self::acquire_unless).
    pub async fn poll_turn_unless(&self, cancel: impl Future<Output = ()>) -> Result<PollTurn, Cancelled> {
        first(self.poll_turn(), cancel).await
    }

    /// A call that a user waits for starts now. It does not wait and takes no slot; what it reports can halve the limit,
    /// not below 1, and is ignored while the breaker is not closed.
    ///
    /// *Panics:* never. *Blocking:* no.
    pub fn interactive(&self) -> InteractiveStart {
        InteractiveStart::at(self.clone())
    }

    /// Says that no background call of this process goes through this gate, and nothing else: status then tells that it is
    /// there for what users wait for alone. Nobody is kept from waiting here.
    ///
    /// ```
    /// use portcullis::gate::{GateKey, HomeserverGate};
    ///
    /// let gate = HomeserverGate::new(GateKey::from_base_url("http://127.0.0.1:8008")?);
    /// assert!(gate.status().background_callers);
    /// gate.without_background_callers();
    /// assert!(!gate.status().background_callers);
    /// # Ok::<(), portcullis::gate::InvalidBaseUrl>(())
    /// ```
    pub fn without_background_callers(&self) {
        self.shared.expect_no_background_callers();
    }

    /// The name of the homeserver.
    #[must_use]
    pub fn key(&self) -> &GateKey {
        &self.shared.key
    }

    /// How long ago the gate was made; the times of its events count from then.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.shared.now()
    }

    /// The gate as it is now: a snapshot that asks nobody, right whether or not a timer ran.
    ///
    /// *Panics:* never. *Blocking:* no; the lock is held while a few numbers are copied.
    #[must_use]
    pub fn status(&self) -> GateStatus {
        let (seen, after) = self.shared.look();
        after.carry_out(self.key());
        GateStatus::of(self.key(), &seen)
    }

    /// Follows what happens here, from the oldest event that is remembered.
    #[must_use]
    pub fn events(&self) -> GateEvents {
        GateEvents::of(self.clone())
    }

    /// Moves this gate's clock on, as far as `to` after its making, and does what a timer would have done by then.
    #[cfg(any(portcullis_loom, portcullis_shuttle))]
    pub fn pass_time_to(&self, to: Duration) {
        self.shared.pass_time_to(to);
    }
}

impl fmt::Debug for HomeserverGate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HomeserverGate").field("key", self.key()).finish_non_exhaustive()
    }
}

/// Polls both, `work` first.
async fn first<T>(work: impl Future<Output = T>, cancel: impl Future<Output = ()>) -> Result<T, Cancelled> {
    let (mut work, mut cancel) = (pin!(work), pin!(cancel));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => cancel.as_mut().poll(context).map(|()| Err(Cancelled)),
    })
    .await
}
