//! Reads a TOML table key by key and notes every mistake with its line, so that one start shows all of them.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::origin::Origin;

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
        // Without a file there is no line either.
        if !self.file.is_empty() {
            out.write_str(&self.file)?;
            if let Some(line) = self.line {
                write!(out, ":{line}")?;
            }
            out.write_str(": ")?;
        }
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        out.write_str(&self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// The mistakes found so far, and where each key stands.
pub(super) struct Mistakes<'a> {
    text: &'a str,
    /// Where each line ends, in bytes.
    line_ends: Vec<usize>,
    origin: Origin,
    found: Vec<ConfigError>,
    /// The keys that stand above every table.
    above_tables: Vec<&'static str>,
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
    pub(super) fn of(file: &str, text: &'a str) -> Self {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { text, line_ends, origin: Origin::of(file), found: Vec::new(), above_tables: Vec::new() }
    }

    /// Notes what makes the file no TOML: the first of each line, since the parser stumbles on over the rest of it.
    pub(super) fn note_syntax(&mut self, errors: impl IntoIterator<Item = toml::de::Error>) {
        let mut told = HashSet::new();
        for error in errors {
            let at = error.span().or_else(|| first_without_a_place(self.text));
            if told.insert(at.clone().map(|span| self.line(&span))) {
                let mut message = error.message().lines().collect::<Vec<_>>().join(" ");
                let key = at.clone().filter(|_| message.contains("duplicate key")).and_then(|span| self.text.get(span));
                let key = key.filter(|key| !key.contains(char::is_control)).unwrap_or_default();
                // Of two tables the parser keeps the second, so that the first is looked for in what stands before it.
                let before = at.as_ref().filter(|_| !key.is_empty()).and_then(|span| self.text.get(..span.start));
                if let Some((span, is_table)) = before.and_then(|before| the_only_one(before, key)) {
                    let line = self.line(&span);
                    let advice = if is_table {
                        "put these lines there: a table may be there once"
                    } else {
                        "one of the two has to go"
                    };
                    message = format!("{message}: the first is in line {line}; {advice}");
                }
                self.note(at, key, message);
            }
        }
    }

    pub(super) fn note(&mut self, at: Option<Range<usize>>, key: &str, problem: impl Into<String>) {
        let line = at.map(|span| self.line(&span));
        let file = self.origin.file().to_owned();
        self.found.push(ConfigError { file, line, key: one_line(key), problem: one_line(&problem.into()) });
    }

    /// Remembers where `key` stands, for what is found out later.
    fn place(&mut self, key: String, at: &Range<usize>) {
        let line = self.line(at);
        self.origin.place(key, line);
    }

    fn line(&self, span: &Range<usize>) -> usize {
        self.line_ends.partition_point(|end| *end < span.start) + 1
    }

    /// Where every key stands, if there was no mistake; otherwise all of them, in the order of the file.
    pub(super) fn into_origin(mut self) -> Result<Origin, Vec<ConfigError>> {
        if self.found.is_empty() {
            return Ok(self.origin);
        }
        self.found.sort_by_key(|mistake| mistake.line.unwrap_or(usize::MAX));
        Err(self.found)
    }

    pub(super) fn any(&self) -> bool {
        !self.found.is_empty()
    }
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>) -> Self {
        Self { prefix: String::new(), at: None, table: Some(table), known: Vec::new() }
    }

    /// From now on what was asked for here is known as what stands above every table.
    pub(super) fn is_above_tables(&self, mistakes: &mut Mistakes<'_>) {
        mistakes.above_tables.clone_from(&self.known);
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
        let section = |(index, (span, table))| Self {
            prefix: format!("{prefix}[{index}]"),
            at: Some(span),
            table: Some(table),
            known: Vec::new(),
        };
        tables.into_iter().enumerate().map(section).collect()
    }

    /// The value of `key` as `read` understands it; `None` if it is absent or wrong, and then the mistake is noted.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let (span, value) = self.look_up(key)?;
        mistakes.place(self.path(key), &span);
        read(value).map_err(|problem| mistakes.note(Some(span), &self.path(key), problem)).ok()
    }

    /// As [`Self::value`], for a key that has no default.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        if self.look_up(key).is_none() {
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
            mistakes.note(Some(span), &path, expected("a list in brackets such as [\"…\", \"…\"]", value));
            return Vec::new();
        };
        mistakes.place(path.clone(), &span);
        let mut values = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match read(item.get_ref()) {
                Ok(value) => values.push(value),
                Err(problem) => mistakes.note(Some(item.span()), &format!("{path}[{index}]"), problem),
            }
        }
        values
    }

    /// Whether there is a `key` in a table `section` of this one, whatever is written there.
    pub(super) fn names(&self, section: &str, key: &str) -> bool {
        let section = self.table.and_then(|table| table.get(section)?.get_ref().as_table());
        section.is_some_and(|section| section.contains_key(key))
    }

    /// Where `key` stands, for a mistake that shows only later.
    pub(super) fn span_of(&mut self, key: &'static str) -> Option<Range<usize>> {
        self.look_up(key).map(|(span, _)| span)
    }

    /// Notes every key that nobody asked for.
    pub(super) fn end(self, mistakes: &mut Mistakes<'_>) {
        for (key, _) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let is_misplaced = !self.prefix.is_empty() && mistakes.above_tables.contains(&name);
                let problem = match nearest(name, &self.known) {
                    _ if is_misplaced => "there is no such key here (it belongs above the first [table])".to_owned(),
                    Some(meant) => format!("there is no such key; did you mean {meant}?"),
                    None if self.known.is_empty() => "there is no such key".to_owned(),
                    None => format!("there is no such key; known here: {}", self.known.join(", ")),
                };
                mistakes.note(Some(key.span()), &self.path(name), problem);
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

/// Where in a text the key of this name stands, and whether it is a table; `None` if there is none, or more than one.
fn the_only_one(text: &str, name: &str) -> Option<(Range<usize>, bool)> {
    let (read, _) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    let mut tables = vec![read.get_ref()];
    while let Some(table) = tables.pop() {
        for (key, value) in table {
            let (value, inside) = (value.get_ref(), value.get_ref().as_table());
            if key.get_ref() == name {
                found.push((key.span(), inside.is_some()));
            }
            tables.extend(inside);
            tables.extend(value.as_array().into_iter().flatten().filter_map(|item| item.get_ref().as_table()));
        }
    }
    match found.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
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

/// What was expected and what is there instead.
pub(super) fn expected(what: &str, value: &DeValue<'_>) -> String {
    let found = match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    format!("expected {what}, found {found}")
}

/// Text; `what` says what kind, for whoever wrote something else.
pub(super) fn text<'v>(value: &'v DeValue<'_>, what: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| expected(what, value))
}

pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| expected("true or false without quotes", value))
}

pub(super) fn integer(value: &DeValue<'_>, what: &str) -> Result<i64, String> {
    let number = value.as_integer().ok_or_else(|| expected(what, value))?;
    i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| "the number is too large".into())
}

/// Text that parses as a `T`; the problem is `T`'s own message.
pub(super) fn parsed<T>(value: &DeValue<'_>, what: &str) -> Result<T, String>
where
    T: std::str::FromStr,
    T::Err: fmt::Display,
{
    let text = text(value, what)?;
    text.parse().map_err(|error: T::Err| format!("{text:?}: {error}"))
}

/// What a terminal shows as it stands: what does not print, a line end or a change of direction, is written out.
fn one_line(text: &str) -> String {
    let written = |character: char| -> String {
        if matches!(character, '"' | '\'' | '\\') { character.into() } else { character.escape_debug().collect() }
    };
    text.chars().map(written).collect()
}
