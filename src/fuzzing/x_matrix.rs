//! The header that signs a request.

use std::collections::BTreeMap;

use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use ruma::api::federation::authentication::XMatrix;
use ruma::serde::Base64;

use super::sections;
use crate::outbound::signing::{Ed25519Signer, RequestSigner as _, SigningError};
use crate::server_name::ServerName;

const KEY: &str = "ed25519 a_fuzz AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Any names, path and content: never panics; what is signed is read by another implementation as it was meant, verifies
/// there, and verifies for nothing else; and only content without a canonical form is not signed.
///
/// Lines: our name, the destination, method, path with query; the rest is the content, if there is any.
pub fn x_matrix(input: &[u8]) {
    let parts = sections(input, b"\n");
    let [own, destination, method, path, content @ ..] = parts.as_slice() else { return };
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(ToOwned::to_owned);
    let Some(own) = text(own).and_then(|own| own.parse::<ServerName>().ok()) else { return };
    let Some(destination) = text(destination).and_then(|name| name.parse::<ServerName>().ok()) else { return };
    let Ok(method) = Method::from_bytes(method) else { return };
    let Ok(path) = PathAndQuery::try_from(*path) else { return };
    let content = (!content.is_empty()).then(|| content.join(b"\n".as_slice()));

    let signer = Ed25519Signer::from_key_text(own.clone(), KEY).unwrap();
    let header = match signer.authorization(&destination, &method, &path, content.as_deref()) {
        Ok(header) => header,
        Err(error) => {
            assert_eq!(error, SigningError::Content);
            assert!(!content.is_some_and(|content| is_plain(&content)), "content with a canonical form is not signed");
            return;
        }
    };
    assert!(header.is_sensitive());
    let read = XMatrix::parse(header.to_str().unwrap()).unwrap();
    assert_eq!(read.origin.as_str(), own.as_str());
    assert_eq!(read.destination.as_ref().map(|name| name.as_str()), Some(destination.as_str()));
    assert_eq!(read.key.as_str(), signer.key_id());

    let key = BTreeMap::from([(signer.key_id().to_owned(), Base64::parse(signer.verify_key()).unwrap())]);
    let keys = BTreeMap::from([(own.to_string(), key)]);
    let verifies = |method: &Method, path: &PathAndQuery, content: Option<&[u8]>| {
        let mut request = Request::new(content.unwrap_or_default().to_vec());
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(path.clone());
        let to = <&ruma::ServerName>::try_from(destination.as_str()).unwrap();
        read.verify_http_request(&request, to, &keys).is_ok()
    };
    assert!(verifies(&method, &path, content.as_deref()), "the signature does not verify");
    let another_method = if method == Method::PUT { Method::GET } else { Method::PUT };
    assert!(!verifies(&another_method, &path, content.as_deref()));
    assert!(!verifies(&method, &PathAndQuery::from_static("/_matrix/another?path"), content.as_deref()));
    assert!(!verifies(&method, &path, Some(br#"{"another":"content"}"#)));
}

/// JSON without any number: surely canonical once sorted.
fn is_plain(content: &[u8]) -> bool {
    fn holds_no_number(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Number(_) => false,
            serde_json::Value::Array(items) => items.iter().all(holds_no_number),
            serde_json::Value::Object(members) => members.values().all(holds_no_number),
            _ => true,
        }
    }
    serde_json::from_slice(content).is_ok_and(|value| holds_no_number(&value))
}
