//! [`MediaRoute`]: a client's request for a file, taken apart and checked, before anybody is asked anything.

use std::borrow::Cow;
use std::time::Duration;

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::media_id::RemoteFile;
use super::remote_fetch::AllowRemote;
use super::route::{InvalidRoute, decode, query_values};
use super::thumbnail::{Thumbnail, ThumbnailMethod, ThumbnailSize};
use crate::limits::{MAX_FILE_NAME_BYTES, NOT_YET_UPLOADED_PATIENCE, NOT_YET_UPLOADED_PATIENCE_MAX};

/// A request for a file of some server: ours or another's.
///
/// Always: the server name and the media id passed their grammars, and a thumbnail has one of six sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaRoute {
    /// The file asked for.
    pub file: RemoteFile,
    /// The file itself, or a thumbnail of it.
    pub variant: MediaVariant,
    /// Under which generation of the client API it is asked for.
    pub generation: MediaGeneration,
    /// Whether the client lets it be fetched from its server.
    pub allow_remote: AllowRemote,
    /// Whether the client would follow a redirect. The bytes themselves always do.
    pub allow_redirect: bool,
    /// The name the client wants the file to have.
    pub file_name: Option<String>,
    /// How long to wait for a file that is not uploaded yet.
    pub patience: Duration,
}

/// A file, or a thumbnail of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaVariant {
    /// The file as it was uploaded.
    Download,
    /// A smaller picture of it.
    Thumbnail(Thumbnail),
}

/// The two generations of the media API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaGeneration {
    /// `/_matrix/client/v1/media/…`: asks for a token.
    Authenticated,
    /// `/_matrix/media/{v3,r0,v1}/…`: deprecated in Matrix 1.11, asks for none.
    Legacy,
}

/// The media paths, whatever the method; segments still percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaPath<'a> {
    generation: MediaGeneration,
    thumbnail: bool,
    server: &'a str,
    media_id: &'a str,
    file_name: Option<&'a str>,
}

impl MediaRoute {
    /// Says whether this request is for media, and for which.
    ///
    /// `Ok(None)`: it is not. Pure: no I/O. *Errors:* [`InvalidRoute`] where it is and a name or a parameter is not valid.
    /// *Panics:* never.
    ///
    /// ```
    /// use http::{Method, Uri};
    /// use portcullis::media::{MediaRoute, MediaVariant};
    ///
    /// let uri = Uri::from_static("/_matrix/client/v1/media/download/them.example/abc");
    /// let route = MediaRoute::classify(&Method::GET, &uri).unwrap().unwrap();
    /// assert_eq!(route.file.server.as_str(), "them.example");
    /// assert_eq!(route.variant, MediaVariant::Download);
    /// ```
    pub fn classify(method: &Method, uri: &Uri) -> Result<Option<Self>, InvalidRoute> {
        let reads = *method == Method::GET || *method == Method::HEAD;
        match MediaPath::of(uri.path()) {
            Some(path) if reads => Self::of(path, uri.query().unwrap_or_default()).map(Some),
            _ => Ok(None),
        }
    }

    fn of(path: MediaPath<'_>, query: &str) -> Result<Self, InvalidRoute> {
        let server = decode(path.server)?.parse().map_err(InvalidRoute::Server)?;
        let media_id = decode(path.media_id)?.parse().map_err(InvalidRoute::MediaId)?;
        let file_name = path.file_name.map(decode).transpose()?.map(Cow::into_owned);
        if file_name.as_ref().is_some_and(|name| name.len() > MAX_FILE_NAME_BYTES) {
            return Err(InvalidRoute::Parameter("fileName"));
        }
        let variant = if path.thumbnail { MediaVariant::Thumbnail(thumbnail(query)?) } else { MediaVariant::Download };
        Ok(Self {
            file: RemoteFile { server, media_id },
            variant,
            generation: path.generation,
            allow_remote: allow_remote(query),
            allow_redirect: flag(query, "allow_redirect")?.unwrap_or(false),
            file_name: file_name.filter(|name| !name.is_empty()),
            patience: patience(query)?,
        })
    }
}

impl<'a> MediaPath<'a> {
    /// Recognises a path under every spelling of its fixed segments.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        let is = |segment: &str, word: &str| percent_decode_str(segment).eq(word.bytes());
        let mut segments = path.strip_prefix('/')?.split('/');
        let mut next = || segments.next();
        if !is(next()?, "_matrix") {
            return None;
        }
        let (first, second) = (next()?, next()?);
        let generation = if is(first, "client") && is(second, "v1") {
            is(next()?, "media").then_some(MediaGeneration::Authenticated)?
        } else if is(first, "media") && ["v3", "r0", "v1"].iter().any(|version| is(second, version)) {
            MediaGeneration::Legacy
        } else {
            return None;
        };
        let what = next()?;
        let thumbnail = is(what, "thumbnail");
        if !thumbnail && !is(what, "download") {
            return None;
        }
        let (server, media_id, file_name, rest) = (next()?, next()?, next(), next());
        let empty = server.is_empty() || media_id.is_empty();
        let too_long = rest.is_some() || (thumbnail && file_name.is_some());
        (!empty && !too_long).then_some(Self { generation, thumbnail, server, media_id, file_name })
    }
}

/// Absent or `true` allows; whatever else there is, or if there are several that differ, refuses.
fn allow_remote(query: &str) -> AllowRemote {
    let allowed = query_values(query, "allow_remote").all(|value| value.is_ok_and(|value| value == "true"));
    if allowed { AllowRemote::Yes } else { AllowRemote::No }
}

fn thumbnail(query: &str) -> Result<Thumbnail, InvalidRoute> {
    // There are no pictures beyond a `u32`: whatever is asked, the largest size is the largest.
    let pixels = |asked| u32::try_from(asked).unwrap_or(u32::MAX);
    let side = |name| number(query, name)?.map(pixels).ok_or(InvalidRoute::Parameter(name));
    let (width, height) = (side("width")?, side("height")?);
    let method = match only(query, "method")?.as_deref() {
        None | Some("scale") => ThumbnailMethod::Scale,
        Some("crop") => ThumbnailMethod::Crop,
        Some(_) => return Err(InvalidRoute::Parameter("method")),
    };
    let animated = flag(query, "animated")?.unwrap_or(false);
    Ok(Thumbnail::no_smaller_than(ThumbnailSize { width, height, method }, animated))
}

fn patience(query: &str) -> Result<Duration, InvalidRoute> {
    let asked = number(query, "timeout_ms")?.map(Duration::from_millis);
    Ok(asked.map_or(NOT_YET_UPLOADED_PATIENCE, |asked| asked.min(NOT_YET_UPLOADED_PATIENCE_MAX)))
}

fn number(query: &str, name: &'static str) -> Result<Option<u64>, InvalidRoute> {
    let Some(text) = only(query, name)? else { return Ok(None) };
    // The parser alone would take a sign.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = digits.then(|| text.parse().ok()).flatten();
    value.map(Some).ok_or(InvalidRoute::Parameter(name))
}

fn flag(query: &str, name: &'static str) -> Result<Option<bool>, InvalidRoute> {
    match only(query, name)?.as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(InvalidRoute::Parameter(name)),
    }
}

/// The one value of a parameter; two would be read in two ways.
fn only(query: &str, name: &'static str) -> Result<Option<String>, InvalidRoute> {
    let mut values = query_values(query, name);
    let value = values.next().transpose()?;
    if values.next().is_some() {
        return Err(InvalidRoute::Parameter(name));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(uri: &str) -> Result<Option<MediaRoute>, InvalidRoute> {
        MediaRoute::classify(&Method::GET, &uri.parse().unwrap())
    }

    fn route(uri: &str) -> MediaRoute {
        classify(uri).unwrap().unwrap()
    }

    const DOWNLOAD: &str = "/_matrix/client/v1/media/download/them.example/abc";
    const THUMBNAIL: &str = "/_matrix/client/v1/media/thumbnail/them.example/abc";

    #[test]
    fn every_media_path_is_known_under_every_spelling() {
        for (prefix, generation) in [
            ("/_matrix/client/v1/media", MediaGeneration::Authenticated),
            ("/_matrix/media/v3", MediaGeneration::Legacy),
            ("/_matrix/media/r0", MediaGeneration::Legacy),
            ("/_matrix/media/v1", MediaGeneration::Legacy),
            ("/%5fmatrix/m%65dia/v3", MediaGeneration::Legacy),
        ] {
            for rest in [
                "download/them.example:8449/a_-9",
                "d%6fwnload/them.example%3A8449/a_-9",
                "download/them.example:8449/a_-9/x.png",
            ] {
                let found = route(&format!("{prefix}/{rest}"));
                assert_eq!(found.file.server.as_str(), "them.example:8449");
                assert_eq!(found.file.media_id.as_str(), "a_-9");
                assert_eq!((found.generation, found.variant), (generation, MediaVariant::Download), "{prefix}/{rest}");
            }
            let found = route(&format!("{prefix}/thumbnail/them.example/abc?width=64&height=64"));
            assert!(matches!(found.variant, MediaVariant::Thumbnail(_)), "{prefix}");
        }
    }

    #[test]
    fn other_paths_and_methods_are_not_media() {
        for path in [
            "/_matrix/client/v3/media/download/them.example/abc",
            "/_matrix/client/v1/media/download/them.example",
            "/_matrix/client/v1/media/download/them.example/",
            "/_matrix/client/v1/media/download//abc",
            "/_matrix/client/v1/media/download/them.example/abc/x/y",
            "/_matrix/client/v1/media/thumbnail/them.example/abc/x",
            "/_matrix/client/v1/media/config",
            "/_matrix/client/v1/media/preview_url",
            "/_matrix/media/v2/download/them.example/abc",
            "/_matrix/federation/v1/media/download/abc",
        ] {
            assert_eq!(classify(path), Ok(None), "{path}");
        }
        assert_eq!(MediaRoute::classify(&Method::POST, &DOWNLOAD.parse().unwrap()), Ok(None));
        assert!(MediaRoute::classify(&Method::HEAD, &DOWNLOAD.parse().unwrap()).unwrap().is_some());
    }

    #[test]
    fn br44_names_that_could_leave_a_folder_are_refused() {
        for media_id in ["..%2f..%2fx", "%2e%2e", "a%00", "a.b", "a%2fb", &"a".repeat(10_000)] {
            let refused = classify(&format!("/_matrix/client/v1/media/download/them.example/{media_id}"));
            assert!(matches!(refused, Err(InvalidRoute::MediaId(_))), "{media_id}: {refused:?}");
        }
        for server in ["..", "a%2fb", "user@them.example", "127.1", "them.example:0"] {
            let refused = classify(&format!("/_matrix/client/v1/media/download/{server}/abc"));
            assert!(matches!(refused, Err(InvalidRoute::Server(_))), "{server}: {refused:?}");
        }
    }

    #[test]
    fn r05_r06_absent_or_true_allows_remote_and_anything_else_does_not() {
        for (query, expected) in [
            ("", AllowRemote::Yes),
            ("?allow_remote=true", AllowRemote::Yes),
            ("?allow_remote=true&allow_remote=true", AllowRemote::Yes),
            ("?allow_remote=false", AllowRemote::No),
            ("?allow_remote=", AllowRemote::No),
            ("?allow_remote", AllowRemote::No),
            ("?allow_remote=TRUE", AllowRemote::No),
            ("?allow_remote=1", AllowRemote::No),
            ("?allow_remote=true&allow_remote=false", AllowRemote::No),
            ("?allow_remote=false&allow_remote=true", AllowRemote::No),
            ("?%61llow_remote=false", AllowRemote::No),
            ("?allow_remote=%ff", AllowRemote::No),
        ] {
            assert_eq!(route(&format!("{DOWNLOAD}{query}")).allow_remote, expected, "{query}");
        }
    }

    #[test]
    fn parameters_are_checked_and_bounded() {
        for (query, parameter) in [
            ("?timeout_ms=-1", "timeout_ms"),
            ("?timeout_ms=%2B1", "timeout_ms"),
            ("?timeout_ms=x", "timeout_ms"),
            ("?timeout_ms=", "timeout_ms"),
            ("?timeout_ms=99999999999999999999", "timeout_ms"),
            ("?timeout_ms=1&timeout_ms=2", "timeout_ms"),
            ("?allow_redirect=maybe", "allow_redirect"),
        ] {
            assert_eq!(classify(&format!("{DOWNLOAD}{query}")), Err(InvalidRoute::Parameter(parameter)), "{query}");
        }
        for (query, parameter) in [
            ("", "width"),
            ("?width=32", "height"),
            ("?width=32&height=-1", "height"),
            ("?width=a&height=1", "width"),
            ("?width=1&width=2&height=1", "width"),
            ("?width=1&height=1&method=zoom", "method"),
            ("?width=1&height=1&animated=yes", "animated"),
        ] {
            assert_eq!(classify(&format!("{THUMBNAIL}{query}")), Err(InvalidRoute::Parameter(parameter)), "{query}");
        }
        let patience = |query: &str| route(&format!("{DOWNLOAD}{query}")).patience;
        assert_eq!(patience(""), Duration::from_secs(20));
        assert_eq!(patience("?timeout_ms=0"), Duration::ZERO);
        assert_eq!(patience("?timeout_ms=5000"), Duration::from_secs(5));
        assert_eq!(patience("?timeout_ms=18446744073709551615"), Duration::from_secs(60));
    }

    #[test]
    fn a_file_name_is_decoded_once_and_bounded() {
        assert_eq!(route(&format!("{DOWNLOAD}/caf%C3%A9%20%2525.png")).file_name.unwrap(), "caf\u{e9} %25.png");
        assert_eq!(route(&format!("{DOWNLOAD}/")).file_name, None);
        let long = "a".repeat(MAX_FILE_NAME_BYTES + 1);
        assert_eq!(classify(&format!("{DOWNLOAD}/{long}")), Err(InvalidRoute::Parameter("fileName")));
        assert_eq!(classify(&format!("{DOWNLOAD}/%ff")), Err(InvalidRoute::Encoding));
    }
}
