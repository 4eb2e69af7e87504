//! [`OutboundRoute`]: which requests leave the house, told from method and URI alone.

use std::borrow::Cow;

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::media_id::InvalidMediaId;
use super::policy::RouteClass;
use super::room_alias::{InvalidRoomAlias, RoomAlias};
use crate::server_name::{InvalidServerName, ServerName};

/// A call to a server that somebody else chose: by the request it is for, or by the server alone.
///
/// It may be our own name: [`classify`](Self::classify) tells what a request names, and nothing about whose name that is.
/// Such a request is answered from our own data, and [`Admission::admit`](super::Admission::admit) refuses it.
///
/// Always: the destination passed the grammar, so nothing ambiguous reaches discovery.
///
/// Not `#[non_exhaustive]`: a new kind of request that leaves the server has to be a compile error where requests are
/// answered, and not a request without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundRoute {
    /// `GET` or `POST /_matrix/client/{v3,r0,v1}/publicRooms?server=`.
    PublicRooms {
        /// The server whose list is asked for.
        server: ServerName,
    },
    /// `GET /_matrix/client/{v3,r0,v1}/directory/room/{roomAlias}`.
    RoomAlias {
        /// The alias, whose own server is asked.
        alias: RoomAlias,
    },
    /// Any other call that a homeserver makes by itself, such as for a profile or a join. What is asked is known to whoever
    /// makes the call; [`classify`](Self::classify) never returns it.
    Other {
        /// The server that is asked.
        server: ServerName,
    },
}

/// The request is one of ours, and what it names is not valid. Nothing may be looked up for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRoute {
    /// A server name is none.
    #[error("the server is not a valid server name: {0}")]
    Server(InvalidServerName),
    /// `server` is given more than once.
    #[error("the parameter server is given more than once")]
    RepeatedServer,
    /// The path's last part is not a room alias.
    #[error("{0}")]
    RoomAlias(InvalidRoomAlias),
    /// The path's media id is none.
    #[error("the media id is not valid: {0}")]
    MediaId(InvalidMediaId),
    /// A parameter of a media request is missing, given twice, or not what it has to be.
    #[error("the parameter {0} is missing or not valid")]
    Parameter(&'static str),
    /// A percent escape that is none, or that is not UTF-8.
    #[error("a percent escape is broken or not valid UTF-8")]
    Encoding,
}

impl OutboundRoute {
    /// Says whether this request names a server that its answer is to come from, and which.
    ///
    /// `Ok(None)` means that it names none: it never leaves the server. Pure: no I/O, no allocation for a foreign path.
    /// *Errors:* [`InvalidRoute`] where the route is one of these but names nothing valid. *Panics:* never.
    ///
    /// ```
    /// use http::{Method, Uri};
    /// use portcullis::OutboundRoute;
    ///
    /// let uri = Uri::from_static("/_matrix/client/v3/publicRooms?server=example.org");
    /// let route = OutboundRoute::classify(&Method::GET, &uri).unwrap().unwrap();
    /// assert_eq!(route.destination().as_str(), "example.org");
    /// assert_eq!(OutboundRoute::classify(&Method::GET, &Uri::from_static("/_matrix/client/v3/publicRooms")), Ok(None));
    /// ```
    pub fn classify(method: &Method, uri: &Uri) -> Result<Option<Self>, InvalidRoute> {
        let reads = *method == Method::GET || *method == Method::HEAD;
        match ClientPath::of(uri.path()) {
            Some(ClientPath::PublicRooms) if reads || *method == Method::POST => public_rooms(uri.query()),
            Some(ClientPath::RoomAlias(encoded)) if reads => {
                let text = decode(encoded)?;
                let alias = text.parse().map_err(InvalidRoute::RoomAlias)?;
                Ok(Some(Self::RoomAlias { alias }))
            }
            _ => Ok(None),
        }
    }

    /// The server this request makes us ask.
    #[must_use]
    pub fn destination(&self) -> &ServerName {
        match self {
            Self::PublicRooms { server } | Self::Other { server } => server,
            Self::RoomAlias { alias } => alias.server(),
        }
    }

    /// What kind of remote work it is.
    #[must_use]
    pub fn class(&self) -> RouteClass {
        match self {
            Self::PublicRooms { .. } | Self::RoomAlias { .. } | Self::Other { .. } => RouteClass::Directory,
        }
    }
}

/// The client API paths this crate knows, whatever the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientPath<'a> {
    /// `publicRooms`.
    PublicRooms,
    /// `directory/room/{roomAlias}`, the alias still percent-encoded.
    RoomAlias(&'a str),
}

impl<'a> ClientPath<'a> {
    /// Recognises a path under every spelling of its segments; an alias is one segment.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.splitn(6, '/');
        let mut next = || segments.next();
        let is = |segment: &str, word: &str| percent_decode_str(segment).eq(word.bytes());
        if !is(next()?, "_matrix") || !is(next()?, "client") {
            return None;
        }
        let version = next()?;
        if !["v3", "r0", "v1"].iter().any(|known| is(version, known)) {
            return None;
        }
        match (next()?, next(), next()) {
            (name, None, None) if is(name, "publicRooms") => Some(Self::PublicRooms),
            (directory, Some(room), Some(alias))
                if is(directory, "directory") && is(room, "room") && !alias.is_empty() && !alias.contains('/') =>
            {
                Some(Self::RoomAlias(alias))
            }
            _ => None,
        }
    }
}

fn public_rooms(query: Option<&str>) -> Result<Option<OutboundRoute>, InvalidRoute> {
    let mut servers = query_values(query.unwrap_or_default(), "server");
    let Some(server) = servers.next() else { return Ok(None) };
    if servers.next().is_some() {
        return Err(InvalidRoute::RepeatedServer);
    }
    let server = server?.parse().map_err(InvalidRoute::Server)?;
    Ok(Some(OutboundRoute::PublicRooms { server }))
}

/// The decoded values of `key` in a query string, in order: `+` is a blank, as HTML forms have it.
pub(crate) fn query_values<'a>(
    query: &'a str,
    key: &'a str,
) -> impl Iterator<Item = Result<String, InvalidRoute>> + 'a {
    query.split('&').filter_map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = name.replace('+', " ");
        percent_decode_str(&name).eq(key.bytes()).then(|| decode(&value.replace('+', " ")).map(Cow::into_owned))
    })
}

/// The decoder alone would leave a `%` that begins no escape as it is: another reader may take it for something else.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, InvalidRoute> {
    let hex = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let mut escapes = text.split('%').skip(1).map(str::as_bytes);
    if !escapes.all(|escape| hex(escape.first()) && hex(escape.get(1))) {
        return Err(InvalidRoute::Encoding);
    }
    percent_decode_str(text).decode_utf8().map_err(|_| InvalidRoute::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(method: &str, uri: &str) -> Result<Option<OutboundRoute>, InvalidRoute> {
        OutboundRoute::classify(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    fn destination(method: &str, uri: &str) -> Option<String> {
        classify(method, uri).unwrap().map(|route| route.destination().to_string())
    }

    #[test]
    fn every_spelling_of_the_room_list_is_known() {
        for version in ["v3", "r0", "v1"] {
            for method in ["GET", "POST", "HEAD"] {
                let uri = format!("/_matrix/client/{version}/publicRooms?limit=3&server=r.example%3A8448");
                assert_eq!(destination(method, &uri).unwrap(), "r.example:8448", "{method} {uri}");
            }
        }
        assert_eq!(destination("GET", "/_matrix/client/v3/%70ublicRooms?s%65rver=r.example").unwrap(), "r.example");
    }

    #[test]
    fn requests_that_stay_here_are_none() {
        for (method, uri) in [
            ("GET", "/_matrix/client/v3/publicRooms"),
            ("GET", "/_matrix/client/v3/publicRooms?limit=3"),
            ("PUT", "/_matrix/client/v3/publicRooms?server=r.example"),
            ("PUT", "/_matrix/client/v3/directory/room/%23a%3Ar.example"),
            ("GET", "/_matrix/client/v3/directory/room/"),
            ("GET", "/_matrix/client/v3/directory/room/%23a%3Ar.example/x"),
            ("GET", "/_matrix/client/v9/publicRooms?server=r.example"),
            ("GET", "/_matrix/client/v3/publicRooms/?server=r.example"),
            ("GET", "//_matrix/client/v3/publicRooms?server=r.example"),
            ("GET", "/"),
            ("GET", "*"),
        ] {
            assert_eq!(classify(method, uri), Ok(None), "{method} {uri}");
        }
    }

    #[test]
    fn a_bad_server_is_named_as_such() {
        let server = |query: &str| classify("GET", &format!("/_matrix/client/v3/publicRooms?{query}"));
        assert_eq!(server("server="), Err(InvalidRoute::Server(InvalidServerName::Empty)));
        assert_eq!(server("server"), Err(InvalidRoute::Server(InvalidServerName::Empty)));
        assert_eq!(server("server=a&server=b"), Err(InvalidRoute::RepeatedServer));
        assert_eq!(server("server=a&server="), Err(InvalidRoute::RepeatedServer));
        assert_eq!(server("server=a+b"), Err(InvalidRoute::Server(InvalidServerName::Character)));
        assert_eq!(server("server=a%00b"), Err(InvalidRoute::Server(InvalidServerName::Character)));
        for broken in ["%ff", "%ZZ", "r.example%", "r.example%4", "r.example%%34", "%2Gr.example", "%é"] {
            assert_eq!(server(&format!("server={broken}")), Err(InvalidRoute::Encoding), "{broken}");
        }
    }

    #[test]
    fn an_alias_is_one_segment_and_decoded_once() {
        assert_eq!(
            destination("GET", "/_matrix/client/v3/directory/room/%23a%2Fb%2525:r.example").unwrap(),
            "r.example"
        );
        assert_eq!(
            classify("GET", "/_matrix/client/v3/directory/room/foo"),
            Err(InvalidRoute::RoomAlias(InvalidRoomAlias::Form))
        );
        for broken in ["%ff", "%23a%ZZ:r.example", "%ZZa:r.example", "%23a:r.example%", "%23a:r.example%2"] {
            let uri = format!("/_matrix/client/v3/directory/room/{broken}");
            assert_eq!(classify("GET", &uri), Err(InvalidRoute::Encoding), "{uri}");
        }
    }
}
