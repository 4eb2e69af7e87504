//! Every figure of the replays, asserted with equality.

mod gated;
mod incident;
mod recovery;

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// To the millisecond, as the figures are given.
fn clock(at: Duration) -> String {
    let ms = at.saturating_add(Duration::from_micros(500)).as_millis();
    format!("{}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

fn at(hours: u32, minutes: u32, seconds: u32) -> Duration {
    hours * HOUR + minutes * MINUTE + Duration::from_secs(seconds.into())
}
