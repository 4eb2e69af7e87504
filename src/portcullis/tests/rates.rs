//! How often one client may ask: where it is looked at, and what both fields of the answer say.

use super::*;
use crate::admission::{RateCaps, RateLimit, RouteClass};

fn limited(remote: &FakeRemote, per_minute: u32, burst: u32) -> Portcullis {
    let limit = RateLimit::new(RateCaps { per_minute, burst }).unwrap();
    builder(8, remote).client_rate(RouteClass::Directory, limit).build().unwrap()
}

fn answering() -> FakeRemote {
    FakeRemote::new(|_| Does::Say(200, NO_ROOMS.to_owned()))
}

/// What a refused client is told: milliseconds, and the header's seconds.
async fn told(portcullis: &Portcullis, peer: u8, server: &str) -> (u64, String) {
    let seen = answered_at_once(portcullis, peer, &list_of(server)).await.unwrap();
    assert_eq!(seen.outcome(), (429, "M_LIMIT_EXCEEDED"));
    assert!(seen.content["error"].as_str().unwrap().contains("Too many lookups"), "{seen:?}");
    (seen.content["retry_after_ms"].as_u64().unwrap(), seen.retry_after.unwrap())
}

#[tokio::test(start_paused = true)]
async fn over_the_rate_both_fields_say_exactly_when_the_next_may_go_out() {
    let remote = answering();
    let portcullis = limited(&remote, 40, 2);
    for server in ["a.example", "b.example"] {
        assert_eq!(ask(&portcullis, 1, &list_of(server)).await.status, 200);
    }
    assert_eq!(told(&portcullis, 1, "c.example").await, (1500, "2".to_owned()));
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(told(&portcullis, 1, "c.example").await, (1000, "1".to_owned()));
    // Less than a millisecond is one: told to wait 0, a client spins.
    tokio::time::advance(Duration::from_micros(999_900)).await;
    assert_eq!(told(&portcullis, 1, "c.example").await, (1, "1".to_owned()));
    tokio::time::advance(Duration::from_micros(100)).await;
    assert_eq!(ask(&portcullis, 1, &list_of("c.example")).await.status, 200);
    assert_eq!(remote.opened(), 3);
    assert_eq!(serde_json::to_value(portcullis.status()).unwrap()["budgets"]["directory"]["refused"]["rate"], 3);
    assert_at_rest(&portcullis);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_go_out_is_not_counted() {
    let remote = answering();
    let portcullis = limited(&remote, 1, 1);
    for _ in 0..10 {
        assert_eq!(ask(&portcullis, 1, &get(LIST)).await.status, 200);
        assert_eq!(ask(&portcullis, 1, &list_of("US.example:8448")).await.status, 200);
        assert_eq!(ask(&portcullis, 1, &alias("%23here:us.example")).await.status, 200);
        assert_eq!(ask(&portcullis, 1, &list_of("127.1")).await.status, 400);
        assert_eq!(
            ask(&portcullis, 1, &Request::post(format!("{LIST}?server=a.example")).body(Bytes::new()).unwrap())
                .await
                .status,
            401
        );
    }
    assert_eq!(ask(&portcullis, 1, &list_of("a.example")).await.status, 200);
    // Remembered, so still not: and then, for another server, it is.
    assert_eq!(ask(&portcullis, 1, &list_of("a.example")).await.status, 200);
    assert_eq!(told(&portcullis, 1, "b.example").await, (60_000, "60".to_owned()));
    assert_eq!(remote.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_there_is_none() {
    let portcullis = portcullis(8, &answering());
    for n in 0..500 {
        assert_eq!(ask(&portcullis, 1, &list_of(&format!("s{n}.example"))).await.status, 200);
    }
    assert_eq!(portcullis.admission().refused().rate, 0);
}
