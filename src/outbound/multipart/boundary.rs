//! [`Boundary`]: what separates the parts of a multipart answer, as its `Content-Type` says.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::limits::MAX_BOUNDARY_BYTES;

/// A boundary: 1 to 70 printable ASCII characters, the last of them no blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boundary(Box<str>);

const MULTIPART_MIXED: &str = "multipart/mixed";

impl Boundary {
    /// The boundary of an answer with these headers, if it is `multipart/mixed` and says one, once.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut types = headers.get_all(CONTENT_TYPE).iter();
        match (types.next(), types.next()) {
            (Some(content_type), None) => Self::in_content_type(content_type.as_bytes()),
            _ => None,
        }
    }

    /// The boundary in the value of a `Content-Type`.
    pub(crate) fn in_content_type(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (essence, mut rest) = text.split_once(';')?;
        if !without_blanks(essence).eq_ignore_ascii_case(MULTIPART_MIXED) {
            return None;
        }
        let mut found = None;
        while let Some(at) = rest.find(|c| !matches!(c, ' ' | '\t' | ';')) {
            let (parameter, after) = parameter(rest.get(at..)?)?;
            // Two of them would be read in two ways.
            if parameter.name.eq_ignore_ascii_case("boundary") && found.replace(parameter.value).is_some() {
                return None;
            }
            rest = after;
        }
        found.and_then(Self::checked)
    }

    fn checked(text: String) -> Option<Self> {
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        let fits = (1..=MAX_BOUNDARY_BYTES).contains(&text.len());
        (printable && fits && !text.ends_with(' ')).then(|| Self(text.into()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

struct Parameter<'a> {
    name: &'a str,
    value: String,
}

/// The parameter that `text` begins with, and what follows it.
fn parameter(text: &str) -> Option<(Parameter<'_>, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = without_blanks(name);
    if name.contains([';', ' ', '\t', '"']) {
        return None;
    }
    let value = value.trim_start_matches([' ', '\t']);
    let (value, after) = if let Some(quoted) = value.strip_prefix('"') {
        unquoted(quoted)?
    } else {
        let (token, after) = value.split_at(value.find(';').unwrap_or(value.len()));
        let token = without_blanks(token);
        (!token.contains([' ', '\t', '"'])).then(|| (token.to_owned(), after))?
    };
    let after = after.trim_start_matches([' ', '\t']);
    (after.is_empty() || after.starts_with(';')).then_some((Parameter { name, value }, after))
}

/// The text up to the closing quote, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next()?),
            other => value.push(other),
        }
    }
}

fn without_blanks(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(content_type: &str) -> Option<String> {
        Boundary::in_content_type(content_type.as_bytes()).map(|boundary| boundary.as_str().to_owned())
    }

    #[test]
    fn x12_a_boundary_is_read_however_it_is_written() {
        let longest = "b".repeat(MAX_BOUNDARY_BYTES);
        for (content_type, expected) in [
            ("multipart/mixed; boundary=abc", "abc"),
            ("multipart/mixed;boundary=abc", "abc"),
            ("MULTIPART/Mixed; BOUNDARY=aBc", "aBc"),
            (" multipart/mixed ; boundary = abc ", "abc"),
            ("multipart/mixed; boundary=\"abc\"", "abc"),
            ("multipart/mixed; boundary = \"a'()+_,-./:=? b\" ; x=y", "a'()+_,-./:=? b"),
            ("multipart/mixed; boundary=\"a;b\"", "a;b"),
            (r#"multipart/mixed; boundary="a\"b""#, "a\"b"),
            ("multipart/mixed; charset=utf-8; boundary=abc; type=\"a;boundary=no\"", "abc"),
            ("multipart/mixed;; boundary=abc;", "abc"),
            ("multipart/mixed; boundary=----=_Part_1/2:3", "----=_Part_1/2:3"),
            (&format!("multipart/mixed; boundary={longest}"), &longest),
        ] {
            assert_eq!(boundary(content_type).as_deref(), Some(expected), "{content_type}");
        }
    }

    #[test]
    fn x10_whatever_else_a_content_type_says_has_no_boundary() {
        for content_type in [
            "",
            "multipart/mixed",
            "multipart/mixed;",
            "multipart/mixed; boundary",
            "multipart/mixed; boundary=",
            "multipart/mixed; boundary=\"\"",
            "multipart/mixed; boundary=\"abc",
            "multipart/mixed; boundary=\"abc\\",
            "multipart/mixed; boundary=\"abc\"d",
            "multipart/mixed; boundary=\"abc \"",
            "multipart/mixed; boundary=a b",
            "multipart/mixed; boundary=a; boundary=b",
            "multipart/mixed; boundary=a; boundary=a",
            "multipart/mixed; boundary=\u{e9}",
            "multipart/mixed; boundary=\"a\tb\"",
            "multipart/form-data; boundary=abc",
            "multipart/mixedx; boundary=abc",
            "application/json; boundary=abc",
            &format!("multipart/mixed; boundary={}", "b".repeat(MAX_BOUNDARY_BYTES + 1)),
        ] {
            assert_eq!(boundary(content_type), None, "{content_type}");
        }
        assert_eq!(Boundary::in_content_type(b"multipart/mixed; boundary=a; x=\xff"), None);
    }

    #[test]
    fn two_content_types_are_none() {
        let one = (CONTENT_TYPE, "multipart/mixed; boundary=abc".parse().unwrap());
        assert!(Boundary::of(&HeaderMap::from_iter([one.clone()])).is_some());
        let mut twice = HeaderMap::from_iter([one.clone()]);
        twice.append(one.0, one.1);
        assert_eq!((Boundary::of(&twice), Boundary::of(&HeaderMap::new())), (None, None));
    }
}
