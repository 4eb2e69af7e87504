//! What the homeserver behind is sent: a request of our own writing, made of the parts that were understood.
//!
//! Nothing of a client's request is passed on as it was written. Two readers of one text may disagree: what is a `;` in a
//! query to us separates parameters elsewhere, a form in a body becomes parameters, `US.example:8448` is our own name to us
//! and a stranger's to a homeserver that compares letter by letter. Each of those would be a road round the front, on which
//! the homeserver itself calls other servers for anybody. So the path is written anew from the route, our own name as it is
//! configured, every parameter decoded and encoded again, the headers from a list.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, ORIGIN, RANGE, USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::admission::{InvalidRoute, MediaGeneration, MediaRoute, MediaVariant, decode};
use crate::portcullis::sorted::OwnData;
use crate::portcullis::token::bearer_token;
use crate::server_name::ServerName;

/// All but what every reader of a URL leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Under which methods something is passed on. Others are spelled in ways that somebody might read as one of these.
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::PATCH];

/// Whose body is passed on.
const WITH_BODY: [Method; 3] = [Method::POST, Method::PUT, Method::PATCH];

/// Versions of a path, which is all that is taken over of how it was spelled.
const VERSIONS: [&str; 3] = ["v3", "r0", "v1"];

/// What is copied of a request's headers. Whatever is for one connection is not among them, nor what names another method,
/// host or client.
const COPIED: [HeaderName; 11] = [
    ACCEPT,
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    ORIGIN,
    RANGE,
    USER_AGENT,
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A request for the homeserver behind.
#[derive(Clone, Debug)]
pub(super) struct Rebuilt {
    pub(super) method: Method,
    /// Begins with `/`.
    pub(super) path_and_query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Who asks, as far as the homeserver behind is told.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    /// The client's address, as far as it can be believed.
    pub(super) address: IpAddr,
    /// Whether whoever connected is a listed proxy, whose word about the client's connection is taken.
    pub(super) through_trusted_proxy: bool,
}

/// Why nothing is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotPassedOn {
    /// Under this method nothing is; it is answered as a path without that method.
    Method,
    /// The request names something that is not valid.
    Invalid(InvalidRoute),
}

impl From<InvalidRoute> for NotPassedOn {
    fn from(invalid: InvalidRoute) -> Self {
        Self::Invalid(invalid)
    }
}

/// The request for `own`. `via` says that it came through here.
pub(super) fn rebuild(
    own: &OwnData,
    own_name: &ServerName,
    asker: &Asker,
    via: &HeaderValue,
    request: &Request<Bytes>,
) -> Result<Rebuilt, NotPassedOn> {
    let method = METHODS.into_iter().find(|method| method == request.method()).ok_or(NotPassedOn::Method)?;
    let mut path_and_query = path(own, own_name, request.uri().path())?;
    let dropped: &[&str] = match own {
        // It is ours or absent: what is asked here without it is our own list.
        OwnData::RoomList => &[SERVER_LETTERS, TOKEN_LETTERS],
        OwnData::Alias(_) | OwnData::Media(_) => &[TOKEN_LETTERS],
    };
    let query = query(request.uri().query().unwrap_or_default(), dropped)?;
    if !query.is_empty() {
        path_and_query.push('?');
        path_and_query.push_str(&query);
    }
    let body = if WITH_BODY.contains(&method) { request.body().clone() } else { Bytes::new() };
    let mut headers = headers(request.headers(), asker, via);
    if !body.is_empty() {
        // Under another type the same bytes may be read as parameters.
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(Rebuilt { method, path_and_query, headers, body })
}

/// The letters of `server`. Readers differ in what else they take for it: `Server`, `server[]`, ` server`, `server` and a zero
/// byte.
const SERVER_LETTERS: &str = "SERVER";

/// The letters of `access_token`: a token in the query, which the specification has given up; it is dropped, as it would end
/// in logs.
const TOKEN_LETTERS: &str = "ACCESSTOKEN";

fn path(own: &OwnData, own_name: &ServerName, asked: &str) -> Result<String, InvalidRoute> {
    // The same place in all of them: `/_matrix/client/v3/…`, `/_matrix/media/v3/…`.
    let version = || -> Result<&'static str, InvalidRoute> {
        let asked = decode(asked.split('/').nth(3).unwrap_or_default())?;
        VERSIONS.into_iter().find(|known| *known == asked).ok_or(InvalidRoute::Encoding)
    };
    match own {
        OwnData::RoomList => Ok(format!("/_matrix/client/{}/publicRooms", version()?)),
        OwnData::Alias(alias) => {
            let local = alias.as_str().split_once(':').map_or(alias.as_str(), |(local, _)| local);
            Ok(format!("/_matrix/client/{}/directory/room/{}", version()?, encoded(&format!("{local}:{own_name}"))))
        }
        OwnData::Media(route) => media_path(route, own_name, version),
    }
}

fn media_path(
    route: &MediaRoute,
    own_name: &ServerName,
    version: impl FnOnce() -> Result<&'static str, InvalidRoute>,
) -> Result<String, InvalidRoute> {
    let under = match route.generation {
        MediaGeneration::Authenticated => "client/v1/media".to_owned(),
        MediaGeneration::Legacy => format!("media/{}", version()?),
    };
    let what = match route.variant {
        MediaVariant::Download => "download",
        MediaVariant::Thumbnail(_) => "thumbnail",
    };
    let (server, media_id) = (encoded(own_name.as_str()), encoded(route.file.media_id.as_str()));
    let mut path = format!("/_matrix/{under}/{what}/{server}/{media_id}");
    if let Some(name) = &route.file_name {
        // Whoever reads the URL would take it for the path above, encoded or not.
        if matches!(name.as_str(), "." | "..") {
            return Err(InvalidRoute::Parameter("fileName"));
        }
        path.push('/');
        path.push_str(&encoded(name));
    }
    Ok(path)
}

/// The parameters, each decoded and encoded again, without those whose names have the letters of one that is `dropped`.
fn query(query: &str, dropped: &[&str]) -> Result<String, InvalidRoute> {
    let mut again = String::with_capacity(query.len());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (name.replace('+', " "), value.replace('+', " "));
        let (name, value) = (decode(&name)?, decode(&value)?);
        if dropped.contains(&letters(&name).as_str()) {
            continue;
        }
        if !again.is_empty() {
            again.push('&');
        }
        again.extend([&encoded(&name), "=", &encoded(&value)]);
    }
    Ok(again)
}

/// The letters alone, as capitals: `ſ` is an S to whoever makes them so.
fn letters(name: &str) -> String {
    name.chars().filter(|one| one.is_alphabetic()).flat_map(char::to_uppercase).collect()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn headers(asked: &HeaderMap, asker: &Asker, via: &HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let for_one_connection = named_by_connection(asked);
    for name in COPIED.iter().filter(|name| !for_one_connection.contains(name)) {
        for value in asked.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    if let Some(token) = bearer_token(asked).and_then(bearer) {
        headers.insert(AUTHORIZATION, token);
    }
    // Nothing is unpacked here, and nothing is to be packed for us.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(FORWARDED_FOR, forwarded_for(asker.address));
    if asker.through_trusted_proxy
        && let Some(proto) = forwarded_proto(asked)
    {
        headers.insert(FORWARDED_PROTO, proto);
    }
    headers.insert(VIA, via.clone());
    headers
}

/// What a request's `Connection` keeps for the connection it came on.
pub(super) fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// `Bearer` and the token, which no debug output shows.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// One address, and no word of what the client said before it.
pub(super) fn forwarded_for(address: IpAddr) -> HeaderValue {
    // Digits, letters, `.` and `:`.
    HeaderValue::try_from(address.to_canonical().to_string()).unwrap_or_else(|_| HeaderValue::from_static("0.0.0.0"))
}

pub(super) const FORWARDED_FOR_NAME: HeaderName = FORWARDED_FOR;

fn forwarded_proto(headers: &HeaderMap) -> Option<HeaderValue> {
    let said = headers.get(FORWARDED_PROTO)?;
    ["https", "http"].into_iter().find(|proto| said == proto).map(HeaderValue::from_static)
}

/// Whether `mark` is among those the request came through already: it goes round in a circle.
pub(super) fn came_through(headers: &HeaderMap, mark: &str) -> bool {
    let lines = headers.get_all(VIA).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|passed| passed.split_ascii_whitespace().nth(1) == Some(mark))
}

#[cfg(test)]
mod tests;
