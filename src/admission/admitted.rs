//! [`Admitted`]: the pass for one call, and the two ways to spend it on a client of one's own.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::Slot;
use super::client_key::ClientKey;
use super::route::OutboundRoute;
use crate::deadline::{Expired, OutboundDeadline};
use crate::server_name::ServerName;

/// The pass for one outbound call: its slot, its deadline and where it may go. Only
/// [`Admission::admit`](super::Admission::admit) and [`Admission::admit_call`](super::Admission::admit_call) make one.
///
/// An outbound call takes it by value, so there is no call without a slot and no slot that outlives its call:
///
/// ```compile_fail,E0451
/// use portcullis::{Admitted, ClientKey, OutboundDeadline, OutboundRoute, Slot};
///
/// fn forge(route: OutboundRoute, deadline: OutboundDeadline, slot: Slot<ClientKey>) -> Admitted {
///     Admitted { route, deadline, slot } // there is no other way to make one: its fields are private
/// }
/// ```
///
/// ```compile_fail,E0382
/// fn twice(pass: portcullis::Admitted) {
///     let first = pass.run(async {});
///     let second = pass.run(async {}); // used already: one pass, one call
/// }
/// ```
#[must_use = "dropping the pass frees its slot"]
#[derive(Debug)]
pub struct Admitted {
    pub(super) route: OutboundRoute,
    pub(super) deadline: OutboundDeadline,
    pub(super) slot: Slot<ClientKey>,
}

impl Admitted {
    /// The deadline, started at admission; discovery is included.
    #[must_use]
    pub fn deadline(&self) -> OutboundDeadline {
        self.deadline
    }

    /// The route that was admitted: which of them it is, and the alias of an alias lookup. The parameters of a room list
    /// are where they were, in the request; what another call asks is known to whoever makes it.
    ///
    /// ```
    /// use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
    ///
    /// # let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    /// # let route = OutboundRoute::RoomAlias { alias: "#hall:them.example".parse().unwrap() };
    /// let pass = admission.admit(&ClientKey::shared(), route).unwrap();
    /// let asked = match pass.route() {
    ///     OutboundRoute::PublicRooms { server } => format!("the room list of {server}"),
    ///     OutboundRoute::RoomAlias { alias } => format!("the room behind {alias}"),
    ///     OutboundRoute::Other { server } => format!("something else of {server}"), // from `admit_call`
    /// };
    /// assert_eq!(asked, "the room behind #hall:them.example");
    /// ```
    #[must_use]
    pub fn route(&self) -> &OutboundRoute {
        &self.route
    }

    /// The one server this pass is good for.
    #[must_use]
    pub fn destination(&self) -> &ServerName {
        self.route.destination()
    }

    /// Runs the caller's own federation call under this pass: their discovery, their client, our slot and deadline.
    ///
    /// The slot lives exactly as long as `call`: it is free before the result is handed out, and it stays held while
    /// `call` runs, however impatient the caller is (spawn the returned future to let it outlive a connection).
    ///
    /// *Errors:* [`Expired`], and `call` has been dropped. *Panics:* never, inside a tokio runtime with its timer on. *Cancel
    /// safety:* dropping the returned future drops `call`, then the slot. *Blocking:* no.
    ///
    /// ```
    /// # use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # runtime.block_on(async {
    /// # let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    /// # let route = OutboundRoute::PublicRooms { server: "them.example".parse().unwrap() };
    /// let pass = admission.admit(&ClientKey::shared(), route).unwrap();
    /// let rooms = pass.run(async { /* your federation call */ 42 }).await;
    /// assert_eq!(rooms, Ok(42));
    /// assert_eq!(admission.budget().in_flight(), 0);
    /// # });
    /// ```
    pub fn run<F: Future>(self, call: F) -> impl Future<Output = Result<F::Output, Expired>> {
        let Self { deadline, slot, .. } = self;
        async move {
            let slot = slot;
            let outcome = deadline.cut(call).await;
            // Before the answer: whoever sees the answer may ask again at once and must not meet its own slot.
            drop(slot);
            outcome
        }
    }

    /// Runs the caller's own federation call on this thread, for a client that blocks. `call` is given the time that is left,
    /// never zero: the timeout for *all* it does, discovery and the last byte of the body included.
    ///
    /// It is for a client that blocks. An `async` block given here is returned as it is and has done nothing yet: awaited
    /// later it runs without a slot and without a deadline. That is for [`run`](Self::run).
    ///
    /// Nothing from outside can end a call that blocks: its client has to. A timeout between two reads is none, because a
    /// peer that sends a byte now and then never meets it; a call of several steps subtracts what the first one took. One
    /// that outlives its deadline is a warning in the log, and holds its slot until it ends, as it holds its thread.
    ///
    /// *Errors:* [`Expired`] where no time is left to begin with; `call` was not run then. *Panics:* where `call` does; the
    /// slot is free then. *Blocking:* as long as `call`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
    /// # let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    /// # let route = OutboundRoute::PublicRooms { server: "them.example".parse().unwrap() };
    /// /// Your client, with one timeout for the whole request.
    /// fn room_list(server: &str, timeout: Duration) -> String {
    ///     assert!(timeout <= Duration::from_secs(10));
    ///     format!("the rooms of {server}")
    /// }
    ///
    /// let pass = admission.admit(&ClientKey::shared(), route).unwrap();
    /// let server = pass.destination().clone();
    /// let rooms = pass.run_blocking(|timeout| room_list(server.as_str(), timeout));
    /// assert_eq!(rooms.as_deref(), Ok("the rooms of them.example"));
    /// assert_eq!(admission.budget().in_flight(), 0);
    /// ```
    pub fn run_blocking<T>(self, call: impl FnOnce(Duration) -> T) -> Result<T, Expired> {
        let Self { deadline, slot, .. } = self;
        run_blocking(deadline, slot, call)
    }
}

/// Holds `slot`, whatever it is of, until `call` has returned or panicked.
pub(super) fn run_blocking<S, T>(
    deadline: OutboundDeadline,
    slot: S,
    call: impl FnOnce(Duration) -> T,
) -> Result<T, Expired> {
    let _until_the_end = slot;
    let left = deadline.remaining(Instant::now()).ok_or(Expired)?;
    let outcome = call(left);
    if deadline.is_expired(Instant::now()) {
        tracing::warn!(target: "portcullis::admission", "a blocking call outlived its deadline");
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::admission::{Admission, ClientOutboundProxyPolicy, RemoteTimeout};

    const TEN: Duration = Duration::from_secs(10);

    fn admission() -> Admission {
        Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(2))
    }

    fn admitted(admission: &Admission) -> Admitted {
        let route = OutboundRoute::PublicRooms { server: "a.example".parse().unwrap() };
        admission.admit(&ClientKey::shared(), route).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_slot_is_free_before_the_result_is_seen_and_after_expiry() {
        let admission = admission();
        let pass = admitted(&admission);
        assert_eq!(pass.run(async { 1 }).await, Ok(1));
        assert_eq!(admission.budget().in_flight(), 0);

        let start = Instant::now();
        let pass = admitted(&admission);
        assert_eq!(pass.run(std::future::pending::<()>()).await, Err(Expired));
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        assert_eq!((admission.budget().in_flight(), admission.budget().tracked_keys()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_slot_stays_held_while_the_call_runs_though_the_caller_left() {
        let admission = admission();
        let pass = admitted(&admission);
        let call = tokio::spawn(pass.run(tokio::time::sleep(Duration::from_secs(4))));
        drop(call); // a dropped handle does not end the task
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(admission.budget().in_flight(), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(admission.budget().in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_inside_the_call_frees_the_slot() {
        let admission = admission();
        let pass = admitted(&admission);
        let call = tokio::spawn(pass.run(async { panic!("inside the call") }));
        assert!(call.await.unwrap_err().is_panic());
        assert_eq!(admission.budget().in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocking_call_is_told_what_is_left_and_holds_its_slot_until_it_returns() {
        let admission = admission();
        let pass = admitted(&admission);
        tokio::time::advance(Duration::from_secs(4)).await;
        let seen = pass.run_blocking(|left| (left, admission.budget().in_flight()));
        assert_eq!(seen, Ok((Duration::from_secs(6), 1)));
        assert_eq!((admission.budget().in_flight(), admission.budget().tracked_keys()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocking_call_without_time_is_not_begun() {
        let admission = admission();
        let pass = admitted(&admission);
        tokio::time::advance(TEN).await;
        let mut begun = false;
        assert_eq!(pass.run_blocking(|_| begun = true), Err(Expired));
        assert!(!begun);
        assert_eq!(admission.budget().in_flight(), 0);
    }

    #[test]
    fn a_panic_inside_a_blocking_call_frees_the_slot() {
        let admission = admission();
        let pass = admitted(&admission);
        let panicked = catch_unwind(AssertUnwindSafe(|| pass.run_blocking(|_| panic!("inside the call"))));
        assert!(panicked.is_err());
        assert_eq!(admission.budget().in_flight(), 0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this is what a call that blocks does")]
    fn a_blocking_call_that_comes_back_late_held_its_slot_and_keeps_its_result() {
        let admission = admission().with_remote_timeout(RemoteTimeout::new(Duration::from_millis(20)).unwrap());
        let late = admitted(&admission).run_blocking(|left| {
            std::thread::sleep(left + Duration::from_millis(1));
            admission.budget().in_flight()
        });
        assert_eq!(late, Ok(1));
        assert_eq!(admission.budget().in_flight(), 0);
    }
}
