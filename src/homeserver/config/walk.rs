//! From a TOML table to a [`Config`]: one line per key.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::files::{self, KeyOf, NamedFiles};
use super::media::media;
use super::network::{listen_address, name_server, network, proxy, reachable_admin};
use super::origin::Origin;
use super::rate;
use super::reader::{ConfigError, Mistakes, Section, flag, integer, parsed, text};
use super::units::{DURATION, duration};
use super::upstream::{upstream, without_embedded_data};
use super::{
    ADMIN_LISTEN, AccessToken, Config, FederationConfig, LISTEN, LocalAlias, LogConfig, LogFormat, LogLevel,
    SigningKeySource,
};
use crate::admission::{Ipv6ClientPrefix, RemoteTimeout, RoomAlias, ZeroTimeout};
use crate::limits::{DEFAULT_REQUEST_THREADS, REQUEST_THREADS};
use crate::proxy::local_view::ListedRoom;
use crate::server_name::ServerName;

pub(super) const SERVER_NAME: &str = "a server name in quotes such as \"example.org\"";
const ALIAS: &str = "a room alias in quotes such as \"#hall:example.org\"";
const ROOM_ID: &str = "a room id in quotes such as \"!abc:example.org\"";
const USER_ID: &str = "a user id in quotes such as \"@alice:example.org\"";
const TEXT: &str = "text in quotes";
const PATH: &str = "a path in quotes such as \"signing.key\"";

/// Checks a whole file. `base` is what relative paths start from.
pub(super) fn config(file: &str, base: &Path, toml: &str, named: NamedFiles) -> Result<Config, Vec<ConfigError>> {
    let mut mistakes = Mistakes::of(file, toml);
    let (table, syntax_errors) = DeTable::parse_recoverable(toml);
    mistakes.note_syntax(syntax_errors);
    if mistakes.any() {
        // What the rest seems to say may be no more than what was torn: a key is missing, a table has another name.
        return Err(mistakes.into_origin().err().unwrap_or_default());
    }
    let config = whole(Section::root(table.get_ref()), Paths { base, named }, &mut mistakes);
    let origin = mistakes.into_origin()?;
    // Without a mistake there is one.
    config.map(|config| Config { origin, ..config }).ok_or_else(Vec::new)
}

/// How a key that names a file is read.
#[derive(Clone, Copy)]
pub(super) struct Paths<'a> {
    base: &'a Path,
    named: NamedFiles,
}

impl Paths<'_> {
    fn signing_key(self, value: &DeValue<'_>, whose: KeyOf) -> Result<PathBuf, String> {
        // The file names no server: any name does to see whether it can be read.
        self.path(value, |path| files::signer(path, Config::without_file().server_name, whose).map(drop))
    }

    fn extra_ca_file(self, value: &DeValue<'_>) -> Result<PathBuf, String> {
        self.path(value, files::check_extra_ca)
    }

    pub(super) fn path(
        self,
        value: &DeValue<'_>,
        check: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let text = text(value, PATH)?;
        if text.is_empty() {
            return Err("an empty path".into());
        }
        let (path, checked) = self.resolve(text, check);
        checked.map(|()| path)
    }

    /// The path of what is called `name`, and what is wrong there.
    pub(super) fn resolve(
        self,
        name: &str,
        check: impl FnOnce(&Path) -> Result<(), String>,
    ) -> (PathBuf, Result<(), String>) {
        let path = self.base.join(name);
        let checked = if self.named == NamedFiles::Checked { check(&path) } else { Ok(()) };
        (path, checked)
    }
}

fn whole(mut root: Section<'_>, paths: Paths<'_>, mistakes: &mut Mistakes<'_>) -> Option<Config> {
    let server_name = root.required("server_name", mistakes, |value| parsed::<ServerName>(value, SERVER_NAME));
    let whose = KeyOf::whose(root.names("homeserver", "upstream"));
    let signing_key = root.required("signing_key", mistakes, |value| paths.signing_key(value, whose));
    let listen = root.value("listen", mistakes, listen_address).unwrap_or(LISTEN);
    let admin_listen = root.value("admin_listen", mistakes, listen_address).unwrap_or(ADMIN_LISTEN);
    let admin_allow_remote = root.value("admin_allow_remote", mistakes, flag).unwrap_or_default();
    if let Some(problem) = reachable_admin(admin_listen, admin_allow_remote) {
        mistakes.note(root.span_of("admin_listen"), "admin_listen", problem);
    }
    if listen == admin_listen && listen.port() != 0 {
        let at = root.span_of("admin_listen").or_else(|| root.span_of("listen"));
        mistakes.note(at, "admin_listen", "clients and the operator need different sockets");
    }
    let request_threads = root.value("request_threads", mistakes, request_threads).unwrap_or(DEFAULT_REQUEST_THREADS);
    let trusted_proxies = root.each("trusted_proxies", mistakes, proxy);
    let ipv6_client_prefix = root.value("ipv6_client_prefix", mistakes, ipv6_client_prefix).unwrap_or_default();

    root.is_above_tables(mistakes);

    let listeners = [("listen", listen), ("admin_listen", admin_listen)];
    let homeserver = root.section("homeserver", mistakes);
    let upstream = upstream(homeserver, listeners, mistakes);
    if upstream.is_some() {
        without_embedded_data(&mut root, mistakes);
    }
    let rooms = rooms(root.sections("rooms", mistakes), mistakes);
    let aliases = aliases(root.sections("aliases", mistakes), server_name.as_ref(), mistakes);
    let tokens = tokens(root.sections("tokens", mistakes), server_name.as_ref(), mistakes);
    let media = media(root.section("media", mistakes), paths, mistakes);
    let federation = federation(root.section("federation", mistakes), paths, mistakes);
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
        upstream,
        rooms,
        aliases,
        tokens,
        media,
        federation,
        log,
        origin: Origin::default(),
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
            canonical_alias: section.value("canonical_alias", mistakes, |value| {
                parsed::<RoomAlias>(value, ALIAS).map(|alias| alias.to_string())
            }),
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
        let mut servers = section
            .each("servers", mistakes, |value| parsed::<ServerName>(value, SERVER_NAME).map(|name| name.to_string()));
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

fn tokens(sections: Vec<Section<'_>>, own_name: Option<&ServerName>, mistakes: &mut Mistakes<'_>) -> Vec<AccessToken> {
    let mut tokens = Vec::new();
    let mut seen = HashSet::new();
    for mut section in sections {
        let token = section.required("token", mistakes, token);
        if let Some(token) = &token {
            once(token, "token", &mut section, &mut seen, mistakes);
        }
        let user_id = section.required("user_id", mistakes, |value| user_id(value, own_name));
        section.end(mistakes);
        tokens.extend(token.zip(user_id).map(|(token, user_id)| AccessToken { token, user_id }));
    }
    tokens
}

fn federation(mut section: Section<'_>, paths: Paths<'_>, mistakes: &mut Mistakes<'_>) -> FederationConfig {
    let federation = FederationConfig {
        remote_timeout: section.value("remote_timeout", mistakes, remote_timeout),
        require_token_for_remote: section.value("require_token_for_remote", mistakes, flag).unwrap_or_default(),
        lookup_rate: rate::lookups(&mut section, mistakes),
        extra_ca_file: section.value("extra_ca_file", mistakes, |value| paths.extra_ca_file(value)),
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

fn owned(value: &DeValue<'_>) -> Result<String, String> {
    text(value, TEXT).map(ToOwned::to_owned)
}

fn request_threads(value: &DeValue<'_>) -> Result<usize, String> {
    let (fewest, most) = (*REQUEST_THREADS.start(), *REQUEST_THREADS.end());
    let threads = integer(value, &format!("a whole number from {fewest} to {most} without quotes"))?;
    match usize::try_from(threads) {
        Ok(1) => Err(format!("a pool of 1 cannot keep half of itself free; use {fewest} to {most}")),
        Ok(threads) if REQUEST_THREADS.contains(&threads) => Ok(threads),
        _ => Err(format!("{threads} is not in the range {fewest} to {most}")),
    }
}

fn ipv6_client_prefix(value: &DeValue<'_>) -> Result<Ipv6ClientPrefix, String> {
    let bits = integer(value, "a whole number from 1 to 128 without quotes")?;
    u8::try_from(bits)
        .ok()
        .and_then(Ipv6ClientPrefix::new)
        .ok_or_else(|| format!("{bits} is not in the range 1 to 128"))
}

fn count(value: &DeValue<'_>) -> Result<u64, String> {
    integer(value, "a whole number without quotes")?.try_into().map_err(|_| "a count is not negative".into())
}

fn remote_timeout(value: &DeValue<'_>) -> Result<RemoteTimeout, String> {
    RemoteTimeout::new(duration(text(value, DURATION)?)?).map_err(|ZeroTimeout| {
        "no time at all: 0 is not \"unlimited\"; leave the key out for the built-in deadlines".into()
    })
}

fn room_id(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value, ROOM_ID)?;
    if text.len() > 1 && text.starts_with('!') {
        Ok(text.into())
    } else {
        Err(format!("{text:?} is not a room id such as \"!abc:example.org\""))
    }
}

fn local_part(value: &DeValue<'_>, own_name: Option<&ServerName>) -> Result<String, String> {
    let alias = parsed::<RoomAlias>(value, ALIAS)?;
    if own_name.is_some_and(|own_name| !own_name.is_same_server(alias.server())) {
        return Err(format!("{alias} is an alias of another server"));
    }
    let (local, _) = alias.as_str().split_once(':').unwrap_or((alias.as_str(), ""));
    Ok(local.strip_prefix('#').unwrap_or(local).into())
}

/// What was written may be a secret in any form and is not repeated.
fn token(value: &DeValue<'_>) -> Result<String, String> {
    let text = value.as_str().ok_or("expected text in quotes")?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.into())
    } else {
        Err("a token is visible ASCII without blanks".into())
    }
}

fn user_id(value: &DeValue<'_>, own_name: Option<&ServerName>) -> Result<String, String> {
    let text = text(value, USER_ID)?;
    let server = text
        .strip_prefix('@')
        .and_then(|rest| rest.split_once(':'))
        .filter(|(local, _)| !local.is_empty())
        .and_then(|(_, server)| server.parse::<ServerName>().ok())
        .ok_or_else(|| format!("{text:?} is not a user id such as \"@alice:example.org\""))?;
    if own_name.is_some_and(|own_name| !own_name.is_same_server(&server)) {
        return Err(format!("{text} is a user of another server; a token is for a user of this one"));
    }
    Ok(text.into())
}

fn log_level(value: &DeValue<'_>) -> Result<LogLevel, String> {
    match text(value, "a level in quotes such as \"info\"")? {
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
    match text(value, "\"text\" or \"json\" in quotes")? {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is neither text nor json")),
    }
}
