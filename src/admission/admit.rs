//! [`Admission`]: the one door, which hands out an [`Admitted`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::admitted::Admitted;
use super::budget::{Full, InFlightBudget, InFlightCaps};
use super::client_key::ClientKey;
use super::client_rate::{ClientRate, RateLimit};
use super::media_pass::MediaPass;
use super::policy::{ClientOutboundProxyPolicy, RemoteTimeout, RouteClass};
use super::refusal::Refusal;
use super::remote_fetch::RemoteFetchAllowed;
use super::route::OutboundRoute;
use crate::deadline::OutboundDeadline;
use crate::server_name::ServerName;

/// Decides whether a request may make an outbound call now. Cheap to clone; clones share the budget.
///
/// ```
/// use http::{Method, Uri};
/// use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
///
/// let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
/// let uri = Uri::from_static("/_matrix/client/v3/publicRooms?server=them.example");
/// let route = OutboundRoute::classify(&Method::GET, &uri).unwrap().unwrap();
/// let first = admission.admit(&ClientKey::shared(), route.clone()).unwrap();
/// assert!(admission.admit(&ClientKey::shared(), route).is_err()); // one in flight per client
/// drop(first);
/// ```
#[derive(Clone)]
pub struct Admission {
    own_name: ServerName,
    policy: ClientOutboundProxyPolicy,
    remote_timeout: Option<RemoteTimeout>,
    rules: Option<Arc<dyn DestinationRules>>,
    budget: InFlightBudget<ClientKey>,
    rates: Rates,
    refused: Arc<RefusedCounters>,
}

/// A moderation hook, asked before a slot is taken. It must be quick: it runs where the request runs.
///
/// ```
/// use std::collections::HashSet;
/// use std::sync::Arc;
///
/// use portcullis::{Admission, ClientOutboundProxyPolicy, DestinationRules, DestinationVerdict, ServerName};
///
/// struct Blocked(HashSet<String>); // each as `ServerName::canonical` spells it
///
/// impl DestinationRules for Blocked {
///     fn judge(&self, destination: &ServerName) -> DestinationVerdict {
///         match self.0.contains(&destination.canonical()) {
///             true => DestinationVerdict::Forbidden, // 403; `Hidden` is a 404
///             false => DestinationVerdict::Allowed,
///         }
///     }
/// }
///
/// let rules = Arc::new(Blocked(HashSet::from(["spam.example".to_owned()])));
/// let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8))
///     .with_destination_rules(rules);
/// # use portcullis::{ClientKey, OutboundRoute, Refusal};
/// # let route = OutboundRoute::PublicRooms { server: "SPAM.example".parse().unwrap() };
/// # assert_eq!(admission.admit(&ClientKey::shared(), route).unwrap_err(), Refusal::Forbidden);
/// ```
pub trait DestinationRules: Send + Sync + 'static {
    /// What this server thinks of asking `destination`.
    fn judge(&self, destination: &ServerName) -> DestinationVerdict;
}

/// What [`DestinationRules`] decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationVerdict {
    /// The call may be made.
    Allowed,
    /// 403: the client may know.
    Forbidden,
    /// 404: the client may not know.
    Hidden,
}

/// How many requests were refused, by reason, since the start.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RefusedCounts {
    /// Every slot was taken.
    pub global: u64,
    /// The client had its share in flight.
    pub client: u64,
    /// The client had caused as many calls lately as it may.
    pub rate: u64,
}

/// How often one client may cause a call, by class; `None`: as often as it likes.
#[derive(Clone, Default)]
struct Rates {
    directory: Option<Arc<ClientRate>>,
    media: Option<Arc<ClientRate>>,
}

/// The counters behind [`RefusedCounts`].
#[derive(Debug, Default)]
pub(super) struct RefusedCounters {
    global: AtomicU64,
    client: AtomicU64,
    rate: AtomicU64,
}

impl Admission {
    /// The door of the server `own_name`, with the caps and deadlines of `policy`.
    #[must_use]
    pub fn new(own_name: ServerName, policy: ClientOutboundProxyPolicy) -> Self {
        let budget =
            InFlightBudget::new(InFlightCaps { global: policy.global_cap(), per_key: policy.per_client_cap() });
        let (rates, refused) = (Rates::default(), Arc::default());
        Self { own_name, policy, remote_timeout: None, rules: None, budget, rates, refused }
    }

    /// Shortens every deadline to the operator's timeout where that is shorter.
    #[must_use]
    pub fn with_remote_timeout(mut self, limit: RemoteTimeout) -> Self {
        self.remote_timeout = Some(limit);
        self
    }

    /// Asks `rules` before a slot is taken.
    #[must_use]
    pub fn with_destination_rules(mut self, rules: Arc<dyn DestinationRules>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Bounds how often one client may cause a call of this class, whatever became of the calls before. Nobody is bounded
    /// unless set: a homeserver may have a limit of its own, and the caps hold without one.
    ///
    /// ```
    /// use portcullis::{
    ///     Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute, RateCaps, RateLimit, Refusal, RouteClass,
    /// };
    ///
    /// let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8))
    ///     .with_client_rate(RouteClass::Directory, RateLimit::new(RateCaps { per_minute: 60, burst: 1 }).unwrap());
    /// let route = OutboundRoute::PublicRooms { server: "them.example".parse().unwrap() };
    /// drop(admission.admit(&ClientKey::shared(), route.clone()).unwrap()); // its slot is free again
    /// assert!(matches!(admission.admit(&ClientKey::shared(), route), Err(Refusal::Rate { .. })));
    /// ```
    #[must_use]
    pub fn with_client_rate(mut self, class: RouteClass, limit: RateLimit) -> Self {
        let rate = Some(Arc::new(ClientRate::new(limit)));
        match class {
            RouteClass::Directory => self.rates.directory = rate,
            RouteClass::Media => self.rates.media = rate,
        }
        self
    }

    /// Lets one call of `client` go out, or says why not.
    ///
    /// The order is: own name, destination rules, rate, slot, deadline; the clock starts here. Refusals are counted, never
    /// written anywhere durable.
    ///
    /// *Errors:* [`Refusal`]; nothing is held then. *Panics:* never. *Blocking:* no I/O, no waiting.
    pub fn admit(&self, client: &ClientKey, route: OutboundRoute) -> Result<Admitted, Refusal> {
        self.check_destination(route.destination())?;
        self.check_rate(client, route.class())?;
        let slot = self.budget.try_acquire(client).map_err(|full| self.count_refusal(full))?;
        let allowed = self.allowed_time(route.class());
        Ok(Admitted { route, deadline: OutboundDeadline::after(allowed, Instant::now()), slot })
    }

    /// Lets one call of `client` to `destination` go out that is for none of the routes of this crate: a profile, the keys
    /// of a user, a join. It counts in the same budget and rate as a directory lookup, and has the same deadline.
    ///
    /// *Errors*, *Panics*, *Blocking:* as [`admit`](Self::admit), which this is for [`OutboundRoute::Other`].
    ///
    /// ```
    /// use portcullis::{Admission, ClientKey, Expired, ServerName};
    ///
    /// # use portcullis::{ClientOutboundProxyPolicy, Refusal};
    /// /// `GET /_matrix/client/v3/profile/{user}` for a user of another server.
    /// async fn profile(door: &Admission, client: &ClientKey, server: ServerName, user: &str) -> Result<String, String> {
    ///     let pass = door.admit_call(client, server).map_err(|refusal| refusal.to_string())?; // or `into_response`
    ///     let server = pass.destination().clone();
    ///     let found = pass.run(your_profile_call(&server, user)).await;
    ///     found.map_err(|Expired| "the other server took too long".to_owned())
    /// }
    ///
    /// /// Your own client: discovery, request, answer.
    /// async fn your_profile_call(server: &ServerName, user: &str) -> String {
    ///     format!("{user} as {server} has it")
    /// }
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # runtime.block_on(async {
    /// # let door = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    /// # let client = ClientKey::shared();
    /// # let found = profile(&door, &client, "them.example".parse().unwrap(), "@ann:them.example").await;
    /// # assert_eq!(found.as_deref(), Ok("@ann:them.example as them.example has it"));
    /// # let ours = door.admit_call(&client, "us.example".parse().unwrap());
    /// # assert_eq!(ours.unwrap_err(), Refusal::OwnServer);
    /// # });
    /// ```
    pub fn admit_call(&self, client: &ClientKey, destination: ServerName) -> Result<Admitted, Refusal> {
        self.admit(client, OutboundRoute::Other { server: destination })
    }

    /// Lets one media fetch of `client` go out on a thread of the request pool, under the same budget as everything else
    /// that holds one; or says why not. Own server and switch were asked before: `allowed` says so.
    ///
    /// *Errors:* [`Refusal`]; nothing is held then. *Panics:* never. *Blocking:* no I/O, no waiting.
    ///
    /// ```
    /// use portcullis::media::{AllowRemote, RemoteFetchPolicy, RemoteFile};
    /// use portcullis::{Admission, ClientKey, ClientOutboundProxyPolicy};
    ///
    /// let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8));
    /// let file = RemoteFile { server: "them.example".parse().unwrap(), media_id: "abc".parse().unwrap() };
    /// let switch = RemoteFetchPolicy { remote_fetch_enabled: true };
    /// let pass = admission.admit_media(&ClientKey::shared(), switch.check(file, AllowRemote::Yes).unwrap()).unwrap();
    /// # drop(pass.run(async { /* your fetch */ }));
    /// ```
    pub fn admit_media(&self, client: &ClientKey, allowed: RemoteFetchAllowed) -> Result<MediaPass, Refusal> {
        self.check_destination(allowed.destination())?;
        self.check_rate(client, RouteClass::Media)?;
        let slot = self.budget.try_acquire(client).map_err(|full| self.count_refusal(full))?;
        let deadline = OutboundDeadline::after(self.allowed_time(RouteClass::Media), Instant::now());
        Ok(MediaPass::inline(allowed, *client, deadline, slot))
    }

    fn check_destination(&self, destination: &ServerName) -> Result<(), Refusal> {
        if destination.is_same_server(&self.own_name) {
            return Err(Refusal::OwnServer);
        }
        match self.rules.as_ref().map_or(DestinationVerdict::Allowed, |rules| rules.judge(destination)) {
            DestinationVerdict::Allowed => Ok(()),
            DestinationVerdict::Forbidden => Err(Refusal::Forbidden),
            DestinationVerdict::Hidden => Err(Refusal::Hidden),
        }
    }

    fn check_rate(&self, client: &ClientKey, class: RouteClass) -> Result<(), Refusal> {
        let Some(rate) = self.rates.of(class) else { return Ok(()) };
        rate.take(client, Instant::now()).map_err(|wait| self.refused.count_rate(wait))
    }

    /// How often one client may cause a call of this class, for the doors beside this one.
    #[cfg(feature = "outbound")]
    pub(super) fn client_rate(&self, class: RouteClass) -> Option<Arc<ClientRate>> {
        self.rates.of(class).cloned()
    }

    /// What a call of this class has in all, the operator's timeout considered.
    pub(crate) fn allowed_time(&self, class: RouteClass) -> Duration {
        self.policy.deadline(class, self.remote_timeout)
    }

    fn count_refusal(&self, full: Full) -> Refusal {
        self.refused.count(full, self.policy.retry_hint())
    }

    /// The server this door belongs to.
    #[must_use]
    pub fn own_name(&self) -> &ServerName {
        &self.own_name
    }

    /// The caps and deadlines in force.
    #[must_use]
    pub fn policy(&self) -> ClientOutboundProxyPolicy {
        self.policy
    }

    /// The budget, for status and tests.
    #[must_use]
    pub fn budget(&self) -> &InFlightBudget<ClientKey> {
        &self.budget
    }

    /// How many requests were refused so far.
    #[must_use]
    pub fn refused(&self) -> RefusedCounts {
        self.refused.counts()
    }
}

impl Rates {
    fn of(&self, class: RouteClass) -> Option<&Arc<ClientRate>> {
        match class {
            RouteClass::Directory => self.directory.as_ref(),
            RouteClass::Media => self.media.as_ref(),
        }
    }
}

impl RefusedCounters {
    /// Counts a refusal and says what to tell the client.
    pub(super) fn count(&self, full: Full, retry_after: Duration) -> Refusal {
        match full {
            Full::Global => {
                self.global.fetch_add(1, Ordering::Relaxed);
                Refusal::GlobalCap { retry_after }
            }
            Full::Key => {
                self.client.fetch_add(1, Ordering::Relaxed);
                Refusal::ClientCap { retry_after }
            }
        }
    }

    /// Counts a client that comes too often, and is to come again after `retry_after`.
    pub(super) fn count_rate(&self, retry_after: Duration) -> Refusal {
        self.rate.fetch_add(1, Ordering::Relaxed);
        Refusal::Rate { retry_after }
    }

    pub(super) fn counts(&self) -> RefusedCounts {
        let [global, client, rate] =
            [&self.global, &self.client, &self.rate].map(|counter| counter.load(Ordering::Relaxed));
        RefusedCounts { global, client, rate }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Admission")
            .field("own_name", &self.own_name)
            .field("policy", &self.policy)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::RateCaps;

    fn route(server: &str) -> OutboundRoute {
        OutboundRoute::PublicRooms { server: server.parse().unwrap() }
    }

    fn admission() -> Admission {
        Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(2))
    }

    fn client(last: u8) -> ClientKey {
        ClientKey::vouched([198, 51, 100, last].into(), Default::default())
    }

    #[tokio::test(start_paused = true)]
    async fn b15_the_same_client_is_refused_and_another_passes_until_the_global_cap() {
        let admission = Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(4));
        let _one = admission.admit(&client(1), route("a.example")).unwrap();
        assert!(matches!(admission.admit(&client(1), route("b.example")), Err(Refusal::ClientCap { .. })));
        let _two = admission.admit(&client(2), route("a.example")).unwrap();
        assert!(matches!(admission.admit(&client(3), route("a.example")), Err(Refusal::GlobalCap { .. })));
        assert_eq!(admission.refused(), RefusedCounts { global: 1, client: 1, rate: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn own_name_and_rules_come_before_the_slot() {
        struct Rules;
        impl DestinationRules for Rules {
            fn judge(&self, destination: &ServerName) -> DestinationVerdict {
                match destination.as_str() {
                    "bad.example" => DestinationVerdict::Forbidden,
                    "unseen.example" => DestinationVerdict::Hidden,
                    _ => DestinationVerdict::Allowed,
                }
            }
        }
        let admission = admission().with_destination_rules(Arc::new(Rules));
        let _held = admission.admit(&client(1), route("them.example")).unwrap();
        let refused = |server| admission.admit(&client(2), route(server)).unwrap_err();
        assert_eq!(refused("US.example:8448"), Refusal::OwnServer);
        assert_eq!(refused("bad.example"), Refusal::Forbidden);
        assert_eq!(refused("unseen.example"), Refusal::Hidden);
        assert_eq!(admission.refused(), RefusedCounts::default());
    }

    #[tokio::test(start_paused = true)]
    async fn another_call_counts_in_the_same_budget_rate_and_rules_and_has_a_lookup_s_deadline() {
        let once = RateLimit::new(RateCaps { per_minute: 1, burst: 1 }).unwrap();
        let admission = admission().with_client_rate(RouteClass::Directory, once);
        let call = |of, server: &str| admission.admit_call(&client(of), server.parse().unwrap());
        assert_eq!(call(1, "us.example").unwrap_err(), Refusal::OwnServer);
        let pass = call(1, "them.example").unwrap();
        assert_eq!(pass.route(), &OutboundRoute::Other { server: "them.example".parse().unwrap() });
        assert_eq!(
            (pass.destination().as_str(), pass.deadline().allowed()),
            ("them.example", crate::limits::DIRECTORY_DEADLINE)
        );
        assert!(matches!(admission.admit(&client(2), route("them.example")), Err(Refusal::GlobalCap { .. })));
        drop(pass);
        assert!(matches!(admission.admit(&client(1), route("them.example")), Err(Refusal::Rate { .. })));
        assert_eq!(admission.refused(), RefusedCounts { global: 1, client: 0, rate: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_comes_after_own_name_and_before_the_slot_and_says_when_to_come_again() {
        let admission = admission()
            .with_client_rate(RouteClass::Directory, RateLimit::new(RateCaps { per_minute: 30, burst: 2 }).unwrap());
        assert_eq!(admission.admit(&client(1), route("us.example")).unwrap_err(), Refusal::OwnServer);
        let held = admission.admit(&client(1), route("a.example")).unwrap();
        // The slot is taken: that call was asked for all the same.
        assert!(matches!(admission.admit(&client(1), route("a.example")), Err(Refusal::GlobalCap { .. })));
        let refused = admission.admit(&client(1), route("a.example")).unwrap_err();
        assert_eq!(refused, Refusal::Rate { retry_after: Duration::from_secs(2) });
        assert_eq!((refused.as_label(), refused.retry_after()), ("rate", Some(Duration::from_secs(2))));
        assert_eq!(admission.refused(), RefusedCounts { global: 1, client: 0, rate: 1 });
        drop(held);
        tokio::time::advance(Duration::from_millis(1999)).await;
        let refused = admission.admit(&client(1), route("a.example")).unwrap_err();
        assert_eq!(refused, Refusal::Rate { retry_after: Duration::from_millis(1) });
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(admission.admit(&client(1), route("a.example")).is_ok());
        // Another client is none of its business.
        assert!(admission.admit(&client(2), route("a.example")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_timeout_shortens_the_deadline() {
        let admission = admission().with_remote_timeout(RemoteTimeout::new(Duration::from_secs(3)).unwrap());
        let pass = admission.admit(&client(1), route("a.example")).unwrap();
        assert_eq!(pass.deadline().allowed(), Duration::from_secs(3));
    }
}
