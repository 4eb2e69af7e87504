//! Remote room lists: what a client may ask, how the other server is asked, and filtering where it cannot.
//!
//! The other server is asked with POST only where there is a filter to carry; everything else fits into GET, which
//! every server knows. A server that does not know POST is asked again with GET, inside the same slot and deadline, and
//! the filter is applied here: paging is then approximate, because a page is filtered after it was cut.
//!
//! A client's `since` is the *other server's* token: it is passed on, never read.

use serde::Deserialize;

use crate::admission::query_values;
use crate::deadline::OutboundDeadline;
use crate::limits::{MAX_LIST_LIMIT, MAX_LIST_TOKEN_BYTES, MAX_ROOM_TYPES, MAX_SEARCH_TERM_BYTES};
use crate::outbound::endpoint::{Endpoint, RequestTooLong, RoomListFilter, RoomListParameters};
use crate::proxy::answer;
use crate::proxy::directory::{DirectoryCall, Found, LookupFailure, digest};
use crate::proxy::json_object::JsonObject;
use crate::proxy::local_view::{ListedRoom, RoomListPage, RoomListQuery};

/// Why a room list request is not valid. The text is for the client; nothing of the request is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidListRequest {
    /// The body is not JSON.
    #[error("the body is not JSON")]
    NotJson,
    /// The body is JSON of another form.
    #[error("the body does not have the form of a room list request")]
    Form,
    /// Not a whole number from 0 up.
    #[error("the parameter limit is not a whole number from 0 to {MAX_LIST_LIMIT}")]
    Limit,
    /// Neither `true` nor `false`.
    #[error("the parameter include_all_networks is neither true nor false")]
    AllNetworks,
    /// All networks and one network at once.
    #[error("include_all_networks and third_party_instance_id exclude each other")]
    Networks,
    /// Longer than what is passed on.
    #[error("the parameter since or third_party_instance_id is longer than {MAX_LIST_TOKEN_BYTES} bytes")]
    TooLong,
    /// A filter that would cost too much to apply.
    #[error("the filter has a search term over {MAX_SEARCH_TERM_BYTES} bytes or more than {MAX_ROOM_TYPES} room types")]
    Filter,
    /// Given more than once, so that two readers could read it in two ways.
    #[error("a parameter is given more than once")]
    Repeated,
    /// A percent escape that is none, or that is not UTF-8.
    #[error("a percent escape is broken or not valid UTF-8")]
    Encoding,
}

/// The parameters of GET. Unknown ones are ignored.
pub(crate) fn read_query(query: &str) -> Result<RoomListQuery, InvalidListRequest> {
    let limit = match value_of(query, "limit")? {
        None => None,
        // The standard parser alone would also take a sign.
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            wanted(text.parse().map_err(|_| InvalidListRequest::Limit)?)?
        }
        Some(_) => return Err(InvalidListRequest::Limit),
    };
    let include_all_networks = match value_of(query, "include_all_networks")?.as_deref() {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(InvalidListRequest::AllNetworks),
    };
    checked(RoomListQuery {
        limit,
        since: value_of(query, "since")?,
        include_all_networks,
        third_party_instance_id: value_of(query, "third_party_instance_id")?,
        ..RoomListQuery::default()
    })
}

/// The parameters of POST, from its body. Unknown ones are ignored, `null` counts as absent.
pub(crate) fn read_body(body: &[u8]) -> Result<RoomListQuery, InvalidListRequest> {
    #[derive(Deserialize)]
    struct Content {
        limit: Option<serde_json::Number>,
        since: Option<String>,
        filter: Option<JsonObject<Filter>>,
        include_all_networks: Option<bool>,
        third_party_instance_id: Option<String>,
    }

    #[derive(Default, Deserialize)]
    struct Filter {
        generic_search_term: Option<String>,
        room_types: Option<Vec<Option<String>>>,
    }

    // First, because the reader below stops at the first thing of another form, however the text goes on.
    if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
        return Err(InvalidListRequest::NotJson);
    }
    let JsonObject(content) =
        serde_json::from_slice::<JsonObject<Content>>(body).map_err(|_| InvalidListRequest::Form)?;
    let limit = match content.limit {
        None => None,
        Some(number) if number.is_f64() => return Err(InvalidListRequest::Form),
        Some(number) => wanted(number.as_u64().ok_or(InvalidListRequest::Limit)?)?,
    };
    let filter = content.filter.map(|JsonObject(filter)| filter).unwrap_or_default();
    checked(RoomListQuery {
        limit,
        since: content.since,
        search_term: filter.generic_search_term.filter(|term| !term.is_empty()),
        room_types: filter.room_types,
        include_all_networks: content.include_all_networks,
        third_party_instance_id: content.third_party_instance_id,
    })
}

/// The one value of `key`; an empty one counts as absent, but for `limit`, where it is no number.
fn value_of(query: &str, key: &str) -> Result<Option<String>, InvalidListRequest> {
    let mut values = query_values(query, key);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(InvalidListRequest::Repeated);
    }
    value.map(Some).map_err(|_| InvalidListRequest::Encoding)
}

/// 0 means "no limit", as between servers.
fn wanted(limit: u64) -> Result<Option<u64>, InvalidListRequest> {
    match limit {
        0 => Ok(None),
        1..=MAX_LIST_LIMIT => Ok(Some(limit)),
        _ => Err(InvalidListRequest::Limit),
    }
}

fn checked(mut query: RoomListQuery) -> Result<RoomListQuery, InvalidListRequest> {
    query.since = query.since.filter(|token| !token.is_empty());
    query.third_party_instance_id = query.third_party_instance_id.filter(|network| !network.is_empty());
    if query.include_all_networks == Some(true) && query.third_party_instance_id.is_some() {
        return Err(InvalidListRequest::Networks);
    }
    let too_long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > MAX_LIST_TOKEN_BYTES);
    if too_long(&query.since) || too_long(&query.third_party_instance_id) {
        return Err(InvalidListRequest::TooLong);
    }
    // Applying a filter costs the room list's size times the filter's: neither may be without bound.
    let long_term = query.search_term.as_ref().is_some_and(|term| term.len() > MAX_SEARCH_TERM_BYTES);
    if long_term || query.room_types.as_ref().is_some_and(|types| types.len() > MAX_ROOM_TYPES) {
        return Err(InvalidListRequest::Filter);
    }
    Ok(query)
}

impl RoomListQuery {
    /// What a client's request asks of a room list: GET in its query, POST in its body. Unknown parameters are ignored.
    ///
    /// `server` is none of them: [`OutboundRoute::classify`](crate::OutboundRoute::classify) reads it. Of POST the token has
    /// to be known first, as everywhere; [`Portcullis`](crate::Portcullis) sees to that by itself.
    ///
    /// *Errors:* [`InvalidListRequest`], and [`InvalidListRequest::into_response`] is the answer. *Panics:* never.
    ///
    /// ```
    /// use http::Request;
    /// use portcullis::{InvalidListRequest, RoomListQuery};
    ///
    /// let request = Request::get("/_matrix/client/v3/publicRooms?server=them.example&limit=20").body("").unwrap();
    /// assert_eq!(RoomListQuery::of(&request).unwrap().limit, Some(20));
    /// let request = Request::post("/_matrix/client/v3/publicRooms?server=them.example").body("{").unwrap();
    /// assert_eq!(RoomListQuery::of(&request), Err(InvalidListRequest::NotJson));
    /// ```
    pub fn of(request: &http::Request<impl AsRef<[u8]>>) -> Result<Self, InvalidListRequest> {
        if *request.method() == http::Method::POST {
            return read_body(request.body().as_ref());
        }
        read_query(request.uri().query().unwrap_or_default())
    }

    /// The federation request that asks for the same: POST where there is a filter to carry, and GET otherwise, which every
    /// server knows. One that does not know POST (it answers 404 or 405) is asked again in the same call, with
    /// [`Self::endpoint_without_filter`], and its page [filtered](Self::filter) here.
    ///
    /// *Errors:* [`RequestTooLong`], never for a query that [`Self::of`] made. *Panics:* never.
    ///
    /// ```
    /// use http::Request;
    /// use portcullis::RoomListQuery;
    /// use portcullis::outbound::{Endpoint, RoomListParameters};
    ///
    /// let request = Request::get("/_matrix/client/v3/publicRooms?server=them.example&limit=20").body("").unwrap();
    /// let asked = RoomListQuery::of(&request).unwrap().endpoint();
    /// let parameters = RoomListParameters { limit: Some(20), ..RoomListParameters::default() };
    /// assert_eq!(asked, Endpoint::public_rooms_get(&parameters));
    /// ```
    pub fn endpoint(&self) -> Result<Endpoint, RequestTooLong> {
        if !self.has_filter() {
            return self.endpoint_without_filter();
        }
        let filter =
            RoomListFilter { generic_search_term: self.search_term.as_deref(), room_types: self.room_types.as_deref() };
        Ok(Endpoint::public_rooms_post(&self.parameters(), &filter))
    }

    /// The same with GET, without the filter.
    ///
    /// *Errors:* [`RequestTooLong`], never for a query that [`Self::of`] made. *Panics:* never.
    pub fn endpoint_without_filter(&self) -> Result<Endpoint, RequestTooLong> {
        Endpoint::public_rooms_get(&self.parameters())
    }

    fn has_filter(&self) -> bool {
        self.search_term.is_some() || self.room_types.is_some()
    }

    fn parameters(&self) -> RoomListParameters<'_> {
        RoomListParameters {
            limit: self.limit,
            since: self.since.as_deref(),
            include_all_networks: self.include_all_networks.unwrap_or(false),
            third_party_instance_id: self.third_party_instance_id.as_deref(),
        }
    }

    /// The filter of this query, ready to be applied to many rooms.
    #[must_use]
    pub fn filter(&self) -> RoomFilter {
        RoomFilter {
            lower_case_term: self.search_term.as_ref().map(|term| term.to_lowercase()),
            room_types: self.room_types.clone(),
        }
    }
}

/// Which rooms a list shows. Made by [`RoomListQuery::filter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomFilter {
    lower_case_term: Option<String>,
    room_types: Option<Vec<Option<String>>>,
}

impl RoomFilter {
    /// Whether the filter lets `room` through: the search term stands in its name, topic or alias whatever the letter
    /// case, and its type is among those wanted. Without a filter every room passes.
    #[must_use]
    pub fn lets_through(&self, room: &ListedRoom) -> bool {
        let type_is_wanted = self.room_types.as_ref().is_none_or(|types| types.contains(&room.room_type));
        let term_is_found = self.lower_case_term.as_ref().is_none_or(|term| {
            [&room.name, &room.topic, &room.canonical_alias]
                .into_iter()
                .flatten()
                .any(|text| text.to_lowercase().contains(term))
        });
        type_is_wanted && term_is_found
    }
}

/// Roughly what it takes to remember a query, in bytes.
pub(super) fn weight_bytes(query: &RoomListQuery) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let types = query.room_types.iter().flatten().map(|room_type| size_of::<Option<String>>() + text(room_type));
    text(&query.since) + text(&query.search_term) + text(&query.third_party_instance_id) + types.sum::<usize>()
}

/// Asks another server for a page of its list.
pub(super) async fn ask(
    call: &mut dyn DirectoryCall,
    query: &RoomListQuery,
    deadline: OutboundDeadline,
) -> Result<Found, LookupFailure> {
    // The tokens were bounded when they were read, so that they fit.
    let too_long = |RequestTooLong| LookupFailure::Failed;
    let mut reply = call.request(&query.endpoint().map_err(too_long)?).await?;
    let filter_here = query.has_filter() && answer::knows_no_post(reply.status, &reply.body);
    if filter_here {
        reply = call.request(&query.endpoint_without_filter().map_err(too_long)?).await?;
    }
    answer::judge_room_list(reply.status)?;
    let filter = filter_here.then(|| query.filter());
    digest(reply.body, deadline, move |JsonObject::<RemotePage>(page)| {
        let mut page = RoomListPage::from(page);
        if let Some(filter) = filter {
            page.chunk.retain(|room| filter.lets_through(room));
        }
        Found::content(&page)
    })
    .await
}

/// A page as it comes over the wire: every room an object.
#[derive(Deserialize)]
struct RemotePage {
    chunk: Vec<JsonObject<ListedRoom>>,
    next_batch: Option<String>,
    prev_batch: Option<String>,
    total_room_count_estimate: Option<u64>,
}

impl From<RemotePage> for RoomListPage {
    fn from(page: RemotePage) -> Self {
        Self {
            chunk: page.chunk.into_iter().map(|JsonObject(room)| room).collect(),
            next_batch: page.next_batch,
            prev_batch: page.prev_batch,
            total_room_count_estimate: page.total_room_count_estimate,
        }
    }
}

#[cfg(test)]
mod tests;
