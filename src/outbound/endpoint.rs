//! [`Endpoint`]: one federation request, encoded exactly as it will be signed and sent.
//!
//! The signature covers the path and the query byte by byte. So everything but the unreserved characters of RFC 3986 is
//! percent-encoded: nothing is left for a URL parser on the way to write differently.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Method;
use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::admission::RoomAlias;
use crate::limits::{MAX_ALIAS_BYTES, MAX_ROOM_LIST_BYTES};
use crate::server_name::ServerName;

const PUBLIC_ROOMS: &str = "/_matrix/federation/v1/publicRooms";
const QUERY_DIRECTORY: &str = "/_matrix/federation/v1/query/directory";

/// Everything but the unreserved characters of RFC 3986, section 2.3.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The largest integer of canonical JSON. *Source: Matrix v1.19, appendices, canonical JSON.*
const MAX_CANONICAL_INTEGER: u64 = (1 << 53) - 1;

/// A federation request, sent to the destination of the call's pass. Only what any server may be asked can be sent to any: an
/// alias is asked of its own server alone, by a pass for that one.
///
/// ```
/// use portcullis::outbound::{Endpoint, RoomListFilter, RoomListParameters};
///
/// let parameters = RoomListParameters { limit: Some(20), since: Some("next"), ..RoomListParameters::default() };
/// let list = Endpoint::public_rooms_get(&parameters).unwrap(); // a query can be too long for a request line
/// let filter = RoomListFilter { generic_search_term: Some("garden"), ..RoomListFilter::default() };
/// let filtered = Endpoint::public_rooms_post(&parameters, &filter);
/// let alias = Endpoint::query_directory(&"#hall:them.example".parse().unwrap());
/// # let _ = (list, filtered, alias);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path_and_query: PathAndQuery,
    pub(crate) content: Option<Bytes>,
    pub(crate) max_body_bytes: usize,
    /// The one server that may be asked this; `None`: any.
    pub(crate) only_of: Option<ServerName>,
}

/// What a room list is asked for, with either method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomListParameters<'a> {
    /// Most rooms wanted; `None` means no limit.
    pub limit: Option<u64>,
    /// A pagination token of the remote, opaque here.
    pub since: Option<&'a str>,
    /// All networks of a bridge; `false` is the remote's default and is not sent.
    pub include_all_networks: bool,
    /// One network of a bridge.
    pub third_party_instance_id: Option<&'a str>,
}

/// What only POST can ask of a room list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomListFilter<'a> {
    /// Only rooms whose name, topic or alias holds this text.
    pub generic_search_term: Option<&'a str>,
    /// Only rooms of these types; `None` inside means rooms without a type, and travels as `null`.
    pub room_types: Option<&'a [Option<String>]>,
}

/// The query is longer than a request line can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is longer than a request line can be")]
pub struct RequestTooLong;

impl Endpoint {
    /// `GET /_matrix/federation/v1/publicRooms`.
    ///
    /// *Errors:* [`RequestTooLong`]; the texts are as long as a client made them. *Panics:* never.
    pub fn public_rooms_get(parameters: &RoomListParameters<'_>) -> Result<Self, RequestTooLong> {
        let limit = parameters.limit.map(|limit| limit.to_string());
        let path_and_query = with_query(
            PUBLIC_ROOMS,
            &[
                ("limit", limit.as_deref()),
                ("since", parameters.since),
                ("include_all_networks", parameters.include_all_networks.then_some("true")),
                ("third_party_instance_id", parameters.third_party_instance_id),
            ],
        )?;
        Ok(Self {
            method: Method::GET,
            path_and_query,
            content: None,
            max_body_bytes: MAX_ROOM_LIST_BYTES,
            only_of: None,
        })
    }

    /// `POST /_matrix/federation/v1/publicRooms`: the same with a filter. The content is an object, empty if there is nothing
    /// to say. A limit beyond the integers of canonical JSON is sent as the largest of them.
    #[must_use]
    pub fn public_rooms_post(parameters: &RoomListParameters<'_>, filter: &RoomListFilter<'_>) -> Self {
        let filter = object([
            ("generic_search_term", filter.generic_search_term.map(Value::from)),
            ("room_types", filter.room_types.map(|types| types.iter().cloned().map(Value::from).collect())),
        ]);
        let content = object([
            ("limit", parameters.limit.map(|limit| limit.min(MAX_CANONICAL_INTEGER).into())),
            ("since", parameters.since.map(Value::from)),
            ("include_all_networks", parameters.include_all_networks.then_some(Value::Bool(true))),
            ("third_party_instance_id", parameters.third_party_instance_id.map(Value::from)),
            ("filter", (!filter.is_empty()).then_some(Value::Object(filter))),
        ]);
        Self {
            method: Method::POST,
            path_and_query: PathAndQuery::from_static(PUBLIC_ROOMS),
            content: Some(Value::Object(content).to_string().into()),
            max_body_bytes: MAX_ROOM_LIST_BYTES,
            only_of: None,
        }
    }

    /// `GET /_matrix/federation/v1/query/directory`, which only the alias's own server may be asked: a call to another one
    /// ends in [`CallFailure::AnotherServer`](super::error::CallFailure::AnotherServer) before anything is signed. (*Source:
    /// Matrix v1.19, server-server API, querying for information.*)
    ///
    /// *Panics:* never.
    #[must_use]
    pub fn query_directory(alias: &RoomAlias) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "an alias has at most 255 bytes, and all that is left unencoded is unreserved"
        )]
        let path_and_query =
            with_query(QUERY_DIRECTORY, &[("room_alias", Some(alias.as_str()))]).expect("an encoded alias fits");
        let only_of = Some(alias.server().clone());
        Self { method: Method::GET, path_and_query, content: None, max_body_bytes: MAX_ALIAS_BYTES, only_of }
    }
}

pub(super) fn with_query(path: &str, parameters: &[(&str, Option<&str>)]) -> Result<PathAndQuery, RequestTooLong> {
    let mut text = path.to_owned();
    let mut separator = '?';
    for (name, value) in parameters {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{name}={}", utf8_percent_encode(value, RESERVED));
            separator = '&';
        }
    }
    PathAndQuery::from_maybe_shared(Bytes::from(text)).map_err(|_| RequestTooLong)
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ruma::api::Metadata;
    use ruma::api::federation::directory::{get_public_rooms, get_public_rooms_filtered};
    use ruma::api::federation::query::get_room_information;

    use super::*;

    const EVERYTHING: RoomListParameters<'_> = RoomListParameters {
        limit: Some(20),
        since: Some("t1&2=3#4 %5/\u{fc}"),
        include_all_networks: true,
        third_party_instance_id: Some("irc"),
    };

    #[test]
    fn the_paths_are_those_of_the_specification() {
        assert_eq!(PUBLIC_ROOMS, get_public_rooms::v1::Request::PATH_BUILDER.path());
        assert_eq!(PUBLIC_ROOMS, get_public_rooms_filtered::v1::Request::PATH_BUILDER.path());
        assert_eq!(QUERY_DIRECTORY, get_room_information::v1::Request::PATH_BUILDER.path());
        assert_eq!(get_public_rooms_filtered::v1::Request::METHOD, Method::POST);
    }

    #[test]
    fn a_query_is_encoded_so_that_nothing_can_be_read_twice() {
        let endpoint = Endpoint::public_rooms_get(&EVERYTHING).unwrap();
        assert_eq!(
            endpoint.path_and_query,
            "/_matrix/federation/v1/publicRooms?limit=20&since=t1%262%3D3%234%20%255%2F%C3%BC\
             &include_all_networks=true&third_party_instance_id=irc"
        );
        assert_eq!(endpoint.content, None);
        let bare = Endpoint::public_rooms_get(&RoomListParameters::default()).unwrap();
        assert_eq!(bare.path_and_query, PUBLIC_ROOMS);
    }

    #[test]
    fn an_alias_is_encoded_from_its_hash_on() {
        let endpoint = Endpoint::query_directory(&"#caf\u{e9} +:r.example:8449".parse().unwrap());
        assert_eq!(
            endpoint.path_and_query,
            "/_matrix/federation/v1/query/directory?room_alias=%23caf%C3%A9%20%2B%3Ar.example%3A8449"
        );
        assert_eq!(endpoint.max_body_bytes, MAX_ALIAS_BYTES);
    }

    #[test]
    fn the_content_of_a_filtered_list_keeps_null_types_and_is_an_object_even_when_empty() {
        let types = [None, Some("m.space".to_owned())];
        let filter = RoomListFilter { generic_search_term: Some("tea"), room_types: Some(&types) };
        let content = Endpoint::public_rooms_post(&EVERYTHING, &filter).content.unwrap();
        let content: Value = serde_json::from_slice(&content).unwrap();
        assert_eq!(
            content,
            serde_json::json!({
                "limit": 20, "since": EVERYTHING.since, "include_all_networks": true, "third_party_instance_id": "irc",
                "filter": { "generic_search_term": "tea", "room_types": [null, "m.space"] },
            })
        );
        let empty = Endpoint::public_rooms_post(&Default::default(), &Default::default());
        assert_eq!(empty.content.unwrap(), "{}");
    }

    #[test]
    fn a_limit_no_canonical_json_can_hold_is_sent_as_the_largest_one() {
        let parameters = RoomListParameters { limit: Some(u64::MAX), ..Default::default() };
        let content = Endpoint::public_rooms_post(&parameters, &Default::default()).content.unwrap();
        assert_eq!(content, r#"{"limit":9007199254740991}"#);
    }

    #[test]
    fn a_token_longer_than_any_request_line_is_an_error() {
        let token = "t".repeat(70_000);
        let parameters = RoomListParameters { since: Some(&token), ..Default::default() };
        assert_eq!(Endpoint::public_rooms_get(&parameters), Err(RequestTooLong));
    }

    proptest! {
        #[test]
        fn no_alias_needs_more_than_the_unreserved_characters(local in "[^:\0]{1,60}") {
            let Ok(alias) = format!("#{local}:r.example").parse::<RoomAlias>() else { return Ok(()) };
            let endpoint = Endpoint::query_directory(&alias);
            let (_, value) = endpoint.path_and_query.as_str().split_once("?room_alias=").unwrap();
            prop_assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%-._~".contains(&byte)));
            let decoded = percent_encoding::percent_decode_str(value).decode_utf8().unwrap();
            prop_assert_eq!(decoded, alias.as_str());
        }
    }
}
