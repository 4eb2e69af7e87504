//! Durations with their unit: a bare number is a guess about seconds that somebody will get wrong.

use std::time::Duration;

const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// What a duration is, for whoever wrote something else. Every unit of [`UNITS`] is in it.
pub(super) const DURATION: &str = "a duration in quotes such as \"5 s\" (units: ms, s, min, h, d, w)";

/// Reads `"30 s"`, `"500 ms"`, `"2 min"`, `"24 h"`, `"7 d"`; the blank may be left out. Whole numbers only.
///
/// *Errors:* what to write instead.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let explain = || format!("{text:?} is not {DURATION}: a whole number and a unit");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(explain)?;
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(explain)?;
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor)).ok_or_else(explain)?;
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, millis) in [
            ("500 ms", 500),
            ("30 s", 30_000),
            ("30s", 30_000),
            ("2 min", 120_000),
            ("24 h", 86_400_000),
            ("1 d", 86_400_000),
            ("0 s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn the_explanation_lists_every_unit() {
        let units = UNITS.map(|(name, _)| name).join(", ");
        assert!(DURATION.contains(&format!("(units: {units})")), "{DURATION}");
    }

    #[test]
    fn t08_what_is_no_duration_is_refused_and_not_read_as_zero() {
        for text in
            ["", "30", "s", " 30 s", "30  s", "30 sec", "-1 s", "+1 s", "1.5 s", "1e3 s", "30 S", "999999999999999 w"]
        {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
