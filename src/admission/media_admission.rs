//! [`MediaAdmission`]: the door for media fetches that hold no thread of the request pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::admit::{Admission, RefusedCounters, RefusedCounts};
use super::budget::{Full, InFlightBudget, InFlightCaps};
use super::client_key::ClientKey;
use super::client_rate::ClientRate;
use super::media_limits::MediaLimits;
use super::media_pass::{MediaPass, PlaceAtOrigin};
use super::policy::RouteClass;
use super::refusal::Refusal;
use super::remote_fetch::RemoteFetchAllowed;
use crate::deadline::OutboundDeadline;
use crate::server_name::ServerName;

/// Decides whether a fetch may be in flight, running or queued. It refuses; it never waits.
///
/// Always: at most `max_in_flight` passes exist, `max_per_client` of one client. What is in flight at one origin, and who
/// gets the last of the room, is decided by whoever knows the origins.
pub(crate) struct MediaAdmission {
    limits: MediaLimits,
    allowed_time: Duration,
    retry_hint: Duration,
    clients: InFlightBudget<ClientKey>,
    rate: Option<Arc<ClientRate>>,
    refused: RefusedCounters,
}

impl MediaAdmission {
    /// A door with these caps, beside `admission`: a fetch has the same time, and a client the same rate, at both.
    pub(crate) fn beside(admission: &Admission, limits: MediaLimits) -> Self {
        Self {
            limits,
            allowed_time: admission.allowed_time(RouteClass::Media),
            retry_hint: admission.policy().retry_hint(),
            rate: admission.client_rate(RouteClass::Media),
            clients: InFlightBudget::new(InFlightCaps {
                global: limits.max_in_flight(),
                per_key: limits.max_per_client(),
            }),
            refused: RefusedCounters::default(),
        }
    }

    /// Lets one fetch of `client` be in flight, or says why not. `enter` takes a place at its origin, which is held as long as
    /// the pass.
    ///
    /// *Errors:* [`Refusal`]; nothing is held then. *Panics:* never. *Blocking:* no.
    pub(crate) fn admit<P: PlaceAtOrigin>(
        &self,
        client: ClientKey,
        allowed: RemoteFetchAllowed,
        enter: impl FnOnce(&ServerName) -> Result<P, Full>,
    ) -> Result<MediaPass, Refusal> {
        if let Some(rate) = &self.rate {
            rate.take(&client, Instant::now()).map_err(|wait| self.refused.count_rate(wait))?;
        }
        let refuse = |full| self.refused.count(full, self.retry_hint);
        let of_client = self.clients.try_acquire(&client).map_err(refuse)?;
        let at_origin = Box::new(enter(allowed.destination()).map_err(refuse)?);
        let deadline = OutboundDeadline::after(self.allowed_time, Instant::now());
        Ok(MediaPass::off_pool(allowed, client, deadline, of_client, at_origin))
    }

    /// The caps in force.
    pub(crate) fn limits(&self) -> MediaLimits {
        self.limits
    }

    /// Fetches in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.clients.in_flight()
    }

    /// How many were refused so far.
    pub(crate) fn refused(&self) -> RefusedCounts {
        self.refused.counts()
    }
}

impl fmt::Debug for MediaAdmission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MediaAdmission")
            .field("limits", &self.limits)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::admission::{
        AllowRemote, ClientOutboundProxyPolicy, MediaCaps, RateCaps, RateLimit, RemoteFetchPolicy, RemoteFile,
    };

    fn allowed(server: &str) -> RemoteFetchAllowed {
        let file = RemoteFile { server: server.parse().unwrap(), media_id: "abc".parse().unwrap() };
        RemoteFetchPolicy { remote_fetch_enabled: true }.check(file, AllowRemote::Yes).unwrap()
    }

    fn client(last: u8) -> ClientKey {
        ClientKey::vouched([198, 51, 100, last].into(), Default::default())
    }

    fn admission() -> Admission {
        Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8))
    }

    fn door() -> MediaAdmission {
        let limits = MediaLimits::new(MediaCaps {
            max_in_flight: 16,
            max_per_client: 6,
            max_running: 8,
            max_running_per_origin: 4,
        })
        .unwrap();
        MediaAdmission::beside(&admission(), limits)
    }

    #[tokio::test(start_paused = true)]
    async fn m05_the_caps_hold_and_a_refusal_takes_nothing() {
        let door = door();
        let mut held: Vec<_> =
            (0..6).map(|_| door.admit(client(1), allowed("good.example"), |_| Ok(())).unwrap()).collect();
        let refused = door.admit(client(1), allowed("good.example"), |_| Ok(()));
        assert!(matches!(refused, Err(Refusal::ClientCap { .. })));
        for other in 2..12 {
            held.push(door.admit(client(other), allowed("good.example"), |_| Ok(())).unwrap());
        }
        let refused = door.admit(client(99), allowed("good.example"), |_| Ok(()));
        assert!(matches!(refused, Err(Refusal::GlobalCap { .. })));
        assert_eq!((door.in_flight(), door.refused()), (16, RefusedCounts { global: 1, client: 1, rate: 0 }));
        assert_eq!(held.pop().unwrap().deadline().allowed(), Duration::from_secs(30));
        drop(held);
        assert_eq!(door.in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_over_its_rate_takes_no_slot_and_is_told_when_to_come_again() {
        let admission = admission()
            .with_client_rate(RouteClass::Media, RateLimit::new(RateCaps { per_minute: 600, burst: 3 }).unwrap());
        let door = MediaAdmission::beside(&admission, MediaLimits::default());
        let ask = |who| door.admit(client(who), allowed("good.example"), |_| Ok(()));
        for _ in 0..3 {
            drop(ask(1).unwrap());
        }
        assert_eq!(ask(1).unwrap_err(), Refusal::Rate { retry_after: Duration::from_millis(100) });
        assert!(ask(2).is_ok());
        // The inline way has the same bucket.
        assert!(matches!(admission.admit_media(&client(1), allowed("good.example")), Err(Refusal::Rate { .. })));
        assert_eq!((door.in_flight(), door.refused()), (0, RefusedCounts { global: 0, client: 0, rate: 1 }));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(ask(1).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_place_at_its_origin_nothing_is_held_and_the_counters_say_whose_doing_it_is() {
        let door = door();
        for full in [Full::Global, Full::Key, Full::Key] {
            assert!(door.admit(client(1), allowed("a.example"), |_| Err::<(), _>(full)).is_err());
        }
        assert_eq!((door.in_flight(), door.refused()), (0, RefusedCounts { global: 1, client: 2, rate: 0 }));
        let place = Arc::new(());
        let pass = door.admit(client(1), allowed("a.example"), |_| Ok(Arc::clone(&place))).unwrap();
        assert_eq!(Arc::strong_count(&place), 2);
        drop(pass);
        assert_eq!(Arc::strong_count(&place), 1);
    }
}
