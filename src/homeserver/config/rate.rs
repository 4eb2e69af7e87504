//! How often one client may have another server asked: two figures, one of them in the name of its key.

use toml::de::DeValue;

use super::reader::{Mistakes, Section, integer};
use crate::admission::{RateCaps, RateLimit};
use crate::limits::{LOOKUP_BURST, LOOKUPS_PER_MINUTE, MEDIA_FETCH_BURST, MEDIA_FETCHES_PER_MINUTE, RATE_LIMIT_RANGE};

/// `[federation]`'s.
pub(super) fn lookups(section: &mut Section<'_>, mistakes: &mut Mistakes<'_>) -> RateLimit {
    let per_minute = section.value("lookups_per_minute", mistakes, figure).unwrap_or(LOOKUPS_PER_MINUTE);
    let burst = section.value("lookup_burst", mistakes, figure).unwrap_or(LOOKUP_BURST);
    RateLimit::new(RateCaps { per_minute, burst }).unwrap_or_else(usual_lookups)
}

/// `[media]`'s.
pub(super) fn media_fetches(section: &mut Section<'_>, mistakes: &mut Mistakes<'_>) -> RateLimit {
    let per_minute = section.value("fetches_per_minute", mistakes, figure).unwrap_or(MEDIA_FETCHES_PER_MINUTE);
    let burst = section.value("fetch_burst", mistakes, figure).unwrap_or(MEDIA_FETCH_BURST);
    RateLimit::new(RateCaps { per_minute, burst }).unwrap_or_else(usual_media_fetches)
}

#[expect(clippy::expect_used, reason = "constants, and a test reads them")]
pub(super) fn usual_lookups() -> RateLimit {
    RateLimit::new(RateCaps { per_minute: LOOKUPS_PER_MINUTE, burst: LOOKUP_BURST }).expect("in the range")
}

#[expect(clippy::expect_used, reason = "constants, and a test reads them")]
pub(super) fn usual_media_fetches() -> RateLimit {
    RateLimit::new(RateCaps { per_minute: MEDIA_FETCHES_PER_MINUTE, burst: MEDIA_FETCH_BURST }).expect("in the range")
}

fn figure(value: &DeValue<'_>) -> Result<u32, String> {
    let (fewest, most) = (*RATE_LIMIT_RANGE.start(), *RATE_LIMIT_RANGE.end());
    let figure = integer(value, &format!("a whole number from {fewest} to {most} without quotes"))?;
    match u32::try_from(figure) {
        Ok(0) => Err(format!("0 lets nothing through and is not \"unlimited\"; {most} is as good as no limit")),
        Ok(figure) if RATE_LIMIT_RANGE.contains(&figure) => Ok(figure),
        _ => Err(format!("{figure} is not in the range {fewest} to {most}")),
    }
}
