//! A stranger's well-known file, over all its hops.

use std::sync::Arc;
use std::time::Duration;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::script::Script;
use super::server_name::means_the_same_to_everybody;
use crate::deadline::OutboundDeadline;
use crate::limits::{MAX_WELL_KNOWN_BYTES, MAX_WELL_KNOWN_REDIRECTS, WELL_KNOWN_MAX_LIFETIME, WELL_KNOWN_MIN_LIFETIME};
use crate::outbound::AddressPolicy;
use crate::outbound::web::Web;
use crate::outbound::well_known::fetch::Fetcher;

/// Time for a fetch.
const SHARE: Duration = Duration::from_secs(3);

/// tokio's timers wake at whole milliseconds.
const TIMER: Duration = Duration::from_millis(2);

/// Any answers of the world: never panics, never asks about or dials our own host or a special address (the script
/// sees to that), ends in time, follows five redirects at most; and the file it takes is the last answer's: a name that
/// means the same to everybody, kept between five minutes and 48 hours, exactly as long as a plain `max-age` says.
///
/// The lines of `script.rs`, in order.
pub async fn well_known(input: &[u8]) {
    let own_host = "us.example".parse::<crate::server_name::ServerName>().unwrap().host().clone();
    let world = Script::new(own_host.clone(), input);
    let web = Web {
        resolver: world.clone(),
        transport: world.clone(),
        policy: Arc::new(AddressPolicy::default()),
        own_host,
        user_agent: HeaderValue::from_static("portcullis"),
    };
    let fetcher = Fetcher { web: Arc::new(web) };
    let start = Instant::now();
    let share = OutboundDeadline::after(SHARE, start);
    let outcome = share.cut(fetcher.fetch(&"them.example".parse().unwrap(), share)).await;
    assert!(start.elapsed() <= SHARE + TIMER);
    let most_hops = MAX_WELL_KNOWN_REDIRECTS + 1;
    assert!(world.asked().lookups <= most_hops);
    let Ok(Ok(file)) = outcome else { return };

    means_the_same_to_everybody(&file.server);
    assert!((WELL_KNOWN_MIN_LIFETIME..=WELL_KNOWN_MAX_LIFETIME).contains(&file.lifetime));
    let said = world.said().unwrap();
    assert!(said.body.len() <= MAX_WELL_KNOWN_BYTES);
    let content: serde_json::Value = serde_json::from_slice(&said.body).unwrap();
    assert_eq!(content.as_object().unwrap()["m.server"], file.server.as_str());
    if let Some(asked) = plain_max_age(&said.headers) {
        assert_eq!(file.lifetime, asked.clamp(WELL_KNOWN_MIN_LIFETIME, WELL_KNOWN_MAX_LIFETIME));
    }
}

/// The only directive there is, if it is a `max-age` that nobody could misread.
fn plain_max_age(headers: &HeaderMap) -> Option<Duration> {
    let mut lines = headers.get_all(CACHE_CONTROL).iter();
    let (only, None) = (lines.next()?, lines.next()) else { return None };
    let seconds = only.to_str().ok()?.strip_prefix("max-age=")?;
    if seconds.bytes().all(|byte| byte.is_ascii_digit()) { seconds.parse().ok().map(Duration::from_secs) } else { None }
}
