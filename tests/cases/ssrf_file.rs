//! What `ssrf.json` holds.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde_json::Value;

use crate::well_known::WellKnownShape;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) kind: String,
    #[serde(rename = "firmness")]
    _firmness: String,
    pub(crate) input: Input,
    pub(crate) expect: Verdict,
    #[serde(rename = "why")]
    _why: String,
    #[serde(default, rename = "alt_expect")]
    _alt_expect: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Allow,
    Refuse,
}

/// What the world is and what is asked for. Unknown keys are errors: a case is asserted whole or not at all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Input {
    pub(crate) server_name: Option<String>,
    /// The address that the policy is asked about by itself as well.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) grammar_admits: Option<bool>,
    pub(crate) dns: BTreeMap<String, Value>,
    pub(crate) dns_sequence: BTreeMap<String, Vec<Value>>,
    pub(crate) ttl: Option<u32>,
    pub(crate) well_known: Option<WellKnownShape>,
    pub(crate) hops: Vec<Hop>,
    pub(crate) hosts_file: BTreeMap<String, IpAddr>,
    pub(crate) resolver_search: Vec<String>,
    pub(crate) unreachable: Vec<SocketAddr>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) config: Option<Rules>,
    pub(crate) startup: bool,
    pub(crate) self_server_name: Option<String>,
    pub(crate) request: Option<String>,
    pub(crate) requests: Option<u32>,
    pub(crate) close_connection_between: bool,
    pub(crate) client_headers: BTreeMap<String, String>,
    pub(crate) remote_reply: Option<RemoteReply>,

    pub(crate) forbidden: Vec<SocketAddr>,
    pub(crate) must_dial: Option<SocketAddr>,
    pub(crate) must_dial_first: Option<SocketAddr>,
    pub(crate) dial_any_of: Option<Vec<SocketAddr>>,
    pub(crate) may_dial: Vec<SocketAddr>,
    pub(crate) may_fall_back_to: Option<SocketAddr>,
    pub(crate) dial_count: Option<usize>,
    pub(crate) max_dns_queries: Option<usize>,
    pub(crate) must_not_query: Vec<String>,
    pub(crate) max_requests_to: BTreeMap<SocketAddr, usize>,
    pub(crate) must_not_send_to: BTreeMap<SocketAddr, Vec<String>>,
    pub(crate) remote_must_not_see: Vec<String>,
    pub(crate) remote_sees_query: BTreeMap<String, String>,

    // Of the media routes.
    /// The file a client asks for.
    pub(crate) media_request: Option<MediaRequest>,
    /// What its server answers.
    pub(crate) media_reply: Option<MediaReply>,
    /// What its server answers at the older endpoint.
    pub(crate) legacy_reply: Option<RemoteReply>,
    /// What the URL of the `Location` answers.
    pub(crate) cdn_reply: Option<RemoteReply>,
    pub(crate) max_requests_to_remote: Option<usize>,
    /// Beginnings of paths, and the headers that nothing sent there has.
    pub(crate) must_not_send: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hop {
    pub(crate) from: String,
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    #[serde(default)]
    pub(crate) body: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rules {
    pub(crate) deny: Vec<String>,
    pub(crate) allow: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoteReply {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) body: String,
}

/// A file, as it stands in a client's request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MediaRequest {
    pub(crate) server_name: String,
    pub(crate) media_id: String,
}

/// An answer in two parts; the second one says where the file is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MediaReply {
    #[serde(default = "ok")]
    pub(crate) status: u16,
    #[serde(default = "yes")]
    pub(crate) multipart: bool,
    pub(crate) location: String,
}

fn ok() -> u16 {
    200
}

fn yes() -> bool {
    true
}
