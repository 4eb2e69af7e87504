//! `[homeserver]`: the homeserver behind, and what is left out where there is one.

use std::net::SocketAddr;

use toml::de::DeValue;

use super::reader::{Mistakes, Section, text};
use crate::homeserver::upstream::UpstreamOrigin;

const UPSTREAM: &str = "an origin in quotes such as \"http://127.0.0.1:8008\"";

/// The data of the embedded homeserver, which there is none of where another one is behind.
const EMBEDDED_DATA: [&str; 3] = ["rooms", "aliases", "tokens"];

/// Where the homeserver behind is; `None` for the embedded one.
pub(super) fn upstream(
    mut section: Section<'_>,
    listeners: [(&'static str, SocketAddr); 2],
    mistakes: &mut Mistakes<'_>,
) -> Option<UpstreamOrigin> {
    let upstream = section.value("upstream", mistakes, |value| origin(value, listeners));
    section.end(mistakes);
    upstream
}

fn origin(value: &DeValue<'_>, listeners: [(&'static str, SocketAddr); 2]) -> Result<UpstreamOrigin, String> {
    let text = text(value, UPSTREAM)?;
    // A password in it is not told to whoever reads the log.
    let origin: UpstreamOrigin = text.parse().map_err(|problem| format!("{problem}; write {UPSTREAM}"))?;
    match origin.address() {
        // A name, and a port that is not known yet, are looked at once the sockets are bound.
        Some(address) => {
            let itself = listeners
                .into_iter()
                .find(|(_, listener)| listener.port() == origin.port() && listener.ip().to_canonical() == address);
            itself.map_or(Ok(origin), |(key, _)| Err(circle(key)))
        }
        None => Ok(origin),
    }
}

/// What is wrong with an upstream that is one of our own sockets.
pub(crate) fn circle(listener: &str) -> String {
    format!(
        "this is our own {listener}: requests would go round in a circle; write where the homeserver itself listens, \
         such as \"http://127.0.0.1:8008\""
    )
}

/// Notes each part of the embedded homeserver's data beside another homeserver.
pub(super) fn without_embedded_data(root: &mut Section<'_>, mistakes: &mut Mistakes<'_>) {
    for key in EMBEDDED_DATA {
        if let Some(at) = root.span_of(key) {
            let problem = format!(
                "the homeserver behind has its own {key}, and these would not be seen; remove [[{key}]], or \
                 homeserver.upstream"
            );
            mistakes.note(Some(at), key, problem);
        }
    }
}
