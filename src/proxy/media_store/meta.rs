//! [`FileMeta`]: what the other server said about its file.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_CONTENT_DISPOSITION_BYTES, MAX_CONTENT_TYPE_BYTES};

/// What the other server said about its file, word for word. It is a stranger's text: judged where it is used.
///
/// Always: no text is longer than [`MAX_CONTENT_TYPE_BYTES`] and [`MAX_CONTENT_DISPOSITION_BYTES`]
/// (`an_overlong_text_is_as_good_as_none`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileMeta {
    content_type: Option<String>,
    content_disposition: Option<String>,
}

impl FileMeta {
    /// Keeps both, unless they are too long to be meant.
    pub(crate) fn new(content_type: Option<String>, content_disposition: Option<String>) -> Self {
        Self {
            content_type: content_type.filter(|text| text.len() <= MAX_CONTENT_TYPE_BYTES),
            content_disposition: content_disposition.filter(|text| text.len() <= MAX_CONTENT_DISPOSITION_BYTES),
        }
    }

    /// The `Content-Type`.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The `Content-Disposition`.
    pub(crate) fn content_disposition(&self) -> Option<&str> {
        self.content_disposition.as_deref()
    }

    /// The same, with its bounds made sure of: read from a file, they are only what the file says.
    pub(super) fn bounded(self) -> Self {
        Self::new(self.content_type, self.content_disposition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlong_text_is_as_good_as_none() {
        let text = |bytes| Some("x".repeat(bytes));
        let longest = FileMeta::new(text(MAX_CONTENT_TYPE_BYTES), text(MAX_CONTENT_DISPOSITION_BYTES));
        assert_eq!(longest.content_type().unwrap().len(), MAX_CONTENT_TYPE_BYTES);
        assert_eq!(longest.content_disposition().unwrap().len(), MAX_CONTENT_DISPOSITION_BYTES);
        let longer = FileMeta::new(text(MAX_CONTENT_TYPE_BYTES + 1), text(MAX_CONTENT_DISPOSITION_BYTES + 1));
        assert_eq!(longer, FileMeta::default());
    }
}
