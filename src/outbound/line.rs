//! [`Line`]: a call's way to its server, found once and dialled for each of the call's requests.

use bytes::Bytes;
use http::HeaderValue;
use http::header::HOST;
use tokio::time::Instant;

use crate::deadline::{Expired, OutboundDeadline};
use crate::limits::{CONNECT_SHARE, MAX_CONNECT_ATTEMPTS};
use crate::outbound::call::FederationClient;
use crate::outbound::destination::Destination;
use crate::outbound::discover::DiscoveryError;
use crate::outbound::error::{CallError, CallPhase};
use crate::outbound::transport::{Attempt, RemoteBody, TransportError, TransportPhase};
use crate::server_name::ServerName;

/// The way to one server, under one deadline. Whoever has one holds a pass.
#[derive(Debug)]
pub(crate) struct Line {
    name: ServerName,
    deadline: OutboundDeadline,
    /// Where the server was found to be; addresses that were dead are no longer in it.
    found: Option<Destination>,
    asked_afresh: bool,
}

/// Makes a request without `Host`, given the time at which it will be sent.
pub(crate) type Prepare<'a> = dyn Fn(Instant) -> Result<http::Request<Bytes>, CallError> + Sync + 'a;

impl Line {
    /// Nothing is looked up before the first request.
    pub(crate) fn to(name: ServerName, deadline: OutboundDeadline) -> Self {
        Self { name, deadline, found: None, asked_afresh: false }
    }

    /// Where the next request is sent first; looked up if that was not done yet.
    pub(crate) async fn locate(&mut self, client: &FederationClient) -> Result<&Destination, CallError> {
        let destination = match self.found.take() {
            Some(destination) => destination,
            None => self.located(client, Ask::Remembered).await?,
        };
        Ok(self.found.insert(destination))
    }

    /// Sends what `prepare` makes, and returns with the response head. `prepare` is asked for each attempt, right before it.
    ///
    /// The destination is looked up once. Its addresses are tried in order, each with at most a third of what is left; the
    /// next one only while nothing was sent, so the remote sees a request once at most. If a delegation's addresses are all
    /// dead, it is asked for afresh once.
    ///
    /// *Cancel safety:* dropping the future closes the connection.
    pub(crate) async fn send(
        &mut self,
        client: &FederationClient,
        prepare: &Prepare<'_>,
    ) -> Result<http::Response<RemoteBody>, CallError> {
        let mut attempts_left = MAX_CONNECT_ATTEMPTS;
        let destination = match self.found.take() {
            Some(destination) => destination,
            None => self.located(client, Ask::Remembered).await?,
        };
        let dead = match self.dial(client, &destination, prepare, &mut attempts_left).await {
            Ok((answering, response)) => {
                self.found = Some(from_address(destination, answering));
                return Ok(response);
            }
            Err(error) => error,
        };
        let may_have_moved = dead.phase == CallPhase::Connect && destination.delegated_to.is_some();
        if !may_have_moved || self.asked_afresh {
            return Err(dead);
        }
        self.asked_afresh = true;
        let mut moved = match self.located(client, Ask::Afresh).await {
            Ok(moved) => moved,
            Err(error) if error.timed_out => return Err(error),
            Err(_) => return Err(dead),
        };
        if moved.tls_name == destination.tls_name {
            moved.addresses.retain(|address| !destination.addresses.contains(address));
        }
        if moved.addresses.is_empty() {
            return Err(dead);
        }
        let (answering, response) = self.dial(client, &moved, prepare, &mut attempts_left).await?;
        self.found = Some(from_address(moved, answering));
        Ok(response)
    }

    async fn located(&self, client: &FederationClient, ask: Ask) -> Result<Destination, CallError> {
        let Self { name, deadline, .. } = self;
        let looking = match ask {
            Ask::Remembered => client.locate.destination(name, *deadline),
            Ask::Afresh => client.locate.destination_afresh(name, *deadline),
        };
        Ok(deadline.cut(looking).await.unwrap_or(Err(DiscoveryError::OutOfTime))?)
    }

    /// Tries the addresses in order; says which one answered. The last error is the one that counts.
    async fn dial(
        &self,
        client: &FederationClient,
        destination: &Destination,
        prepare: &Prepare<'_>,
        attempts_left: &mut usize,
    ) -> Result<(usize, http::Response<RemoteBody>), CallError> {
        let deadline = self.deadline;
        let host = HeaderValue::try_from(&destination.host_header)
            .map_err(|_| TransportError { phase: TransportPhase::Build, timed_out: false })?;
        // What an empty list, or one cut off by the limit, comes to.
        let mut outcome = TransportError { phase: TransportPhase::Connect, timed_out: false };
        for (index, address) in destination.addresses.iter().copied().enumerate().take(*attempts_left) {
            let now = Instant::now();
            if deadline.is_expired(now) {
                outcome.timed_out = true;
                break;
            }
            *attempts_left = attempts_left.saturating_sub(1);
            let mut request = prepare(now)?;
            request.headers_mut().insert(HOST, host.clone());
            let connect_by = deadline.share(CONNECT_SHARE, now);
            let attempt = Attempt { address, tls_name: destination.tls_name.clone(), connect_by, request };
            match deadline.cut(client.transport.send(attempt, deadline)).await {
                Ok(Ok(response)) => return Ok((index, response)),
                Ok(Err(error)) if error.nothing_was_sent() => outcome = error,
                Ok(Err(error)) => return Err(error.into()),
                // How far it got cannot be told: it may have been sent.
                Err(Expired) => return Err(TransportError { phase: TransportPhase::Send, timed_out: true }.into()),
            }
        }
        Err(outcome.into())
    }
}

#[derive(Clone, Copy)]
enum Ask {
    Remembered,
    Afresh,
}

/// A destination without the addresses that were dead: a second request does not pay for them again.
fn from_address(mut destination: Destination, answering: usize) -> Destination {
    destination.addresses.drain(..answering);
    destination
}
