//! The keys that say how often.

use super::*;

fn rates(rest: &str) -> [(u32, u32); 2] {
    let config = read(&format!("{LEAST}{rest}")).unwrap();
    [config.federation.lookup_rate, config.media.fetch_rate].map(|rate| (rate.per_minute(), rate.burst()))
}

#[test]
fn a_minute_has_sixty_lookups_and_six_hundred_files_unless_it_says_otherwise() {
    assert_eq!(rates(""), [(60, 20), (600, 300)]);
    let without = Config::without_file();
    let limits = [without.federation.lookup_rate, without.media.fetch_rate];
    assert_eq!(limits.map(|rate| (rate.per_minute(), rate.burst())), [(60, 20), (600, 300)]);
    assert_eq!(
        rates("[federation]\nlookups_per_minute = 1\nlookup_burst = 60000\n[media]\nfetches_per_minute = 60000\n"),
        [(1, 60_000), (60_000, 300)]
    );
    assert_eq!(rates("media.fetch_burst = 64"), [(60, 20), (600, 64)]);
}

#[test]
fn t08_what_is_no_rate_stops_the_start_and_zero_is_not_unlimited() {
    assert_eq!(
        mistakes(
            "[federation]\nlookups_per_minute = 0\nlookup_burst = -1\n\
             [media]\nfetches_per_minute = \"600 / min\"\nfetch_burst = 60001\n"
        ),
        [
            "p.toml:4: federation.lookups_per_minute: 0 lets nothing through and is not \"unlimited\"; 60000 is as good as \
             no limit",
            "p.toml:5: federation.lookup_burst: -1 is not in the range 1 to 60000",
            "p.toml:7: media.fetches_per_minute: expected a whole number from 1 to 60000 without quotes, found the text \
             \"600 / min\"",
            "p.toml:8: media.fetch_burst: 60001 is not in the range 1 to 60000",
        ]
    );
}
