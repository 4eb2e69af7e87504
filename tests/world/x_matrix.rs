//! Checks the signature of a federation request as its receiver does: from the bytes on the wire and the public key alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};
use serde_json::Value;

use super::fakes::SeenRequest;

/// The members of an X-Matrix header, once its signature is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XMatrix {
    pub(crate) origin: String,
    pub(crate) destination: String,
}

/// *Panics* if the request is not signed, or not properly, by the owner of `verify_key`.
pub(crate) fn verified(request: &SeenRequest, verify_key: &str) -> XMatrix {
    let header = request.only("authorization");
    let members = header.strip_prefix("X-Matrix ").unwrap();
    let member = |name: &str| {
        let quoted = members.split(',').find_map(|member| member.strip_prefix(name)?.strip_prefix('='));
        let value = quoted.and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'));
        value.unwrap_or_else(|| panic!("{name} in {header}")).to_owned()
    };
    let (origin, destination) = (member("origin"), member("destination"));
    assert!(member("key").starts_with("ed25519:"), "{header}");
    let mut signed = serde_json::json!({
        "destination": destination, "method": request.method, "origin": origin, "uri": request.target,
    });
    if !request.body.is_empty() {
        signed["content"] = serde_json::from_slice(&request.body).unwrap();
    }
    let key: [u8; 32] = BASE64.decode(verify_key).unwrap().try_into().unwrap();
    let signature = Signature::from_slice(&BASE64.decode(member("sig")).unwrap()).unwrap();
    let verified = VerifyingKey::from_bytes(&key).unwrap().verify(canonical(&signed).as_bytes(), &signature);
    assert!(verified.is_ok(), "the signature of {request:?}");
    XMatrix { origin, destination }
}

/// Canonical JSON (Matrix v1.19, appendices): members in order, no blanks.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut names: Vec<_> = members.keys().collect();
            names.sort_unstable();
            let member = |name: &String| format!("{}:{}", Value::from(name.as_str()), canonical(&members[name]));
            format!("{{{}}}", names.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
