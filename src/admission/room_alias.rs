//! [`RoomAlias`]: `#local:server`, taken apart once.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_ROOM_ALIAS_BYTES;
use crate::server_name::{InvalidServerName, ServerName};

/// A room alias. The local part may hold any Unicode but colon and NUL; the server part is a [`ServerName`].
///
/// ```
/// use portcullis::RoomAlias;
///
/// let alias: RoomAlias = "#hall:them.example".parse().unwrap();
/// assert_eq!(alias.server().as_str(), "them.example");
/// assert!("#hall".parse::<RoomAlias>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoomAlias {
    text: Box<str>,
    server: ServerName,
}

/// Why a text is not a room alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRoomAlias {
    /// Longer than 255 bytes.
    #[error("the alias is longer than {MAX_ROOM_ALIAS_BYTES} bytes")]
    TooLong,
    /// No `#` in front, no `:`, nothing between them, or a NUL.
    #[error("an alias has the form #name:server")]
    Form,
    /// What follows the first colon is not a server name.
    #[error("the server of the alias is not valid: {0}")]
    Server(#[from] InvalidServerName),
}

impl RoomAlias {
    /// The whole alias as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The server it belongs to.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.server
    }
}

impl FromStr for RoomAlias {
    type Err = InvalidRoomAlias;

    fn from_str(text: &str) -> Result<Self, InvalidRoomAlias> {
        if text.len() > MAX_ROOM_ALIAS_BYTES {
            return Err(InvalidRoomAlias::TooLong);
        }
        let (local, server) =
            text.strip_prefix('#').and_then(|rest| rest.split_once(':')).ok_or(InvalidRoomAlias::Form)?;
        if local.is_empty() || local.contains('\0') {
            return Err(InvalidRoomAlias::Form);
        }
        Ok(Self { text: text.into(), server: server.parse()? })
    }
}

impl fmt::Display for RoomAlias {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_divides() {
        let alias: RoomAlias = "#a:r.example:8448".parse().unwrap();
        assert_eq!(alias.server().as_str(), "r.example:8448");
    }

    #[test]
    fn any_unicode_but_colon_and_nul_is_a_name() {
        for text in
            ["#\u{f6}ffi:r.example", "#\u{1f600}:r.example", "#a/b:r.example", "#a%b:r.example", "#a b:r.example"]
        {
            assert_eq!(text.parse::<RoomAlias>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_not_an_alias_is_refused() {
        for text in ["", "foo", "#", "#a", "#:r.example", "!a:b", "#a\0:r.example"] {
            assert_eq!(text.parse::<RoomAlias>(), Err(InvalidRoomAlias::Form), "{text:?}");
        }
        assert_eq!("#a:".parse::<RoomAlias>(), Err(InvalidRoomAlias::Server(InvalidServerName::Empty)));
        let long = format!("#{}:r.example", "a".repeat(245));
        assert_eq!(long.len(), 256);
        assert_eq!(long.parse::<RoomAlias>(), Err(InvalidRoomAlias::TooLong));
    }
}
