//! The columns: the requests that leave the server.

use bytes::Bytes;
use http::Request;

use crate::loopback::media::{download, thumbnail};
use crate::loopback::{get, post};

/// A request of a client for another server's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A room list without a filter: one GET.
    List,
    /// A room list with a filter: a POST, and a GET where that is not known.
    FilteredList,
    /// A room alias.
    Alias,
}

pub(crate) const ROUTES: [Route; 3] = [Route::List, Route::FilteredList, Route::Alias];

impl Route {
    pub(crate) fn request(self, server: &str) -> Request<Bytes> {
        let list = format!("/_matrix/client/v3/publicRooms?server={server}");
        match self {
            Self::List => get(&list),
            Self::FilteredList => post(&list, r#"{"filter":{"generic_search_term":"a"}}"#),
            Self::Alias => get(&format!("/_matrix/client/v3/directory/room/%23a:{server}")),
        }
    }
}

/// A request of a client for a file of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileRoute {
    Download,
    Thumbnail,
}

pub(crate) const FILE_ROUTES: [FileRoute; 2] = [FileRoute::Download, FileRoute::Thumbnail];

impl FileRoute {
    pub(crate) fn path(self, server: &str) -> String {
        match self {
            Self::Download => download(server, "a"),
            Self::Thumbnail => thumbnail(server, "a"),
        }
    }
}
