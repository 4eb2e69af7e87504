//! [`Sorted`]: who can answer a request, told from its method, path and query before anybody is asked anything.
//!
//! For a homeserver that is not in this process: what needs no other server is passed on to it, and what needs an access
//! token has it asked about first. Both are known before a request is given a thread.
#![cfg(feature = "server")]

use bytes::Bytes;
use http::{Method, Request};

use super::Portcullis;
use crate::admission::{ClientPath, InvalidRoute, MediaGeneration, MediaPath, MediaRoute, OutboundRoute, RoomAlias};

/// Who answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// This side: [`Portcullis::begin`], or the homeserver's other routes.
    Here {
        /// Whether [`Portcullis::begin`] will ask whose its access token is, if it carries one.
        needs_token: bool,
    },
    /// The homeserver whose data it is about: no other server is needed.
    Own(OwnData),
}

/// What a request wants of this server's own data, under whatever method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnData {
    /// The room list.
    RoomList,
    /// An alias.
    Alias(RoomAlias),
    /// A file.
    Media(Box<MediaRoute>),
}

impl Portcullis {
    /// Sorts a request. What it says of tokens is what [`Portcullis::begin`] does
    /// (`what_is_sorted_as_needing_a_token_is_asked_for_it`).
    ///
    /// *Errors:* [`InvalidRoute`]: one of our paths that names nothing valid; to be answered 400, whatever the method.
    /// *Panics:* never. *Blocking:* no.
    pub(crate) fn sort(&self, request: &Request<Bytes>) -> Result<Sorted, InvalidRoute> {
        let (method, uri) = (request.method(), request.uri());
        let reads = *method == Method::GET || *method == Method::HEAD;
        if *method == Method::OPTIONS {
            return Ok(Sorted::Here { needs_token: false });
        }
        // What is named is named in the same places under every method.
        if MediaPath::of(uri.path()).is_some() {
            let Some(route) = MediaRoute::classify(&Method::GET, uri)? else {
                return Ok(Sorted::Here { needs_token: false });
            };
            if self.is_own(&route.file.server) {
                return Ok(Sorted::Own(OwnData::Media(Box::new(route))));
            }
            let asked = match route.generation {
                MediaGeneration::Authenticated => true,
                MediaGeneration::Legacy => self.media.legacy && self.require_token_for_remote,
            };
            return Ok(Sorted::Here { needs_token: reads && asked });
        }
        let Some(path) = ClientPath::of(uri.path()) else { return Ok(Sorted::Here { needs_token: false }) };
        Ok(match OutboundRoute::classify(&Method::GET, uri)? {
            None => Sorted::Own(OwnData::RoomList),
            Some(OutboundRoute::PublicRooms { server }) if self.is_own(&server) => Sorted::Own(OwnData::RoomList),
            Some(OutboundRoute::RoomAlias { alias }) if self.is_own(alias.server()) => {
                Sorted::Own(OwnData::Alias(alias))
            }
            Some(_) => {
                let posted = *method == Method::POST && path == ClientPath::PublicRooms;
                Sorted::Here { needs_token: posted || (reads && self.require_token_for_remote) }
            }
        })
    }
}
