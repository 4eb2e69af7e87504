//! How many of something there are, over time.

use std::time::Duration;

/// A number that changes in steps, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    steps: Vec<(Duration, usize)>,
}

impl Curve {
    /// How many of `spans` there are at each moment. A span does not include its end.
    #[must_use]
    pub fn of_spans(spans: impl IntoIterator<Item = (Duration, Duration)>) -> Self {
        let mut changes: Vec<(Duration, bool)> =
            spans.into_iter().flat_map(|(from, to)| [(from, true), (to, false)]).collect();
        changes.sort_unstable();
        let mut curve = Self::default();
        let mut count = 0_usize;
        for (at, begins) in changes {
            count = if begins { count.saturating_add(1) } else { count.saturating_sub(1) };
            curve.set(at, count);
        }
        curve
    }

    /// A number that becomes `value` at each of `steps`, which are in order.
    #[must_use]
    pub fn of_steps(steps: impl IntoIterator<Item = (Duration, usize)>) -> Self {
        let mut curve = Self::default();
        for (at, value) in steps {
            curve.set(at, value);
        }
        curve
    }

    fn set(&mut self, at: Duration, value: usize) {
        match self.steps.last_mut() {
            Some((last, count)) if *last == at => *count = value,
            Some((_, count)) if *count == value => {}
            _ => self.steps.push((at, value)),
        }
    }

    /// Each moment it changes, with what it is from then on.
    #[must_use]
    pub fn steps(&self) -> &[(Duration, usize)] {
        &self.steps
    }

    /// What it is at `at`.
    #[must_use]
    pub fn at(&self, at: Duration) -> usize {
        let changes = self.steps.partition_point(|(step, _)| *step <= at);
        changes.checked_sub(1).and_then(|last| self.steps.get(last)).map_or(0, |(_, count)| *count)
    }

    /// The most it is between `from` and `to`, and since when.
    #[must_use]
    pub fn peak(&self, from: Duration, to: Duration) -> (usize, Duration) {
        let mut peak = (self.at(from), from);
        let first = self.steps.partition_point(|(at, _)| *at < from);
        for (at, count) in self.steps.iter().skip(first).take_while(|(at, _)| *at < to) {
            if *count > peak.0 {
                peak = (*count, *at);
            }
        }
        peak
    }

    /// What it comes to between `from` and `to`: one that is there for the whole time counts so long.
    #[must_use]
    pub fn area(&self, from: Duration, to: Duration) -> Duration {
        let ends = self.steps.iter().skip(1).map(|(at, _)| *at).chain([Duration::MAX]);
        self.steps
            .iter()
            .zip(ends)
            .map(|((at, count), end)| {
                let lasts = end.min(to).saturating_sub((*at).max(from));
                lasts.saturating_mul(u32::try_from(*count).unwrap_or(u32::MAX))
            })
            .fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Its mean between `from` and `to`.
    #[must_use]
    pub fn mean(&self, from: Duration, to: Duration) -> f64 {
        let length = to.saturating_sub(from).as_secs_f64();
        if length > 0.0 { self.area(from, to).as_secs_f64() / length } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_knows_its_value_its_peak_and_its_area() {
        let curve = Curve::of_spans([(SECOND, 4 * SECOND), (2 * SECOND, 3 * SECOND), (3 * SECOND, 5 * SECOND)]);
        let values: Vec<_> = (0..6).map(|second| curve.at(second * SECOND)).collect();
        assert_eq!(values, [0, 1, 2, 2, 1, 0], "a span ends where the next begins");
        assert_eq!(curve.peak(Duration::ZERO, 5 * SECOND), (2, 2 * SECOND));
        assert_eq!(curve.peak(4 * SECOND, 5 * SECOND), (1, 4 * SECOND));
        assert_eq!(curve.area(Duration::ZERO, Duration::MAX), 6 * SECOND);
        assert_eq!(curve.area(2 * SECOND, 3 * SECOND), 2 * SECOND);
        assert!((curve.mean(Duration::ZERO, 6 * SECOND) - 1.0).abs() < f64::EPSILON);
    }
}
