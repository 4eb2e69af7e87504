//! Each way of writing a request that two readers might read in two ways.

use super::*;
use crate::admission::{ClientPath, OutboundRoute};

const OWN: &str = "us.example";

/// As the front sorts them; every server that is named is our own here.
fn own(uri: &http::Uri) -> Result<OwnData, InvalidRoute> {
    if let Some(route) = MediaRoute::classify(&Method::GET, uri)? {
        return Ok(OwnData::Media(Box::new(route)));
    }
    match ClientPath::of(uri.path()).expect("one of our paths") {
        ClientPath::PublicRooms => Ok(OwnData::RoomList),
        ClientPath::RoomAlias(_) => match OutboundRoute::classify(&Method::GET, uri)? {
            Some(OutboundRoute::RoomAlias { alias }) => Ok(OwnData::Alias(alias)),
            other => panic!("{other:?}"),
        },
    }
}

fn rebuilt(request: http::request::Builder, body: &'static str) -> Result<Rebuilt, NotPassedOn> {
    let request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
    let asker = Asker { address: "203.0.113.7".parse().unwrap(), through_trusted_proxy: false };
    rebuild(&own(request.uri())?, &OWN.parse().unwrap(), &asker, &HeaderValue::from_static("1.1 mark"), &request)
}

fn path_and_query(uri: &str) -> Result<String, NotPassedOn> {
    rebuilt(Request::get(uri), "").map(|rebuilt| rebuilt.path_and_query)
}

#[test]
fn paths_are_written_anew_whatever_their_spelling() {
    for (asked, sent) in [
        ("/_matrix/client/v3/publicRooms", "/_matrix/client/v3/publicRooms"),
        ("/_matrix/client/r0/publicRooms?", "/_matrix/client/r0/publicRooms"),
        ("/_matrix/client/v3/%70ublicRooms", "/_matrix/client/v3/publicRooms"),
        ("/%5Fmatrix/client/%76%33/publicRooms", "/_matrix/client/v3/publicRooms"),
        ("/_matrix/client/v3/directory/room/%23a:us.example", "/_matrix/client/v3/directory/room/%23a%3Aus.example"),
        (
            "/_matrix/client/v3/directory/%72oom/%23a:US.EXAMPLE:8448",
            "/_matrix/client/v3/directory/room/%23a%3Aus.example",
        ),
        (
            "/_matrix/client/v3/directory/room/%23a%2F..%2Fb%3Fc:us.example",
            "/_matrix/client/v3/directory/room/%23a%2F..%2Fb%3Fc%3Aus.example",
        ),
        (
            "/_matrix/client/v3/directory/room/%23%C3%B6ffi:us.example",
            "/_matrix/client/v3/directory/room/%23%C3%B6ffi%3Aus.example",
        ),
        ("/_matrix/client/v1/media/download/Us.Example:8448/aZ", "/_matrix/client/v1/media/download/us.example/aZ"),
        ("/_matrix/client/v1/media/download/us.example/aZ/", "/_matrix/client/v1/media/download/us.example/aZ"),
        (
            "/_matrix/client/v1/media/d%6Fwnload/us.example/aZ/a%2Fb%3F.png",
            "/_matrix/client/v1/media/download/us.example/aZ/a%2Fb%3F.png",
        ),
        (
            "/_matrix/media/r0/download/us.example/aZ?allow_remote=false",
            "/_matrix/media/r0/download/us.example/aZ?allow_remote=false",
        ),
        (
            "/_matrix/media/v3/thumbnail/us.example/aZ?width=3&height=4&method=crop",
            "/_matrix/media/v3/thumbnail/us.example/aZ?width=3&height=4&method=crop",
        ),
    ] {
        assert_eq!(path_and_query(asked).as_deref(), Ok(sent), "{asked}");
        // What is sent reads as the same thing again.
        assert_eq!(path_and_query(sent).as_deref(), Ok(sent), "{sent}");
        let url = reqwest::Url::parse(&format!("http://127.0.0.1:1{sent}")).unwrap();
        let read = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        assert_eq!(read, sent);
    }
}

#[test]
fn a_file_name_that_would_lead_elsewhere_is_refused() {
    for name in ["..", ".", "%2e%2E", "%2e"] {
        let refused = path_and_query(&format!("/_matrix/client/v1/media/download/us.example/aZ/{name}"));
        assert_eq!(refused, Err(NotPassedOn::Invalid(InvalidRoute::Parameter("fileName"))), "{name}");
    }
}

#[test]
fn parameters_are_decoded_and_encoded_again() {
    const ROOMS: &str = "/_matrix/client/v3/publicRooms";
    for (asked, sent) in [
        ("limit=3&since=a+b%20c", "limit=3&since=a%20b%20c"),
        // To some readers a `;` begins another parameter.
        ("limit=3;server=them.example", "limit=3%3Bserver%3Dthem.example"),
        ("a=b=c&&d", "a=b%3Dc&d="),
        ("server=us.example&limit=3", "limit=3"),
        ("s%65rver=US.example:8448", ""),
        // Some readers take these for it too.
        ("Server=them.example&SERVER=x&server[]=x&server%5B0%5D=x", ""),
        ("server%00=x&%20server=x&+server=x&limit=3&ser%C5%BFver=kept&%C5%BFerver=x", "limit=3&ser%C5%BFver=kept"),
        ("Access_Token=secret&access-token=x&accessToken=x", ""),
        ("servers=x&server_id=x", "servers=x&server_id=x"),
        ("access_token=secret&user_id=@bot:us.example", "user_id=%40bot%3Aus.example"),
        ("x=%00%0d%0a%23", "x=%00%0D%0A%23"),
    ] {
        let sent = if sent.is_empty() { ROOMS.to_owned() } else { format!("{ROOMS}?{sent}") };
        assert_eq!(path_and_query(&format!("{ROOMS}?{asked}")), Ok(sent), "{asked}");
    }
    for broken in ["a=%", "a=%zz", "%f=1", "a=%ff"] {
        let refused = path_and_query(&format!("{ROOMS}?{broken}"));
        assert_eq!(refused, Err(NotPassedOn::Invalid(InvalidRoute::Encoding)), "{broken}");
    }
}

#[test]
fn a_method_is_one_of_six_or_nothing_is_passed_on() {
    const ALIAS: &str = "/_matrix/client/v3/directory/room/%23a:us.example";
    for (method, body_sent) in
        [("GET", ""), ("HEAD", ""), ("DELETE", ""), ("POST", "{}"), ("PUT", "{}"), ("PATCH", "{}")]
    {
        let rebuilt = rebuilt(Request::builder().method(method).uri(ALIAS), "{}").unwrap();
        assert_eq!((rebuilt.method.as_str(), &rebuilt.body[..]), (method, body_sent.as_bytes()));
    }
    for method in ["get", "Get", "TRACE", "CONNECT", "PROPFIND", "OPTIONS"] {
        let refused = rebuilt(Request::builder().method(method).uri(ALIAS), "{}").unwrap_err();
        assert_eq!(refused, NotPassedOn::Method, "{method}");
    }
}

#[test]
fn a_body_is_json_whatever_the_client_calls_it() {
    let form =
        Request::post("/_matrix/client/v3/publicRooms").header("content-type", "application/x-www-form-urlencoded");
    let rebuilt = rebuilt(form, "{\"a\":\"&server=them.example&\"}").unwrap();
    assert_eq!(rebuilt.headers[CONTENT_TYPE], "application/json");
}

#[test]
fn headers_come_from_a_list_and_say_where_the_client_is() {
    let request = Request::get("/_matrix/client/v3/publicRooms")
        .header("host", "evil.example")
        .header("connection", "close, Accept-Language, upgrade")
        .header("accept-language", "de")
        .header("accept", "application/json")
        .header("user-agent", "client/1")
        .header("upgrade", "websocket")
        .header("transfer-encoding", "chunked")
        .header("te", "trailers")
        .header("accept-encoding", "gzip")
        .header("x-forwarded-for", "198.51.100.1")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "evil.example")
        .header("forwarded", "for=198.51.100.1")
        .header("x-http-method-override", "DELETE")
        .header("cookie", "a=b")
        .header("authorization", "bearer  first")
        .header("authorization", "Bearer second");
    let rebuilt = rebuilt(request, "").unwrap();
    let mut lines: Vec<_> =
        rebuilt.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "accept: application/json",
            "authorization: Bearer first",
            "user-agent: client/1",
            "via: 1.1 mark",
            "x-forwarded-for: 203.0.113.7",
        ]
    );
    assert!(!format!("{rebuilt:?}").contains("first"));
}

#[test]
fn a_trusted_proxys_word_about_the_connection_is_kept_if_it_is_one_of_two() {
    let of = |said: &str, through_trusted_proxy: bool| {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_PROTO, said.parse().unwrap());
        let asker = Asker { address: "::ffff:203.0.113.7".parse().unwrap(), through_trusted_proxy };
        let made = super::headers(&headers, &asker, &HeaderValue::from_static("1.1 mark"));
        assert_eq!(made[FORWARDED_FOR], "203.0.113.7");
        made.get(FORWARDED_PROTO).map(|proto| proto.to_str().unwrap().to_owned())
    };
    assert_eq!(of("https", true).as_deref(), Some("https"));
    assert_eq!(of("http", true).as_deref(), Some("http"));
    assert_eq!(of("https", false), None);
    for odd in ["https, http", "HTTPS", "ftp", ""] {
        assert_eq!(of(odd, true), None, "{odd}");
    }
}

#[test]
fn a_request_that_came_through_here_is_known_again() {
    let through = |lines: &[&str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(VIA, line.parse().unwrap());
        }
        came_through(&headers, "portcullis-1")
    };
    assert!(through(&["1.1 portcullis-1"]));
    assert!(through(&["1.0 fred, 1.1 portcullis-1 (a comment)", "1.1 nginx"]));
    assert!(through(&["1.1 nginx", "1.1 portcullis-1"]));
    assert!(!through(&[]) && !through(&["1.1 portcullis-2", "portcullis-1"]));
}

/// As Twisted reads a query, which Synapse is built on: more generously than anybody should.
fn as_twisted_reads(query: &str) -> Vec<String> {
    let pieces = query.split('&').flat_map(|piece| piece.split(';'));
    let names = pieces.map(|piece| piece.split('=').next().unwrap_or_default().replace('+', " "));
    names.map(|name| percent_encoding::percent_decode_str(&name).decode_utf8_lossy().into_owned()).collect()
}

proptest::proptest! {
    #[test]
    fn whatever_is_asked_what_is_sent_names_no_other_server(
        path in "(_matrix|%5fmatrix)/client/(v3|r0|%76%31)/(publicRooms|%70ublicRooms|directory/room/[#%23a:us.example/;.]{1,24}|room/x)",
        query in "([a-z=&;+.%]|server|s%65rver|%26|%3B|%3d|%2526|=them|\\?|%00){0,24}",
    ) {
        let Ok(uri) = format!("/{path}?{query}").parse::<http::Uri>() else { return Ok(()) };
        let is_ours = ClientPath::of(uri.path()).is_some();
        let Ok(Some(own)) = is_ours.then(|| own(&uri)).transpose() else { return Ok(()) };
        let asker = Asker { address: "203.0.113.7".parse().unwrap(), through_trusted_proxy: false };
        let request = Request::get(uri).body(Bytes::new()).unwrap();
        let via = HeaderValue::from_static("1.1 mark");
        let Ok(sent) = rebuild(&own, &OWN.parse().unwrap(), &asker, &via, &request) else { return Ok(()) };
        let sent = sent.path_and_query;
        let (path, query) = sent.split_once('?').unwrap_or((&sent, ""));
        proptest::prop_assert!(!as_twisted_reads(query).iter().any(|name| name == "server" && own == OwnData::RoomList), "{}", sent);
        proptest::prop_assert!(path.ends_with("/publicRooms") || path.ends_with("%3Aus.example"), "{}", sent);
        let whole = format!("http://127.0.0.1:1{sent}");
        let url = reqwest::Url::parse(&whole).unwrap();
        proptest::prop_assert_eq!(url.as_str(), whole);
    }
}
