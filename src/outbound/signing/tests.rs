//! What is signed is what verifiers verify, and keys are read and written as homeservers do.

use std::collections::BTreeMap;

use ed25519_dalek::{Signature, VerifyingKey};
use proptest::prelude::*;
use ruma::serde::Base64;
use serde_json::{Value, json};

use super::*;

/// A seed of 32 zero bytes, unpadded.
const ZERO_SEED: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

fn signer() -> Ed25519Signer {
    Ed25519Signer::from_key_text(name("us.example:8449"), &format!("ed25519 a_test {ZERO_SEED}\n")).unwrap()
}

fn public_keys(signer: &Ed25519Signer) -> BTreeMap<String, BTreeMap<String, Base64>> {
    let key = (signer.key_id().to_owned(), Base64::parse(signer.verify_key()).unwrap());
    BTreeMap::from([(signer.own_name().to_string(), BTreeMap::from([key]))])
}

fn parse(text: &str) -> Result<Ed25519Signer, InvalidSigningKey> {
    Ed25519Signer::from_key_text(name("us.example"), text)
}

#[test]
fn a_key_line_is_read_padded_or_not_and_the_first_of_several_counts() {
    for text in [
        format!("ed25519 a_test {ZERO_SEED}"),
        format!("ed25519 a_test {ZERO_SEED}=\n"),
        format!("\r\n\ned25519\ta_test  {ZERO_SEED}\r\ned25519 a_next {ZERO_SEED}\n"),
    ] {
        let signer = parse(&text).unwrap();
        assert_eq!(signer.key_id(), "ed25519:a_test");
        // The public half of the zero seed, as any implementation of RFC 8032 derives it.
        assert_eq!(signer.verify_key(), "O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik");
    }
}

#[test]
fn what_is_no_key_is_told_apart() {
    for (text, why) in [
        (String::new(), InvalidSigningKey::Empty),
        (" \n\n".to_owned(), InvalidSigningKey::Empty),
        ("/etc/us/key".to_owned(), InvalidSigningKey::Path),
        ("signing.key\n".to_owned(), InvalidSigningKey::Path),
        (format!("{ZERO_SEED}\n"), InvalidSigningKey::Form),
        (format!("ed25519 {ZERO_SEED}"), InvalidSigningKey::Form),
        (format!("ed25519 a_test {ZERO_SEED} x"), InvalidSigningKey::Form),
        (format!("rsa a_test {ZERO_SEED}"), InvalidSigningKey::Algorithm),
        (format!("ed25519 a\"b {ZERO_SEED}"), InvalidSigningKey::Version),
        (format!("ed25519 a-b {ZERO_SEED}"), InvalidSigningKey::Version),
        ("ed25519 a_test AAAA".to_owned(), InvalidSigningKey::Seed),
        ("ed25519 a_test !!!!".to_owned(), InvalidSigningKey::Seed),
        (format!("ed25519 a_test {ZERO_SEED}AA"), InvalidSigningKey::Seed),
    ] {
        assert_eq!(parse(&text).unwrap_err(), why, "{text:?}");
    }
}

#[test]
fn generated_keys_differ_and_survive_their_file() {
    let (one, other) = (Ed25519Signer::generate(name("us.example")), Ed25519Signer::generate(name("us.example")));
    assert_ne!(one.verify_key(), other.verify_key());
    let line = one.to_key_file_line();
    assert!(line.starts_with("ed25519 a_") && line.ends_with('\n'));
    let again = parse(&line).unwrap();
    assert_eq!((again.key_id(), again.verify_key()), (one.key_id(), one.verify_key()));
}

#[test]
fn the_header_is_quoted_in_one_order_and_marked_secret() {
    let path = PathAndQuery::from_static("/_matrix/federation/v1/publicRooms?limit=1");
    let header = signer().authorization(&name("Them.example"), &Method::GET, &path, None).unwrap();
    let text = header.to_str().unwrap();
    let start = r#"X-Matrix origin="us.example:8449",destination="Them.example",key="ed25519:a_test",sig=""#;
    let signature = text.strip_prefix(start).and_then(|rest| rest.strip_suffix('"')).unwrap();
    assert_eq!(signature.len(), 86);
    assert!(header.is_sensitive());
}

#[test]
fn neither_debug_nor_an_error_shows_the_secret() {
    let signer = signer();
    assert_eq!(format!("{signer:?}"), r#"Ed25519Signer { key_id: "ed25519:a_test", .. }"#);
}

#[test]
fn content_without_a_canonical_form_is_not_signed() {
    let path = PathAndQuery::from_static("/x");
    for content in ["", "1.5", r#"{"limit":1e2}"#, r#"{"limit":9007199254740992}"#, "{", "\u{0}"] {
        let signed = signer().authorization(&name("them.example"), &Method::POST, &path, Some(content.as_bytes()));
        assert_eq!(signed.unwrap_err(), SigningError::Content, "{content:?}");
    }
}

#[test]
fn a_signed_object_verifies_and_leaves_signatures_and_unsigned_out() {
    let signer = signer();
    let mut object = json!({ "b": [1, null], "a": "\u{fc}", "unsigned": { "age": 1 }, "signatures": { "x": {} } });
    let signature = signer.sign_object(&object).unwrap();
    object["signatures"] = json!({ (signer.own_name().as_str()): { (signer.key_id()): signature } });
    let complete: CanonicalJsonObject = serde_json::from_value(object).unwrap();
    ruma::signatures::verify_json(&public_keys(&signer), &complete).unwrap();
    assert_eq!(signer.sign_object(&json!([])), Err(SigningError::Content));
    assert_eq!(signer.sign_object(&json!({ "a": 0.5 })), Err(SigningError::Content));
}

fn destinations() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9]{1,10}\\.example(:[1-9][0-9]{0,3})?",
        Just("44.128.10.1:8449".to_owned()),
        Just("[2a0e::1]".to_owned())
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_signature_verifies_here_and_with_another_implementation(
        destination in destinations(),
        query in "(\\?[a-z]{1,5}=[A-Za-z0-9%._~-]{0,20})?",
        content in proptest::option::of(proptest::collection::btree_map(".{0,8}", ".{0,20}", 0..4)),
    ) {
        let signer = signer();
        let destination = name(&destination);
        let path: PathAndQuery = format!("/_matrix/federation/v1/publicRooms{query}").parse().unwrap();
        let body = content.as_ref().map(|content| serde_json::to_vec(content).unwrap());
        let header = signer.authorization(&destination, &Method::POST, &path, body.as_deref()).unwrap();
        let authorization = XMatrix::parse(header.to_str().unwrap()).unwrap();

        let mut request = http::Request::post(Uri::from(path.clone())).body(body.clone().unwrap_or_default()).unwrap();
        let their_name = <&ruma::ServerName>::try_from(destination.as_str()).unwrap();
        prop_assert!(authorization.verify_http_request(&request, their_name, &public_keys(&signer)).is_ok());
        *request.method_mut() = Method::GET;
        prop_assert!(authorization.verify_http_request(&request, their_name, &public_keys(&signer)).is_err());

        // Independently: the text is put together here, in the order canonical JSON sorts it.
        let content = content.map(|content| format!(r#""content":{},"#, serde_json::to_string(&content).unwrap()));
        let text = format!(
            r#"{{{}"destination":"{destination}","method":"POST","origin":"us.example:8449","uri":"{path}"}}"#,
            content.unwrap_or_default(),
        );
        let key: [u8; 32] = BASE64.decode(signer.verify_key()).unwrap().try_into().unwrap();
        let signature = Signature::from_slice(authorization.sig.as_bytes()).unwrap();
        prop_assert!(VerifyingKey::from_bytes(&key).unwrap().verify_strict(text.as_bytes(), &signature).is_ok());
        let _: Value = serde_json::from_str(&text).unwrap();
    }
}
