//! [`MediaId`] and [`RemoteFile`]: which file of which server, checked before anything else looks at it.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_MEDIA_ID_BYTES;
use crate::server_name::ServerName;

/// A media id: ASCII letters, digits, `_` and `-`, and nothing a path could be made of.
///
/// ```
/// use portcullis::media::MediaId;
///
/// assert!("aZ09_-".parse::<MediaId>().is_ok());
/// assert!("../secret".parse::<MediaId>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MediaId(Box<str>);

/// Why a text is not a media id. The text itself is left out: it came from a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMediaId {
    /// Nothing at all.
    #[error("it is empty")]
    Empty,
    /// Longer than 255 bytes.
    #[error("it is longer than {MAX_MEDIA_ID_BYTES} bytes")]
    TooLong,
    /// A character other than letters, digits, `_` and `-`.
    #[error("a character other than letters, digits, _ and -")]
    Character,
}

/// A file, by the server it belongs to and its id there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteFile {
    /// The server whose file it is.
    pub server: ServerName,
    /// Its id there.
    pub media_id: MediaId,
}

impl MediaId {
    /// The id as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MediaId {
    type Err = InvalidMediaId;

    fn from_str(text: &str) -> Result<Self, InvalidMediaId> {
        if text.is_empty() {
            return Err(InvalidMediaId::Empty);
        }
        if text.len() > MAX_MEDIA_ID_BYTES {
            return Err(InvalidMediaId::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
            return Err(InvalidMediaId::Character);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for MediaId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_characters_of_the_specification_pass() {
        for good in ["a", "AQwafuaFswefuhsfAFAgsw", "_-_", "0", &"a".repeat(MAX_MEDIA_ID_BYTES)] {
            assert_eq!(good.parse::<MediaId>().unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", InvalidMediaId::Empty),
            (&"a".repeat(MAX_MEDIA_ID_BYTES + 1), InvalidMediaId::TooLong),
            ("..", InvalidMediaId::Character),
            ("a/b", InvalidMediaId::Character),
            ("a.b", InvalidMediaId::Character),
            ("a\0", InvalidMediaId::Character),
            ("a b", InvalidMediaId::Character),
            ("\u{e9}", InvalidMediaId::Character),
        ] {
            assert_eq!(bad.parse::<MediaId>(), Err(why), "{bad:?}");
        }
    }
}
