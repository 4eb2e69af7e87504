//! `[media]`: files of other servers, what they may take and where they are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::reader::{Mistakes, Section, flag, integer, parsed, text};
use super::units::{DURATION, SIZE, duration, size, written_size};
use super::walk::{Paths, SERVER_NAME};
use super::{files, rate};
use crate::admission::{InvalidMediaLimits, MediaCaps, MediaLimits, RateLimit, RemoteFetchPolicy};
use crate::limits::{
    MEDIA_CACHE_BYTES, MEDIA_CACHE_LEAST_BYTES, MEDIA_CACHE_LEAST_FILES, MEDIA_CACHE_TTL, MEDIA_MAX_FILE_BYTES,
};
use crate::server_name::ServerName;

/// Where files are kept if the operator does not say, beside the configuration file.
const CACHE_DIR: &str = "media-cache";

/// `[media]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaConfig {
    /// The switch; `None` where the operator did not say, which counts as off and is warned about.
    pub remote_fetch_enabled: Option<bool>,
    /// Whether the paths of before Matrix 1.11 are served too, which ask for no token.
    pub legacy_endpoints: bool,
    /// Servers whose files are not fetched. One without a port stands for its host, whatever the port.
    pub blocked_servers: Vec<ServerName>,
    /// Largest file taken.
    pub max_file_bytes: u64,
    /// Where files are kept.
    pub cache_dir: MediaCacheDir,
    /// What all that is kept may take. Always at least [`MEDIA_CACHE_LEAST_BYTES`], and
    /// [`MEDIA_CACHE_LEAST_FILES`] times the largest file.
    pub cache_size_bytes: u64,
    /// How long a file is kept. Never zero.
    pub cache_ttl: Duration,
    /// How many fetches there may be.
    pub limits: MediaLimits,
    /// How often one client may cause a fetch.
    pub fetch_rate: RateLimit,
}

/// Where files of other servers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaCacheDir {
    /// A directory that outlives the process.
    At(PathBuf),
    /// One made at the start and removed at the end.
    ThrowAway,
}

impl MediaConfig {
    /// The switch as the door reads it: what is not said is off.
    #[must_use]
    pub fn policy(&self) -> RemoteFetchPolicy {
        RemoteFetchPolicy { remote_fetch_enabled: self.remote_fetch_enabled == Some(true) }
    }
}

impl Default for MediaConfig {
    fn default() -> Self {
        Self {
            remote_fetch_enabled: None,
            legacy_endpoints: false,
            blocked_servers: Vec::new(),
            max_file_bytes: MEDIA_MAX_FILE_BYTES,
            cache_dir: MediaCacheDir::ThrowAway,
            cache_size_bytes: MEDIA_CACHE_BYTES,
            cache_ttl: MEDIA_CACHE_TTL,
            limits: MediaLimits::default(),
            fetch_rate: rate::usual_media_fetches(),
        }
    }
}

pub(super) fn media(mut section: Section<'_>, paths: Paths<'_>, mistakes: &mut Mistakes<'_>) -> MediaConfig {
    let remote_fetch_enabled = section.value("remote_fetch_enabled", mistakes, flag);
    let legacy_endpoints = section.value("legacy_endpoints", mistakes, flag).unwrap_or_default();
    let blocked_servers = section.each("blocked_servers", mistakes, |value| parsed(value, SERVER_NAME));
    let (max_file_bytes, cache_size_bytes) = sizes(&mut section, mistakes);
    let cache_dir = cache_dir(&mut section, paths, remote_fetch_enabled == Some(true), mistakes);
    let cache_ttl = section.value("cache_ttl", mistakes, time_to_live).unwrap_or(MEDIA_CACHE_TTL);
    let limits = limits(&mut section, mistakes);
    let fetch_rate = rate::media_fetches(&mut section, mistakes);
    section.end(mistakes);
    MediaConfig {
        remote_fetch_enabled,
        legacy_endpoints,
        blocked_servers,
        max_file_bytes,
        cache_dir: MediaCacheDir::At(cache_dir),
        cache_size_bytes,
        cache_ttl,
        limits,
        fetch_rate,
    }
}

/// The largest file and the whole store, which fit each other.
fn sizes(section: &mut Section<'_>, mistakes: &mut Mistakes<'_>) -> (u64, u64) {
    let max_file = Figure::read(section, "max_file", MEDIA_MAX_FILE_BYTES, some_bytes, mistakes);
    let cache_size = Figure::read(section, "cache_size", MEDIA_CACHE_BYTES, cache_size, mistakes);
    if let (Some(max_file), Some(cache_size)) = (&max_file, &cache_size)
        && max_file.value > cache_size.value / MEDIA_CACHE_LEAST_FILES
    {
        let problem = format!(
            "{} and {}, which do not fit: the cache has to hold {MEDIA_CACHE_LEAST_FILES} files of the largest size, one \
             that is read and one that comes",
            max_file.told(written_size),
            cache_size.told(written_size),
        );
        note_pair(section, max_file, cache_size, problem, mistakes);
    }
    let value = |figure: Option<Figure<u64>>, default| figure.map_or(default, |figure| figure.value);
    (value(max_file, MEDIA_MAX_FILE_BYTES), value(cache_size, MEDIA_CACHE_BYTES))
}

/// The caps. Each that contradicts another is told, whatever else is wrong.
fn limits(section: &mut Section<'_>, mistakes: &mut Mistakes<'_>) -> MediaLimits {
    let usual = MediaLimits::default();
    let mut read = |key, default| Figure::read(section, key, default, cap, mistakes);
    let in_flight = read("max_in_flight", usual.max_in_flight());
    let per_client = read("max_per_client", usual.max_per_client());
    let running = read("max_running", usual.max_running());
    let per_origin = read("max_running_per_origin", usual.max_running_per_origin());
    // A pair at a time. What is no number contradicts nothing, and keeps no other pair from being judged.
    note_order(section, per_client.as_ref(), in_flight.as_ref(), InvalidMediaLimits::PerClient, mistakes);
    note_order(section, running.as_ref(), in_flight.as_ref(), InvalidMediaLimits::Running, mistakes);
    note_order(section, per_origin.as_ref(), running.as_ref(), InvalidMediaLimits::PerOrigin, mistakes);
    let (Some(in_flight), Some(per_client), Some(running), Some(per_origin)) =
        (in_flight, per_client, running, per_origin)
    else {
        return usual;
    };
    MediaLimits::new(MediaCaps {
        max_in_flight: in_flight.value,
        max_per_client: per_client.value,
        max_running: running.value,
        max_running_per_origin: per_origin.value,
    })
    .unwrap_or(usual)
}

/// Notes that `small` is over `large`.
fn note_order(
    section: &mut Section<'_>,
    small: Option<&Figure<usize>>,
    large: Option<&Figure<usize>>,
    error: InvalidMediaLimits,
    mistakes: &mut Mistakes<'_>,
) {
    if let (Some(small), Some(large)) = (small, large)
        && small.value > large.value
    {
        let write = |cap: usize| cap.to_string();
        let problem = format!("{error}: {}, {}", small.told(write), large.told(write));
        note_pair(section, small, large, problem, mistakes);
    }
}

/// A number, and whether the operator wrote it.
struct Figure<T> {
    key: &'static str,
    value: T,
    written: bool,
}

impl<T: Copy> Figure<T> {
    /// `None` if what is written is no such number; that is noted.
    fn read(
        section: &mut Section<'_>,
        key: &'static str,
        default: T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Self> {
        let written = section.span_of(key).is_some();
        let value = if written { section.value(key, mistakes, read)? } else { default };
        Some(Self { key, value, written })
    }

    fn told(&self, write: impl FnOnce(T) -> String) -> String {
        let default = if self.written { "" } else { " (the default)" };
        format!("{} is {}{default}", self.key, write(self.value))
    }
}

/// Notes that two numbers contradict each other, at the one that is written: one of them is, for defaults fit.
fn note_pair<T>(
    section: &mut Section<'_>,
    one: &Figure<T>,
    other: &Figure<T>,
    problem: String,
    mistakes: &mut Mistakes<'_>,
) {
    let key = if one.written { one.key } else { other.key };
    mistakes.note(section.span_of(key), &section.path(key), problem);
}

/// The directory, looked at only if it will be used.
fn cache_dir(section: &mut Section<'_>, paths: Paths<'_>, used: bool, mistakes: &mut Mistakes<'_>) -> PathBuf {
    let check = |path: &Path| if used { files::check_cache_dir(path) } else { Ok(()) };
    let written = section.value("cache_dir", mistakes, |value| paths.path(value, check));
    let (path, checked) = match written {
        Some(path) => return path,
        None => paths.resolve(CACHE_DIR, check),
    };
    if section.span_of("cache_dir").is_none()
        && let Err(problem) = checked
    {
        mistakes.note(section.span_of("remote_fetch_enabled"), &section.path("cache_dir"), problem);
    }
    path
}

fn some_bytes(value: &DeValue<'_>) -> Result<u64, String> {
    match size(text(value, SIZE)?)? {
        0 => {
            Err("no room at all: 0 is not \"unlimited\"; remote_fetch_enabled = false switches remote media off".into())
        }
        bytes => Ok(bytes),
    }
}

fn cache_size(value: &DeValue<'_>) -> Result<u64, String> {
    match some_bytes(value)? {
        bytes if bytes < MEDIA_CACHE_LEAST_BYTES => Err(format!(
            "{} hold too little; write {} or more",
            written_size(bytes),
            written_size(MEDIA_CACHE_LEAST_BYTES)
        )),
        bytes => Ok(bytes),
    }
}

fn time_to_live(value: &DeValue<'_>) -> Result<Duration, String> {
    let lasts = duration(text(value, DURATION)?)?;
    if lasts.is_zero() {
        return Err("no time at all: 0 is not \"unlimited\"; write how long a file is kept, such as \"24 h\"".into());
    }
    Ok(lasts)
}

fn cap(value: &DeValue<'_>) -> Result<usize, String> {
    let most = MediaLimits::MOST;
    let cap = integer(value, &format!("a whole number from 1 to {most} without quotes"))?;
    match usize::try_from(cap) {
        Ok(0) => Err("0 lets nothing through; remote_fetch_enabled = false switches remote media off".into()),
        Ok(cap) if cap <= most => Ok(cap),
        _ => Err(format!("{cap} is not in the range 1 to {most}")),
    }
}
