//! What a file is said to be: what its origin claims, if that is a media type at all, and else just bytes.

use http::HeaderValue;

use crate::limits::MAX_CONTENT_TYPE_BYTES;

/// Bytes of which nothing is known.
const OCTET_STREAM: &str = "application/octet-stream";

/// Types a browser may show in place: none of them can run a script. *Source: Matrix v1.19, serving inline content.*
const SAFE_INLINE: [&str; 26] = [
    "text/css",
    "text/plain",
    "text/csv",
    "application/json",
    "application/ld+json",
    "image/jpeg",
    "image/gif",
    "image/png",
    "image/apng",
    "image/webp",
    "image/avif",
    "video/mp4",
    "video/webm",
    "video/ogg",
    "video/quicktime",
    "audio/mp4",
    "audio/webm",
    "audio/aac",
    "audio/mpeg",
    "audio/ogg",
    "audio/wave",
    "audio/wav",
    "audio/x-wav",
    "audio/x-pn-wav",
    "audio/flac",
    "audio/x-flac",
];

/// What a thumbnail may be. *Source: Matrix v1.19, thumbnails.*
const THUMBNAILS: [&str; 5] = ["image/jpeg", "image/png", "image/apng", "image/gif", "image/webp"];

/// The `Content-Type` to send: the claim as it stands, or `application/octet-stream` where it is missing or no media type.
pub(super) fn content_type(claimed: Option<&str>) -> HeaderValue {
    claimed
        .map(trimmed)
        .filter(|claimed| is_media_type(claimed))
        .and_then(|claimed| HeaderValue::from_str(claimed).ok())
        .unwrap_or(HeaderValue::from_static(OCTET_STREAM))
}

/// Whether a browser may show it in place.
pub(super) fn is_safe_inline(claimed: Option<&str>) -> bool {
    claimed.is_some_and(|claimed| is_one_of(claimed, &SAFE_INLINE))
}

/// Whether what is claimed to be a thumbnail is of a type that thumbnails have. What is not is no answer to the question.
pub(crate) fn thumbnail_type_is_one(claimed: &str) -> bool {
    is_one_of(claimed, &THUMBNAILS)
}

fn is_one_of(claimed: &str, types: &[&str]) -> bool {
    let claimed = trimmed(claimed);
    let essence = claimed.split(';').next().map(trimmed).unwrap_or_default();
    // What is sent is what was judged: a claim that is replaced as a whole is not one of them.
    is_media_type(claimed) && types.iter().any(|known| known.eq_ignore_ascii_case(essence))
}

/// `type/subtype` and parameters, as RFC 9110 (8.3.1) writes them.
fn is_media_type(text: &str) -> bool {
    let shaped = || {
        let (kind, rest) = text.split_once('/')?;
        let (subtype, rest) = token(rest)?;
        (is_token(kind) && !subtype.is_empty() && are_parameters(rest)).then_some(())
    };
    text.len() <= MAX_CONTENT_TYPE_BYTES && shaped().is_some()
}

/// `; name=value` as often as there is; an empty one is allowed.
fn are_parameters(mut rest: &str) -> bool {
    loop {
        rest = rest.trim_start_matches(BLANKS);
        let Some(parameter) = rest.strip_prefix(';') else { return rest.is_empty() };
        rest = parameter.trim_start_matches(BLANKS);
        if rest.is_empty() || rest.starts_with(';') {
            continue;
        }
        let after =
            token(rest).filter(|(name, _)| !name.is_empty()).and_then(|(_, rest)| value(rest.strip_prefix('=')?));
        let Some(after) = after else { return false };
        rest = after;
    }
}

/// What follows a token or a quoted string.
fn value(text: &str) -> Option<&str> {
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text).filter(|(value, _)| !value.is_empty()).map(|(_, rest)| rest);
    };
    let mut escaped = false;
    for (at, character) in quoted.char_indices() {
        match character {
            _ if !matches!(character, '\t' | ' '..='~') => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return quoted.get(at + 1..),
            _ => {}
        }
    }
    None
}

/// The token a text begins with, maybe empty, and what follows it.
fn token(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(text.bytes().take_while(|byte| is_token_byte(*byte)).count())
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

const BLANKS: [char; 2] = [' ', '\t'];

fn trimmed(text: &str) -> &str {
    text.trim_matches(BLANKS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(claimed: &str) -> String {
        content_type(Some(claimed)).to_str().unwrap().to_owned()
    }

    #[test]
    fn a_media_type_is_sent_as_it_was_claimed() {
        for claimed in [
            "image/png",
            "Image/PNG",
            "text/plain; charset=utf-8",
            "text/plain;charset=\"utf-8\"",
            "text/plain; a=b ; c=\"d \\\" ; e\"",
            "text/plain;",
            "text/plain;; a=b",
            "application/vnd.oasis.opendocument.text",
            "application/ld+json",
            "x/y",
        ] {
            assert_eq!(sent(claimed), claimed);
        }
        assert_eq!(sent("  image/png\t"), "image/png");
    }

    #[test]
    fn br40_what_is_missing_or_garbage_is_bytes_and_never_shown_in_place() {
        assert_eq!(content_type(None), OCTET_STREAM);
        assert!(!is_safe_inline(None));
        for claimed in [
            "",
            " ",
            "garbage",
            "/",
            "image/",
            "/png",
            "image/png/x",
            "image /png",
            "image/p ng",
            "image/png x",
            "image/png, text/html",
            "image/png; charset",
            "image/png; =x",
            "image/png; a=",
            "image/png; a=b c",
            "image/png; a=\"b",
            "image/png; a=\"b\"c",
            "image/png; a=\"\u{e9}\"",
            "image/png\r\nSet-Cookie: a=b",
            "image/png; a=\"\r\n\"",
            "im\u{e4}ge/png",
            &format!("image/png; a={}", "b".repeat(MAX_CONTENT_TYPE_BYTES)),
        ] {
            assert_eq!(sent(claimed), OCTET_STREAM, "{claimed:?}");
            assert!(!is_safe_inline(Some(claimed)), "{claimed:?}");
            assert!(!thumbnail_type_is_one(claimed), "{claimed:?}");
        }
    }

    #[test]
    fn w03_the_safe_list_looks_at_neither_letter_case_nor_parameters() {
        for safe in
            ["image/png", "TEXT/Plain", "text/plain; charset=utf-8", "audio/x-pn-wav", " video/mp4;codecs=\"a, b\""]
        {
            assert!(is_safe_inline(Some(safe)), "{safe}");
        }
        for unsafe_type in [
            "image/svg+xml",
            "text/html",
            "text/html; x=image/png",
            "application/pdf",
            "application/xml",
            "text/xml",
            "application/xhtml+xml",
            "text/javascript",
            "application/octet-stream",
            "image/pngx",
            "x-image/png",
        ] {
            assert!(!is_safe_inline(Some(unsafe_type)), "{unsafe_type}");
        }
    }

    #[test]
    fn a_thumbnail_is_one_of_five_pictures() {
        for picture in ["image/jpeg", "image/png", "image/apng", "IMAGE/GIF", "image/webp; q=1"] {
            assert!(thumbnail_type_is_one(picture), "{picture}");
        }
        for other in ["image/svg+xml", "image/avif", "text/plain", "text/html", "application/octet-stream"] {
            assert!(!thumbnail_type_is_one(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_claimed_what_is_sent_is_short_visible_and_a_media_type(claimed in "\\PC{0,40}(/[a-z+]{0,5})?(;[ -~]{0,20})?") {
            let sent = sent(&claimed);
            prop_assert!(sent.len() <= MAX_CONTENT_TYPE_BYTES && is_media_type(&sent));
            prop_assert!(sent == OCTET_STREAM || sent == trimmed(&claimed));
            if is_safe_inline(Some(&claimed)) {
                let essence = sent.split(';').next().unwrap().trim().to_ascii_lowercase();
                prop_assert!(SAFE_INLINE.contains(&essence.as_str()));
            }
        }
    }
}
