//! `shut-other-dial-outs.nginx.conf` in nginx itself, beside the file that it comes after.

use super::adapted;
use super::backend::{Backend, TOKEN};
use super::client::{Answer, ask, get};
use super::nginx;
use super::program::{Program, is_there, own_address};
use super::spellings::Roads;

const FOR_ACCOUNTS: &[&str] = &[
    "/_matrix/client/v3/profile/@x:evil.example",
    "/_matrix/client/r0/profile/%40x%3Aevil.example/displayname",
    "/_matrix/client/unstable/profile/@x:evil.example/avatar_url",
    "/_matrix/client/api/v1/%70rofile/@x:evil.example",
    "//_matrix/client/v3/profile/@x%2Fy:evil.example",
    "/_matrix/client/v1/room_summary/%23a:evil.example",
    "/_matrix/client/v1/room_summary/!a:evil.example?via=evil.example",
    "/_matrix/client/unstable/im.nheko.summary/summary/!a:evil.example?via=evil.example",
    "/_matrix/client/unstable/im.nheko.summary/rooms/!a:evil.example/summary?via=evil.example",
];

const SHUT: &[&str] =
    &["/_matrix/key/v2/query/evil.example", "/_matrix/key/v2/query/evil.example/ed25519:a", "/_matrix/key/v2/qu%65ry"];

const OPEN: &[&str] = &[
    "/_matrix/client/versions",
    "/_matrix/key/v2/server",
    "/_matrix/client/v3/account/whoami",
    "/_matrix/federation/v1/query/profile?user_id=@a:us.example",
    "/_matrix/client/v3/login",
];

fn roads() -> Option<(Program, Roads)> {
    is_there("nginx").then(|| {
        let (front, homeserver, proxy) = (Backend::start(), Backend::start(), own_address());
        let ours = adapted("portcullis.nginx.conf", &[("127.0.0.1:8009", 1, front.address)]);
        let shut = adapted("shut-other-dial-outs.nginx.conf", &[("127.0.0.1:8008", 2, homeserver.address)]);
        let files = [("portcullis.nginx.conf", ours), ("shut-other-dial-outs.nginx.conf", shut)];
        (nginx::start(&[proxy], &files, homeserver.address), Roads { proxy, front, homeserver })
    })
}

fn assert_matrix_error(answer: &Answer, status: u16, errcode: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.head.contains("Access-Control-Allow-Origin: *"), "{}", answer.head);
    assert!(answer.head.contains("Content-Type: application/json"), "{}", answer.head);
    assert!(answer.body.contains(&format!("\"errcode\":\"{errcode}\"")), "{}", answer.body);
}

/// What the homeserver saw, but for the questions about tokens.
fn asked(homeserver: &Backend) -> Vec<String> {
    let seen = homeserver.take_seen().into_iter().map(|seen| seen.target);
    seen.filter(|target| target != "/_matrix/client/v3/account/whoami").collect()
}

#[test]
fn a_stranger_gets_no_further_and_an_account_gets_an_answer() {
    let Some((_nginx, Roads { proxy, homeserver, .. })) = roads() else { return };
    for target in FOR_ACCOUNTS {
        assert_matrix_error(&get(proxy, target), 401, "M_MISSING_TOKEN");
        let forged = ask(proxy, "GET", target, "Authorization: Bearer forged\r\n", "");
        assert_matrix_error(&forged, 401, "M_UNKNOWN_TOKEN");
        assert_eq!(asked(&homeserver), [""; 0], "{target}");
        let good = format!("Authorization: Bearer {TOKEN}\r\n");
        assert_eq!(ask(proxy, "GET", target, &good, "").status, 200, "{target}");
        assert_eq!(asked(&homeserver), [*target]);
        // A browser's question before the question.
        assert_eq!(ask(proxy, "OPTIONS", target, "", "").status, 200, "{target}");
        assert_eq!(asked(&homeserver), [*target]);
        // A body goes with its request, and not with the question about its token.
        assert_eq!(ask(proxy, "PUT", target, &good, "{\"displayname\":\"a\"}").status, 200, "{target}");
        let bodies: Vec<_> = homeserver.take_seen().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies, ["", "{\"displayname\":\"a\"}"]);
    }
}

#[test]
fn the_notary_is_shut_for_all_and_the_rest_is_open() {
    let Some((_nginx, roads)) = roads() else { return };
    for target in SHUT {
        assert_matrix_error(&get(roads.proxy, target), 404, "M_UNRECOGNIZED");
        let body = ask(roads.proxy, "POST", target, &format!("Authorization: Bearer {TOKEN}\r\n"), "{}");
        assert_matrix_error(&body, 404, "M_UNRECOGNIZED");
    }
    assert_eq!(roads.homeserver.take_seen(), []);
    for target in OPEN {
        get(roads.proxy, target);
        assert_eq!(roads.homeserver.take_seen().len(), 1, "{target}");
    }
    // Dots are none of the homeserver's business, whatever they seem to lead to.
    get(roads.proxy, "/_matrix/client/v3/profile/@x%2F..%2F..%2F..%2F..%2F..%2Fy:evil.example");
    assert_eq!((roads.homeserver.take_seen().len(), roads.front.take_seen().len()), (0, 1));
}
