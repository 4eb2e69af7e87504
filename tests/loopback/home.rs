//! The homeserver at this end, its clients, and what they get to see.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use portcullis::local_view::{AliasAnswer, InvalidPageToken, ListedRoom, LocalView, RoomListPage, TokenAnswer};
use portcullis::{Portcullis, ResponseBody, RoomAlias, RoomListQuery};
use serde_json::Value;
use tokio::time::Instant;

use crate::support::patience::PATIENCE;

pub(crate) const OWN_NAME: &str = "hs.self.example";
/// The one token this homeserver knows.
pub(crate) const TOKEN: &str = "good";
/// Its one room.
pub(crate) const OWN_ROOM: &str = "!here:hs.self.example";

/// A homeserver with one user, one alias and one room.
pub(crate) struct Home;

impl LocalView for Home {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        (token == TOKEN).then(|| format!("@user:{OWN_NAME}")).into()
    }

    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
        let ours = alias.as_str().starts_with("#here:");
        ours.then(|| AliasAnswer { room_id: OWN_ROOM.to_owned(), servers: vec![OWN_NAME.to_owned()] })
    }

    fn public_rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        let mut page = RoomListPage::default();
        page.chunk.push(ListedRoom { room_id: OWN_ROOM.to_owned(), ..ListedRoom::default() });
        Ok(page)
    }
}

/// What a client gets, and after how long.
#[derive(Debug)]
pub(crate) struct ClientAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) took: Duration,
}

impl ClientAnswer {
    pub(crate) fn content(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status, and the errcode of anything but a 200, which has an `error` beside it.
    pub(crate) fn outcome(&self) -> (u16, String) {
        let content = self.content();
        if self.status == 200 {
            return (200, String::new());
        }
        assert!(content["error"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        (self.status, content["errcode"].as_str().unwrap().to_owned())
    }

    /// See [`assert_json_headers`].
    pub(crate) fn assert_headers(&self) {
        assert_json_headers(self.status, &self.headers);
    }
}

/// JSON, readable by a page of any origin, and nothing of the peer's among the headers.
///
/// # Panics
/// If it is not so.
pub(crate) fn assert_json_headers(status: u16, headers: &HeaderMap) {
    let mut names: Vec<_> = headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    let mut expected = vec![
        "access-control-allow-headers",
        "access-control-allow-methods",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "content-type",
    ];
    if status == 429 {
        expected.push("retry-after");
    }
    expected.push("x-content-type-options");
    assert_eq!(names, expected, "{status}: {headers:?}");
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert_eq!(headers["access-control-expose-headers"], "Retry-After");
    assert_eq!(headers["content-type"], "application/json");
}

/// An address of a client; no two numbers share one.
pub(crate) fn client(number: u8) -> IpAddr {
    [198, 51, 100, number].into()
}

pub(crate) fn get(path_and_query: &str) -> Request<Bytes> {
    Request::get(path_and_query).body(Bytes::new()).unwrap()
}

/// With a token of this homeserver.
pub(crate) fn post(path_and_query: &str, body: &str) -> Request<Bytes> {
    let request = Request::post(path_and_query).header("authorization", format!("Bearer {TOKEN}"));
    request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

/// Asks as an asynchronous homeserver does.
///
/// # Panics
/// If there is no answer long after every deadline.
pub(crate) async fn ask(portcullis: &Portcullis, client: IpAddr, request: &Request<Bytes>) -> ClientAnswer {
    let asked_at = Instant::now();
    let handled = tokio::time::timeout(PATIENCE, portcullis.handle(&Home, client, request)).await;
    seen(handled.expect("no answer came").unwrap(), asked_at).await
}

/// Asks as a homeserver with a request pool does: on a thread that waits.
pub(crate) async fn ask_from_a_thread(
    portcullis: &Arc<Portcullis>,
    client: IpAddr,
    request: Request<Bytes>,
) -> ClientAnswer {
    let portcullis = Arc::clone(portcullis);
    let asked_at = Instant::now();
    let handled = tokio::task::spawn_blocking(move || portcullis.handle_blocking(&Home, client, &request).unwrap());
    seen(handled.await.unwrap(), asked_at).await
}

async fn seen(response: Response<ResponseBody>, asked_at: Instant) -> ClientAnswer {
    let took = asked_at.elapsed();
    let (head, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    ClientAnswer { status: head.status.as_u16(), headers: head.headers, text, took }
}
