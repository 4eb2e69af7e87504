//! The one way to call another server: [`FederationClient`] and [`FederationCall`].
//!
//! A call owns its pass, and so its slot and its deadline. Whatever it does, discovery and a fallback request included,
//! draws from that one deadline, and the slot is free as soon as the call is dropped.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, Uri};

use crate::admission::Admitted;
use crate::deadline::OutboundDeadline;
use crate::limits::MAX_ERROR_BODY_BYTES;
use crate::outbound::BoxFuture;
use crate::outbound::address_policy::AddressPolicy;
use crate::outbound::body::{self, BodyError};
use crate::outbound::destination::Destination;
use crate::outbound::discover::{Discovery, DiscoveryError};
use crate::outbound::endpoint::Endpoint;
use crate::outbound::error::CallError;
use crate::outbound::hickory::{HickoryResolver, NoNameServers};
use crate::outbound::https::HttpsTransport;
use crate::outbound::line::Line;
use crate::outbound::signing::RequestSigner;
use crate::outbound::tls_roots::{TlsRoots, TlsRootsError};
use crate::outbound::transport::{RemoteBody, Transport};
use crate::outbound::web::WebError;
use crate::outbound::web::target::Target;
use crate::server_name::ServerName;

/// Makes federation calls. Cheap to clone.
///
/// ```no_run
/// use std::{error::Error, path::Path, sync::Arc};
///
/// use http::HeaderValue;
/// use portcullis::outbound::{Ed25519Signer, FederationClient};
///
/// fn client(key_file: &Path) -> Result<FederationClient, Box<dyn Error>> {
///     let signer = Arc::new(Ed25519Signer::read_key_file("us.example".parse()?, key_file)?);
///     Ok(FederationClient::from_system(signer, HeaderValue::from_static("our-server/1.0"))?)
/// }
/// ```
#[derive(Clone)]
pub struct FederationClient {
    signer: Arc<dyn RequestSigner>,
    pub(super) locate: Arc<dyn Locate>,
    pub(super) transport: Arc<dyn Transport>,
    user_agent: HeaderValue,
}

/// One admitted call: it owns the slot, and every request in it draws from the pass's one deadline.
///
/// Drop it before its outcome is handed to the client: whoever sees an answer may ask again at once.
#[must_use = "dropping the call frees its slot"]
pub struct FederationCall {
    client: FederationClient,
    pass: Admitted,
    line: Line,
}

/// What the remote answered, read to the end and within its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteReply {
    /// The status, untouched.
    pub status: StatusCode,
    /// The body. Empty for a status other than 200 whose body is larger than 64 KiB.
    pub body: Bytes,
}

/// What a call asks of discovery.
pub(crate) trait Locate: Send + Sync + 'static {
    /// Where `name` leads.
    fn destination<'a>(&'a self, name: &'a ServerName, deadline: OutboundDeadline) -> BoxFuture<'a, Located>;

    /// The same, with a remembered delegation asked for afresh.
    fn destination_afresh<'a>(&'a self, name: &'a ServerName, deadline: OutboundDeadline) -> BoxFuture<'a, Located>;

    /// What is at `target`, a place that another server chose: judged, unsigned, not followed any further.
    fn elsewhere<'a>(&'a self, target: &'a Target, deadline: OutboundDeadline) -> BoxFuture<'a, Fetched>;
}

pub(crate) type Located = Result<Destination, DiscoveryError>;
pub(crate) type Fetched = Result<http::Response<RemoteBody>, WebError>;

impl Locate for Discovery {
    fn destination<'a>(&'a self, name: &'a ServerName, deadline: OutboundDeadline) -> BoxFuture<'a, Located> {
        Box::pin(self.destination(name, deadline))
    }

    fn destination_afresh<'a>(&'a self, name: &'a ServerName, deadline: OutboundDeadline) -> BoxFuture<'a, Located> {
        Box::pin(self.destination_afresh(name, deadline))
    }

    fn elsewhere<'a>(&'a self, target: &'a Target, deadline: OutboundDeadline) -> BoxFuture<'a, Fetched> {
        Box::pin(self.web().file(target, deadline))
    }
}

/// The system lacks what a [`FederationClient`] needs of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FromSystemError {
    /// There is nobody to ask for names.
    #[error("name servers: {0}")]
    NameServers(#[from] NoNameServers),
    /// There are no certificate authorities, or TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] TlsRootsError),
}

/// A signer and a discovery of two servers were put together. Letter case and a port count: a signature covers both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signer signs for {signer}, and discovery is that of {discovery}")]
#[non_exhaustive]
pub struct OwnNamesDiffer {
    /// The server the signer signs for.
    pub signer: ServerName,
    /// The server the discovery was made for.
    pub discovery: ServerName,
}

impl FederationClient {
    /// The client of the server `signer` signs for, as the system provides for it: the name servers of resolv.conf, the
    /// system's certificate authorities, the default [`AddressPolicy`], and one `user_agent` for well-known files and calls
    /// alike. No name may lead back to that server's host.
    ///
    /// Whoever needs other name servers, authorities or address rules puts the same parts together with
    /// [`FederationClient::new`].
    ///
    /// *Errors:* [`FromSystemError`]. *Panics:* never. *Blocking:* reads the certificates and resolv.conf, tens of
    /// milliseconds.
    pub fn from_system(signer: Arc<dyn RequestSigner>, user_agent: HeaderValue) -> Result<Self, FromSystemError> {
        let resolver = Arc::new(HickoryResolver::from_system()?);
        let transport: Arc<dyn Transport> = Arc::new(HttpsTransport::new(TlsRoots::system()?)?);
        let (own_name, policy) = (signer.own_name().clone(), AddressPolicy::default());
        Ok(Self::of_one_server(signer, Discovery::new(own_name, resolver, transport, policy, user_agent)))
    }

    /// A client that signs with `signer` and finds servers with `discovery`, through whose transport and under whose user
    /// agent its calls go too.
    ///
    /// *Errors:* [`OwnNamesDiffer`]: calls would be signed for one server, and another one's host be kept out of reach.
    /// *Panics:* never.
    ///
    /// ```no_run
    /// use std::{error::Error, sync::Arc};
    ///
    /// use http::HeaderValue;
    /// use portcullis::outbound::{
    ///     AddressPolicy, Discovery, Ed25519Signer, FederationClient, HickoryResolver, HttpsTransport, TlsRoots,
    /// };
    ///
    /// fn client(signer: Ed25519Signer) -> Result<FederationClient, Box<dyn Error>> {
    ///     let resolver = Arc::new(HickoryResolver::with_name_servers(&["192.0.2.53:53".parse()?])?);
    ///     let transport = Arc::new(HttpsTransport::new(TlsRoots::system()?)?);
    ///     let policy = AddressPolicy::default().deny(["2000:1::/32".parse()?])?; // our inside hosts
    ///     let agent = HeaderValue::from_static("our-server/1.0");
    ///     let discovery = Discovery::new(signer.own_name().clone(), resolver, transport, policy, agent);
    ///     Ok(FederationClient::new(Arc::new(signer), discovery)?)
    /// }
    /// ```
    pub fn new(signer: Arc<dyn RequestSigner>, discovery: Discovery) -> Result<Self, OwnNamesDiffer> {
        let (signed_for, kept_out) = (signer.own_name(), discovery.own_name());
        if signed_for != kept_out {
            return Err(OwnNamesDiffer { signer: signed_for.clone(), discovery: kept_out.clone() });
        }
        Ok(Self::of_one_server(signer, discovery))
    }

    fn of_one_server(signer: Arc<dyn RequestSigner>, discovery: Discovery) -> Self {
        let (transport, user_agent) = (Arc::clone(&discovery.web().transport), discovery.web().user_agent.clone());
        Self::locating_with(Arc::new(discovery), signer, transport, user_agent)
    }

    pub(crate) fn locating_with(
        locate: Arc<dyn Locate>,
        signer: Arc<dyn RequestSigner>,
        transport: Arc<dyn Transport>,
        user_agent: HeaderValue,
    ) -> Self {
        Self { signer, locate, transport, user_agent }
    }

    /// The server whose calls these are.
    #[must_use]
    pub fn own_name(&self) -> &ServerName {
        self.signer.own_name()
    }

    /// Opens a call to the pass's destination. Takes the pass by value: without one there is no call.
    ///
    /// *Panics:* never. *Blocking:* no; nothing is looked up before the first request.
    ///
    /// ```
    /// # use portcullis::outbound::{CallError, Endpoint, FederationClient, RemoteReply};
    /// # use portcullis::{Admitted, RoomAlias};
    /// async fn ask(client: &FederationClient, pass: Admitted, alias: &RoomAlias) -> Result<RemoteReply, CallError> {
    ///     client.open(pass).request(&Endpoint::query_directory(alias)).await
    /// }
    /// ```
    ///
    /// A route that forgets the budget has nothing to open a call with:
    ///
    /// ```compile_fail,E0061
    /// # use portcullis::RoomAlias;
    /// # use portcullis::outbound::{CallError, Endpoint, FederationClient, RemoteReply};
    /// async fn ask(client: &FederationClient, alias: &RoomAlias) -> Result<RemoteReply, CallError> {
    ///     client.open().request(&Endpoint::query_directory(alias)).await
    /// }
    /// ```
    ///
    /// And a pass that was used is gone:
    ///
    /// ```compile_fail,E0382
    /// # use portcullis::Admitted;
    /// # use portcullis::outbound::{FederationCall, FederationClient};
    /// fn twice(client: &FederationClient, pass: Admitted) -> (FederationCall, FederationCall) {
    ///     (client.open(pass), client.open(pass))
    /// }
    /// ```
    pub fn open(&self, pass: Admitted) -> FederationCall {
        let line = Line::to(pass.destination().clone(), pass.deadline());
        FederationCall { client: self.clone(), pass, line }
    }

    /// The request without `Host`, signed under the destination's own name whatever discovery will say.
    pub(super) fn signed(
        &self,
        destination: &ServerName,
        method: &Method,
        path_and_query: &PathAndQuery,
        content: Option<Bytes>,
    ) -> Result<http::Request<Bytes>, CallError> {
        let authorization =
            self.signer.authorization(destination, method, path_and_query, content.as_ref().map(AsRef::as_ref))?;
        let mut request = self.unsigned(method, path_and_query, content);
        request.headers_mut().insert(AUTHORIZATION, authorization);
        Ok(request)
    }

    /// The same without a signature, for those who take none.
    pub(super) fn unsigned(
        &self,
        method: &Method,
        path_and_query: &PathAndQuery,
        content: Option<Bytes>,
    ) -> http::Request<Bytes> {
        let has_content = content.is_some();
        let mut request = http::Request::new(content.unwrap_or_default());
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(path_and_query.clone());
        request.headers_mut().insert(USER_AGENT, self.user_agent.clone());
        if has_content {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request
    }
}

impl FederationCall {
    /// The deadline everything in this call draws from.
    #[must_use]
    pub fn deadline(&self) -> OutboundDeadline {
        self.pass.deadline()
    }

    /// Where the call goes: looked up now, if that was not done yet, and used by the next request.
    pub(crate) async fn base_url(&mut self) -> Result<String, CallError> {
        Ok(self.line.locate(&self.client).await?.base_url())
    }

    /// Sends one signed request and reads the answer. May be used again for a fallback, inside the same slot and deadline.
    ///
    /// The destination is looked up once per call. Its addresses are tried in order, each with at most a third of what is
    /// left; the next one only while nothing was sent, so the remote sees a request once at most. If a delegation's
    /// addresses are all dead, it is asked for afresh once.
    ///
    /// *Errors:* [`CallError`]; with [`CallFailure::AnotherServer`](super::error::CallFailure::AnotherServer) nothing was signed: the
    /// endpoint may be sent to one server alone, and that is not the pass's destination. A status is no error. *Panics:*
    /// never, inside a tokio runtime with I/O and timer on. *Cancel safety:* dropping the future closes the connection.
    /// *Blocking:* no; ends no later than [`Self::deadline`].
    pub async fn request(&mut self, endpoint: &Endpoint) -> Result<RemoteReply, CallError> {
        let Endpoint { method, path_and_query, content, only_of, .. } = endpoint;
        if only_of.as_ref().is_some_and(|only| !only.is_same_server(self.pass.destination())) {
            return Err(CallError::ANOTHER_SERVER);
        }
        let request = self.client.signed(self.pass.destination(), method, path_and_query, content.clone())?;
        let response = self.line.send(&self.client, &|_| Ok(request.clone())).await?;
        read_reply(response, endpoint, self.deadline()).await
    }
}

async fn read_reply(
    response: http::Response<RemoteBody>,
    endpoint: &Endpoint,
    deadline: OutboundDeadline,
) -> Result<RemoteReply, CallError> {
    let (head, remote) = response.into_parts();
    let announced = body::announced_length(&head.headers);
    let successful = head.status == StatusCode::OK;
    let max_bytes = if successful { endpoint.max_body_bytes } else { MAX_ERROR_BODY_BYTES };
    let body = match body::read_bounded(remote, announced, max_bytes, deadline).await {
        Ok(body) => body,
        // The status is the answer then: a page of HTML around a 404 does not make it anything else.
        Err(BodyError::TooLarge) if !successful => Bytes::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(RemoteReply { status: head.status, body })
}

impl fmt::Debug for FederationClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FederationClient")
            .field("own_name", self.own_name())
            .field("user_agent", &self.user_agent)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FederationCall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FederationCall").field("pass", &self.pass).field("line", &self.line).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
