//! A homeserver behind whose users are of another `server_name`: the operator is told, once.
//!
//! *Unplug:* leave `warn_of_another_name` out of `WhoamiOverHttp::ask`, or let it warn each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::rig::{Behind, Front, REMOTE_FILE, json};
use crate::support::logging::let_each_thread_decide;

/// Counts the warnings about the homeserver behind.
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target() == "portcullis::upstream"
    }

    fn event(&self, event: &Event<'_>) {
        assert!(event.fields().any(|field| field.name() == "server_name"), "{event:?}");
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// How many warnings three users of `server` bring. Everything runs on this thread.
async fn warnings_of(server: &'static str) -> usize {
    let_each_thread_decide();
    let heard = Arc::<AtomicUsize>::default();
    let _listening = tracing::subscriber::set_default(Warnings(Arc::clone(&heard)));
    let behind = Behind::saying(move |_| json(200, &format!(r#"{{"user_id":"@a:{server}"}}"#))).await;
    let front = Front::of(&behind);
    for token in ["one", "two", "three"] {
        front.get_as(REMOTE_FILE, token).await;
    }
    assert_eq!(behind.questions(), 3);
    heard.load(Ordering::SeqCst)
}

#[tokio::test]
async fn users_of_another_name_are_told_of_once() {
    assert_eq!(warnings_of("other.example").await, 1);
    assert_eq!(warnings_of("us.example:8449").await, 1, "another port is another server");
}

#[tokio::test]
async fn users_of_its_own_name_are_as_they_should_be() {
    assert_eq!(warnings_of("us.example").await, 0);
    assert_eq!(warnings_of("US.example").await, 0);
    assert_eq!(warnings_of("us.example:8448").await, 0);
}
