//! [`Us`]: our side, nothing replaced: the system's resolver configuration, real TLS, the default address policy.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt as _;
use portcullis::local_view::{AliasAnswer, InvalidPageToken, LocalView, RoomListPage, TokenAnswer};
use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};
use portcullis::outbound::{
    AddressPolicy, CallError, Destination, Discovery, DiscoveryError, Ed25519Signer, Endpoint, FederationClient,
    HickoryResolver, HttpsTransport, RemoteReply, RoomListParameters, TlsRoots,
};
use portcullis::{
    ClientKey, OutboundDeadline, OutboundRoute, Portcullis, RemoteTimeout, RoomAlias, RoomListQuery, ServerName, limits,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use super::PATIENCE;
use super::fakes::TRUSTED;

/// Our own name in every case that does not say otherwise.
pub(crate) const OWN_NAME: &str = "hs.self.example";

/// The token of our only user.
pub(crate) const TOKEN: &str = "tok-of-our-user";

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
const POOL: usize = 16;

pub(crate) struct Us {
    pub(crate) portcullis: Portcullis,
    pub(crate) discovery: Discovery,
    client: FederationClient,
    verify_key: String,
    deadline: Duration,
    _stored: TempDir,
}

/// What an operator may change.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) policy: AddressPolicy,
    pub(crate) remote_timeout: Option<Duration>,
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn errcode(&self) -> String {
        let content: Value = serde_json::from_str(&self.text).unwrap();
        content["errcode"].as_str().unwrap_or_default().to_owned()
    }
}

impl Us {
    pub(crate) fn new(settings: Settings) -> Self {
        let own_name: ServerName = OWN_NAME.parse().unwrap();
        let resolver = Arc::new(HickoryResolver::from_system().unwrap());
        let roots = TlsRoots::only(TRUSTED.pem().as_bytes()).unwrap();
        let transport = Arc::new(HttpsTransport::new(roots).unwrap());
        let user_agent = HeaderValue::from_static("portcullis");
        let discovery = Discovery::new(own_name.clone(), resolver, transport, settings.policy, user_agent);
        let signer = Ed25519Signer::generate(own_name);
        let verify_key = signer.verify_key();
        let client = FederationClient::new(Arc::new(signer), discovery.clone()).unwrap();
        let stored = tempfile::tempdir().unwrap();
        let mut builder = Portcullis::builder(client.clone(), POOL)
            .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true })
            .media_store(MediaStoreConfig::in_dir(stored.path().join("store")))
            .legacy_media(true);
        if let Some(limit) = settings.remote_timeout {
            builder = builder.remote_timeout(RemoteTimeout::new(limit).unwrap());
        }
        let deadline = settings.remote_timeout.unwrap_or(limits::DIRECTORY_DEADLINE).min(limits::DIRECTORY_DEADLINE);
        Self { portcullis: builder.build().unwrap(), discovery, client, verify_key, deadline, _stored: stored }
    }

    /// Our public key, in unpadded base64.
    pub(crate) fn verify_key(&self) -> &str {
        &self.verify_key
    }

    /// A room list of `server`, asked for without a client: the error is told whole.
    pub(crate) async fn call(&self, server: &ServerName) -> Result<RemoteReply, CallError> {
        let route = OutboundRoute::PublicRooms { server: server.clone() };
        let pass = self.portcullis.admission().admit(&ClientKey::shared(), route).unwrap();
        let endpoint = Endpoint::public_rooms_get(&RoomListParameters::default()).unwrap();
        self.client.open(pass).request(&endpoint).await
    }

    /// Where `server` leads, as a call would have it.
    pub(crate) async fn destination(&self, server: &ServerName) -> Result<Destination, DiscoveryError> {
        self.discovery.destination(server, OutboundDeadline::after(self.deadline, Instant::now())).await
    }

    /// A client's GET.
    pub(crate) async fn get(&self, path_and_query: &str, headers: &[(&str, &str)]) -> Answer {
        self.get_from(CLIENT, path_and_query, headers).await
    }

    pub(crate) async fn get_from(&self, client: IpAddr, path_and_query: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::get(path_and_query);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::new()).unwrap();
        let response = self.portcullis.handle(&Home, client, &request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// Waits until no file is fetched any more.
    ///
    /// # Panics
    /// If one still is, or is left unfinished in the store.
    pub(crate) async fn files_at_rest(&self) {
        let held = || {
            let status = self.portcullis.status();
            let unfinished = status.media.store.unwrap().unfinished;
            (status.budgets.media.in_flight, status.media.running + status.media.waiting, unfinished)
        };
        let resting = async {
            while held() != (0, 0, 0) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let rested = tokio::time::timeout(PATIENCE, resting).await;
        assert!(rested.is_ok(), "slots, fetches, unfinished files: {:?}", held());
    }

    /// *Panics* if a slot is held, or a client still known.
    pub(crate) fn assert_at_rest(&self) {
        let budget = self.portcullis.admission().budget();
        assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0), "slots held, clients tracked");
    }
}

/// A homeserver with one user, and without rooms, aliases and files.
struct Home;

impl LocalView for Home {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        (token == TOKEN).then(|| format!("@user:{OWN_NAME}")).into()
    }

    fn room_alias(&self, _: &RoomAlias) -> Option<AliasAnswer> {
        None
    }

    fn public_rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        Ok(RoomListPage::default())
    }
}
