//! From times and counts to places in the picture, and where their marks stand.

use std::time::Duration;

/// The most marks on an axis of time.
const MOST_TIME_MARKS: u32 = 12;
/// The most marks on an axis of counts.
const MOST_COUNT_MARKS: u32 = 5;

/// An axis: from `low` to `high` in the picture, for values from 0 to `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) most: f64,
}

impl Scale {
    pub(super) fn place(self, value: f64) -> f64 {
        self.low + (self.high - self.low) * (value / self.most).clamp(0.0, 1.0)
    }

    pub(super) fn time(self, at: Duration) -> f64 {
        self.place(at.as_secs_f64())
    }

    pub(super) fn count(self, count: usize) -> f64 {
        self.place(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
    }
}

/// Marks of an axis of time that is `length` long: a round distance apart, with what stands at each.
pub(super) fn time_marks(length: Duration) -> Vec<(Duration, String)> {
    let apart = [5, 10, 15, 30, 60, 120, 180, 360]
        .map(|minutes| Duration::from_secs(60 * minutes))
        .into_iter()
        .find(|apart| *apart * MOST_TIME_MARKS >= length)
        .unwrap_or_else(|| length.max(Duration::from_secs(1)));
    (0..=MOST_TIME_MARKS)
        .map(|mark| apart * mark)
        .take_while(|at| *at <= length)
        .map(|at| (at, format!("{}:{:02}", at.as_secs() / 3600, at.as_secs() / 60 % 60)))
        .collect()
}

/// Marks of an axis of counts that has room for `most`: 0, and then a round distance apart; the last is `most` or more.
pub(super) fn count_marks(most: usize) -> Vec<usize> {
    let most = most.max(1);
    let marks = usize::try_from(MOST_COUNT_MARKS).unwrap_or(1);
    let apart = (0..18)
        .flat_map(|power| [1, 2, 5].map(|first: usize| first.saturating_mul(10_usize.saturating_pow(power))))
        .find(|apart| apart.saturating_mul(marks) >= most)
        .unwrap_or(most);
    (0..=most.div_ceil(apart)).map(|mark| mark * apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_cover_everything() {
        assert_eq!(count_marks(129), [0, 50, 100, 150]);
        assert_eq!(count_marks(2), [0, 1, 2]);
        assert_eq!(count_marks(0), [0, 1]);
        assert_eq!(count_marks(1040), [0, 500, 1000, 1500]);
        let hours = time_marks(Duration::from_secs(9 * 3600));
        assert_eq!((hours.len(), hours[9].1.as_str()), (10, "9:00"));
        assert_eq!(time_marks(Duration::from_secs(70 * 60))[1].1, "0:10");
    }
}
