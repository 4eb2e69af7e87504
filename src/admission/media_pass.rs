//! [`MediaPass`]: the pass for one media fetch.

#[cfg(feature = "outbound")]
use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::admitted::run_blocking;
use super::budget::Slot;
use super::client_key::ClientKey;
use super::remote_fetch::RemoteFetchAllowed;
use crate::deadline::{Expired, OutboundDeadline};
use crate::server_name::ServerName;

/// The pass for one media fetch: the switch's consent, a slot and a deadline. Only a door makes one.
///
/// A media call takes it by value. The slot is free when the call has ended, whatever its client did meanwhile.
#[derive(Debug)]
#[must_use = "dropping the pass frees its slot"]
pub struct MediaPass {
    allowed: RemoteFetchAllowed,
    client: ClientKey,
    deadline: OutboundDeadline,
    slot: MediaSlot,
}

/// Where the slot is from.
#[derive(Debug)]
enum MediaSlot {
    /// The main budget: the fetch holds a thread of the request pool.
    Inline { _slot: Slot<ClientKey> },
    /// The media budget: the fetch holds no thread.
    #[cfg(feature = "outbound")]
    OffPool { _of_client: Slot<ClientKey>, _at_origin: Box<dyn PlaceAtOrigin> },
}

/// What a pass holds at its origin, counted by whoever knows the origins. Dropped with the pass.
#[cfg(feature = "outbound")]
pub(crate) trait PlaceAtOrigin: fmt::Debug + Send + Sync + 'static {}

#[cfg(feature = "outbound")]
impl<P: fmt::Debug + Send + Sync + 'static> PlaceAtOrigin for P {}

impl MediaPass {
    pub(super) fn inline(
        allowed: RemoteFetchAllowed,
        client: ClientKey,
        deadline: OutboundDeadline,
        slot: Slot<ClientKey>,
    ) -> Self {
        Self { allowed, client, deadline, slot: MediaSlot::Inline { _slot: slot } }
    }

    #[cfg(feature = "outbound")]
    pub(super) fn off_pool(
        allowed: RemoteFetchAllowed,
        client: ClientKey,
        deadline: OutboundDeadline,
        of_client: Slot<ClientKey>,
        at_origin: Box<dyn PlaceAtOrigin>,
    ) -> Self {
        let slot = MediaSlot::OffPool { _of_client: of_client, _at_origin: at_origin };
        Self { allowed, client, deadline, slot }
    }

    /// The deadline, started at admission: waiting for a turn, discovery, request, fallback and the whole body.
    #[must_use]
    pub fn deadline(&self) -> OutboundDeadline {
        self.deadline
    }

    /// What the pass is good for.
    pub fn allowed(&self) -> &RemoteFetchAllowed {
        &self.allowed
    }

    /// The one server it is good for.
    #[must_use]
    pub fn destination(&self) -> &ServerName {
        self.allowed.destination()
    }

    /// Whom it counts against.
    #[must_use]
    pub fn client(&self) -> ClientKey {
        self.client
    }

    /// Whether the fetch holds a thread of the request pool.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        matches!(self.slot, MediaSlot::Inline { .. })
    }

    /// Runs the caller's own fetch under this pass, as [`Admitted::run`](super::Admitted::run) does.
    ///
    /// *Errors:* [`Expired`], and `fetch` has been dropped. *Panics:* never, inside a tokio runtime with its timer on. *Cancel
    /// safety:* dropping the returned future drops `fetch`, then the slot. *Blocking:* no.
    pub fn run<F: Future>(self, fetch: F) -> impl Future<Output = Result<F::Output, Expired>> {
        let Self { deadline, slot, .. } = self;
        async move {
            let slot = slot;
            let outcome = deadline.cut(fetch).await;
            drop(slot);
            outcome
        }
    }

    /// Runs the caller's own fetch on this thread, as [`Admitted::run_blocking`](super::Admitted::run_blocking) does: for a
    /// client that blocks, and for no `async` block.
    ///
    /// *Errors:* [`Expired`], and `fetch` was not run. *Panics:* where `fetch` does; the slot is free then. *Blocking:* as
    /// long as `fetch`.
    pub fn run_blocking<T>(self, fetch: impl FnOnce(Duration) -> T) -> Result<T, Expired> {
        let Self { deadline, slot, .. } = self;
        run_blocking(deadline, slot, fetch)
    }
}
