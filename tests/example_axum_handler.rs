//! The axum example, rehearsed: each of its requests gets the status it is promised.
#![cfg(all(feature = "outbound", feature = "tower"))]
#![expect(clippy::unwrap_used, reason = "a helper outside a test function is test code all the same")]

#[path = "../examples/axum_handler.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod axum_handler;

async fn axum_keeps_its_promises(with_layer: bool) {
    let seen = axum_handler::rehearse(with_layer).await.unwrap();
    let broken: Vec<_> = seen.iter().filter(|(_, status, promised)| status != promised).collect();
    assert!(broken.is_empty(), "{broken:?}");
    let statuses: Vec<_> = seen.iter().map(|(_, status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 400, 429, 429, 200, 504, 200]);
}

#[tokio::test]
async fn an_axum_handler_admits_its_own_federation_call() {
    axum_keeps_its_promises(false).await;
}

#[tokio::test]
async fn an_axum_handler_takes_the_pass_of_the_layer() {
    axum_keeps_its_promises(true).await;
}
