//! What the examples share: one homeserver, asked over HTTP, and what its answers say of its load.

use std::error::Error;
use std::fmt;

use http::StatusCode;
use portcullis::outbound::transport_kind;
use portcullis::{Outcome, Took, TransportKind};
use reqwest::{Client, Url};
use serde_json::Value;

/// No answer of these examples is larger.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A homeserver, as one of its users.
#[derive(Clone)]
pub(crate) struct Homeserver {
    client: Client,
    base_url: Url,
    access_token: String,
}

/// Why there is no usable answer.
#[derive(Debug)]
pub(crate) enum CallError {
    Status(StatusCode),
    Transport(reqwest::Error),
    TooLarge,
    NotJson(serde_json::Error),
}

impl Homeserver {
    pub(crate) fn new(base_url: &str, access_token: &str) -> Result<Self, Box<dyn Error>> {
        // One permit is one request: nothing may send it again behind the gate's back.
        let client = Client::builder()
            .retry(reqwest::retry::never())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { client, base_url: base_url.parse()?, access_token: access_token.to_owned() })
    }

    /// `GET` of `/_matrix/client/v3` and `path`. It has no timeout of its own: the permit's span is the gate's concern.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, CallError> {
        let mut url = self.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["_matrix", "client", "v3"]).extend(path);
        }
        url.query_pairs_mut().extend_pairs(query);
        let mut answer =
            self.client.get(url).bearer_auth(&self.access_token).send().await.map_err(CallError::Transport)?;
        if !answer.status().is_success() {
            return Err(CallError::Status(answer.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(CallError::Transport)? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(CallError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(CallError::NotJson)
    }
}

/// What an answer says of the homeserver's load.
pub(crate) fn outcome(answer: &Result<Value, CallError>, took: Took) -> Outcome {
    match answer {
        Ok(_) => Outcome::success(took),
        Err(CallError::Status(status)) => Outcome::of_status(*status, took),
        Err(CallError::Transport(error)) => {
            Outcome::of_transport(transport_kind(error).unwrap_or(TransportKind::Reset))
        }
        Err(CallError::TooLarge | CallError::NotJson(_)) => Outcome::refused(),
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(out, "answered {status}"),
            Self::Transport(error) => write!(out, "no answer: {error}"),
            Self::TooLarge => write!(out, "an answer of more than {MAX_ANSWER_BYTES} bytes"),
            Self::NotJson(error) => write!(out, "an answer that is no JSON: {error}"),
        }
    }
}

impl Error for CallError {}
