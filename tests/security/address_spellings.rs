//! Names that two parsers read in two ways.
//!
//! *Attack:* name the inside in a spelling that passes as a host name: `0x7f.1`, `127.1`, `user@127.0.0.1`, full-width
//! digits. *Control:* the one grammar of `ServerName` (`src/server_name.rs`), and for what is an address without doubt
//! `AddressPolicy::judge` (`src/outbound/address_policy.rs`). *Unplug:* leave the rule for last labels out of
//! `DnsName::from_str`: `127.1` is looked up. Let `judge` allow everything: `127.0.0.1` is dialled. Each fails its
//! test.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::rig::{Does, NO_ROOMS, Names, Outside, ask, assert_at_rest, portcullis_of_eight};

/// No server name at all.
const INVALID: [&str; 46] = [
    "",
    ".",
    ":8448",
    "127.1",
    "127.0.1",
    "127",
    "2130706433",
    "0x7f.1",
    "0x7f000001",
    "0X7F.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.01",
    "010.0.0.1",
    "127.0.0.1.",
    "127.0.0.256",
    "127.0.0.1.5",
    "１２７.0.0.1",
    "127。0。0。1",
    "⑫⑦.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:0",
    "127.0.0.1:08448",
    "127.0.0.1:+80",
    "127.0.0.1:65536",
    "127.0.0.1:80:80",
    "127.0.0.1:http",
    "user@127.0.0.1",
    "public.example@127.0.0.1",
    "127.0.0.1#.public.example",
    "127.0.0.1?.example",
    "127.0.0.1/.public.example",
    "127.0.0.1\\.example",
    "127.0.0.1%2f.example",
    "127.0.0.1%00.example",
    "127.0.0.1\0",
    "127.0.0.1 ",
    " 127.0.0.1",
    "127.0.0.1\r\nx: y",
    "[::1",
    "::1",
    "[::::]",
    "[fe80::1%25eth0]",
    "[127.0.0.1]",
    "[::ffff:127.1]",
    "public.example.",
];

/// An address, spelled as only an address can be; never one to connect to.
const INSIDE: [&str; 15] = [
    "127.0.0.1",
    "127.0.0.1:22",
    "127.1.2.3:8448",
    "0.0.0.0",
    "10.0.0.1:443",
    "169.254.169.254:80",
    "255.255.255.255",
    "[::1]",
    "[::1]:22",
    "[::]:8448",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]:443",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
];

fn paths(server: &str) -> [String; 2] {
    let encoded = utf8_percent_encode(server, NON_ALPHANUMERIC);
    [
        format!("/_matrix/client/v3/publicRooms?server={encoded}"),
        format!("/_matrix/client/v3/directory/room/%23room%3A{encoded}"),
    ]
}

#[tokio::test]
async fn a_name_that_could_be_read_in_two_ways_is_400_with_nothing_looked_up_and_nothing_dialled() {
    let (names, outside) = (Names::all_at([44, 128, 10, 1].into()), Outside::that(Does::Answers(NO_ROOMS)));
    let portcullis = portcullis_of_eight(&names, &outside);
    for server in INVALID {
        for path in paths(server) {
            let (status, body) = ask(&portcullis, 1, &path).await;
            assert_eq!(status, 400, "{server:?}");
            assert!(body.contains("M_INVALID_PARAM"), "{server:?}: {body}");
        }
    }
    assert_eq!((names.asked(), outside.dialled().len()), (0, 0));
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn an_inside_address_is_refused_under_every_true_spelling_without_a_question_or_a_connection() {
    let (names, outside) = (Names::none(), Outside::that(Does::Answers(NO_ROOMS)));
    let portcullis = portcullis_of_eight(&names, &outside);
    for server in INSIDE {
        for path in paths(server) {
            assert_eq!(ask(&portcullis, 1, &path).await.0, 502, "{server}");
        }
    }
    assert_eq!((names.asked(), outside.dialled().len()), (0, 0));
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn n07_localhost_is_judged_by_its_answers_like_any_name() {
    let (names, outside) = (Names::of(&[("localhost", &[&["127.0.0.1"]])]), Outside::that(Does::Answers(NO_ROOMS)));
    let portcullis = portcullis_of_eight(&names, &outside);
    for server in ["localhost", "localhost:8448", "LOCALHOST:443"] {
        for path in paths(server) {
            assert_eq!(ask(&portcullis, 1, &path).await.0, 502, "{server}");
        }
    }
    assert!(names.asked() > 0);
    assert_eq!(outside.dialled().len(), 0);
}
