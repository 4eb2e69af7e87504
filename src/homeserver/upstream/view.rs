//! [`Vouched`]: what the directory routes see of a homeserver that is not in this process, for one request.

use std::fmt;
use std::sync::Arc;

use super::tokens::TokenDesk;
use crate::admission::RoomAlias;
use crate::proxy::local_view::{AliasAnswer, InvalidPageToken, LocalView, RoomListPage, RoomListQuery, TokenAnswer};

/// What the homeserver behind said before the request was given a thread. Nobody is asked from here.
pub struct Vouched {
    desk: Arc<TokenDesk>,
    /// Whose the request's token is, where that had to be known.
    user: Option<Box<str>>,
}

impl Vouched {
    pub(super) fn new(desk: Arc<TokenDesk>, user: Option<Box<str>>) -> Self {
        Self { desk, user }
    }
}

impl LocalView for Vouched {
    /// A token that need not be known is a user's if that happens to be known.
    fn user_of_token(&self, token: &str) -> TokenAnswer {
        self.user.clone().or_else(|| self.desk.user_of(token)).map(String::from).into()
    }

    /// Never asked: the homeserver answers for its own aliases.
    fn room_alias(&self, _: &RoomAlias) -> Option<AliasAnswer> {
        None
    }

    /// Never asked: the homeserver answers for its own list.
    fn public_rooms(&self, _: &RoomListQuery) -> Result<RoomListPage, InvalidPageToken> {
        Ok(RoomListPage::default())
    }
}

impl fmt::Debug for Vouched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Vouched").field("known", &self.user.is_some()).finish_non_exhaustive()
    }
}
