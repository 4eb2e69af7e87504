//! From a TOML table to a [`Config`]: one line per key.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::network::{listen_address, name_server, network, proxy};
use super::reader::{ConfigError, Mistakes, Section, flag, integer, parsed, text};
use super::units::duration;
use super::{
    ADMIN_LISTEN, AccessToken, Config, FederationConfig, LISTEN, LocalAlias, LogConfig, LogFormat, LogLevel,
    MediaConfig, SigningKeySource,
};
use crate::admission::{Ipv6ClientPrefix, RoomAlias};
use crate::limits::{DEFAULT_REQUEST_THREADS, REQUEST_THREADS};
use crate::proxy::local_view::ListedRoom;
use crate::server_name::ServerName;

const LATER: &str = "comes with a later release; remove this key for now";

/// Keys of `[media]` that are spoken for.
const LATER_MEDIA_KEYS: [&str; 10] = [
    "legacy_endpoints",
    "blocked_servers",
    "max_file",
    "cache_dir",
    "cache_size",
    "cache_ttl",
    "max_in_flight",
    "max_per_client",
    "max_running",
    "max_running_per_origin",
];

/// Checks a whole file. `base` is what relative paths start from.
pub(super) fn config(file: &str, base: &Path, toml: &str) -> Result<Config, Vec<ConfigError>> {
    let mut mistakes = Mistakes::of(file, toml);
    let (table, syntax_errors) = DeTable::parse_recoverable(toml);
    mistakes.note_syntax(syntax_errors);
    match whole(Section::root(table.get_ref()), base, &mut mistakes) {
        Some(config) if !mistakes.any() => Ok(config),
        _ => Err(mistakes.into_sorted()),
    }
}

fn whole(mut root: Section<'_>, base: &Path, mistakes: &mut Mistakes<'_>) -> Option<Config> {
    let server_name = root.required("server_name", mistakes, parsed::<ServerName>);
    let signing_key = root.required("signing_key", mistakes, |value| path(value, base));
    let listen = root.value("listen", mistakes, listen_address).unwrap_or(LISTEN);
    let admin_listen = root.value("admin_listen", mistakes, listen_address).unwrap_or(ADMIN_LISTEN);
    if listen == admin_listen && listen.port() != 0 {
        let at = root.span_of("admin_listen").or_else(|| root.span_of("listen"));
        mistakes.note(at, "admin_listen", "clients and the operator need different sockets");
    }
    let request_threads = root.value("request_threads", mistakes, request_threads).unwrap_or(DEFAULT_REQUEST_THREADS);
    let trusted_proxies = root.each("trusted_proxies", mistakes, proxy);
    let ipv6_client_prefix = root.value("ipv6_client_prefix", mistakes, ipv6_client_prefix).unwrap_or_default();

    let mut homeserver = root.section("homeserver", mistakes);
    homeserver.value("upstream", mistakes, later);
    homeserver.end(mistakes);

    let rooms = rooms(root.sections("rooms", mistakes), mistakes);
    let aliases = aliases(root.sections("aliases", mistakes), server_name.as_ref(), mistakes);
    let tokens = tokens(root.sections("tokens", mistakes), mistakes);
    let media = media(root.section("media", mistakes), mistakes);
    let federation = federation(root.section("federation", mistakes), base, mistakes);
    let log = log(root.section("log", mistakes), mistakes);
    root.end(mistakes);

    Some(Config {
        server_name: server_name?,
        signing_key: SigningKeySource::File(signing_key?),
        listen,
        admin_listen,
        request_threads,
        trusted_proxies,
        ipv6_client_prefix,
        rooms,
        aliases,
        tokens,
        media,
        federation,
        log,
    })
}

fn rooms(sections: Vec<Section<'_>>, mistakes: &mut Mistakes<'_>) -> Vec<ListedRoom> {
    let mut rooms = Vec::new();
    let mut seen = HashSet::new();
    for mut section in sections {
        let room_id = section.required("room_id", mistakes, room_id);
        if let Some(room_id) = &room_id {
            once(room_id, "room_id", &mut section, &mut seen, mistakes);
        }
        rooms.push(ListedRoom {
            room_id: room_id.unwrap_or_default(),
            num_joined_members: section.value("num_joined_members", mistakes, count).unwrap_or_default(),
            world_readable: section.value("world_readable", mistakes, flag).unwrap_or_default(),
            guest_can_join: section.value("guest_can_join", mistakes, flag).unwrap_or_default(),
            canonical_alias: section
                .value("canonical_alias", mistakes, |value| parsed::<RoomAlias>(value).map(|alias| alias.to_string())),
            name: section.value("name", mistakes, owned),
            topic: section.value("topic", mistakes, owned),
            avatar_url: section.value("avatar_url", mistakes, owned),
            join_rule: section.value("join_rule", mistakes, owned),
            room_type: section.value("room_type", mistakes, owned),
        });
        section.end(mistakes);
    }
    rooms
}

fn aliases(sections: Vec<Section<'_>>, own_name: Option<&ServerName>, mistakes: &mut Mistakes<'_>) -> Vec<LocalAlias> {
    let mut aliases = Vec::new();
    let mut seen = HashSet::new();
    for mut section in sections {
        let local_part = section.required("alias", mistakes, |value| local_part(value, own_name));
        if let Some(local_part) = &local_part {
            once(local_part, "alias", &mut section, &mut seen, mistakes);
        }
        let room_id = section.required("room_id", mistakes, room_id);
        let mut servers =
            section.each("servers", mistakes, |value| parsed::<ServerName>(value).map(|name| name.to_string()));
        if servers.is_empty() {
            servers.extend(own_name.map(ToString::to_string));
        }
        section.end(mistakes);
        aliases.extend(local_part.zip(room_id).map(|(local_part, room_id)| LocalAlias {
            local_part,
            room_id,
            servers,
        }));
    }
    aliases
}

fn tokens(sections: Vec<Section<'_>>, mistakes: &mut Mistakes<'_>) -> Vec<AccessToken> {
    let mut tokens = Vec::new();
    let mut seen = HashSet::new();
    for mut section in sections {
        let token = section.required("token", mistakes, token);
        if let Some(token) = &token {
            once(token, "token", &mut section, &mut seen, mistakes);
        }
        let user_id = section.required("user_id", mistakes, user_id);
        section.end(mistakes);
        tokens.extend(token.zip(user_id).map(|(token, user_id)| AccessToken { token, user_id }));
    }
    tokens
}

fn media(mut section: Section<'_>, mistakes: &mut Mistakes<'_>) -> MediaConfig {
    let remote_fetch_enabled = section.value("remote_fetch_enabled", mistakes, |value| {
        if flag(value)? {
            Err("remote media comes with a later release; write false for now".into())
        } else {
            Ok(false)
        }
    });
    for key in LATER_MEDIA_KEYS {
        section.value(key, mistakes, later);
    }
    section.end(mistakes);
    MediaConfig { remote_fetch_enabled }
}

fn federation(mut section: Section<'_>, base: &Path, mistakes: &mut Mistakes<'_>) -> FederationConfig {
    let federation = FederationConfig {
        remote_timeout: section.value("remote_timeout", mistakes, remote_timeout),
        require_token_for_remote: section.value("require_token_for_remote", mistakes, flag).unwrap_or_default(),
        extra_ca_file: section.value("extra_ca_file", mistakes, |value| path(value, base)),
        nameservers: section.each("nameservers", mistakes, name_server),
        deny_networks: section.each("deny_networks", mistakes, network),
        allow_networks: section.each("allow_networks", mistakes, network),
    };
    section.end(mistakes);
    federation
}

fn log(mut section: Section<'_>, mistakes: &mut Mistakes<'_>) -> LogConfig {
    let log = LogConfig {
        level: section.value("level", mistakes, log_level).unwrap_or_default(),
        format: section.value("format", mistakes, log_format).unwrap_or_default(),
    };
    section.end(mistakes);
    log
}

/// Notes what is there a second time. The value itself may be a secret and is not repeated.
fn once(
    value: &str,
    key: &'static str,
    section: &mut Section<'_>,
    seen: &mut HashSet<String>,
    mistakes: &mut Mistakes<'_>,
) {
    if !seen.insert(value.to_owned()) {
        mistakes.note(section.span_of(key), &section.path(key), "the same one stands further up");
    }
}

fn later(_value: &DeValue<'_>) -> Result<(), String> {
    Err(LATER.into())
}

fn owned(value: &DeValue<'_>) -> Result<String, String> {
    text(value).map(ToOwned::to_owned)
}

fn path(value: &DeValue<'_>, base: &Path) -> Result<PathBuf, String> {
    let text = text(value)?;
    if text.is_empty() { Err("an empty path".into()) } else { Ok(base.join(text)) }
}

fn request_threads(value: &DeValue<'_>) -> Result<usize, String> {
    let threads = integer(value)?;
    let (fewest, most) = (*REQUEST_THREADS.start(), *REQUEST_THREADS.end());
    match usize::try_from(threads) {
        Ok(1) => Err(format!("a pool of 1 cannot keep half of itself free; use {fewest} to {most}")),
        Ok(threads) if REQUEST_THREADS.contains(&threads) => Ok(threads),
        _ => Err(format!("{threads} is not in the range {fewest} to {most}")),
    }
}

fn ipv6_client_prefix(value: &DeValue<'_>) -> Result<Ipv6ClientPrefix, String> {
    let bits = integer(value)?;
    u8::try_from(bits)
        .ok()
        .and_then(Ipv6ClientPrefix::new)
        .ok_or_else(|| format!("{bits} is not in the range 1 to 128"))
}

fn count(value: &DeValue<'_>) -> Result<u64, String> {
    integer(value)?.try_into().map_err(|_| "a count is not negative".into())
}

fn remote_timeout(value: &DeValue<'_>) -> Result<Duration, String> {
    let limit = duration(text(value)?)?;
    if limit.is_zero() {
        return Err("no time at all: 0 is not \"unlimited\"; leave the key out for the built-in deadlines".into());
    }
    Ok(limit)
}

fn room_id(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    if text.len() > 1 && text.starts_with('!') {
        Ok(text.into())
    } else {
        Err(format!("{text:?} is not a room id such as \"!abc:example.org\""))
    }
}

fn local_part(value: &DeValue<'_>, own_name: Option<&ServerName>) -> Result<String, String> {
    let alias = parsed::<RoomAlias>(value)?;
    if own_name.is_some_and(|own_name| !own_name.is_same_server(alias.server())) {
        return Err(format!("{alias} is an alias of another server"));
    }
    let (local, _) = alias.as_str().split_once(':').unwrap_or((alias.as_str(), ""));
    Ok(local.strip_prefix('#').unwrap_or(local).into())
}

fn token(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.into())
    } else {
        Err("a token is visible ASCII without blanks".into())
    }
}

fn user_id(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    let valid = text
        .strip_prefix('@')
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(local, server)| !local.is_empty() && server.parse::<ServerName>().is_ok());
    if valid { Ok(text.into()) } else { Err(format!("{text:?} is not a user id such as \"@alice:example.org\"")) }
}

fn log_level(value: &DeValue<'_>) -> Result<LogLevel, String> {
    match text(value)? {
        "off" => Ok(LogLevel::Off),
        "error" => Ok(LogLevel::Error),
        "warn" => Ok(LogLevel::Warn),
        "info" => Ok(LogLevel::Info),
        "debug" => Ok(LogLevel::Debug),
        "trace" => Ok(LogLevel::Trace),
        other => Err(format!("{other:?} is none of off, error, warn, info, debug, trace")),
    }
}

fn log_format(value: &DeValue<'_>) -> Result<LogFormat, String> {
    match text(value)? {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is neither text nor json")),
    }
}
