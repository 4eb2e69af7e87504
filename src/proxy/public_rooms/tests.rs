//! What a client may ask.

use super::InvalidListRequest::{AllNetworks, Encoding, Form, Limit, Networks, NotJson, Repeated, TooLong};
use super::*;

#[test]
fn the_documented_parameters_are_read_and_others_ignored() {
    let query = read_query("limit=7&since=a%2Fb+c&include_all_networks=false&third_party_instance_id=irc&x=1").unwrap();
    assert_eq!(
        query,
        RoomListQuery {
            limit: Some(7),
            since: Some("a/b c".to_owned()),
            include_all_networks: Some(false),
            third_party_instance_id: Some("irc".to_owned()),
            ..RoomListQuery::default()
        }
    );
    assert_eq!(read_query(""), Ok(RoomListQuery::default()));
    assert_eq!(read_query("limit=0&since="), Ok(RoomListQuery::default()));
}

#[test]
fn br11_bad_parameters_are_told_apart() {
    for (query, why) in [
        ("limit=NOT_INTEGER", Limit),
        ("limit=-1", Limit),
        ("limit=%2B5", Limit),
        ("limit=+5", Limit),
        ("limit=5.0", Limit),
        ("limit=", Limit),
        ("limit=9007199254740992", Limit),
        ("limit=99999999999999999999999", Limit),
        ("limit=1&limit=2", Repeated),
        ("since=a&since=a", Repeated),
        ("since=%ff", Encoding),
        ("include_all_networks=1", AllNetworks),
        ("include_all_networks=true&third_party_instance_id=irc", Networks),
    ] {
        assert_eq!(read_query(query), Err(why), "{query}");
    }
    assert_eq!(read_query("limit=9007199254740991").unwrap().limit, Some(MAX_LIST_LIMIT));
    assert_eq!(read_query(&format!("since={}", "a".repeat(MAX_LIST_TOKEN_BYTES + 1))), Err(TooLong));
}

#[test]
fn br07_types_in_the_body_stay_what_they_are() {
    let body = br#"{"limit":20,"since":"t","include_all_networks":true,
        "filter":{"generic_search_term":"Foo","room_types":[null,"m.space"]},"unknown":[1]}"#;
    let query = read_body(body).unwrap();
    assert_eq!(query.limit, Some(20));
    assert_eq!(query.include_all_networks, Some(true));
    assert_eq!(query.search_term.as_deref(), Some("Foo"));
    assert_eq!(query.room_types, Some(vec![None, Some("m.space".to_owned())]));
    for empty in ["{}", r#"{"filter":{}}"#, r#"{"filter":{"generic_search_term":""}}"#, r#"{"limit":0,"since":null}"#] {
        assert_eq!(read_body(empty.as_bytes()), Ok(RoomListQuery::default()), "{empty}");
    }
}

#[test]
fn a_body_of_another_form_is_refused() {
    for (body, why) in [
        ("", NotJson),
        ("nonsense", NotJson),
        ("[", NotJson),
        ("[1", NotJson),
        ("\"a", NotJson),
        (r#"{"limit":[}"#, NotJson),
        (r#"{"limit":"a""#, NotJson),
        (r#"{"limit":"a"} x"#, NotJson),
        (r#"{"limit":20"#, NotJson),
        ("\u{feff}{}", NotJson),
        ("null", Form),
        ("[]", Form),
        (r#"[20,"since"]"#, Form),
        (r#"{"limit":"20"}"#, Form),
        (r#"{"limit":20.0}"#, Form),
        (r#"{"limit":true}"#, Form),
        (r#"{"limit":-1}"#, Limit),
        (r#"{"limit":9007199254740992}"#, Limit),
        (r#"{"limit":1,"limit":2}"#, Form),
        (r#"{"since":7}"#, Form),
        (r#"{"filter":["x"]}"#, Form),
        (r#"{"filter":{"room_types":"m.space"}}"#, Form),
        (r#"{"filter":{"room_types":[7]}}"#, Form),
        (r#"{"include_all_networks":"true"}"#, Form),
        (r#"{"include_all_networks":true,"third_party_instance_id":"irc"}"#, Networks),
    ] {
        assert_eq!(read_body(body.as_bytes()), Err(why), "{body}");
    }
    let deep = "[".repeat(100_000);
    assert!(read_body(deep.as_bytes()).is_err());
    assert!(read_body(format!(r#"{{"unknown":{deep}"#).as_bytes()).is_err());
}

#[test]
fn the_filter_looks_at_name_topic_alias_and_type() {
    let room = ListedRoom {
        name: Some("Öffentlich".to_owned()),
        topic: Some("about TEA".to_owned()),
        canonical_alias: Some("#lounge:r.example".to_owned()),
        room_type: Some("m.space".to_owned()),
        ..ListedRoom::default()
    };
    let term = |term: &str| RoomListQuery { search_term: Some(term.to_owned()), ..Default::default() };
    for found in ["öff", "ÖFF", "tea", "LOUNGE"] {
        assert!(term(found).filter().lets_through(&room), "{found}");
    }
    assert!(!term("coffee").filter().lets_through(&room));
    assert!(!term("tea").filter().lets_through(&ListedRoom::default()));

    let types = |types: &[Option<&str>]| RoomListQuery {
        room_types: Some(types.iter().map(|name| name.map(str::to_owned)).collect()),
        ..Default::default()
    };
    assert!(types(&[None, Some("m.space")]).filter().lets_through(&room));
    assert!(!types(&[None]).filter().lets_through(&room));
    assert!(!types(&[]).filter().lets_through(&room));
    assert!(types(&[None]).filter().lets_through(&ListedRoom::default()));
    assert!(RoomListQuery::default().filter().lets_through(&room));
}

#[test]
fn a_filter_that_would_cost_too_much_is_refused() {
    let body = |filter: serde_json::Value| read_body(serde_json::json!({ "filter": filter }).to_string().as_bytes());
    let term = |bytes: usize| body(serde_json::json!({ "generic_search_term": "x".repeat(bytes) }));
    assert!(term(MAX_SEARCH_TERM_BYTES).is_ok());
    assert_eq!(term(MAX_SEARCH_TERM_BYTES + 1), Err(InvalidListRequest::Filter));
    let types = |count: usize| body(serde_json::json!({ "room_types": vec!["m.space"; count] }));
    assert!(types(MAX_ROOM_TYPES).is_ok());
    assert_eq!(types(MAX_ROOM_TYPES + 1), Err(InvalidListRequest::Filter));
}
