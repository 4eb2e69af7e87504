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
/// use portcullis::local_view::{AliasAnswer, InvalidPageToken, ListedRoom, LocalView, RoomListPage};
/// use portcullis::{RoomAlias, RoomListQuery};
///
/// /// A homeserver with one room and one user.
/// struct OneRoom;
///
/// impl LocalView for OneRoom {
///     fn user_of_token(&self, token: &str) -> Option<String> {
///         (token == "change-me").then(|| "@porter:us.example".to_owned())
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
/// # assert!(OneRoom.user_of_token("x").is_none());
/// ```
pub trait LocalView {
    /// Who this access token belongs to; `None` if nobody.
    fn user_of_token(&self, token: &str) -> Option<String>;

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
