//! The shapes of a `well_known` in the case files, and what they make of a [`Plan`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use crate::world::Plan;
use crate::world::fakes::WELL_KNOWN;
use crate::world::reply::{Pace, Reply};

/// A well-known file, or what stands in its place. Unknown keys are errors: a case is asserted whole or not at all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WellKnownShape {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    body_gen: Option<GeneratedBody>,
    body_base64: Option<String>,
    segments: Option<Vec<String>>,
    drip_ms_per_byte: Option<u64>,
    delay_ms: u64,
    chunked: bool,
    redirect_to: Option<String>,
    then: Option<Then>,
    tls_error: Option<String>,
    connect_error: Option<String>,
    timeout: Option<String>,
    /// How long the time-out lasts; ours never ends.
    for_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratedBody {
    prefix: String,
    fill: String,
    fill_count: usize,
    suffix: String,
}

/// What the target of a redirect answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Then {
    Word(String),
    Answer(Box<WellKnownShape>),
}

const HTTPS: u16 = 443;
/// Pause between segments that the case gives no pause for.
const BETWEEN_SEGMENTS: Duration = Duration::from_millis(50);

impl WellKnownShape {
    /// Puts it at `host`, whose addresses are these.
    pub(crate) fn put_at(&self, host: &str, addresses: &[IpAddr], plan: &mut Plan) {
        let places = || addresses.iter().map(|address| SocketAddr::new(*address, HTTPS));
        match self.connect_error.as_deref() {
            Some("refused") => {
                plan.places.retain(|place| !places().any(|closed| closed == *place));
                return;
            }
            // The zone says it.
            Some("dns-nxdomain" | "dns-servfail") => return,
            Some(other) => panic!("connect_error {other}"),
            None => {}
        }
        match self.tls_error.as_deref() {
            Some("unknown-ca") => places().for_each(|place| plan.site.untrusted(place)),
            Some(other) => panic!("tls_error {other}"),
            None => {}
        }
        match self.timeout.as_deref() {
            Some("connect") => plan.black_holes.extend(places()),
            Some("headers") => plan.site.well_known(host, Reply::silence()),
            Some(other) => panic!("timeout {other}"),
            None => self.put_page(&format!("https://{host}{WELL_KNOWN}"), plan),
        }
    }

    fn put_page(&self, url: &str, plan: &mut Plan) {
        plan.site.page(url, self.reply());
        let Some(target) = self.redirect_to.as_deref() else { return };
        match &self.then {
            Some(Then::Answer(next)) if target.starts_with("https://") => next.put_page(target, plan),
            Some(Then::Word(word)) if word == "endless-new-urls" => plan.site.endless_redirects(target),
            Some(Then::Word(word)) if word == "loop" => assert_eq!(target, url),
            Some(Then::Answer(_)) | None => {}
            Some(Then::Word(word)) => panic!("then {word}"),
        }
    }

    fn reply(&self) -> Reply {
        let mut reply = Reply::new(if self.status == 0 { 200 } else { self.status }, self.content());
        for (name, value) in &self.headers {
            reply = reply.header(name, value);
        }
        if let Some(target) = &self.redirect_to {
            reply = reply.header("location", target);
        }
        if let Some(milliseconds) = self.drip_ms_per_byte {
            reply = reply.paced(Pace::Drip(Duration::from_millis(milliseconds)));
        }
        if let Some(segments) = &self.segments {
            reply = reply.paced(Pace::Segments(segments.iter().map(String::len).collect(), BETWEEN_SEGMENTS));
        }
        reply.chunked = self.chunked;
        reply.after(Duration::from_millis(self.delay_ms))
    }

    fn content(&self) -> Vec<u8> {
        if let Some(GeneratedBody { prefix, fill, fill_count, suffix }) = &self.body_gen {
            return format!("{prefix}{}{suffix}", fill.repeat(*fill_count)).into_bytes();
        }
        if let Some(encoded) = &self.body_base64 {
            return BASE64.decode(encoded).unwrap();
        }
        if let Some(segments) = &self.segments {
            return segments.concat().into_bytes();
        }
        self.body.clone().into_bytes()
    }
}
