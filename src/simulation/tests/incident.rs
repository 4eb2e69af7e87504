//! The incident as it was.

use super::*;
use crate::simulation::{Incident, IncidentTrace, Recording, ungoverned};

fn replayed() -> Recording {
    ungoverned(&IncidentTrace::new())
}

/// The least value that at least `percent` of `sorted` do not exceed, in tenths of a minute.
fn percentile_minutes(sorted: &[Duration], percent: usize) -> String {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    format!("{:.1}", sorted[rank - 1].as_secs_f64() / 60.0)
}

fn percent_up_to(sorted: &[Duration], most: Duration) -> usize {
    let within = sorted.iter().filter(|time| **time <= most).count();
    (within * 100 + sorted.len() / 2) / sorted.len()
}

#[test]
fn it_has_as_many_calls_and_timeouts_as_the_record_counts() {
    let run = replayed();
    assert_eq!((run.calls(), run.given_up(), run.pages_received()), (2111, 1016, 1095));
    let hours: Vec<_> = (0..9).map(|hour| run.given_up_between(hour * HOUR, (hour + 1) * HOUR)).collect();
    assert_eq!(hours.iter().max(), Some(&177), "the peak hour");
    assert_eq!(run.given_up() / 9, 112, "1016 in nine hours: 112.9 an hour");
    assert_eq!(format!("{:.2}", 32_400.0 / 2111.0), "15.35", "one call so often, in seconds");
}

#[test]
fn the_server_goes_on_with_what_was_given_up_as_long_as_it_did() {
    let left = replayed().work_left();
    let percentiles = [10, 50, 90].map(|percent| percentile_minutes(&left, percent));
    assert_eq!(percentiles, ["3.0", "18.0", "132.0"]);
    assert_eq!(left.last(), Some(&(144 * MINUTE)));
    assert_eq!([15, 20, 30].map(|minutes| percent_up_to(&left, minutes * MINUTE)), [43, 51, 56]);
}

#[test]
fn pages_that_came_took_as_long_as_they_did() {
    let times = replayed().answer_times();
    assert_eq!(format!("{:.2}", times[times.len() / 2].as_secs_f64()), "0.84");
    assert_eq!(times.last(), Some(&Duration::from_millis(23_400)));
    let over = |seconds| times.iter().filter(|time| **time > Duration::from_secs(seconds)).count();
    assert_eq!((over(10), over(15)), (48, 10), "4.4 % and 0.9 % of 1,095");
}

#[test]
fn the_server_had_so_many_pages_at_work() {
    let run = replayed();
    let at_work = run.at_work();
    assert_eq!(format!("{:.2}", at_work.mean(Duration::ZERO, 9 * HOUR)), "82.59");
    let (peak, since) = at_work.peak(Duration::ZERO, Duration::MAX);
    assert_eq!((peak, clock(since).as_str()), (129, "5:01:04.657"));
    let hours = at_work.area(Duration::ZERO, Duration::MAX).as_secs_f64() / 3600.0;
    assert_eq!(format!("{hours:.1}"), "806.0");
}

#[test]
fn the_client_believed_two_in_flight_all_the_time() {
    let run = replayed();
    assert_eq!(run.believed_in_flight().peak(Duration::ZERO, Duration::MAX).0, 2);
    assert_eq!(run.finished.iter().copied().map(clock).collect::<Vec<_>>(), ["9:00:19.853", "8:59:40.147"]);
}

#[test]
fn the_parts_of_a_replay_are_the_runs_they_are_said_to_be() {
    let incident = Incident::replay();
    assert_eq!(incident.ungoverned.pages, replayed().pages);
    assert_eq!(incident.length(), 9 * HOUR);
    assert_eq!(incident.gate.admissions(0), incident.gate_at_worst.admissions(0));
}
