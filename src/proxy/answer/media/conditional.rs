//! Whether a client holds the file already: `If-None-Match` and `If-Range`, as RFC 9110 reads them.

/// Whether what is in a client's `If-None-Match` is the file with the entity tag `etag`: then 304 will do.
///
/// Tags are compared weakly. `*` means "whatever you have", so it is the file only where one is `stored`. Garbage matches
/// nothing. *Panics:* never.
pub(crate) fn is_unchanged(if_none_match: &[u8], etag: &str, stored: bool) -> bool {
    let header = if_none_match.trim_ascii();
    if header == b"*" {
        return stored;
    }
    let mut rest = header;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after;
            continue;
        }
        let Some((tag, after)) = tag(rest) else { return false };
        let after = after.trim_ascii_start();
        // A tag that something but a comma follows is none.
        let ends = after.is_empty() || after.starts_with(b",");
        if ends && tag == etag.as_bytes() {
            return true;
        }
        if !ends || after.is_empty() {
            return false;
        }
        rest = after;
    }
}

/// Whether a range may be sent although the client made it conditional: its `If-Range` is exactly this file's entity tag. A
/// weak tag, a date and garbage are not: then the whole is sent.
pub(crate) fn range_holds(if_range: Option<&[u8]>, etag: &str) -> bool {
    if_range.is_none_or(|held| held.trim_ascii() == etag.as_bytes() && etag.starts_with('"'))
}

/// The opaque tag, quotes and all, that a list begins with, and what follows it.
fn tag(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"W/").unwrap_or(text);
    let inside = text.strip_prefix(b"\"")?;
    let length = inside.iter().position(|byte| *byte == b'"')?;
    text.split_at_checked(length.saturating_add(2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ETAG: &str = "\"abc\"";

    #[test]
    fn a_tag_is_found_in_any_list_weak_or_strong() {
        for header in [
            "\"abc\"",
            "W/\"abc\"",
            " \"abc\" ",
            "\"x\", \"abc\"",
            "\"x\",W/\"abc\",\"y\"",
            "\"a,b\",\"abc\"",
            ",, \"abc\"",
            "\"\",\"abc\"",
        ] {
            assert!(is_unchanged(header.as_bytes(), ETAG, false), "{header}");
        }
    }

    #[test]
    fn anything_else_is_not_the_file() {
        for header in [
            "",
            ",",
            "abc",
            "\"abd\"",
            "\"abc",
            "abc\"",
            "\"abcd\"",
            "\"\"",
            "w/\"abc\"",
            "\"x\" \"abc\"",
            "\"abc\"x",
            "\"abc\" \"",
            "x, \"abc\"",
            "*, \"x\"",
        ] {
            assert!(!is_unchanged(header.as_bytes(), ETAG, true), "{header}");
        }
    }

    #[test]
    fn a_star_is_what_is_stored() {
        assert!(is_unchanged(b" * ", ETAG, true));
        assert!(!is_unchanged(b"*", ETAG, false));
    }

    #[test]
    fn a_range_holds_for_the_very_same_file_alone() {
        for (held, holds) in [
            (None, true),
            (Some("\"abc\""), true),
            (Some(" \"abc\""), true),
            (Some("W/\"abc\""), false),
            (Some("\"abd\""), false),
            (Some("abc"), false),
            (Some(""), false),
            (Some("*"), false),
            (Some("Wed, 21 Oct 2015 07:28:00 GMT"), false),
        ] {
            assert_eq!(range_holds(held.map(str::as_bytes), ETAG), holds, "{held:?}");
        }
        assert!(!range_holds(Some(b"W/\"abc\""), "W/\"abc\""), "a weak tag proves no range");
    }

    proptest! {
        #[test]
        fn a_list_has_the_tag_or_has_it_not(tags in prop::collection::vec("(W/)?\"[a-c,]{0,3}\"", 1..6)) {
            let expected = tags.iter().any(|tag| tag.trim_start_matches("W/") == ETAG);
            prop_assert_eq!(is_unchanged(tags.join(", ").as_bytes(), ETAG, false), expected);
        }

        #[test]
        fn bytes_of_any_kind_end(header in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = is_unchanged(&header, ETAG, true);
        }
    }
}
