//! [`FileKey`]: what a stored file is, as a hash.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::admission::{MediaVariant, RemoteFile};
use crate::sync::Arc;

/// Which file, and which form of it: one key for all spellings of its server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    /// In quotes, so that it is an entity tag as it stands.
    quoted: Arc<str>,
}

impl FileKey {
    /// Bytes of a name.
    pub(super) const NAME_BYTES: usize = 64;

    /// The key of `variant` of `file`.
    pub(crate) fn new(file: &RemoteFile, variant: MediaVariant) -> Self {
        // No part can hold the NUL that parts them, so no two files share a text.
        let mut text = format!("{}\0{}\0", file.server.canonical(), file.media_id);
        match variant {
            MediaVariant::Download => text.push_str("download"),
            MediaVariant::Thumbnail(thumbnail) => {
                let size = thumbnail.size();
                let animated = if thumbnail.animated() { "animated" } else { "still" };
                // Writing to a string does not fail.
                let _ = write!(text, "{}x{} {} {animated}", size.width, size.height, size.method.as_str());
            }
        }
        Self { quoted: format!("\"{}\"", hex(&Sha256::digest(text))).into() }
    }

    /// Its entity tag, quotes included. The file of a media id never changes, so the key alone says which bytes it has.
    pub(crate) fn etag(&self) -> &str {
        &self.quoted
    }

    /// The hash alone, in hexadecimal.
    pub(crate) fn name(&self) -> &str {
        self.quoted.trim_matches('"')
    }

    /// The key that goes by `name`, if it can be one.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        is_hex(name, Self::NAME_BYTES).then(|| Self { quoted: format!("\"{name}\"").into() })
    }
}

/// `bytes` in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whether `text` is `length` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::admission::{Thumbnail, ThumbnailMethod, ThumbnailSize};

    fn file(server: &str, media_id: &str) -> RemoteFile {
        RemoteFile { server: server.parse().unwrap(), media_id: media_id.parse().unwrap() }
    }

    #[test]
    fn c08_spellings_of_a_server_share_a_key_and_nothing_else_does() {
        let key = FileKey::new(&file("them.example", "abc"), MediaVariant::Download);
        assert_eq!(FileKey::new(&file("THEM.example:8448", "abc"), MediaVariant::Download), key);
        let mut others: HashSet<_> = [("them.example:443", "abc"), ("them.example", "abC"), ("them.exampl", "eabc")]
            .into_iter()
            .map(|(server, media_id)| FileKey::new(&file(server, media_id), MediaVariant::Download))
            .collect();
        for (side, method, animated) in [
            (32, ThumbnailMethod::Crop, false),
            (96, ThumbnailMethod::Crop, false),
            (96, ThumbnailMethod::Crop, true),
            (96, ThumbnailMethod::Scale, false),
        ] {
            let thumbnail = Thumbnail::no_smaller_than(ThumbnailSize { width: side, height: side, method }, animated);
            others.insert(FileKey::new(&file("them.example", "abc"), MediaVariant::Thumbnail(thumbnail)));
        }
        assert_eq!(others.len(), 7);
        assert!(!others.contains(&key));
    }

    #[test]
    fn br44_a_name_is_hexadecimal_whatever_the_file_is_called() {
        let key = FileKey::new(&file("them.example", "-_A"), MediaVariant::Download);
        assert!(is_hex(key.name(), 64));
        assert_eq!(key.etag(), format!("\"{}\"", key.name()));
        assert_eq!(FileKey::from_name(key.name()), Some(key.clone()));
        for bad in ["", "..", &key.name().to_uppercase(), key.etag(), &format!("{}0", key.name())] {
            assert_eq!(FileKey::from_name(bad), None, "{bad}");
        }
    }
}
