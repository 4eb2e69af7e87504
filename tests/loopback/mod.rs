//! One server's outside world: name server, certificate authority and peers, and the library built over them as an
//! integrator would build it. Nothing is injected; only loopback is allowed on top, for that is where the peers are.

// Each test binary uses its own part of this.
#![allow(dead_code, unused_imports, clippy::allow_attributes, reason = "not every test binary uses every part")]

mod home;
pub(crate) mod media;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use portcullis::outbound::{
    AddressPolicy, Discovery, Ed25519Signer, FederationClient, HickoryResolver, HttpsTransport, TlsRoots, Transport,
};
use portcullis::{Portcullis, PortcullisBuilder, RemoteTimeout, ServerName};

pub(crate) use home::{
    ClientAnswer, OWN_NAME, OWN_ROOM, ask, ask_from_a_thread, assert_json_headers, client, get, post,
};

use crate::support::{Behaviour, FakeDns, PrivateCa, Says, TlsPeer};

/// The request pool of these tests, as in the record: four slots.
pub(crate) const POOL: usize = 8;

pub(crate) struct World {
    pub(crate) ca: Arc<PrivateCa>,
    pub(crate) dns: FakeDns,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::under(Arc::new(PrivateCa::new())).await
    }

    /// A world whose certificates come from this authority.
    pub(crate) async fn under(ca: Arc<PrivateCa>) -> Self {
        Self { ca, dns: FakeDns::start().await }
    }

    /// A peer with a certificate for `name`, which the name server knows. Its server name has its port.
    pub(crate) async fn peer(&self, name: &str, behaviour: Behaviour) -> (TlsPeer, String) {
        let peer = TlsPeer::start(self.ca.server_config(&[name]), behaviour).await;
        let server = self.name(name, peer.address());
        (peer, server)
    }

    /// Lets `name` lead to an address; the server name with its port.
    pub(crate) fn name(&self, name: &str, address: SocketAddr) -> String {
        self.at(name, &[address.ip()]);
        format!("{name}:{}", address.port())
    }

    pub(crate) fn at(&self, name: &str, addresses: &[IpAddr]) {
        self.dns.say(name, Says::At(addresses.to_vec()));
    }

    /// The library with the record's pool of eight. Without a time, with its own deadline.
    pub(crate) fn portcullis(&self, remote_timeout: Option<Duration>) -> Arc<Portcullis> {
        self.portcullis_asking(self.dns.address(), remote_timeout)
    }

    /// The same, with another name server.
    pub(crate) fn portcullis_asking(&self, dns: SocketAddr, remote_timeout: Option<Duration>) -> Arc<Portcullis> {
        let mut builder = self.builder(dns);
        if let Some(limit) = remote_timeout {
            builder = builder.remote_timeout(RemoteTimeout::new(limit).unwrap());
        }
        Arc::new(builder.build().unwrap())
    }

    fn builder(&self, dns: SocketAddr) -> PortcullisBuilder {
        let own_name: ServerName = OWN_NAME.parse().unwrap();
        let transport = HttpsTransport::new(TlsRoots::only(self.ca.pem().as_bytes()).unwrap()).unwrap();
        let discovery = Discovery::new(
            own_name.clone(),
            Arc::new(HickoryResolver::with_name_servers(&[dns]).unwrap()),
            Arc::new(transport),
            AddressPolicy::default().allow(["127.0.0.0/8".parse().unwrap()]).unwrap(),
            HeaderValue::from_static("portcullis-test"),
        );
        let signer = Arc::new(Ed25519Signer::generate(own_name));
        Portcullis::builder(FederationClient::new(signer, discovery).unwrap(), POOL)
    }
}

/// Every slot is back.
pub(crate) fn assert_at_rest(portcullis: &Portcullis) {
    let budget = portcullis.admission().budget();
    assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0), "slots and clients");
}
