//! Names of servers and rooms, as every reader on the way reads them.

use std::net::IpAddr;

use http::{Method, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

use crate::admission::{InvalidRoute, OutboundRoute, RoomAlias};
use crate::server_name::{Host, ServerName};

/// Any text: never panics; a name that is taken reads back as itself, and means the same host and port to the URL parser
/// and to the HTTP library, so that what is judged is what is dialled; a route is taken with exactly the names that the
/// grammar takes, under every percent encoding.
pub fn server_name(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let name = text.parse::<ServerName>();
    if let Ok(name) = &name {
        assert_eq!(name.as_str(), text);
        round_trip(name);
        means_the_same_to_everybody(name);
    }
    let alias = text.parse::<RoomAlias>();
    if let Ok(alias) = &alias {
        assert_eq!(alias.as_str(), text);
        let (local, server) = text[1..].split_once(':').unwrap();
        assert!(!local.is_empty() && !local.contains('\0'));
        assert_eq!(alias.server(), &server.parse::<ServerName>().unwrap());
        means_the_same_to_everybody(alias.server());
    }

    let encoded = utf8_percent_encode(&text, NON_ALPHANUMERIC);
    if let Ok(uri) = format!("/_matrix/client/v3/publicRooms?server={encoded}").parse::<Uri>() {
        let expected = match name {
            Ok(server) => Ok(Some(OutboundRoute::PublicRooms { server })),
            Err(invalid) => Err(InvalidRoute::Server(invalid)),
        };
        assert_eq!(OutboundRoute::classify(&Method::GET, &uri), expected);
    }
    if let Ok(uri) = format!("/_matrix/client/v3/directory/room/{encoded}").parse::<Uri>() {
        let expected = match alias {
            _ if text.is_empty() => Ok(None),
            Ok(alias) => Ok(Some(OutboundRoute::RoomAlias { alias })),
            Err(invalid) => Err(InvalidRoute::RoomAlias(invalid)),
        };
        assert_eq!(OutboundRoute::classify(&Method::GET, &uri), expected);
    }
    // The text as the whole request target, unencoded.
    if let Ok(uri) = text.parse::<Uri>() {
        for method in [Method::GET, Method::POST, Method::HEAD, Method::OPTIONS] {
            if let Ok(Some(route)) = OutboundRoute::classify(&method, &uri) {
                means_the_same_to_everybody(route.destination());
            }
        }
    }
}

fn round_trip(name: &ServerName) {
    let canonical: ServerName = name.canonical().parse().unwrap();
    assert!(canonical.is_same_server(name) && name.is_same_server(&canonical));
    assert_eq!(canonical.canonical(), name.canonical());
    assert_eq!(canonical.host(), name.host());
    // A port has one spelling, so that one server has one name in every budget and cache.
    assert_eq!(text_after_host(name), name.port().map(|port| format!(":{port}")).unwrap_or_default());
    assert_ne!(name.port(), Some(0));
    let with_port: ServerName = match name.port() {
        Some(_) => name.clone(),
        None => format!("{name}:{}", name.port_or_default()).parse().unwrap_or_else(|_| name.clone()),
    };
    assert!(with_port.is_same_server(name));
}

fn text_after_host(name: &ServerName) -> &str {
    let text = name.as_str();
    let host_ends = text.rfind(']').map_or_else(|| text.find(':').unwrap_or(text.len()), |bracket| bracket + 1);
    &text[host_ends..]
}

/// The readers on the way out agree with us on host and port, or read nothing at all.
pub(super) fn means_the_same_to_everybody(name: &ServerName) {
    let host = match name.host() {
        Host::Name(host) => {
            assert!(host.as_str().parse::<IpAddr>().is_err());
            host.to_string()
        }
        Host::V4(v4) => v4.to_string(),
        Host::V6(v6) => format!("[{v6}]"),
    };
    let url = format!("https://{name}/");
    match Url::parse(&url) {
        Ok(url) => {
            let read = url.host_str().unwrap();
            match name.host() {
                // One address has several spellings.
                Host::V6(v6) => assert_eq!(read.trim_matches(['[', ']']).parse(), Ok(*v6)),
                _ => assert_eq!(read, host),
            }
            assert_eq!(url.port_or_known_default(), Some(name.port().unwrap_or(443)));
            assert_eq!((url.path(), url.username(), url.password(), url.query()), ("/", "", None, None));
        }
        // A label that claims to be an internationalised one and is not: nothing is dialled then.
        Err(_) => assert!(name.canonical().contains("xn--"), "{name}: the URL parser does not take it"),
    }
    let uri: Uri = url.parse().unwrap();
    let authority = uri.authority().unwrap();
    assert_eq!((authority.as_str(), authority.port_u16()), (name.as_str(), name.port()));
    let uri_host = uri.host().unwrap();
    match name.host() {
        Host::V6(v6) => assert_eq!(uri_host.trim_matches(['[', ']']).parse(), Ok(*v6)),
        _ => assert!(uri_host.eq_ignore_ascii_case(&host)),
    }
}
