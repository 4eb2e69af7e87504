//! Whether a browser shows a file in place or saves it, and under which name.

use http::HeaderValue;

use super::content_type::is_safe_inline;
use super::file_name::FileName;
use crate::admission::{MediaRoute, MediaVariant};

/// The `Content-Disposition` to send. The name in the path wins over the origin's.
///
/// A download is shown in place only if its type can run no script; a thumbnail always is, and is let through only if it
/// is a picture. Never anything of the origin's header but the name in it.
pub(super) fn content_disposition(
    route: &MediaRoute,
    content_type: Option<&str>,
    content_disposition: Option<&str>,
) -> HeaderValue {
    let in_place = match route.variant {
        MediaVariant::Download => is_safe_inline(content_type),
        MediaVariant::Thumbnail(_) => true,
    };
    let name = match &route.file_name {
        Some(name) => FileName::of(name),
        None => content_disposition.and_then(FileName::in_disposition),
    };
    let kind = if in_place { "inline" } else { "attachment" };
    let parameters = name.map(|name| name.parameters()).unwrap_or_default();
    // A name is written in visible ASCII: what does not parse does not occur.
    HeaderValue::try_from(format!("{kind}{parameters}")).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::answer::media::tests::route;

    const DOWNLOAD: &str = "/_matrix/client/v1/media/download/them.example/abc";
    const THUMBNAIL: &str = "/_matrix/media/v3/thumbnail/them.example/abc?width=32&height=32";

    fn sent(uri: &str, kind: Option<&str>, header: Option<&str>) -> String {
        content_disposition(&route(uri), kind, header).to_str().unwrap().to_owned()
    }

    #[test]
    fn w03_a_download_is_shown_in_place_only_where_its_type_is_safe() {
        for (kind, expected) in [
            (Some("image/png"), "inline"),
            (Some("text/plain; charset=utf-8"), "inline"),
            (Some("text/html"), "attachment"),
            (Some("image/svg+xml"), "attachment"),
            (Some("garbage"), "attachment"),
            (None, "attachment"),
        ] {
            assert_eq!(sent(DOWNLOAD, kind, None), expected, "{kind:?}");
            // What the origin thinks of it does not count.
            assert_eq!(sent(DOWNLOAD, kind, Some("inline; x=y")), expected, "{kind:?}");
            assert_eq!(sent(THUMBNAIL, kind, Some("attachment")), "inline", "{kind:?}");
        }
    }

    #[test]
    fn the_name_in_the_path_wins_and_no_other_word_of_the_origin_is_passed_on() {
        let named = Some("form-data; name=\"x\"; filename=\"theirs.png\"; size=9");
        assert_eq!(sent(DOWNLOAD, Some("image/png"), named), "inline; filename=\"theirs.png\"");
        let ours = format!("{DOWNLOAD}/o%22rs%0D%0A.png");
        assert_eq!(sent(&ours, Some("image/png"), named), "inline; filename=\"o_rs.png\"; filename*=utf-8''o%22rs.png");
        // Where nothing is left of it, there is no name rather than another.
        assert_eq!(sent(&format!("{DOWNLOAD}/.."), None, named), "attachment");
    }
}
