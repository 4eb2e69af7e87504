//! Each way in which a slot could be kept, or lost, between the layer and the call.

use std::convert::Infallible;
use std::future::{Ready, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use tokio::sync::{mpsc, oneshot};
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::admission::{ClientOutboundProxyPolicy, DestinationRules, DestinationVerdict, RefusedCounts};
use crate::server_name::ServerName;

const REMOTE: &str = "/_matrix/client/v3/publicRooms?server=them.example";

/// Two slots, one for each client; a request's client is what its header says.
fn door() -> Admission {
    Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(4))
}

fn layer(door: &Admission) -> AdmissionLayer {
    AdmissionLayer::new(door.clone(), |headers, _| {
        let address = headers["client"].to_str().unwrap().parse().unwrap();
        ClientKey::vouched(address, Default::default())
    })
}

fn request(uri: &str) -> Request<()> {
    Request::get(uri).header("client", "192.0.2.1").body(()).unwrap()
}

type Answered = Result<Response<Bytes>, Infallible>;

fn fine() -> Ready<Answered> {
    ready(Ok(Response::new(Bytes::from_static(b"fine"))))
}

/// A handler that leaves the pass, or whatever `handle` does.
fn service<F: Future<Output = Answered>>(
    door: &Admission,
    handle: impl Fn(Request<()>) -> F,
) -> impl Service<Request<()>, Response = Response<Bytes>, Error = Infallible> {
    layer(door).layer(service_fn(handle))
}

/// Polls it once.
async fn is_pending<F: Future>(answer: &mut Pin<Box<F>>) -> bool {
    poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn what_stays_here_is_passed_on_without_a_slot_and_told_from_what_was_not_seen() {
    let door = door();
    for (uri, left) in [
        ("/_matrix/client/v3/publicRooms", Ok(())),
        ("/_matrix/client/v3/publicRooms?server=US.example:8448", Ok(())),
        ("/_matrix/client/v3/directory/room/%23hall:us.example", Ok(())),
        // As a layer inside of axum's `nest` sees it.
        ("/v3/publicRooms?server=them.example", Err(NoEarlyPass::OtherPath)),
        ("/_matrix/client/v3/sync", Err(NoEarlyPass::OtherPath)),
        ("/_matrix/client/v1/media/download/them.example/abc", Err(NoEarlyPass::OtherPath)),
    ] {
        let in_flight = door.clone();
        let handle = |request: Request<()>| {
            let taken = EarlyPass::take_from(request.extensions());
            assert_eq!(taken.map(|pass| assert!(pass.is_none(), "{uri}")), left, "{uri}");
            assert_eq!(in_flight.budget().in_flight(), 0, "{uri}");
            fine()
        };
        assert_eq!(service(&door, handle).oneshot(request(uri)).await.unwrap().body(), "fine", "{uri}");
    }
    assert_eq!(EarlyPass::take_from(request(REMOTE).extensions()).unwrap_err(), NoEarlyPass::NotSeen);
}

#[tokio::test]
async fn an_inner_layer_that_sees_less_leaves_the_outer_one_s_word() {
    let door = door();
    for (uri, leaves) in [(REMOTE, true), ("/_matrix/client/v3/publicRooms", false)] {
        let handle = |request: Request<()>| {
            assert_eq!(EarlyPass::take_from(request.extensions()).unwrap().is_some(), leaves);
            fine()
        };
        let mut inner = service(&door, handle);
        let stripped = service_fn(move |mut request: Request<()>| {
            *request.uri_mut() = "/publicRooms".parse().unwrap();
            inner.call(request)
        });
        layer(&door).layer(stripped).oneshot(request(uri)).await.unwrap();
    }
}

#[tokio::test]
async fn what_leaves_brings_a_pass_to_its_server() {
    let door = door();
    for uri in [REMOTE, "/_matrix/client/v3/directory/room/%23hall:them.example"] {
        let handle = |request: Request<()>| {
            let pass = EarlyPass::take_from(request.extensions()).unwrap().unwrap();
            assert_eq!(pass.destination().as_str(), "them.example");
            async { Ok(pass.run(async { Response::new(Bytes::from_static(b"asked")) }).await.unwrap()) }
        };
        assert_eq!(service(&door, handle).oneshot(request(uri)).await.unwrap().body(), "asked");
        assert_eq!(door.budget().in_flight(), 0);
    }
}

#[tokio::test]
async fn a_refusal_is_answered_before_the_handler_runs() {
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
    let door = door().with_destination_rules(Arc::new(Rules));
    let asked = AtomicUsize::new(0);
    let handle = |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        fine()
    };
    let held = layer(&door).admit(&request(REMOTE)).unwrap().unwrap();
    for (uri, status) in [
        (REMOTE, StatusCode::TOO_MANY_REQUESTS),
        ("/_matrix/client/v3/publicRooms?server=127.1", StatusCode::BAD_REQUEST),
        ("/_matrix/client/v3/publicRooms?server=bad.example", StatusCode::FORBIDDEN),
        ("/_matrix/client/v3/publicRooms?server=unseen.example", StatusCode::NOT_FOUND),
    ] {
        let answer = service(&door, handle).oneshot(request(uri)).await.unwrap();
        assert_eq!((answer.status(), answer.headers()["access-control-allow-origin"].as_bytes()), (status, &b"*"[..]));
        assert!(answer.body().starts_with(br#"{"errcode":"#));
        assert_eq!(answer.headers().contains_key("retry-after"), status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!((asked.load(Ordering::Relaxed), door.budget().in_flight()), (0, 1));
    assert_eq!(door.refused(), RefusedCounts { global: 0, client: 1, ..RefusedCounts::default() });
    drop(held);
}

#[tokio::test]
async fn being_ready_takes_no_slot() {
    let door = door();
    let mut service = service(&door, |_| fine());
    for _ in 0..8 {
        poll_fn(|context| service.poll_ready(context)).await.unwrap();
        assert_eq!(door.budget().in_flight(), 0);
    }
    drop(service);
    assert_eq!(door.budget().in_flight(), 0);
}

#[tokio::test]
async fn a_handler_that_leaves_the_pass_keeps_no_slot() {
    let door = door();
    let (keep, mut kept) = mpsc::unbounded_channel();
    let handle = |request: Request<()>| {
        assert_eq!(door.budget().in_flight(), 1);
        // Clones that live on: with whoever looks at requests, and in the answer.
        keep.send(request.extensions().clone()).unwrap();
        let mut answer = Response::new(Bytes::new());
        *answer.extensions_mut() = request.extensions().clone();
        ready(Ok(answer))
    };
    let answer = service(&door, handle).oneshot(request(REMOTE)).await.unwrap();
    assert_eq!(door.budget().in_flight(), 0);
    assert_eq!(EarlyPass::take_from(answer.extensions()).unwrap_err(), NoEarlyPass::Gone);
    assert_eq!(EarlyPass::take_from(&kept.recv().await.unwrap()).unwrap_err(), NoEarlyPass::Gone);
}

#[tokio::test]
async fn only_one_of_all_clones_yields_the_pass() {
    let door = door();
    let handle = |request: Request<()>| {
        let copy = request.extensions().clone();
        let pass = EarlyPass::take_from(&copy).unwrap().unwrap();
        assert_eq!(EarlyPass::take_from(request.extensions()).unwrap_err(), NoEarlyPass::Gone);
        drop(pass);
        assert_eq!(door.budget().in_flight(), 0, "dropped is free");
        assert_eq!(EarlyPass::take_from(&copy).unwrap_err(), NoEarlyPass::Gone);
        fine()
    };
    service(&door, handle).oneshot(request(REMOTE)).await.unwrap();
}

#[tokio::test]
async fn a_future_that_is_never_polled_gives_its_slot_back() {
    let door = door();
    let mut service = service(&door, |_| pending());
    let never = service.call(request(REMOTE));
    assert_eq!(door.budget().in_flight(), 1);
    drop(never);
    assert_eq!(door.budget().in_flight(), 0);
}

#[tokio::test]
async fn a_client_that_hangs_up_gives_back_what_was_not_taken() {
    let door = door();
    let (keep, mut kept) = mpsc::unbounded_channel();
    let handle = |request: Request<()>| {
        keep.send(request.extensions().clone()).unwrap();
        pending()
    };
    let mut answer = Box::pin(service(&door, handle).oneshot(request(REMOTE)));
    assert!(is_pending(&mut answer).await);
    assert_eq!(door.budget().in_flight(), 1);
    drop(answer);
    assert_eq!(door.budget().in_flight(), 0);
    assert_eq!(EarlyPass::take_from(&kept.recv().await.unwrap()).unwrap_err(), NoEarlyPass::Gone);
}

#[tokio::test]
async fn a_call_keeps_its_slot_when_its_client_hangs_up() {
    let door = door();
    let (end, ended) = oneshot::channel::<()>();
    let (say, mut hear) = mpsc::unbounded_channel();
    let ended = Mutex::new(Some(ended));
    let handle = |request: Request<()>| {
        let (pass, ended) =
            (EarlyPass::take_from(request.extensions()).unwrap().unwrap(), ended.lock().take().unwrap());
        say.send(tokio::spawn(pass.run(ended))).unwrap();
        pending()
    };
    let mut answer = Box::pin(service(&door, handle).oneshot(request(REMOTE)));
    assert!(is_pending(&mut answer).await);
    drop(answer);
    assert_eq!(door.budget().in_flight(), 1, "the call is at work");
    assert_eq!(
        layer(&door).admit(&request(REMOTE)).unwrap_err().into_response::<Bytes>().status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    end.send(()).unwrap();
    hear.recv().await.unwrap().await.unwrap().unwrap().unwrap();
    assert_eq!(door.budget().in_flight(), 0);
}

#[tokio::test]
async fn a_call_keeps_its_slot_after_the_answers_head() {
    let door = door();
    let (say, mut hear) = mpsc::unbounded_channel();
    let handle = |request: Request<()>| {
        // Its body is still to come, out of the call.
        say.send(EarlyPass::take_from(request.extensions()).unwrap().unwrap()).unwrap();
        fine()
    };
    service(&door, handle).oneshot(request(REMOTE)).await.unwrap();
    assert_eq!(door.budget().in_flight(), 1);
    hear.recv().await.unwrap().run(async {}).await.unwrap();
    assert_eq!(door.budget().in_flight(), 0);
}

#[tokio::test]
async fn an_error_inside_gives_the_slot_back() {
    let door = door();
    let failing = service_fn(|_: Request<()>| ready(Err::<Response<Bytes>, _>("broken")));
    assert_eq!(layer(&door).layer(failing).oneshot(request(REMOTE)).await.unwrap_err(), "broken");
    assert_eq!(door.budget().in_flight(), 0);
}

#[tokio::test]
async fn a_panic_inside_gives_the_slot_back() {
    let door = door();
    let in_call = service_fn(|_: Request<()>| -> Ready<Answered> { panic!("on purpose") });
    let mut service = layer(&door).layer(in_call);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(service.call(request(REMOTE))))).is_err());
    assert_eq!(door.budget().in_flight(), 0);

    let in_future = service_fn(|_: Request<()>| poll_fn(|_| -> Poll<Answered> { panic!("on purpose") }));
    let answer = tokio::spawn(layer(&door).layer(in_future).oneshot(request(REMOTE))).await;
    assert!(answer.unwrap_err().is_panic());
    assert_eq!(door.budget().in_flight(), 0);
}

#[tokio::test]
async fn the_slot_is_free_before_the_answer_is_seen() {
    let door = door();
    let mut service = service(&door, |_| fine());
    let mut answers = Vec::new();
    for _ in 0..8 {
        // Whoever asked keeps what has answered a while longer.
        let mut answer = Box::pin(service.call(request(REMOTE)));
        assert_eq!((&mut answer).await.unwrap().status(), StatusCode::OK);
        assert_eq!(door.budget().in_flight(), 0);
        answers.push(answer);
    }
    assert_eq!(door.refused(), RefusedCounts::default());
}
