//! [`RangeDecision`]: which bytes of a stored file a client gets, as RFC 9110 (14) reads its `Range`.

use std::ops::Range;

use super::conditional::range_holds;

/// Which bytes of a file are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeDecision {
    /// All of them, with 200: no range was asked for, or none that is served.
    Whole,
    /// These, with 206. Never empty, never past the end.
    Part(Range<u64>),
    /// None, with 416: the range lies past the end.
    Unsatisfiable,
}

impl RangeDecision {
    /// What a GET with these headers gets of a stored file of `length` bytes. (HEAD has no ranges.)
    ///
    /// One range of bytes is served. Several are not, nor is what cannot be read: the client gets the whole, as the
    /// standard allows. So it does of an empty file, of which no range could be served. *Panics:* never.
    pub(crate) fn of(range: Option<&[u8]>, if_range: Option<&[u8]>, etag: &str, length: u64) -> Self {
        let Some(asked) = range.and_then(Asked::read).filter(|_| range_holds(if_range, etag)) else {
            return Self::Whole;
        };
        if length == 0 {
            return Self::Whole;
        }
        match asked.within(length) {
            Some(part) => Self::Part(part),
            None => Self::Unsatisfiable,
        }
    }
}

/// One range, before the length of the file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// From a byte to the end.
    From(u64),
    /// From a byte to another, both included.
    Between(u64, u64),
    /// So many bytes at the end.
    Last(u64),
}

impl Asked {
    fn read(header: &[u8]) -> Option<Self> {
        let (unit, ranges) = str::from_utf8(header).ok()?.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = ranges.trim_matches([' ', '\t']).split_once('-')?;
        match (first, last) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(Self::From),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    fn within(self, length: u64) -> Option<Range<u64>> {
        let part = match self {
            Self::From(first) => first..length,
            Self::Between(first, last) => first..last.saturating_add(1).min(length),
            Self::Last(count) => length.saturating_sub(count)..length,
        };
        (!part.is_empty()).then_some(part)
    }
}

/// A number of bytes; one that is larger than any file is as good as the largest.
fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ETAG: &str = "\"abc\"";

    fn of(range: &str, length: u64) -> RangeDecision {
        RangeDecision::of(Some(range.as_bytes()), None, ETAG, length)
    }

    #[test]
    fn one_range_is_cut_to_the_file() {
        use RangeDecision::{Part, Unsatisfiable};
        for (range, decision) in [
            ("bytes=0-0", Part(0..1)),
            ("bytes=0-9", Part(0..10)),
            ("bytes=0-10", Part(0..10)),
            ("bytes=0-", Part(0..10)),
            ("bytes=9-", Part(9..10)),
            ("bytes=3-5", Part(3..6)),
            ("Bytes = 3-5 ", Part(3..6)),
            ("bytes=-3", Part(7..10)),
            ("bytes=-10", Part(0..10)),
            ("bytes=-99999999999999999999999", Part(0..10)),
            ("bytes=5-18446744073709551615", Part(5..10)),
            ("bytes=5-99999999999999999999999", Part(5..10)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-11", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
        ] {
            assert_eq!(of(range, 10), decision, "{range}");
        }
    }

    #[test]
    fn several_ranges_other_units_and_garbage_get_the_whole() {
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=0-1,3-4",
            "bytes=0-1,",
            "bytes=5-3",
            "bytes=0--1",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1 -2",
            "bytes 0-1",
            "items=0-1",
            "bytes=\u{661}-2",
            "bytes=1",
            "=0-1",
        ] {
            assert_eq!(of(range, 10), RangeDecision::Whole, "{range}");
        }
        assert_eq!(RangeDecision::of(None, None, ETAG, 10), RangeDecision::Whole);
        assert_eq!(RangeDecision::of(Some(b"bytes=\xff-"), None, ETAG, 10), RangeDecision::Whole);
        assert_eq!(of("bytes=0-", 0), RangeDecision::Whole);
        assert_eq!(of("bytes=-1", 0), RangeDecision::Whole);
    }

    #[test]
    fn a_range_of_another_file_gets_the_whole() {
        let of = |if_range: &str, range: &str| {
            RangeDecision::of(Some(range.as_bytes()), Some(if_range.as_bytes()), ETAG, 10)
        };
        assert_eq!(of(ETAG, "bytes=3-5"), RangeDecision::Part(3..6));
        for other in ["\"abd\"", "W/\"abc\"", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(of(other, "bytes=3-5"), RangeDecision::Whole, "{other}");
            assert_eq!(of(other, "bytes=10-"), RangeDecision::Whole, "{other}: not even a 416");
        }
    }

    /// The bytes a range means, one by one.
    fn naive(first: Option<u64>, last: Option<u64>, length: u64) -> Vec<u64> {
        let all = 0..length;
        match (first, last) {
            (Some(first), last) => all.filter(|at| *at >= first && last.is_none_or(|last| *at <= last)).collect(),
            (None, Some(count)) => all.filter(|at| length - *at <= count).collect(),
            (None, None) => all.collect(),
        }
    }

    proptest! {
        #[test]
        fn a_range_is_the_bytes_it_means(first in prop::option::of(0u64..40), last in prop::option::of(0u64..40), length in 1u64..30) {
            let write = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            let readable = first.is_some() || last.is_some();
            let ordered = first.zip(last).is_none_or(|(first, last)| first <= last);
            let bytes = naive(first, last, length);
            match of(&format!("bytes={}-{}", write(first), write(last)), length) {
                RangeDecision::Whole => prop_assert!(!readable || !ordered),
                RangeDecision::Part(part) => prop_assert_eq!(part.collect::<Vec<_>>(), bytes),
                RangeDecision::Unsatisfiable => prop_assert!(bytes.is_empty() && readable && ordered),
            }
        }

        #[test]
        fn a_part_is_never_empty_and_never_past_the_end(range in "bytes=[0-9]{0,21}-[0-9]{0,21}", length in any::<u64>()) {
            if let RangeDecision::Part(part) = of(&range, length) {
                prop_assert!(part.start < part.end && part.end <= length);
            }
        }
    }
}
