//! [`RequestSigner`]: proves to another server that a request is ours; [`Ed25519Signer`] does it with a key in memory.
//!
//! What is signed is the canonical JSON of method, path and query exactly as sent, both server names before any delegation,
//! and the content. The header is written here with every value in quotes, which receivers of every age can read.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ed25519_dalek::{SECRET_KEY_LENGTH, Signer as _, SigningKey};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Uri};
use rand::Rng as _;
use rand::distr::Alphanumeric;
use ruma::CanonicalJsonObject;
use ruma::api::federation::authentication::XMatrix;
use serde::Serialize;

use crate::server_name::ServerName;

/// Writes unpadded, as Matrix does; reads both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const ALGORITHM: &str = "ed25519";
const GENERATED_VERSION_CHARACTERS: usize = 4;

/// Signs federation requests of one server. Pure: no I/O, no waiting. [`Ed25519Signer`] is the one for a key file.
///
/// One over a signer that the homeserver has already:
///
/// ```
/// use http::uri::PathAndQuery;
/// use http::{HeaderValue, Method};
/// use portcullis::ServerName;
/// use portcullis::outbound::{RequestSigner, SigningError};
///
/// struct Ours {
///     own_name: ServerName,
/// }
///
/// impl RequestSigner for Ours {
///     fn own_name(&self) -> &ServerName {
///         &self.own_name
///     }
///
///     fn authorization(
///         &self, destination: &ServerName, method: &Method, path_and_query: &PathAndQuery, content: Option<&[u8]>,
///     ) -> Result<HeaderValue, SigningError> {
///         let (us, them) = (self.own_name.as_str(), destination.as_str());
///         let header = x_matrix(us, them, method.as_str(), path_and_query.as_str(), content);
///         HeaderValue::try_from(header).map_err(|_| SigningError::ServerName)
///     }
/// }
///
/// fn x_matrix(us: &str, them: &str, _method: &str, _uri: &str, _content: Option<&[u8]>) -> String {
///     format!(r#"X-Matrix origin="{us}",destination="{them}",key="ed25519:a_key",sig="…""#)
/// }
/// # let ours = Ours { own_name: "us.example".parse().unwrap() };
/// # assert!(ours.authorization(&"them.example".parse().unwrap(), &Method::GET, &"/".parse().unwrap(), None).is_ok());
/// ```
pub trait RequestSigner: Send + Sync + 'static {
    /// The server it signs for. Everything that needs our own name and has a signer takes it from here.
    fn own_name(&self) -> &ServerName;

    /// The value of the `Authorization` header for a request to `destination`, the server name before any delegation.
    ///
    /// `path_and_query` is exactly what goes out; `content` is the JSON body, if there is one.
    ///
    /// *Errors:* [`SigningError`]; the call then fails with nothing looked up. *Blocking:* it must not.
    fn authorization(
        &self,
        destination: &ServerName,
        method: &Method,
        path_and_query: &PathAndQuery,
        content: Option<&[u8]>,
    ) -> Result<HeaderValue, SigningError>;
}

/// Something could not be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigningError {
    /// The content is not a JSON that has a canonical form, such as a fraction or an integer beyond 2^53 - 1.
    #[error("the content has no canonical JSON form")]
    Content,
    /// A server name cannot be part of a signed request.
    #[error("a server name cannot be signed")]
    ServerName,
    /// The key is not to be had: a signer that keeps it elsewhere could not reach it.
    #[error("the signing key is not available")]
    KeyUnavailable,
}

/// A text is not a signing key. The text is left out: it may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSigningKey {
    /// No line with anything in it.
    #[error("there is no key in it")]
    Empty,
    /// A path, which is for [`Ed25519Signer::read_key_file`].
    #[error("it is the path of a file, and not what is in the file")]
    Path,
    /// Not three words.
    #[error("a key line has the form: ed25519 a_name base64")]
    Form,
    /// Another algorithm than ed25519.
    #[error("the algorithm is not {ALGORITHM}")]
    Algorithm,
    /// A version with other characters than letters, digits and `_`.
    #[error("the key's name holds a character other than letters, digits and _")]
    Version,
    /// Not the base64 of 32 bytes.
    #[error("the key is not the base64 of 32 bytes")]
    Seed,
}

/// Signs with an ed25519 key held in memory, which is wiped when this is dropped.
///
/// ```
/// use portcullis::outbound::Ed25519Signer;
///
/// let signer = Ed25519Signer::generate("us.example".parse().unwrap());
/// let line = signer.to_key_file_line(); // a secret: for a file that only its owner can read
/// let again = Ed25519Signer::from_key_text("us.example".parse().unwrap(), &line).unwrap();
/// assert_eq!(again.verify_key(), signer.verify_key());
/// ```
pub struct Ed25519Signer {
    own_name: ServerName,
    key_id: Box<str>,
    key: SigningKey,
}

impl Ed25519Signer {
    /// A new key for the server `own_name`. *Panics:* only where the operating system has no random numbers.
    #[must_use]
    pub fn generate(own_name: ServerName) -> Self {
        let random = rand::rng();
        let version: String =
            random.sample_iter(Alphanumeric).take(GENERATED_VERSION_CHARACTERS).map(char::from).collect();
        Self::new(own_name, &format!("a_{version}"), &rand::random())
    }

    /// Reads the text of a key file in the format that homeservers share: a line `ed25519 a_name base64`, padded or not. Of
    /// several keys the first is used. [`read_key_file`](Self::read_key_file) takes the file's path.
    ///
    /// *Errors:* [`InvalidSigningKey`]. *Panics:* never.
    pub fn from_key_text(own_name: ServerName, text: &str) -> Result<Self, InvalidSigningKey> {
        let line = text.lines().find(|line| !line.trim().is_empty()).ok_or(InvalidSigningKey::Empty)?;
        let mut words = line.split_ascii_whitespace();
        if words.clone().nth(1).is_none() && (line.starts_with('/') || line.contains('.')) {
            return Err(InvalidSigningKey::Path);
        }
        let (Some(algorithm), Some(version), Some(seed), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(InvalidSigningKey::Form);
        };
        if algorithm != ALGORITHM {
            return Err(InvalidSigningKey::Algorithm);
        }
        if !version.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(InvalidSigningKey::Version);
        }
        let seed = BASE64.decode(seed).map_err(|_| InvalidSigningKey::Seed)?;
        let seed: [u8; SECRET_KEY_LENGTH] = seed.try_into().map_err(|_| InvalidSigningKey::Seed)?;
        Ok(Self::new(own_name, version, &seed))
    }

    fn new(own_name: ServerName, version: &str, seed: &[u8; SECRET_KEY_LENGTH]) -> Self {
        let key_id = format!("{ALGORITHM}:{version}").into();
        Self { own_name, key_id, key: SigningKey::from_bytes(seed) }
    }

    /// The key as a line of a key file. It holds the secret.
    #[must_use]
    pub fn to_key_file_line(&self) -> String {
        let version = self.key_id.trim_start_matches(ALGORITHM).trim_start_matches(':');
        format!("{ALGORITHM} {version} {}\n", BASE64.encode(self.key.as_bytes()))
    }

    /// The server the key belongs to.
    #[must_use]
    pub fn own_name(&self) -> &ServerName {
        &self.own_name
    }

    /// The key's name: `ed25519:` and its version.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The public half in unpadded base64, as the key document publishes it.
    #[must_use]
    pub fn verify_key(&self) -> String {
        BASE64.encode(self.key.verifying_key().as_bytes())
    }

    /// The signature of a JSON object in unpadded base64. Its members `signatures` and `unsigned` are not signed (Matrix
    /// v1.19, appendices, signing JSON).
    ///
    /// *Errors:* [`SigningError::Content`] for what is no object or has no canonical form. *Panics:* never, unless `object`
    /// does when it is serialised. *Blocking:* no.
    ///
    /// ```
    /// use portcullis::outbound::Ed25519Signer;
    /// use serde_json::json;
    ///
    /// let signer = Ed25519Signer::generate("us.example".parse().unwrap());
    /// let mut document = json!({ "server_name": "us.example", "valid_until_ts": 1_800_000_000_000_u64 });
    /// let signature = signer.sign_object(&document).unwrap();
    /// document["signatures"] = json!({ "us.example": { (signer.key_id()): signature } });
    /// ```
    pub fn sign_object(&self, object: &(impl Serialize + ?Sized)) -> Result<String, SigningError> {
        let object = serde_json::to_value(object).map_err(|_| SigningError::Content)?;
        let mut object: CanonicalJsonObject = serde_json::from_value(object).map_err(|_| SigningError::Content)?;
        object.remove("signatures");
        object.remove("unsigned");
        self.sign_canonical(&object)
    }

    fn sign_canonical(&self, object: &CanonicalJsonObject) -> Result<String, SigningError> {
        let text = serde_json::to_vec(object).map_err(|_| SigningError::Content)?;
        Ok(BASE64.encode(self.key.sign(&text).to_bytes()))
    }
}

impl RequestSigner for Ed25519Signer {
    fn own_name(&self) -> &ServerName {
        &self.own_name
    }

    fn authorization(
        &self,
        destination: &ServerName,
        method: &Method,
        path_and_query: &PathAndQuery,
        content: Option<&[u8]>,
    ) -> Result<HeaderValue, SigningError> {
        let [origin_name, destination_name] = [&self.own_name, destination]
            .map(|name| <&ruma::ServerName>::try_from(name.as_str()).map_err(|_| SigningError::ServerName));
        if content.is_some_and(<[u8]>::is_empty) {
            return Err(SigningError::Content);
        }
        let mut request = http::Request::new(content.unwrap_or_default());
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(path_and_query.clone());
        let object =
            XMatrix::request_object(&request, origin_name?, destination_name?).map_err(|_| SigningError::Content)?;
        let signature = self.sign_canonical(&object)?;
        let Self { own_name, key_id, .. } = self;
        // None of the four can hold a quote or a backslash: both names and the version are checked, the rest is base64.
        let header =
            format!(r#"X-Matrix origin="{own_name}",destination="{destination}",key="{key_id}",sig="{signature}""#);
        let mut header = HeaderValue::try_from(header).map_err(|_| SigningError::ServerName)?;
        header.set_sensitive(true);
        Ok(header)
    }
}

impl fmt::Debug for Ed25519Signer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ed25519Signer").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
