//! The configuration file.

use std::path::Path;

use crate::admission::{MediaLimits, RateCaps, RateLimit};
use crate::homeserver::config::Config;
use crate::homeserver::embedded::EmbeddedHomeserver;
use crate::limits::{MEDIA_CACHE_LEAST_FILES, REQUEST_THREADS};

/// What a file has to have; only of these can a mistake have no line, for there is none to name.
const REQUIRED: [&str; 2] = ["server_name", "signing_key"];

/// Any text: never panics; it is either a configuration that keeps every bound, or a list of mistakes, never empty, each
/// with a line of the file unless a required key is missing altogether.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    match Config::parse("portcullis.toml", Path::new("/etc/portcullis"), text) {
        Ok(config) => {
            assert!(REQUEST_THREADS.contains(&config.request_threads));
            assert!(config.listen != config.admin_listen || config.listen.port() == 0);
            let federation = &config.federation;
            let networks = config.trusted_proxies.iter().chain(&federation.deny_networks);
            assert!(networks.chain(&federation.allow_networks).all(|network| *network == network.trunc()));
            assert!(config.trusted_proxies.iter().all(|network| network.prefix_len() > 0));
            assert!(federation.nameservers.iter().all(|server| server.port() != 0));
            assert!(config.tokens.iter().all(|token| !token.token.is_empty()));
            let media = &config.media;
            assert!(
                media.max_file_bytes > 0 && media.max_file_bytes <= media.cache_size_bytes / MEDIA_CACHE_LEAST_FILES
            );
            assert!(!media.cache_ttl.is_zero());
            assert_eq!(MediaLimits::new(media.limits.caps()), Ok(media.limits));
            for rate in [federation.lookup_rate, media.fetch_rate] {
                assert_eq!(RateLimit::new(RateCaps { per_minute: rate.per_minute(), burst: rate.burst() }), Some(rate));
            }
            let _homeserver = EmbeddedHomeserver::new(&config);
            let _warnings = config.warnings();
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                let told = mistake.to_string();
                match mistake.line {
                    Some(line) => assert!((1..=lines).contains(&line), "{told}"),
                    None => assert!(REQUIRED.contains(&mistake.key.as_str()), "{told}"),
                }
                assert!(!mistake.problem.is_empty() && !mistake.problem.contains('\n'), "{told}");
            }
        }
    }
}
