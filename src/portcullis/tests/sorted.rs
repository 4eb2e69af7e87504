//! Who can answer a request, and whether its token is asked about first.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::portcullis::sorted::{OwnData, Sorted};

/// Counts how often it is asked whose a token is. Everybody's is good.
#[derive(Default)]
struct Asked(AtomicUsize);

impl LocalView for Asked {
    fn user_of_token(&self, _: &str) -> TokenAnswer {
        self.0.fetch_add(1, Ordering::SeqCst);
        TokenAnswer::Good { user_id: "@user:us.example".to_owned() }
    }

    fn room_alias(&self, _: &RoomAlias) -> Option<AliasAnswer> {
        None
    }

    fn public_rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        Ok(RoomListPage::default())
    }
}

fn made(require_token: bool, legacy: bool) -> Portcullis {
    let remote = FakeRemote::saying(200, NO_ROOMS);
    builder(8, &remote).require_token_for_remote(require_token).legacy_media(legacy).build().unwrap()
}

fn request(method: &str, path: &str) -> Request<Bytes> {
    let request = Request::builder().method(method).uri(path).header(AUTHORIZATION, "Bearer good");
    request.body(Bytes::from_static(b"{}")).unwrap()
}

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"];

const REMOTE: [&str; 10] = [
    "/_matrix/client/v3/publicRooms?server=them.example",
    "/_matrix/client/v3/%70ublicRooms?s%65rver=them.example",
    "/_matrix/client/v3/directory/room/%23a:them.example",
    "/_matrix/client/v1/media/download/them.example/a",
    "/_matrix/client/v1/media/download/them.example/a/b.png",
    "/_matrix/client/v1/media/thumbnail/them.example/a?width=1&height=1",
    "/_matrix/media/v3/download/them.example/a",
    "/_matrix/media/r0/thumbnail/them.example/a?width=1&height=1",
    "/_matrix/client/versions",
    "/_matrix/client/v3/sync",
];

#[tokio::test]
async fn what_is_sorted_as_needing_a_token_is_asked_for_it() {
    for (require_token, legacy) in [(false, false), (true, false), (false, true), (true, true)] {
        let portcullis = made(require_token, legacy);
        for (method, path) in METHODS.iter().flat_map(|method| REMOTE.map(|path| (*method, path))) {
            let request = request(method, path);
            let asked = Asked::default();
            drop(portcullis.begin(&asked, address(1), &request));
            let needs_token = asked.0.load(Ordering::SeqCst) > 0;
            let what = format!("{method} {path}, token {require_token}, legacy {legacy}");
            assert_eq!(portcullis.sort(&request), Ok(Sorted::Here { needs_token }), "{what}");
        }
    }
}

#[test]
fn what_needs_no_other_server_is_the_homeservers_own_under_every_spelling_and_method() {
    let portcullis = made(true, false);
    for (path, is) in [
        ("/_matrix/client/v3/publicRooms", "list"),
        ("/_matrix/client/v3/publicRooms?limit=3", "list"),
        ("/_matrix/client/v3/publicRooms?server=us.example", "list"),
        ("/_matrix/client/v3/publicRooms?server=US.example%3A8448", "list"),
        ("/_matrix/client/v3/directory/room/%23a:us.example", "alias"),
        ("/_matrix/client/v3/directory/room/%23a:US.example:8448", "alias"),
        ("/_matrix/client/v1/media/download/us.example/a", "file"),
        ("/_matrix/client/v1/media/thumbnail/Us.example:8448/a?width=1&height=1", "file"),
        ("/_matrix/media/v3/download/us.example/a", "file"),
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"] {
            let found = match portcullis.sort(&request(method, path)) {
                Ok(Sorted::Own(OwnData::RoomList)) => "list",
                Ok(Sorted::Own(OwnData::Alias(_))) => "alias",
                Ok(Sorted::Own(OwnData::Media(_))) => "file",
                other => panic!("{method} {path}: {other:?}"),
            };
            assert_eq!(found, is, "{method} {path}");
        }
    }
}

#[test]
fn what_names_nothing_valid_is_nobodys() {
    let portcullis = made(false, true);
    for path in [
        "/_matrix/client/v3/publicRooms?server=us.example&server=them.example",
        "/_matrix/client/v3/publicRooms?server=us.example&s%65rver=us.example",
        "/_matrix/client/v3/publicRooms?server=",
        "/_matrix/client/v3/publicRooms?server=127.1",
        "/_matrix/client/v3/directory/room/us.example",
        "/_matrix/client/v3/directory/room/%23a:us.example%2Fb",
        "/_matrix/client/v3/directory/room/%23a:us.example%zz",
        "/_matrix/client/v1/media/download/us.example/..",
        "/_matrix/client/v1/media/download/us.example/a%2Fb",
        "/_matrix/client/v1/media/thumbnail/us.example/a",
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            assert!(portcullis.sort(&request(method, path)).is_err(), "{method} {path}");
        }
    }
    // Another path altogether, to a front that takes no two spellings of a separator for one.
    for path in [
        "//_matrix/client/v3/publicRooms?server=them.example",
        "/_matrix//client/v3/publicRooms",
        "/_matrix/client/v3/x/../publicRooms",
        "/_matrix/client/v3/./publicRooms",
        "/_matrix/client/v3/publicRooms/",
        "/_matrix/client%2Fv3/publicRooms",
        "/_matrix/client/v3/directory/room/%23a:us.example/aliases",
    ] {
        assert_eq!(portcullis.sort(&request("GET", path)), Ok(Sorted::Here { needs_token: false }), "{path}");
    }
}
