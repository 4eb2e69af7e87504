//! The example of a client of one's own, rehearsed: it connects to what discovery allowed, and to nothing else.
#![cfg(feature = "outbound")]

#[path = "../examples/own_client.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod own_client;

#[tokio::test]
async fn ones_own_client_connects_to_what_was_allowed_and_follows_nothing() {
    let seen = own_client::rehearse().await.unwrap();
    assert_eq!(seen.len(), 6);
    for one in &seen {
        assert!(one.is_as_promised(), "{one:?}");
    }
}
