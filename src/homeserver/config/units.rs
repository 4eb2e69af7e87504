//! Durations and sizes with their unit: a bare number is a guess about seconds that somebody will get wrong.

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
    let millis = number_of(text, &UNITS).ok_or_else(explain)?;
    Ok(Duration::from_millis(millis))
}

const SIZE_UNITS: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// What a size is, for whoever wrote something else. Every unit of [`SIZE_UNITS`] is in it.
pub(super) const SIZE: &str = "a size in quotes such as \"50 MiB\" (units: B, KiB, MiB, GiB, TiB)";

/// Reads `"50 MiB"` as bytes; the blank may be left out. Whole numbers only, and no units of a thousand: `MB` is read in
/// two ways.
///
/// *Errors:* what to write instead.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let explain = || format!("{text:?} is not {SIZE}: a whole number and a unit");
    number_of(text, &SIZE_UNITS).ok_or_else(explain)
}

/// A size in the largest unit that leaves a whole number.
pub(super) fn written_size(bytes: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| bytes.is_multiple_of(*factor);
    let (unit, factor) = SIZE_UNITS.iter().rev().find(whole).unwrap_or(&("B", 1));
    format!("{} {unit}", bytes / factor)
}

/// A whole number and one of `units`, multiplied; `None` if it is not that, or too large.
fn number_of(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
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
        let units = SIZE_UNITS.map(|(name, _)| name).join(", ");
        assert!(SIZE.contains(&format!("(units: {units})")), "{SIZE}");
    }

    #[test]
    fn every_size_is_read_and_written() {
        for (text, bytes) in [
            ("0 B", 0),
            ("1 B", 1),
            ("3 KiB", 3 << 10),
            ("1025 KiB", 1025 << 10),
            ("50 MiB", 50 << 20),
            ("1 GiB", 1 << 30),
            ("2 TiB", 2 << 40),
            ("18446744073709551615 B", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
            assert_eq!(size(&text.replace(' ', "")), Ok(bytes), "{text}");
            if bytes > 0 {
                assert_eq!(written_size(bytes), text);
            }
        }
        assert_eq!(written_size(1 << 20), "1 MiB");
    }

    #[test]
    fn t08_what_is_no_size_is_refused_and_not_read_as_zero() {
        for text in [
            "",
            "50",
            "MiB",
            " 50 MiB",
            "50  MiB",
            "-1 MiB",
            "+1 MiB",
            "1.5 GiB",
            "50 MB",
            "50 M",
            "50 mib",
            "50 MiB ",
            "16777216 TiB",
            "18446744073709551616 B",
        ] {
            assert!(size(text).is_err(), "{text:?}");
        }
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
