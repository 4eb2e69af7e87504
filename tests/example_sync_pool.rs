//! The example of a homeserver with a request pool, rehearsed: each of its requests gets the status it is promised.
#![cfg(feature = "outbound")]
#![expect(clippy::unwrap_used, reason = "a helper outside a test function is test code all the same")]

#[path = "../examples/sync_pool/main.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod sync_pool;

use sync_pool::homeserver::Way;
use sync_pool::rehearsal::World;

fn sync_pool_keeps_its_promises(way: Way, errands: u64) {
    let world = World::start(way, "127.0.0.1:0").unwrap();
    let seen = world.rehearse().unwrap();
    let broken: Vec<_> = seen.iter().filter(|seen| !seen.is_as_promised()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let of = |status| seen.iter().filter(|seen| seen.status == status).count();
    assert_eq!((of(200), of(429), of(504), seen.len()), (9, 1, 2, 14));
    let refused = seen.iter().find(|seen| seen.status == 429).unwrap();
    assert!(refused.body.contains(r#""retry_after_ms":1000"#), "{refused:?}");
    let file = seen.iter().find(|seen| seen.what == "a file of another server").unwrap();
    assert_eq!(file.body, "A file of the garden.");
    assert_eq!(world.errands(), errands);
}

#[test]
fn a_request_pool_with_a_lock_goes_on_while_servers_are_silent() {
    // A list, an alias, a file, two silent ones, another alias.
    sync_pool_keeps_its_promises(Way::Halves, 6);
}

#[test]
fn a_request_pool_without_a_lock_goes_on_while_servers_are_silent() {
    // Nobody counts there: the one call says nothing of what it did.
    sync_pool_keeps_its_promises(Way::OneCall, 0);
}
