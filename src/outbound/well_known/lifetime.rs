//! How long a well-known answer may be remembered, by its headers.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{CACHE_CONTROL, DATE, EXPIRES};

use crate::limits::{
    WELL_KNOWN_DEFAULT_LIFETIME, WELL_KNOWN_JITTER_PERCENT, WELL_KNOWN_MAX_LIFETIME, WELL_KNOWN_MIN_LIFETIME,
};

/// The lifetime that `headers` ask for, between five minutes and 48 hours. `max-age` beats `Expires`; `no-store`,
/// `no-cache` and what has already expired get the five minutes. Without a word, or with one that cannot be read, it is a
/// day, moved by `spread`: 0 shortens it by the whole jitter, [`SPREAD`] lengthens it by as much.
pub(super) fn lifetime(headers: &HeaderMap, now: SystemTime, spread: u32) -> Duration {
    asked_for(headers, now).unwrap_or_else(|| {
        let permille = 1000_u32.saturating_sub(SPREAD / 2).saturating_add(spread.min(SPREAD));
        WELL_KNOWN_DEFAULT_LIFETIME / 1000 * permille
    })
}

/// The largest `spread`: both sides of the jitter, in thousandths.
pub(super) const SPREAD: u32 = 2 * 10 * WELL_KNOWN_JITTER_PERCENT;

fn asked_for(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let directives = || {
        let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).map(str::trim)
    };
    let named = |directive: &str, name: &str| {
        directive.split('=').next().is_some_and(|word| word.trim().eq_ignore_ascii_case(name))
    };
    if directives().any(|directive| named(directive, "no-store") || named(directive, "no-cache")) {
        return Some(WELL_KNOWN_MIN_LIFETIME);
    }
    let max_age = directives().filter(|directive| named(directive, "max-age")).find_map(|directive| {
        let (_, seconds) = directive.split_once('=')?;
        seconds_of(seconds.trim().trim_matches('"'))
    });
    let asked = max_age.or_else(|| {
        let expires = headers.get(EXPIRES)?;
        let date = |value: &http::HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
        let sent_at = headers.get(DATE).and_then(date).unwrap_or(now);
        // Unreadable, `0` included, means already expired (RFC 9111, section 5.3).
        Some(date(expires).and_then(|end| end.duration_since(sent_at).ok()).unwrap_or_default())
    })?;
    Some(asked.clamp(WELL_KNOWN_MIN_LIFETIME, WELL_KNOWN_MAX_LIFETIME))
}

/// Whole seconds; more than the clock can hold counts as very many.
fn seconds_of(text: &str) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn seconds(headers: &[(&str, &str)]) -> u64 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let now = httpdate::parse_http_date("Sun, 29 Nov 2026 12:00:00 GMT").unwrap();
        lifetime(&map, now, SPREAD / 2).as_secs()
    }

    #[test]
    fn headers_decide_between_floor_and_ceiling() {
        let an_hour_on = "Sun, 29 Nov 2026 13:00:00 GMT";
        for (headers, expected) in [
            (&[][..], 24 * HOUR),
            (&[("cache-control", "max-age=600")][..], 600),
            (&[("cache-control", "public, Max-Age=\"600\"")], 600),
            (&[("cache-control", "public"), ("cache-control", "max-age=600")], 600),
            (&[("cache-control", "max-age=300"), ("expires", an_hour_on)], 300),
            (&[("cache-control", "max-age=1")], 300),
            (&[("cache-control", "max-age=0")], 300),
            (&[("cache-control", "max-age=999999999")], 48 * HOUR),
            (&[("cache-control", "max-age=99999999999999999999999")], 48 * HOUR),
            (&[("cache-control", "no-store")], 300),
            (&[("cache-control", "max-age=7200, no-cache")], 300),
            (&[("cache-control", "max-age=")], 24 * HOUR),
            (&[("cache-control", "max-age=-5")], 24 * HOUR),
            (&[("cache-control", "public; max-age=600")], 24 * HOUR),
            (&[("cache-control", "max-age="), ("expires", an_hour_on)], HOUR),
            (&[("expires", an_hour_on)], HOUR),
            (&[("expires", an_hour_on), ("date", "Sun, 29 Nov 2026 12:30:00 GMT")], HOUR / 2),
            (&[("expires", "Sun, 29 Nov 2020 13:00:00 GMT")], 300),
            (&[("expires", "0")], 300),
            (&[("expires", "soon")], 300),
        ] {
            assert_eq!(seconds(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn the_default_is_spread_by_a_tenth_to_both_sides() {
        let day = |spread| lifetime(&HeaderMap::new(), SystemTime::UNIX_EPOCH, spread).as_secs();
        assert_eq!((day(0), day(SPREAD / 2), day(SPREAD), day(u32::MAX)), (77_760, 86_400, 95_040, 95_040));
    }
}
