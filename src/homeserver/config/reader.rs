//! Reads a TOML table key by key and notes every mistake with its line, so that one start shows all of them.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// One mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as the operator named it.
    pub file: String,
    /// Where in the file, counted from 1; `None` for what is not there at all.
    pub line: Option<usize>,
    /// The key, with its tables: `federation.remote_timeout`. Empty where the file is not TOML.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(out, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(out, ": {}", self.key)?;
        }
        write!(out, ": {}", self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// The mistakes found so far.
pub(super) struct Mistakes<'a> {
    file: &'a str,
    text: &'a str,
    /// The file is not whole TOML: a key that seems to be missing may be in the part that could not be read.
    torn: bool,
    found: Vec<ConfigError>,
}

/// One table of the file, with its key as the operator sees it.
pub(super) struct Section<'a> {
    prefix: String,
    /// Where it begins; `None` for the file itself and for what is not there.
    at: Option<Range<usize>>,
    table: Option<&'a DeTable<'a>>,
    known: Vec<&'static str>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn of(file: &'a str, text: &'a str) -> Self {
        Self { file, text, torn: false, found: Vec::new() }
    }

    /// Notes what makes the file no TOML.
    pub(super) fn note_syntax(&mut self, errors: impl IntoIterator<Item = toml::de::Error>) {
        for error in errors {
            self.torn = true;
            self.note(
                error.span().or_else(|| first_without_a_place(self.text)),
                "",
                error.message().lines().collect::<Vec<_>>().join(" "),
            );
        }
    }

    pub(super) fn note(&mut self, at: Option<Range<usize>>, key: &str, problem: impl Into<String>) {
        let line = at.map(|span| self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1);
        self.found.push(ConfigError { file: self.file.into(), line, key: key.into(), problem: problem.into() });
    }

    pub(super) fn any(&self) -> bool {
        !self.found.is_empty()
    }

    /// All of them, in the order of the file.
    pub(super) fn into_sorted(mut self) -> Vec<ConfigError> {
        self.found.sort_by_key(|mistake| mistake.line.unwrap_or(usize::MAX));
        self.found
    }
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>) -> Self {
        Self { prefix: String::new(), at: None, table: Some(table), known: Vec::new() }
    }

    /// The key with its tables.
    pub(super) fn path(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.into() } else { format!("{}.{key}", self.prefix) }
    }

    /// A table inside this one; an absent one reads as empty.
    pub(super) fn section(&mut self, key: &'static str, mistakes: &mut Mistakes<'_>) -> Self {
        let prefix = self.path(key);
        let found = self.look_up(key);
        let at = found.as_ref().map(|(span, _)| span.clone());
        let table = found.and_then(|(span, value)| {
            value.as_table().or_else(|| {
                mistakes.note(Some(span), &prefix, format!("this is a table: write [{prefix}]"));
                None
            })
        });
        Self { prefix, at, table, known: Vec::new() }
    }

    /// Every `[[key]]` table.
    pub(super) fn sections(&mut self, key: &'static str, mistakes: &mut Mistakes<'_>) -> Vec<Self> {
        let prefix = self.path(key);
        let Some((span, value)) = self.look_up(key) else { return Vec::new() };
        let tables: Option<Vec<_>> = value
            .as_array()
            .and_then(|array| array.iter().map(|item| Some((item.span(), item.get_ref().as_table()?))).collect());
        let Some(tables) = tables else {
            mistakes.note(Some(span), &prefix, format!("these are tables: write [[{prefix}]]"));
            return Vec::new();
        };
        let section =
            |(span, table)| Self { prefix: prefix.clone(), at: Some(span), table: Some(table), known: Vec::new() };
        tables.into_iter().map(section).collect()
    }

    /// The value of `key` as `read` understands it; `None` if it is absent or wrong, and then the mistake is noted.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let (span, value) = self.look_up(key)?;
        read(value).map_err(|problem| mistakes.note(Some(span), &self.path(key), problem)).ok()
    }

    /// As [`Self::value`], for a key that has no default.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        if self.look_up(key).is_none() && !mistakes.torn {
            mistakes.note(self.line(), &self.path(key), "this key is missing and has no default");
        }
        self.value(key, mistakes, read)
    }

    /// The values of a list, each judged on its own; an absent list is empty.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
        mut read: impl FnMut(&DeValue<'_>) -> Result<T, String>,
    ) -> Vec<T> {
        let path = self.path(key);
        let Some((span, value)) = self.look_up(key) else { return Vec::new() };
        let Some(items) = value.as_array() else {
            mistakes.note(Some(span), &path, "this is a list: write it in brackets");
            return Vec::new();
        };
        let mut values = Vec::new();
        for item in items {
            match read(item.get_ref()) {
                Ok(value) => values.push(value),
                Err(problem) => mistakes.note(Some(item.span()), &path, problem),
            }
        }
        values
    }

    /// Where `key` stands, for a mistake that shows only later.
    pub(super) fn span_of(&mut self, key: &'static str) -> Option<Range<usize>> {
        self.look_up(key).map(|(span, _)| span)
    }

    /// Notes every key that nobody asked for.
    pub(super) fn end(self, mistakes: &mut Mistakes<'_>) {
        for (key, _) in self.table.into_iter().flatten() {
            if !self.known.contains(&key.get_ref().as_ref()) {
                let problem = format!("there is no such key; known here: {}", self.known.join(", "));
                mistakes.note(Some(key.span()), &self.path(key.get_ref()), problem);
            }
        }
    }

    fn look_up(&mut self, key: &'static str) -> Option<(Range<usize>, &'a DeValue<'a>)> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let (_, value) = self.table?.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((value.span(), value.get_ref()))
    }

    /// Its first key or, if it has none, where it begins: of several tables of one name, that is the one to look at.
    fn line(&self) -> Option<Range<usize>> {
        let at = self.at.clone()?;
        Some(self.table?.keys().map(toml::Spanned::span).min_by_key(|span| span.start).unwrap_or(at))
    }
}

/// The parser does not say where a key of too many parts stands: it is in the first line with which the text up to there
/// has such an error.
fn first_without_a_place(text: &str) -> Option<Range<usize>> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).chain([text.len()]).collect();
    let line = ends.partition_point(|end| {
        let (_, errors) = DeTable::parse_recoverable(text.get(..*end).unwrap_or(text));
        errors.iter().all(|error| error.span().is_some())
    });
    ends.get(line).map(|end| *end..*end)
}

pub(super) fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("this is text in quotes, not {}", kind(value)))
}

pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("this is true or false, not {}", kind(value)))
}

pub(super) fn integer(value: &DeValue<'_>) -> Result<i64, String> {
    let number = value.as_integer().ok_or_else(|| format!("this is a whole number, not {}", kind(value)))?;
    i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| "the number is too large".into())
}

/// Text that parses as a `T`; the problem is `T`'s own message.
pub(super) fn parsed<T>(value: &DeValue<'_>) -> Result<T, String>
where
    T: std::str::FromStr,
    T::Err: fmt::Display,
{
    let text = text(value)?;
    text.parse().map_err(|error: T::Err| format!("{text:?}: {error}"))
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
