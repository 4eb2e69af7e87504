//! Rows F of the behaviour table and the reports on room lists and aliases, through the facade, beside a remote that
//! keeps count.

mod begin;
#[cfg(feature = "gate")]
mod gates;
mod lookups;
mod media;
mod rates;
#[cfg(feature = "server")]
mod sorted;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body::Body;
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::admission::RemoteTimeout;
use crate::proxy::directory::fake::{Does, FakeRemote};
use crate::proxy::local_view::{AliasAnswer, InvalidPageToken, ListedRoom, RoomListPage, TokenAnswer};
use crate::proxy::media::fake::FakeOrigin;

const LIST: &str = "/_matrix/client/v3/publicRooms";
const ALIAS: &str = "/_matrix/client/v3/directory/room/";
const SECOND: Duration = Duration::from_secs(1);
const NO_ROOMS: &str = r#"{"chunk":[]}"#;

/// A homeserver with one user, one alias and one room.
struct Home;

impl LocalView for Home {
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        match token {
            "good" => TokenAnswer::Good { user_id: "@user:us.example".to_owned() },
            "soft" => TokenAnswer::Unknown { soft_logout: true },
            "locked" => TokenAnswer::Locked,
            "down" => TokenAnswer::Unavailable,
            _ => TokenAnswer::Unknown { soft_logout: false },
        }
    }

    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
        let ours = alias.as_str().starts_with("#here:");
        ours.then(|| AliasAnswer { room_id: "!here".to_owned(), servers: vec!["us.example".to_owned()] })
    }

    fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        if query.since.is_some() {
            return Err(InvalidPageToken);
        }
        let room = ListedRoom { room_id: "!here".to_owned(), ..ListedRoom::default() };
        Ok(RoomListPage { chunk: vec![room], ..RoomListPage::default() })
    }
}

fn builder(pool: usize, remote: &FakeRemote) -> PortcullisBuilder {
    let no_files = FakeOrigin::new(|_| panic!("nobody is asked for a file"));
    PortcullisBuilder::over(
        "us.example".parse().unwrap(),
        ClientOutboundProxyPolicy::for_pool(pool),
        Box::new(remote.clone()),
        Box::new(no_files),
    )
}

fn portcullis(pool: usize, remote: &FakeRemote) -> Portcullis {
    builder(pool, remote).build().unwrap()
}

fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

fn post(path: &str, body: &str) -> Request<Bytes> {
    Request::post(path).header("authorization", "Bearer good").body(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn list_of(server: &str) -> Request<Bytes> {
    get(&format!("{LIST}?server={server}"))
}

fn alias(encoded: &str) -> Request<Bytes> {
    get(&format!("{ALIAS}{encoded}"))
}

fn address(last: u8) -> IpAddr {
    [198, 51, 100, last].into()
}

/// An answer taken apart, after a look at the headers that every answer carries.
#[derive(Debug)]
struct Seen {
    status: u16,
    retry_after: Option<String>,
    content: Value,
    text: String,
}

impl Seen {
    fn errcode(&self) -> &str {
        assert!(self.content["error"].is_string(), "{self:?}");
        self.content["errcode"].as_str().unwrap()
    }

    fn outcome(&self) -> (u16, &str) {
        (self.status, self.errcode())
    }
}

async fn seen(response: Response<ResponseBody>) -> Seen {
    let (head, mut body) = response.into_parts();
    for name in ["origin", "methods", "headers"] {
        assert!(head.headers.contains_key(format!("access-control-allow-{name}")), "{name}");
    }
    assert_eq!(head.headers["content-type"], "application/json");
    assert_eq!(head.headers["x-content-type-options"], "nosniff");
    let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await;
    let bytes = frame.map(|frame| frame.unwrap().into_data().unwrap()).unwrap_or_default();
    Seen {
        status: head.status.as_u16(),
        retry_after: head.headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned()),
        content: serde_json::from_slice(&bytes).unwrap(),
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

async fn ask(portcullis: &Portcullis, peer: u8, request: &Request<Bytes>) -> Seen {
    seen(portcullis.handle(&Home, address(peer), request).await.unwrap()).await
}

/// The answer of the first half; `None` if a call would be made.
async fn answered_at_once(portcullis: &Portcullis, peer: u8, request: &Request<Bytes>) -> Option<Seen> {
    match portcullis.begin(&Home, address(peer), request).unwrap() {
        Begun::Answer(answer) => Some(seen(answer).await),
        Begun::Call(_) | Begun::Media(_) => None,
    }
}

fn assert_at_rest(portcullis: &Portcullis) {
    let budget = portcullis.admission().budget();
    assert_eq!((budget.in_flight(), budget.tracked_keys()), (0, 0));
}
