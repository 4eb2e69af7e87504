//! [`judge`]: whether the homeserver behind publishes the key that we sign with. Other servers check our signatures against what
//! it publishes, so with another key every lookup fails, and nothing here would say why.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::limits::{UPSTREAM_KEY_ID_BYTES, UPSTREAM_KEY_IDS_SHOWN};
use crate::server_name::ServerName;

/// The name and the key that other servers are to find.
#[derive(Clone, Debug)]
pub(crate) struct OwnKey {
    pub(crate) server_name: ServerName,
    /// `ed25519:a_xxxx`.
    pub(crate) key_id: String,
    /// The public half, in base64 without padding.
    pub(crate) verify_key: String,
}

/// What an answer to `GET /_matrix/key/v2/server` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// Our key is there.
    Ours,
    /// It publishes keys under another name.
    AnotherName(ServerName),
    /// Ours is not among its keys, which have these ids; or one of them has our key's id and is another key.
    AnotherKey {
        /// As far as they are to be shown, separated by commas.
        ids: String,
        /// Whether our key's id is among them.
        same_id: bool,
    },
    /// No such path here, in a homeserver's words: its keys are published elsewhere.
    NotHere,
    /// Nothing that a homeserver would say.
    NoSense,
    /// Nothing yet: a gateway in between, or a homeserver that starts.
    NotNow,
}

#[derive(Deserialize)]
struct KeyDocument {
    server_name: String,
    verify_keys: Map<String, Value>,
}

/// Reads an answer. Its signature is not looked at: it is the homeserver's own word, on the operator's own way.
pub(super) fn judge(status: StatusCode, body: &[u8], own: &OwnKey) -> Published {
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Published::NotNow;
    }
    if status != StatusCode::OK {
        return if is_homeservers(body) { Published::NotHere } else { Published::NoSense };
    }
    let document = serde_json::from_slice(body).ok();
    let document =
        document.and_then(|KeyDocument { server_name, verify_keys }| Some((server_name.parse().ok()?, verify_keys)));
    let Some((server_name, verify_keys)): Option<(ServerName, _)> = document else {
        return if is_homeservers(body) { Published::NotHere } else { Published::NoSense };
    };
    if !server_name.is_same_server(&own.server_name) {
        return Published::AnotherName(server_name);
    }
    let there = verify_keys.get(&own.key_id);
    let key = there.and_then(|key| key.get("key")?.as_str());
    if key.is_some_and(|key| key.trim_end_matches('=') == own.verify_key) {
        return Published::Ours;
    }
    let mut ids: Vec<&str> = verify_keys.keys().map(String::as_str).filter(|id| is_key_id(id)).collect();
    ids.sort_unstable();
    ids.truncate(UPSTREAM_KEY_IDS_SHOWN);
    Published::AnotherKey { ids: ids.join(", "), same_id: there.is_some() }
}

/// Whether an answer could be a homeserver's, whatever it was asked: an object with an error code, or with `versions`, which every
/// homeserver tells anybody.
pub(super) fn is_homeservers(body: &[u8]) -> bool {
    let answer: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    answer.is_some_and(|answer| {
        answer.get("errcode").is_some_and(Value::is_string) || answer.get("versions").is_some_and(Value::is_array)
    })
}

/// What the log may show as it stands.
fn is_key_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'-' | b'.' | b'+' | b'/');
    !id.is_empty() && id.len() <= UPSTREAM_KEY_ID_BYTES && id.bytes().all(is_plain)
}

impl Published {
    /// The line that is due, if one is. `NoSense` is told by whoever has asked for `versions` too.
    pub(super) fn tell(&self, own: &OwnKey) {
        let OwnKey { server_name, key_id, .. } = own;
        match self {
            Self::Ours => tracing::info!(
                target: "portcullis::upstream",
                %server_name,
                key_id,
                "the homeserver behind publishes our signing key"
            ),
            Self::AnotherName(theirs) => tracing::warn!(
                target: "portcullis::upstream",
                %server_name,
                theirs = %theirs,
                "the homeserver behind has another server_name, so other servers will refuse our signature: write its own name in \
                 server_name, or where yours listens in homeserver.upstream"
            ),
            Self::AnotherKey { ids, same_id } => tracing::warn!(
                target: "portcullis::upstream",
                %server_name,
                key_id,
                published = ids,
                "the homeserver behind publishes {}, so other servers will refuse our signature: let signing_key name a copy of the \
                 file that signing_key_path in homeserver.yaml names",
                if *same_id { "another key of the same id as our signing_key" } else { "other keys than our signing_key" }
            ),
            Self::NotHere | Self::NotNow => tracing::debug!(
                target: "portcullis::upstream",
                "the homeserver behind does not say here which signing key it publishes"
            ),
            Self::NoSense => {}
        }
    }
}

/// Something else than a homeserver answers where the homeserver behind should be.
pub(super) fn tell_of_no_homeserver(origin: &str) {
    tracing::warn!(
        target: "portcullis::upstream",
        origin,
        "what answers at homeserver.upstream is no homeserver: neither its key nor its versions are there; write where the \
         homeserver itself listens"
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn own() -> OwnKey {
        OwnKey {
            server_name: "us.example".parse().unwrap(),
            key_id: "ed25519:a_ours".to_owned(),
            verify_key: "b3Vycw".to_owned(),
        }
    }

    fn judged(status: u16, body: &Value) -> Published {
        judge(StatusCode::from_u16(status).unwrap(), body.to_string().as_bytes(), &own())
    }

    fn document(server_name: &str, keys: &Value) -> Value {
        json!({ "server_name": server_name, "verify_keys": keys, "old_verify_keys": {}, "valid_until_ts": 1 })
    }

    #[test]
    fn our_key_is_found_among_others_with_padding_or_without() {
        let keys = json!({ "ed25519:a_ours": { "key": "b3Vycw==" }, "ed25519:b": { "key": "eA" } });
        assert_eq!(judged(200, &document("us.example", &keys)), Published::Ours);
        let keys = json!({ "ed25519:a_ours": { "key": "b3Vycw" } });
        assert_eq!(judged(200, &document("US.example:8448", &keys)), Published::Ours);
    }

    #[test]
    fn another_key_is_told_from_another_of_the_same_id_and_from_another_name() {
        let another = |ids: &str, same_id| Published::AnotherKey { ids: ids.to_owned(), same_id };
        let keys = json!({ "ed25519:b": { "key": "b3Vycw" }, "ed25519:a": {} });
        assert_eq!(judged(200, &document("us.example", &keys)), another("ed25519:a, ed25519:b", false));
        let keys = json!({ "ed25519:a_ours": { "key": "dGhlaXJz" } });
        assert_eq!(judged(200, &document("us.example", &keys)), another("ed25519:a_ours", true));
        assert_eq!(judged(200, &document("us.example", &json!({}))), another("", false));
        let theirs = "them.example".parse().unwrap();
        assert_eq!(judged(200, &document("them.example", &json!({}))), Published::AnotherName(theirs));
    }

    #[test]
    fn what_is_shown_of_ids_is_bounded_and_plain() {
        let mut keys = Map::new();
        for id in ["ed25519:\u{1b}[31m", "ed25519:a\nWARN", "", "ed25519:\u{202e}x", &"x".repeat(65)] {
            keys.insert(id.to_owned(), json!({}));
        }
        for number in 0..100 {
            keys.insert(format!("ed25519:{number:03}"), json!({}));
        }
        let Published::AnotherKey { ids, .. } = judged(200, &document("us.example", &keys.into())) else { panic!() };
        assert_eq!(ids, "ed25519:000, ed25519:001, ed25519:002, ed25519:003");
    }

    #[test]
    fn a_homeserver_that_does_not_say_is_told_from_something_else_and_from_one_that_starts() {
        assert_eq!(judged(404, &json!({ "errcode": "M_UNRECOGNIZED", "error": "no" })), Published::NotHere);
        assert_eq!(judged(401, &json!({ "errcode": "M_MISSING_TOKEN" })), Published::NotHere);
        for (status, body) in [(200, ""), (200, "<html>"), (404, "not found"), (301, ""), (200, "{}"), (200, "[]")] {
            let judged = judge(StatusCode::from_u16(status).unwrap(), body.as_bytes(), &own());
            assert_eq!(judged, Published::NoSense, "{status} {body}");
        }
        let no_name = json!({ "server_name": "a b", "verify_keys": {} });
        assert_eq!(judged(200, &no_name), Published::NoSense);
        for status in [500, 502, 503, 504, 429] {
            assert_eq!(judged(status, &json!({ "errcode": "M_UNKNOWN" })), Published::NotNow);
        }
        assert!(is_homeservers(br#"{"versions":["v1.11"]}"#) && !is_homeservers(br#"{"versions":1}"#));
    }
}
