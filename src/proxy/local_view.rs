//! [`LocalView`]: what the routes ask of the homeserver they are linked into.

use serde::{Deserialize, Serialize};

use crate::admission::RoomAlias;

/// The homeserver's own data, as the directory routes need it. Called with the homeserver's lock held: answer at once.
pub trait LocalView {
    /// Who this access token belongs to; `None` if nobody.
    fn user_of_token(&self, token: &str) -> Option<String>;

    /// The room a local alias points to.
    fn room_alias(&self, alias: &RoomAlias) -> Option<AliasAnswer>;

    /// A page of the local room list.
    fn public_rooms(&self, query: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken>;
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
