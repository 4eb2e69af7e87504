//! The key that was probably meant.

/// The one of `known` that is `written` but for a typing error or two; `None` if none is near.
pub(super) fn nearest(written: &str, known: &[&'static str]) -> Option<&'static str> {
    let changes = |key: &&'static str| edits(written, key);
    // A third of a word changed is another word.
    let near = |key: &&'static str| {
        let most = key.len().div_ceil(4).min(3);
        written.len() <= key.len() + 4 * most && edits(written, key) <= most
    };
    known.iter().copied().filter(near).min_by_key(changes)
}

/// How many letters have to be put in, left out or replaced to make `other` of `one` (Levenshtein).
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut above_left = line;
        let mut left = line + 1;
        let mut next = vec![left];
        for (above, wanted) in row.iter().skip(1).zip(other.chars()) {
            left = (above_left + usize::from(letter != wanted)).min(above + 1).min(left + 1);
            above_left = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_in_letters() {
        for (one, other, count) in [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ä", "a", 1)]
        {
            assert_eq!((edits(one, other), edits(other, one)), (count, count), "{one} {other}");
        }
    }

    #[test]
    fn a_typing_error_is_near_and_another_word_is_not() {
        let known = ["server_name", "listen", "request_threads", "log"];
        for (written, meant) in [
            ("request_thread", Some("request_threads")),
            ("request-treads", Some("request_threads")),
            ("lisen", Some("listen")),
            ("servername", Some("server_name")),
            ("lag", Some("log")),
            ("colour", None),
            ("", None),
            ("rooms", None),
        ] {
            assert_eq!(nearest(written, &known), meant, "{written}");
        }
    }
}
