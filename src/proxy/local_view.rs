//! [`LocalView`]: what the routes ask of the homeserver they are linked into.

use serde::{Deserialize, Serialize};

use crate::admission::{MediaId, MediaVariant, RoomAlias};
use crate::proxy::response_body::ResponseBody;

/// The homeserver's own data, as the directory routes need it. Called with the homeserver's lock held: answer at once.
///
/// It takes `&self` and needs no lifetime of its own: the data behind a lock implements it, or a view borrowed for one
/// request.
///
/// ```
/// use portcullis::local_view::{AliasAnswer, InvalidPageToken, ListedRoom, LocalView, RoomListPage, TokenAnswer};
/// use portcullis::{RoomAlias, RoomListQuery};
///
/// /// A homeserver with one room and one user.
/// struct OneRoom;
///
/// impl LocalView for OneRoom {
///     fn user_of_token(&self, token: &str) -> TokenAnswer {
///         match token {
///             "change-me" => TokenAnswer::Good { user_id: "@porter:us.example".to_owned() },
///             _ => TokenAnswer::Unknown { soft_logout: false },
///         }
///     }
///
///     fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer> {
///         let ours = alias.as_str().starts_with("#hall:"); // only aliases of this server are asked for
///         ours.then(|| AliasAnswer { room_id: "!hall:us.example".to_owned(), servers: vec!["us.example".to_owned()] })
///     }
///
///     fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
///         if query.since.is_some() {
///             return Err(InvalidPageToken); // 400: one page is all there is, so no token was ever given out
///         }
///         let hall = ListedRoom {
///             room_id: "!hall:us.example".to_owned(),
///             name: Some("The hall".to_owned()),
///             num_joined_members: 2,
///             ..ListedRoom::default()
///         };
///         Ok(RoomListPage { chunk: vec![hall], total_room_count_estimate: Some(1), ..RoomListPage::default() })
///     }
/// }
/// # let query = RoomListQuery::default();
/// # assert_eq!(OneRoom.public_rooms(&query).unwrap().chunk.len(), 1);
/// # assert!(OneRoom.room_alias(&"#hall:us.example".parse().unwrap()).is_some());
/// # assert_eq!(OneRoom.user_of_token("x"), TokenAnswer::Unknown { soft_logout: false });
/// ```
///
/// # Where the data are not at hand
///
/// An asynchronous homeserver whose data are in a database reads before it asks: what may be asked about a request is told by
/// its method, path and query. The view is then what was read for this one request. If it cannot be read, the request is
/// answered 503 by the homeserver itself, and nothing here is asked; `None` would say that there is no such alias or file.
/// Or it calls [`Portcullis::begin`](crate::Portcullis::begin) in `tokio::task::spawn_blocking`, whose thread may wait.
///
/// ```
/// use std::net::IpAddr;
///
/// use bytes::Bytes;
/// use http::header::AUTHORIZATION;
/// use http::{Request, Response};
/// use portcullis::local_view::{AliasAnswer, InvalidPageToken, LocalView, RoomListPage, TokenAnswer};
/// use portcullis::{OutboundRoute, Portcullis, ResponseBody, RoomAlias, RoomListQuery};
///
/// # struct Database;
/// # struct IsDown;
/// # impl Database {
/// #     async fn token(&self, _: &str) -> Result<TokenAnswer, IsDown> { Err(IsDown) }
/// #     async fn alias(&self, _: &RoomAlias) -> Result<Option<AliasAnswer>, IsDown> { Ok(None) }
/// #     async fn rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, IsDown> { Ok(RoomListPage::default()) }
/// # }
/// /// What was read for one request.
/// struct ReadAhead {
///     token: TokenAnswer,
///     alias: Option<AliasAnswer>,
///     rooms: RoomListPage,
/// }
///
/// impl LocalView for ReadAhead {
///     fn user_of_token(&self, _: &str) -> TokenAnswer { self.token.clone() }
///     fn room_alias(&self, _: &RoomAlias) -> Option<AliasAnswer> { self.alias.clone() }
///     fn public_rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> { Ok(self.rooms.clone()) }
/// }
///
/// async fn read(database: &Database, portcullis: &Portcullis, request: &Request<Bytes>) -> Result<ReadAhead, IsDown> {
///     let bearer = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
///     let token = match bearer {
///         Some(token) => database.token(token).await.unwrap_or(TokenAnswer::Unavailable),
///         None => TokenAnswer::Unknown { soft_logout: false }, // not asked for
///     };
///     let mut read = ReadAhead { token, alias: None, rooms: RoomListPage::default() };
///     let ours = portcullis.admission().own_name();
///     match OutboundRoute::classify(request.method(), request.uri()) {
///         Ok(Some(route)) if !route.destination().is_same_server(ours) => {} // another server's
///         Ok(Some(OutboundRoute::RoomAlias { alias })) => read.alias = database.alias(&alias).await?,
///         Ok(_) => if let Ok(query) = RoomListQuery::of(request) {
///             read.rooms = database.rooms(&query).await?; // for a file too, and for nothing, where they are switched on
///         },
///         Err(_) => {} // 400
///     }
///     Ok(read)
/// }
///
/// /// `Ok(None)`: for your other routes; `Err`: 503.
/// async fn answer(
///     database: &Database, portcullis: &Portcullis, peer: IpAddr, request: &Request<Bytes>,
/// ) -> Result<Option<Response<ResponseBody>>, IsDown> {
///     if !Portcullis::claims(request.method(), request.uri()) {
///         return Ok(None);
///     }
///     let read = read(database, portcullis, request).await?;
///     Ok(portcullis.handle(&read, peer, request).await)
/// }
/// ```
pub trait LocalView {
    /// Who this access token belongs to.
    fn user_of_token(&self, token: &str) -> TokenAnswer;

    /// The room a local alias points to; `None` is answered 404. Only aliases of this server are asked for.
    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer>;

    /// A page of the local room list, which this side filters and cuts to `query`.
    ///
    /// *Errors:* [`InvalidPageToken`], answered 400.
    fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken>;

    /// A file of this server, or a thumbnail of one; `None` is answered 404, and no other server is asked for it. A homeserver
    /// that answers requests for its own files before they come here has nothing to write.
    fn media(&self, media_id: &MediaId, variant: MediaVariant) -> Option<LocalMedia> {
        let _ = (media_id, variant);
        None
    }
}

/// What is known of an access token. Only a good one lets a request go on.
///
/// A homeserver that has nothing else to say makes one of an `Option` with the user's id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenAnswer {
    /// It is this user's.
    Good {
        /// The user's id.
        user_id: String,
    },
    /// It is nobody's: 401 `M_UNKNOWN_TOKEN`.
    Unknown {
        /// Whether the session is still there, and its client may log in anew and keep its keys; one that is not told so
        /// throws them away.
        soft_logout: bool,
    },
    /// The account is locked: 401 `M_USER_LOCKED` with `soft_logout`, as the specification has it.
    Locked,
    /// It cannot be told now: the table of tokens is down, say. 503, which logs nobody out as a 401 would.
    Unavailable,
}

impl From<Option<String>> for TokenAnswer {
    /// `None`: it is nobody's, and the session is gone.
    fn from(user_id: Option<String>) -> Self {
        user_id.map_or(Self::Unknown { soft_logout: false }, |user_id| Self::Good { user_id })
    }
}

/// A file of this server.
#[derive(Debug, Default)]
pub struct LocalMedia {
    /// The type it was uploaded with.
    pub content_type: Option<String>,
    /// The name it was uploaded with.
    pub file_name: Option<String>,
    /// Its bytes.
    pub content: ResponseBody,
}

/// `since` is not a token this server gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pagination token is not one of this server's")]
pub struct InvalidPageToken;

/// The answer of an alias lookup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasAnswer {
    /// The room.
    pub room_id: String,
    /// Servers that know the room.
    pub servers: Vec<String>,
}

/// What a client asks of a room list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RoomListQuery {
    /// Most rooms wanted; `None` means no limit (an explicit 0 too).
    pub limit: Option<u64>,
    /// A pagination token, opaque here.
    pub since: Option<String>,
    /// Only rooms whose name, topic or alias holds this text.
    pub search_term: Option<String>,
    /// Only rooms of these types; `None` inside means rooms without a type.
    pub room_types: Option<Vec<Option<String>>>,
    /// All networks of a bridge.
    pub include_all_networks: Option<bool>,
    /// One network of a bridge.
    pub third_party_instance_id: Option<String>,
}

/// A page of a room list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomListPage {
    /// The rooms.
    pub chunk: Vec<ListedRoom>,
    /// Token of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_batch: Option<String>,
    /// Token of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_batch: Option<String>,
    /// An estimate of how many rooms there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_room_count_estimate: Option<u64>,
}

/// One room of a list (Matrix v1.19, `PublishedRoomsChunk`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRoom {
    /// The room.
    pub room_id: String,
    /// How many have joined.
    pub num_joined_members: u64,
    /// Whether anyone may read it.
    pub world_readable: bool,
    /// Whether guests may join.
    pub guest_can_join: bool,
    /// Its main alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical_alias: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Its picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar_url: Option<String>,
    /// Who may join; absent means public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_rule: Option<String>,
    /// Its type, such as `m.space`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_type: Option<String>,
}
