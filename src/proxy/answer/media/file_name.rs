//! The name a file is offered under: read from what its origin sent, made harmless, and written so that every browser
//! reads it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::limits::{MAX_CONTENT_DISPOSITION_BYTES, MAX_FILE_NAME_BYTES};

/// Longest ending that a name keeps when it is cut, its dot included.
const MAX_EXTENSION_BYTES: usize = 16;

/// All but the `attr-char` of RFC 5987.
const EXTENDED_VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// A name that means a file and nothing else.
///
/// Never: empty, longer than [`MAX_FILE_NAME_BYTES`], with a control character, a path separator or a character that turns
/// the direction of writing (`whatever_is_sent_a_name_is_harmless`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileName(String);

impl FileName {
    /// The name in what somebody wrote; `None` if nothing is left of it.
    pub(super) fn of(written: &str) -> Option<Self> {
        let safe: String = written.chars().filter(|character| !is_invisible(*character)).map(without_path).collect();
        let safe = cut(safe.trim());
        // Dots alone are a folder.
        (!safe.trim_matches(['.', ' ']).is_empty()).then_some(Self(safe))
    }

    /// The name in a `Content-Disposition`, as RFC 6266 has it and as servers write it.
    ///
    /// An extended name (`filename*`) that can be read wins. *Panics:* never.
    pub(super) fn in_disposition(header: &str) -> Option<Self> {
        if header.len() > MAX_CONTENT_DISPOSITION_BYTES {
            return None;
        }
        let (mut plain, mut extended) = (None, None);
        for (name, value) in Parameters(header) {
            if name.eq_ignore_ascii_case("filename") {
                plain = plain.or(Some(value));
            } else if name.eq_ignore_ascii_case("filename*") {
                extended = extended.or_else(|| extended_value(&value));
            }
        }
        extended.and_then(|name| Self::of(&name)).or_else(|| Self::of(&plain?))
    }

    /// The `filename` parameter and, where that cannot say it all, the `filename*` parameter.
    pub(super) fn parameters(&self) -> String {
        let plain: String = self.0.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
        if plain == self.0 {
            return format!("; filename=\"{plain}\"");
        }
        format!("; filename=\"{plain}\"; filename*=utf-8''{}", utf8_percent_encode(&self.0, EXTENDED_VALUE))
    }
}

/// `name=value` after each `;`, and before the first where the type is left out. Nothing in it is an error: what cannot be
/// read is passed over.
struct Parameters<'a>(&'a str);

impl<'a> Iterator for Parameters<'a> {
    type Item = (&'a str, String);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let end = self.0.find(['=', ';']).unwrap_or(self.0.len());
            let (name, rest) = self.0.split_at_checked(end)?;
            let Some(value) = rest.strip_prefix('=') else {
                self.0 = rest.strip_prefix(';').unwrap_or_default();
                continue;
            };
            let (value, rest) = read_value(value.trim_start());
            self.0 = rest;
            return Some((name.trim(), value));
        }
        None
    }
}

/// A value, quoted or not, and what follows the next `;`. A quoted one without an end ends with the header.
fn read_value(text: &str) -> (String, &str) {
    let after_semicolon = |rest: &'_ str| rest.find(';').map_or(rest.len(), |at| at + 1);
    let Some(quoted) = text.strip_prefix('"') else {
        let end = after_semicolon(text);
        let (value, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        return (value.trim_end_matches(';').trim().to_owned(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => value.extend(characters.next()),
            _ => value.push(character),
        }
    }
    let rest = characters.as_str();
    (value, rest.get(after_semicolon(rest)..).unwrap_or_default())
}

/// `charset'language'percent-encoded` of RFC 5987, in the two character sets it knows.
fn extended_value(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_language, encoded) = rest.split_once('\'')?;
    let bytes: Vec<u8> = percent_decode_str(encoded).collect();
    if charset.eq_ignore_ascii_case("utf-8") {
        String::from_utf8(bytes).ok()
    } else if charset.eq_ignore_ascii_case("iso-8859-1") {
        Some(bytes.into_iter().map(char::from).collect())
    } else {
        None
    }
}

/// Controls, line ends, and what shows a name in another order than it has (`exe.gnp` for `png.exe`) or hides in it.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn without_path(character: char) -> char {
    if matches!(character, '/' | '\\') { '_' } else { character }
}

/// What a quoted string holds without an escape; some browsers undo percent escapes there.
fn is_plain(character: char) -> bool {
    matches!(character, ' '..='~') && !matches!(character, '"' | '\\' | '%')
}

/// At most [`MAX_FILE_NAME_BYTES`], with its ending: that says what opens it.
fn cut(name: &str) -> String {
    if name.len() <= MAX_FILE_NAME_BYTES {
        return name.to_owned();
    }
    let ending = name.rfind('.').and_then(|at| name.get(at..)).filter(|ending| ending.len() <= MAX_EXTENSION_BYTES);
    let ending = ending.unwrap_or_default();
    let stem_end = name.floor_char_boundary(MAX_FILE_NAME_BYTES.saturating_sub(ending.len()));
    let stem = name.get(..stem_end).unwrap_or_default().trim_end();
    format!("{stem}{ending}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(header: &str) -> Option<String> {
        FileName::in_disposition(header).map(|name| name.0)
    }

    fn written(name: &str) -> String {
        FileName::of(name).unwrap().parameters()
    }

    #[test]
    fn a_name_is_read_in_every_form_that_servers_write() {
        for (header, name) in [
            ("attachment; filename=cat.png", "cat.png"),
            ("attachment;filename=\"cat.png\"", "cat.png"),
            ("inline; FileName = \"a cat.png\" ; size=3", "a cat.png"),
            ("inline; filename=a cat.png; size=3", "a cat.png"),
            ("inline; filename=\"a; b=\\\"c\\\".png\"; size=3", "a; b=\"c\".png"),
            ("attachment; filename*=utf-8''caf%C3%A9.png", "caf\u{e9}.png"),
            ("attachment; filename*=UTF-8'de'caf%c3%a9.png; filename=cafe.png", "caf\u{e9}.png"),
            ("attachment; filename=cafe.png; filename*=UTF-8''caf%C3%A9.png", "caf\u{e9}.png"),
            ("attachment; filename*=iso-8859-1''caf%E9.png", "caf\u{e9}.png"),
            ("attachment; filename*=\"utf-8''caf%C3%A9.png\"", "caf\u{e9}.png"),
            ("attachment; filename*=koi8-r''x.png; filename=y.png", "y.png"),
            ("attachment; filename*=utf-8''%ff; filename=y.png", "y.png"),
            ("attachment; filename*=utf-8''; filename=y.png", "y.png"),
            ("attachment; filename*=y.txt; filename=y.png", "y.png"),
            ("attachment; filename=first.png; filename=second.png", "first.png"),
            ("attachment; filename=\"caf\u{e9}.png\"", "caf\u{e9}.png"),
            ("filename=bare.png", "bare.png"),
            ("attachment; filename=\"no end", "no end"),
            ("attachment; filename=\"a\" junk; x=y", "a"),
            ("form-data; name=\"filename=x\"; filename=\"y\"", "y"),
        ] {
            assert_eq!(read(header).as_deref(), Some(name), "{header}");
        }
    }

    #[test]
    fn where_there_is_no_name_there_is_none() {
        let long = format!("attachment; filename={}", "a".repeat(MAX_CONTENT_DISPOSITION_BYTES));
        for header in [
            "",
            ";",
            "=",
            ";=;=",
            "attachment",
            "attachment; filename",
            "attachment; filename=",
            "attachment; filename=\"\"",
            "attachment; filename=\"..\"",
            "attachment; filename=\". .\"",
            "attachment; filename=\"\\",
            "attachment; filename=\"\u{1}\u{202e}\"",
            "attachment; name=x",
            "attachment; filenames=x",
            &long,
        ] {
            assert_eq!(read(header), None, "{header:?}");
        }
    }

    #[test]
    fn a_name_is_made_harmless() {
        for (name, safe) in [
            ("../../etc/passwd", ".._.._etc_passwd"),
            ("..\\..\\boot.ini", ".._.._boot.ini"),
            ("a\r\nSet-Cookie: b", "aSet-Cookie: b"),
            ("a\0\u{7f}\u{85}.png", "a.png"),
            ("gpj\u{202e}gnp.exe", "gpjgnp.exe"),
            ("a\u{2066}b\u{2069}\u{200b}\u{feff}c", "abc"),
            ("  a.png ", "a.png"),
            ("\u{65e5}\u{672c}.txt", "\u{65e5}\u{672c}.txt"),
        ] {
            assert_eq!(FileName::of(name).map(|name| name.0).as_deref(), Some(safe), "{name:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_keeps_its_ending() {
        for (name, ending) in
            [(format!("{}.png", "\u{e9}".repeat(200)), ".png"), (format!("a.{}", "b".repeat(400)), "b")]
        {
            let cut = FileName::of(&name).unwrap().0;
            assert!(cut.len() <= MAX_FILE_NAME_BYTES && cut.len() >= MAX_FILE_NAME_BYTES - 1, "{}", cut.len());
            assert!(cut.ends_with(ending), "{cut}");
        }
    }

    #[test]
    fn a_name_is_written_for_old_browsers_and_new_ones() {
        for (name, parameters) in [
            ("cat.png", "; filename=\"cat.png\""),
            ("a cat; 'b'.png", "; filename=\"a cat; 'b'.png\""),
            ("caf\u{e9}.png", "; filename=\"caf_.png\"; filename*=utf-8''caf%C3%A9.png"),
            ("a\"b.png", "; filename=\"a_b.png\"; filename*=utf-8''a%22b.png"),
            ("100%41.png", "; filename=\"100_41.png\"; filename*=utf-8''100%2541.png"),
            ("\u{65e5} (1).txt", "; filename=\"_ (1).txt\"; filename*=utf-8''%E6%97%A5%20%281%29.txt"),
        ] {
            assert_eq!(written(name), parameters);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_sent_a_name_is_harmless(header in prop::collection::vec(any::<char>(), 0..80), named in any::<bool>()) {
            let start = if named { "attachment; filename=" } else { "" };
            if let Some(name) = FileName::in_disposition(&(start.to_owned() + &String::from_iter(header))) {
                let harmless = |character: char| !is_invisible(character) && !matches!(character, '/' | '\\');
                prop_assert!(name.0.chars().all(harmless) && !name.0.is_empty() && name.0.len() <= MAX_FILE_NAME_BYTES);
                prop_assert!(name.parameters().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            }
        }

        #[test]
        fn what_is_written_is_read_back(name in "\\PC{1,60}") {
            if let Some(name) = FileName::of(&name) {
                let header = format!("attachment{}", name.parameters());
                prop_assert_eq!(FileName::in_disposition(&header), Some(name));
            }
        }
    }
}
