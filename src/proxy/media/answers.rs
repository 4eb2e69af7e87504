//! From a file, or none, to the one table of answers.

use std::io;

use http::{HeaderValue, Response};

use super::ask::MediaAsk;
use super::files::Coming;
use crate::proxy::answer::ResponseBody;
use crate::proxy::answer::media::{self, MediaHead, RangeDecision};
use crate::proxy::local_view::LocalMedia;
use crate::proxy::media_store::{FileKey, FileMeta, StoredFile};

/// The answer that a client holds the file already, if it says so. `stored`: whether there is one here.
pub(crate) fn not_modified(ask: &MediaAsk, key: &FileKey, stored: bool) -> Option<Response<ResponseBody>> {
    let held = ask.if_none_match.as_ref()?;
    let unchanged = media::is_unchanged(held.as_bytes(), key.etag(), stored);
    unchanged.then(|| head(ask, &FileMeta::default(), key).not_modified())
}

/// A file that is on its way: its bytes follow as they come, or the body is cut.
pub(crate) fn coming(ask: &MediaAsk, key: &FileKey, coming: &Coming) -> Response<ResponseBody> {
    head(ask, &coming.meta, key).growing(coming.length, coming.readers.reader().into())
}

/// A stored file, or the part of it that is asked for.
///
/// *Errors:* it is gone, or cannot be opened.
pub(crate) async fn stored(ask: &MediaAsk, key: &FileKey, file: &StoredFile) -> io::Result<Response<ResponseBody>> {
    let reader = file.open().await?;
    let (head, length) = (head(ask, file.meta(), key), file.len());
    // A range of a head is the head of the whole.
    let range = ask.range.as_ref().filter(|_| !ask.head).map(HeaderValue::as_bytes);
    let if_range = ask.if_range.as_ref().map(HeaderValue::as_bytes);
    Ok(match RangeDecision::of(range, if_range, key.etag(), length) {
        RangeDecision::Whole => head.whole(length, reader.into()),
        RangeDecision::Part(part) => head.part(&part, length, reader.range(&part).into()),
        RangeDecision::Unsatisfiable => media::range_not_satisfiable(length),
    })
}

/// A file of this server.
pub(crate) fn local(mut ask: MediaAsk, key: &FileKey, local: LocalMedia) -> Response<ResponseBody> {
    let LocalMedia { content_type, file_name, content } = local;
    ask.route.file_name = ask.route.file_name.or(file_name);
    let meta = FileMeta::new(content_type, None);
    let length = http_body::Body::size_hint(&content).exact();
    head(&ask, &meta, key).growing(length, content)
}

fn head<'a>(ask: &'a MediaAsk, meta: &'a FileMeta, key: &'a FileKey) -> MediaHead<'a> {
    MediaHead {
        route: &ask.route,
        content_type: meta.content_type(),
        content_disposition: meta.content_disposition(),
        etag: key.etag(),
    }
}
