//! The signed key document, by which other servers check our signatures.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::outbound::Ed25519Signer;
use crate::server_name::ServerName;

/// How long other servers may keep the document. Short enough that a changed key is noticed within a day.
const VALID_FOR: Duration = Duration::from_secs(24 * 3600);

/// Signs our key document.
pub trait KeyDocumentSigner: Send + Sync + 'static {
    /// `ed25519:a_xxxx`.
    fn key_id(&self) -> &str;

    /// The public key, in base64 without padding.
    fn verify_key(&self) -> String;

    /// The signature of an object's canonical JSON, in base64 without padding; `None` if it cannot be signed.
    fn sign_object(&self, object: &Value) -> Option<String>;
}

impl KeyDocumentSigner for Ed25519Signer {
    fn key_id(&self) -> &str {
        Self::key_id(self)
    }

    fn verify_key(&self) -> String {
        Self::verify_key(self)
    }

    fn sign_object(&self, object: &Value) -> Option<String> {
        Self::sign_object(self, object).ok()
    }
}

/// The document as of `now` (Matrix v1.19, server-server API, `GET /_matrix/key/v2/server`); `None` if the signer fails.
pub(crate) fn key_document(server_name: &ServerName, signer: &dyn KeyDocumentSigner, now: SystemTime) -> Option<Value> {
    let valid_until =
        now.checked_add(VALID_FOR).and_then(|end| end.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let mut document = json!({
        "server_name": server_name.as_str(),
        "verify_keys": { (signer.key_id()): { "key": signer.verify_key() } },
        "old_verify_keys": {},
        "valid_until_ts": u64::try_from(valid_until.as_millis()).unwrap_or_default(),
    });
    let signature = signer.sign_object(&document)?;
    if let Value::Object(fields) = &mut document {
        let signatures = json!({ (server_name.as_str()): { (signer.key_id()): signature } });
        fields.insert("signatures".into(), signatures);
    }
    Some(document)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// "Signs" by showing what it was given.
    pub(crate) struct ShowingSigner;

    impl KeyDocumentSigner for ShowingSigner {
        fn key_id(&self) -> &'static str {
            "ed25519:a_test"
        }

        fn verify_key(&self) -> String {
            "public".into()
        }

        fn sign_object(&self, object: &Value) -> Option<String> {
            Some(object.to_string())
        }
    }

    #[test]
    fn the_document_names_the_key_and_is_signed_without_its_signatures() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let document = key_document(&"us.example".parse().unwrap(), &ShowingSigner, now).unwrap();
        assert_eq!(document["server_name"], "us.example");
        assert_eq!(document["verify_keys"]["ed25519:a_test"]["key"], "public");
        assert_eq!(document["old_verify_keys"], json!({}));
        assert_eq!(document["valid_until_ts"], 1_086_400_000_u64);
        let mut unsigned = document.clone();
        unsigned.as_object_mut().unwrap().remove("signatures");
        assert_eq!(document["signatures"]["us.example"]["ed25519:a_test"], unsigned.to_string());
    }
}
