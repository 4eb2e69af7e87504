//! What may be kept in a server's state, handed to another thread, or held by a task. The gate's own are in `tests/gate/types.rs`.

use portcullis::media::{MediaPass, RemoteFetchAllowed};
use portcullis::{
    Admission, Admitted, ClientKey, InFlightBudget, OutboundDeadline, Refusal, ServerName, Slot, TrustedProxies,
};

fn is_shared<T: Send + Sync + 'static>() {}

fn is_handed_on<T: Send + 'static>(_: &T) {}

#[test]
fn the_entrance_is_shared_and_a_pass_goes_with_its_call() {
    is_shared::<Admission>();
    is_shared::<InFlightBudget<ClientKey>>();
    is_shared::<Slot<ClientKey>>();
    is_shared::<Admitted>();
    is_shared::<MediaPass>();
    is_shared::<RemoteFetchAllowed>();
    is_shared::<OutboundDeadline>();
    is_shared::<Refusal>();
    is_shared::<ServerName>();
    is_shared::<TrustedProxies>();
}

#[test]
fn an_admitted_call_may_be_spawned() {
    let door = Admission::new("us.example".parse().unwrap(), portcullis::ClientOutboundProxyPolicy::for_pool(2));
    let route = portcullis::OutboundRoute::PublicRooms { server: "them.example".parse().unwrap() };
    is_handed_on(&door.admit(&ClientKey::shared(), route).unwrap().run(async {}));
}

#[cfg(feature = "outbound")]
#[test]
fn the_way_out_and_the_facade_are_shared() {
    use portcullis::outbound::{Discovery, Ed25519Signer, FederationCall, FederationClient, HttpsTransport, TlsRoots};
    use portcullis::status::Status;
    use portcullis::{MediaLookup, Portcullis, PortcullisBuilder, RemoteLookup, ResponseBody};

    fn is_sent<T: Send + 'static>() {}

    is_handed_on(&ResponseBody::default());
    is_shared::<Portcullis>();
    is_shared::<Status>();
    is_shared::<Discovery>();
    is_shared::<Ed25519Signer>();
    is_shared::<FederationClient>();
    is_shared::<FederationCall>();
    is_shared::<HttpsTransport>();
    is_shared::<TlsRoots>();
    is_sent::<PortcullisBuilder>();
    is_sent::<RemoteLookup>();
    is_sent::<MediaLookup>();
}

#[cfg(feature = "tower")]
#[test]
fn a_service_behind_the_layer_is_as_shared_as_it_was() {
    use portcullis::layer::{AdmissionFuture, AdmissionLayer, AdmissionService, EarlyPass};

    is_shared::<AdmissionLayer>();
    is_shared::<AdmissionService<()>>();
    is_shared::<AdmissionFuture<(), Vec<u8>>>();
    is_shared::<EarlyPass>();
}
