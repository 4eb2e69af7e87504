//! [`Discovery`]: drives the stages of discovery under one deadline.
//!
//! The rules are in [`super::discovery`]; here questions are put to the DNS and to well-known files, each with its share
//! of the time, so that one that is never answered leaves time for the next.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::HeaderValue;
use tokio::time::Instant;

use crate::deadline::OutboundDeadline;
use crate::limits::DNS_QUESTION_SHARE;
use crate::outbound::address_policy::AddressPolicy;
use crate::outbound::destination::Destination;
use crate::outbound::discovery::{self, NeedsAddresses, NeedsService, NeedsWellKnown, Rules, Stage};
use crate::outbound::resolver::{DnsError, Resolve, SrvRecord, SrvService, SrvTarget};
use crate::outbound::trail::{DiscoveryStep, Explained, StepOutcome, Trail};
use crate::outbound::transport::Transport;
use crate::outbound::web::Web;
use crate::outbound::well_known::{Delegation, FetchFailure, WellKnown};
use crate::server_name::{Host, ServerName};

/// Finds out where server names lead; remembers what may be remembered, within bounds. Cheap to clone.
///
/// Never: a name leads to an address that the policy refuses, or a delegation to our own host, whatever the port
/// (`nothing_leads_back_to_us`). Never: it connects to a destination; it only connects to port 443 for well-known files.
///
/// By itself it says where a name leads, for an embedder whose own client makes the call. Such a client has to connect to
/// one of these addresses and no other, under this TLS name, with this `Host`, and follow nothing. With reqwest, as the
/// example `own_client` rehearses it:
///
/// ```no_run
/// use std::error::Error;
/// use std::sync::Arc;
///
/// use http::HeaderValue;
/// use http::header::HOST;
/// use portcullis::Admitted;
/// use portcullis::outbound::{AddressPolicy, Discovery, HickoryResolver, HttpsTransport, TlsRoots};
/// use reqwest::redirect::Policy;
///
/// fn discovery() -> Result<Discovery, Box<dyn Error>> {
///     let resolver = Arc::new(HickoryResolver::from_system()?);
///     let transport = Arc::new(HttpsTransport::new(TlsRoots::system()?)?); // for well-known files
///     let agent = HeaderValue::from_static("our-server/1.0");
///     Ok(Discovery::new("us.example".parse()?, resolver, transport, AddressPolicy::default(), agent))
/// }
///
/// /// With `ours`, your own builder: authorities, user agent, timeouts.
/// async fn ask(
///     discovery: &Discovery, ours: impl Fn() -> reqwest::ClientBuilder, pass: Admitted,
/// ) -> Result<Vec<u8>, Box<dyn Error>> {
///     let (server, deadline) = (pass.destination().clone(), pass.deadline());
///     pass.run(async move {
///         let there = discovery.destination(&server, deadline).await?;
///         let host = there.tls_name.to_string();
///         let mut unreachable = None;
///         for address in &there.addresses {
///             let address = address.socket_addr();
///             let client = ours()
///                 .resolve(&host, address) // this is where the host is: no name is looked up a second time
///                 .redirect(Policy::none()) // an answer leads nowhere
///                 .no_proxy() // a proxy would look the name up itself
///                 .http1_only() // HTTP/2 would send the URL's host and port in place of `Host`
///                 .build()?;
///             let url = format!("https://{host}:{}/_matrix/federation/v1/version", address.port());
///             match client.get(url).header(HOST, &there.host_header).send().await {
///                 Err(error) if error.is_connect() => unreachable = Some(error), // nothing was sent: the next one
///                 answer => return read(answer?).await,
///             }
///         }
///         Err(unreachable.map_or_else(|| "no address".into(), Into::into))
///     })
///     .await?
/// }
///
/// /// The body is part of the call: under the same deadline, and no longer than it may be.
/// async fn read(mut answer: reqwest::Response) -> Result<Vec<u8>, Box<dyn Error>> {
///     let mut body = Vec::new();
///     while let Some(chunk) = answer.chunk().await? {
///         if body.len() + chunk.len() > 64 * 1024 {
///             return Err("too large".into());
///         }
///         body.extend_from_slice(&chunk);
///     }
///     Ok(body)
/// }
/// ```
#[derive(Clone)]
pub struct Discovery {
    shared: Arc<Shared>,
}

struct Shared {
    own_name: ServerName,
    resolver: Arc<dyn Resolve>,
    policy: Arc<AddressPolicy>,
    web: Arc<Web>,
    well_known: WellKnown,
}

/// Why a server name led nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// No address was found.
    #[error("no address was found")]
    NoAddresses,
    /// An address was found that may not be connected to.
    #[error("an address is not allowed")]
    AddressRefused,
    /// An SRV record declares the service absent, or no record is usable.
    #[error("the service is declared absent")]
    SrvRefused,
    /// The name leads to this server itself.
    #[error("the name leads back here")]
    OwnServer,
    /// The DNS did not answer properly.
    #[error("the DNS lookup failed")]
    DnsFailure,
    /// Time ended it: the deadline, or the last step's share with nowhere left to go.
    #[error("discovery ran out of time")]
    OutOfTime,
}

impl Discovery {
    /// Discovery for the server `own_name`: no name may lead back to its host. `user_agent` goes out with well-known
    /// requests, and to where a server says that a file of it is.
    ///
    /// *Panics:* never. *Blocking:* no.
    #[must_use]
    pub fn new(
        own_name: ServerName,
        resolver: Arc<dyn Resolve>,
        transport: Arc<dyn Transport>,
        policy: AddressPolicy,
        user_agent: HeaderValue,
    ) -> Self {
        let policy = Arc::new(policy);
        let own_host = own_name.host().clone();
        let (asked, judge) = (Arc::clone(&resolver), Arc::clone(&policy));
        let web = Arc::new(Web { resolver: asked, transport, policy: judge, own_host, user_agent });
        let well_known = WellKnown::new(Arc::clone(&web));
        Self { shared: Arc::new(Shared { own_name, resolver, policy, web, well_known }) }
    }

    /// The server whose discovery this is.
    #[must_use]
    pub fn own_name(&self) -> &ServerName {
        &self.shared.own_name
    }

    /// The way to what a stranger says is elsewhere, under the same rules.
    pub(crate) fn web(&self) -> &Arc<Web> {
        &self.shared.web
    }

    /// Where `name` leads. Ends no later than `deadline`.
    ///
    /// *Errors:* [`DiscoveryError`]; our own name is [`DiscoveryError::OwnServer`]. *Panics:* never, inside a tokio runtime
    /// with I/O and timer on. *Cancel safety:* dropping the future ends every lookup it made. *Blocking:* no.
    pub async fn destination(
        &self,
        name: &ServerName,
        deadline: OutboundDeadline,
    ) -> Result<Destination, DiscoveryError> {
        self.guarded(name, deadline, None).await
    }

    /// As [`Self::destination`], but a remembered delegation is asked for afresh: the remembered one was dead. One that
    /// was fetched since the call began (the start of `deadline`) is fresh already; an old one is still used if its host
    /// does not give a new one.
    ///
    /// *Errors*, *Panics*, *Cancel safety*, *Blocking:* as [`Self::destination`].
    pub async fn destination_afresh(
        &self,
        name: &ServerName,
        deadline: OutboundDeadline,
    ) -> Result<Destination, DiscoveryError> {
        let began = deadline.expires_at().checked_sub(deadline.allowed());
        self.guarded(name, deadline, began).await
    }

    /// As [`Self::destination`], with every step told. Our own name may be asked about too.
    ///
    /// *Panics*, *Cancel safety*, *Blocking:* as [`Self::destination`].
    pub async fn explain(&self, name: &ServerName, deadline: OutboundDeadline) -> Explained {
        let mut trail = Trail::default();
        let result = if name.is_same_server(&self.shared.own_name) {
            self.drive(name, None, deadline, None, Some(&mut trail)).await
        } else {
            self.drive(name, Some(self.shared.own_name.host()), deadline, None, Some(&mut trail)).await
        };
        trail.finished(result)
    }

    async fn guarded(
        &self,
        name: &ServerName,
        deadline: OutboundDeadline,
        known_since: Option<Instant>,
    ) -> Result<Destination, DiscoveryError> {
        if name.is_same_server(&self.shared.own_name) {
            return Err(DiscoveryError::OwnServer);
        }
        self.drive(name, Some(self.shared.own_name.host()), deadline, known_since, None).await
    }

    async fn drive(
        &self,
        name: &ServerName,
        own_host: Option<&Host>,
        deadline: OutboundDeadline,
        known_since: Option<Instant>,
        mut trail: Option<&mut Trail>,
    ) -> Result<Destination, DiscoveryError> {
        let mut stage = discovery::begin(name, Rules { policy: &self.shared.policy, own_host });
        if let Some(trail) = trail.as_deref_mut() {
            let (outcome, detail, took) = (StepOutcome::Found, kind_of(name).to_owned(), Duration::ZERO);
            trail.note(DiscoveryStep::Name, outcome, detail, took);
        }
        loop {
            if deadline.is_expired(Instant::now()) && !matches!(stage, Stage::Finished(Err(_))) {
                if let Some(trail) = trail.as_deref_mut() {
                    trail.cut_at(step_of(&stage));
                }
                return Err(DiscoveryError::OutOfTime);
            }
            let trail = trail.as_deref_mut();
            stage = match stage {
                Stage::Finished(result) => return result,
                Stage::WellKnown(needs) => self.ask_well_known(needs, deadline, known_since, trail).await,
                Stage::Service(needs) => self.ask_service(needs, deadline, trail).await,
                Stage::Addresses(needs) => self.ask_addresses(needs, deadline, trail).await,
            };
        }
    }

    async fn ask_well_known<'a>(
        &self,
        needs: NeedsWellKnown<'a>,
        deadline: OutboundDeadline,
        known_since: Option<Instant>,
        trail: Option<&mut Trail>,
    ) -> Stage<'a> {
        let began = Instant::now();
        let delegation = self.shared.well_known.delegation(needs.host(), deadline, known_since).await;
        let (outcome, detail, delegate) = match delegation {
            Delegation::To(name) => (StepOutcome::Found, format!("delegates to {name}"), Some(name)),
            Delegation::None(failure) => (outcome_of(failure), failure.to_string(), None),
        };
        let next = needs.answered(delegate.clone());
        if let Some(trail) = trail {
            let outcome = if leads_back(&next) { StepOutcome::Refused } else { outcome };
            trail.note(DiscoveryStep::WellKnown, outcome, detail, began.elapsed());
            if let Some(delegate) = delegate {
                trail.delegated_to(&delegate);
            }
        }
        next
    }

    async fn ask_service<'a>(
        &self,
        needs: NeedsService<'a>,
        deadline: OutboundDeadline,
        trail: Option<&mut Trail>,
    ) -> Stage<'a> {
        let began = Instant::now();
        let question = deadline.share(DNS_QUESTION_SHARE, began);
        let service = needs.service();
        let answer = question.cut(self.shared.resolver.service(service, needs.owner(), question)).await;
        let answer = answer.unwrap_or(Err(DnsError::TimedOut));
        let told = trail.map(|trail| (trail, told_of_service(&answer)));
        let next = needs.answered(answer, &mut |most| rand::random_range(0..=most));
        if let Some((trail, (outcome, detail))) = told {
            let refused = leads_back(&next) || matches!(next, Stage::Finished(Err(DiscoveryError::SrvRefused)));
            let outcome = if refused { StepOutcome::Refused } else { outcome };
            trail.note(step_of_service(service), outcome, detail, began.elapsed());
        }
        next
    }

    async fn ask_addresses<'a>(
        &self,
        needs: NeedsAddresses<'a>,
        deadline: OutboundDeadline,
        trail: Option<&mut Trail>,
    ) -> Stage<'a> {
        let began = Instant::now();
        let question = deadline.share(DNS_QUESTION_SHARE, began);
        // Side by side, so that the targets share one question's time.
        let answers = join_all(needs.names().iter().map(async |name| {
            let answer = question.cut(self.shared.resolver.addresses(name, question)).await;
            answer.unwrap_or(Err(DnsError::TimedOut))
        }));
        let answers = answers.await;
        let told = trail.map(|trail| {
            let names = needs.names().iter().zip(&answers);
            let parts: Vec<_> = names.map(|(name, answer)| format!("{name}: {}", self.told_of(answer))).collect();
            (trail, parts.join("; "))
        });
        let next = needs.answered(&answers);
        if let Some((trail, detail)) = told {
            let outcome = match &next {
                Stage::Finished(Err(DiscoveryError::AddressRefused)) => StepOutcome::Refused,
                Stage::Finished(Err(DiscoveryError::NoAddresses)) => StepOutcome::None,
                Stage::Finished(Err(_)) => StepOutcome::Failed,
                _ => StepOutcome::Found,
            };
            trail.note(DiscoveryStep::Addresses, outcome, detail, began.elapsed());
        }
        next
    }

    fn told_of(&self, answer: &Result<Vec<IpAddr>, DnsError>) -> String {
        match answer {
            Ok(addresses) => {
                let allowed = self.shared.policy.judge_all(addresses.iter().copied(), TOLD_PORT).is_ok();
                let texts: Vec<_> = addresses.iter().take(TOLD).map(ToString::to_string).collect();
                let more = if addresses.len() > TOLD { ", …" } else { "" };
                format!("{}{more}{}", texts.join(", "), if allowed { "" } else { " (not allowed)" })
            }
            Err(error) => error.to_string(),
        }
    }
}

/// How many records or addresses a step's detail lists.
const TOLD: usize = 16;

/// Whether an address is allowed does not depend on the port, unless it is 0.
const TOLD_PORT: u16 = 443;

impl fmt::Debug for Discovery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Discovery").field("own_name", &self.shared.own_name).finish_non_exhaustive()
    }
}

fn kind_of(name: &ServerName) -> &'static str {
    match (name.host(), name.port()) {
        (Host::V4(_) | Host::V6(_), Some(_)) => "an IP literal with a port",
        (Host::V4(_) | Host::V6(_), None) => "an IP literal, port 8448",
        (Host::Name(_), Some(_)) => "a name with a port: neither well-known nor SRV",
        (Host::Name(_), None) => "a name without a port",
    }
}

fn step_of(stage: &Stage<'_>) -> DiscoveryStep {
    match stage {
        Stage::WellKnown(_) => DiscoveryStep::WellKnown,
        Stage::Service(needs) => step_of_service(needs.service()),
        Stage::Addresses(_) | Stage::Finished(_) => DiscoveryStep::Addresses,
    }
}

fn step_of_service(service: SrvService) -> DiscoveryStep {
    match service {
        SrvService::MatrixFed => DiscoveryStep::Srv,
        SrvService::Matrix => DiscoveryStep::SrvDeprecated,
    }
}

fn leads_back(stage: &Stage<'_>) -> bool {
    matches!(stage, Stage::Finished(Err(DiscoveryError::OwnServer)))
}

fn outcome_of(failure: FetchFailure) -> StepOutcome {
    match failure {
        FetchFailure::Status(404) | FetchFailure::Dns(DnsError::NoRecords) => StepOutcome::None,
        FetchFailure::AddressRefused | FetchFailure::OwnServer => StepOutcome::Refused,
        _ => StepOutcome::Failed,
    }
}

fn told_of_service(answer: &Result<Vec<SrvRecord>, DnsError>) -> (StepOutcome, String) {
    let target = |target: &SrvTarget| match target {
        SrvTarget::Name(name) => name.to_string(),
        SrvTarget::Root => ".".to_owned(),
        SrvTarget::Unusable => "an unusable target".to_owned(),
    };
    match answer {
        Ok(records) => {
            let told = records.iter().take(TOLD).map(|record| {
                let SrvRecord { priority, weight, port, .. } = record;
                format!("{priority} {weight} {port} {}", target(&record.target))
            });
            let more = if records.len() > TOLD { ", …" } else { "" };
            (StepOutcome::Found, format!("{}{more}", told.collect::<Vec<_>>().join(", ")))
        }
        Err(DnsError::NoRecords) => (StepOutcome::None, DnsError::NoRecords.to_string()),
        Err(error @ (DnsError::ServFail | DnsError::TimedOut)) => {
            (StepOutcome::Failed, format!("{error}; counts as no record"))
        }
        Err(error) => (StepOutcome::Failed, error.to_string()),
    }
}

#[cfg(test)]
mod tests;
