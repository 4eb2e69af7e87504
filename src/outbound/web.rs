//! [`Web`]: one unsigned GET of an https URL that a stranger chose.
//!
//! Well-known files are fetched with it, hop by hop, and files that a media answer says are elsewhere. The URL is read with
//! our own strict grammar ([`target`]), its host is looked up and judged, each attempt is handed one judged address, and no
//! redirect is followed here. Nothing of ours goes along: no signature, no token, no cookie.

pub(crate) mod target;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::deadline::OutboundDeadline;
use crate::limits::{CONNECT_SHARE, DNS_QUESTION_SHARE, MAX_ADDRESSES_PER_NAME, MAX_CONNECT_ATTEMPTS};
use crate::outbound::address_policy::{AddressPolicy, JudgedAddress};
use crate::outbound::resolver::{DnsError, Resolve};
use crate::outbound::transport::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};
use crate::server_name::Host;
use target::Target;

/// Fetches what is at a URL, judged.
pub(crate) struct Web {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) policy: Arc<AddressPolicy>,
    /// Nothing that a stranger says may lead to it.
    pub(crate) own_host: Host,
    pub(crate) user_agent: HeaderValue,
}

/// Why nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebError {
    /// The host's addresses could not be looked up.
    Dns(DnsError),
    /// An address of the host is not allowed.
    AddressRefused,
    /// The host is our own.
    OwnServer,
    /// No address gave a response.
    Transport(TransportError),
    /// The time for it is over.
    TimedOut,
}

/// What `Accept-Encoding` says of a file.
pub(crate) const AS_IT_IS: HeaderValue = HeaderValue::from_static("identity");

impl Web {
    /// What `target` answers, whatever the status. Its addresses are tried in order, while nothing was sent and
    /// `failures_left` is not used up: each DNS question takes a quarter of what is left of `share`, each connect a third.
    ///
    /// *Cancel safety:* dropping the future closes the connection.
    pub(crate) async fn get(
        &self,
        target: &Target,
        header: (HeaderName, HeaderValue),
        share: OutboundDeadline,
        failures_left: &mut usize,
    ) -> Result<http::Response<RemoteBody>, WebError> {
        let request = self.request(target, header)?;
        let mut failure = WebError::TimedOut;
        for address in self.judged(target, share).await?.into_iter().take(MAX_ADDRESSES_PER_NAME) {
            if share.is_expired(Instant::now()) {
                break;
            }
            let attempt = Attempt {
                address,
                tls_name: target.host.clone(),
                connect_by: share.share(CONNECT_SHARE, Instant::now()),
                request: request.clone(),
            };
            match self.transport.send(attempt, share).await {
                Ok(response) => return Ok(response),
                Err(error) => failure = WebError::Transport(error),
            }
            *failures_left = failures_left.saturating_sub(1);
            let sent = matches!(failure, WebError::Transport(error) if !error.nothing_was_sent());
            if sent || *failures_left == 0 {
                break;
            }
        }
        Err(failure)
    }

    /// A file at `target`: as it is there, not compressed for the way, and never from our own host. Ends no later than
    /// `deadline`.
    pub(crate) async fn file(
        &self,
        target: &Target,
        deadline: OutboundDeadline,
    ) -> Result<http::Response<RemoteBody>, WebError> {
        if target.host == self.own_host {
            return Err(WebError::OwnServer);
        }
        let mut failures_left = MAX_CONNECT_ATTEMPTS;
        let getting = self.get(target, (ACCEPT_ENCODING, AS_IT_IS), deadline, &mut failures_left);
        deadline.cut(getting).await.unwrap_or(Err(WebError::TimedOut))
    }

    async fn judged(&self, target: &Target, share: OutboundDeadline) -> Result<Vec<JudgedAddress>, WebError> {
        let one = |ip: IpAddr| self.policy.judge(SocketAddr::new(ip, target.port)).map(|address| vec![address]);
        let judged = match &target.host {
            Host::V4(v4) => one((*v4).into()),
            Host::V6(v6) => one((*v6).into()),
            Host::Name(name) => {
                let question = share.share(DNS_QUESTION_SHARE, Instant::now());
                let answer = question.cut(self.resolver.addresses(name, question)).await;
                let addresses = answer.unwrap_or(Err(DnsError::TimedOut)).map_err(WebError::Dns)?;
                self.policy.judge_all(addresses, target.port)
            }
        };
        judged.map_err(|_| WebError::AddressRefused)
    }

    fn request(
        &self,
        target: &Target,
        (name, value): (HeaderName, HeaderValue),
    ) -> Result<http::Request<Bytes>, WebError> {
        let not_buildable = WebError::Transport(TransportError { phase: TransportPhase::Build, timed_out: false });
        let host = HeaderValue::from_str(&target.authority).map_err(|_| not_buildable)?;
        let mut request = http::Request::new(Bytes::new());
        *request.uri_mut() = target.path.clone().into();
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(name, value);
        request.headers_mut().insert(USER_AGENT, self.user_agent.clone());
        Ok(request)
    }
}
