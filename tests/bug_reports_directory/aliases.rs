//! Remote aliases: what counts as one, and that it arrives as it was asked.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::loopback::{World, ask, assert_at_rest, client, get};
use crate::support::{Behaviour, SeenRequest, descriptors, json_answer, until};

const ROOM: &str = r#"{"room_id":"!r:r.example","servers":["r.example"]}"#;

fn encoded(alias: &str) -> String {
    format!("/_matrix/client/v3/directory/room/{}", utf8_percent_encode(alias, NON_ALPHANUMERIC))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_19_a_connection_that_dies_before_the_answer_is_a_502() {
    let world = World::new().await;
    for dies in [
        Behaviour::EndsAfter(Vec::new()),
        Behaviour::EndsAfter(b"HTTP/1.1 2".to_vec()),
        Behaviour::EndsAfter(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n".to_vec()),
        Behaviour::EndsAfter(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}".to_vec()),
        Behaviour::Reset,
    ] {
        let (peer, server) = world.peer("r.example", dies).await;
        let portcullis = world.portcullis(None);
        let answer = ask(&portcullis, client(1), &get(&encoded(&format!("#a:{server}")))).await;
        assert_at_rest(&portcullis);
        assert_eq!(answer.outcome(), (502, "M_UNKNOWN".to_owned()));
        answer.assert_headers();
        // Not asked again either: it may have been seen.
        assert_eq!(peer.requests().len(), 1);
        until("sockets", 0, || descriptors::towards(peer.address().port()).len()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_21_an_alias_without_a_usable_server_is_a_400_and_nothing_is_looked_up() {
    let world = World::new().await;
    let portcullis = world.portcullis(None);
    let long = format!("#{}:r.example", "a".repeat(245));
    assert_eq!(long.len(), 256);
    for alias in [
        "foo",
        "#",
        "#a",
        "#a:",
        "!a:b",
        &long,
        "#a\0:r.example",
        ":",
        "#:r.example",
        "a:r.example",
        "@a:r.example",
        "##",
        "#a::",
        "#a:r.example:",
        "#a:r.example:0",
        "#a: r.example",
        "#a:r.example/x",
        "#a:127.1",
        "#a:r..example",
        "#a:\u{e9}.example",
        "#a:[::1",
        "#a:u@r.example",
    ] {
        let answer = ask(&portcullis, client(1), &get(&encoded(alias))).await;
        assert_eq!(answer.outcome(), (400, "M_INVALID_PARAM".to_owned()), "{alias:?}");
        answer.assert_headers();
    }
    let not_utf8 = ask(&portcullis, client(1), &get("/_matrix/client/v3/directory/room/%23a%FF:r.example")).await;
    assert_eq!(not_utf8.outcome(), (400, "M_INVALID_PARAM".to_owned()));
    assert_eq!(world.dns.asked(), Vec::<String>::new());
    assert_at_rest(&portcullis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_25_every_alias_arrives_at_its_server_character_by_character() {
    let world = World::new().await;
    let (peer, server) = world.peer("r.example", Behaviour::answers(|_| json_answer(200, ROOM))).await;
    let portcullis = world.portcullis(None);
    let names = [
        "\u{f6}ffi",
        "\u{1f600}",
        "a/b",
        "a%b",
        "a%2Fb",
        "a b",
        "a+b",
        "a&b=c",
        "a?b",
        "#a",
        "a\\b",
        "a\"b",
        "..",
        "a;b,c",
        "{a}",
        "~",
        "\u{202e}a",
        "o\u{308}",
        "A",
        "\u{1}",
        "a\r\nb",
        "\u{10ffff}",
    ];
    for name in names {
        let alias = format!("#{name}:{server}");
        let answer = ask(&portcullis, client(1), &get(&encoded(&alias))).await;
        assert_eq!((answer.status, &answer.content()["room_id"]), (200, &"!r:r.example".into()), "{alias:?}");
        assert_eq!(alias_in(peer.requests().last().unwrap()), alias);
    }
    // As a careless client writes it: letters and an emoji as they are.
    for raw in ["%23\u{fc}:", "%23\u{1f680}:"] {
        let path = format!("/_matrix/client/v3/directory/room/{raw}{server}");
        assert_eq!(ask(&portcullis, client(1), &get(&path)).await.status, 200);
        assert_eq!(alias_in(peer.requests().last().unwrap()), format!("#{}{server}", &raw[3..]));
    }
    assert_eq!(peer.requests().len(), names.len() + 2);
}

/// The alias a peer was asked for, decoded as any server would.
fn alias_in(request: &SeenRequest) -> String {
    let (path, query) = request.target().split_once('?').unwrap();
    assert_eq!(path, "/_matrix/federation/v1/query/directory");
    let value = query.strip_prefix("room_alias=").unwrap();
    assert!(!value.contains(['&', '+', '#']), "{value}");
    percent_decode_str(value).decode_utf8().unwrap().into_owned()
}
