//! [`Config`]: what an operator may decide. Caps and deadlines that bound threads are not here, on purpose.
//!
//! A file is read whole and every mistake in it is reported at once, with its line: unknown keys, wrong types, numbers
//! out of range. Nothing is ever guessed, and 0 is never "unlimited".

pub(super) mod files;
mod media;
mod nearest;
mod network;
mod origin;
mod rate;
mod reader;
mod units;
pub(super) mod upstream;
mod walk;
mod warnings;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use self::files::NamedFiles;
pub use self::media::{MediaCacheDir, MediaConfig};
use self::origin::Origin;
pub use self::reader::ConfigError;
use super::upstream::UpstreamOrigin;
use crate::admission::{Ipv6ClientPrefix, RateLimit, RemoteTimeout};
use crate::limits::DEFAULT_REQUEST_THREADS;
use crate::proxy::local_view::ListedRoom;
use crate::server_name::ServerName;

const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8009));
const ADMIN_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9009));

/// A name that cannot exist elsewhere: `localhost` is reserved (RFC 6761).
const NAME_WITHOUT_FILE: &str = "portcullis.localhost";

/// The configuration of `portcullis serve`, checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Who we are to other servers.
    pub server_name: ServerName,
    /// The key that signs our requests.
    pub signing_key: SigningKeySource,
    /// Where clients, or the proxy in front, connect to.
    pub listen: SocketAddr,
    /// Where the operator looks; on this machine alone, unless the file says `admin_allow_remote = true`.
    pub admin_listen: SocketAddr,
    /// Size of the request pool; the caps follow from it.
    pub request_threads: usize,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How many leading bits of an IPv6 address make one client.
    pub ipv6_client_prefix: Ipv6ClientPrefix,
    /// The homeserver behind; without one there is the embedded homeserver.
    pub upstream: Option<UpstreamOrigin>,
    /// The local room list.
    pub rooms: Vec<ListedRoom>,
    /// The local aliases.
    pub aliases: Vec<LocalAlias>,
    /// The access tokens.
    pub tokens: Vec<AccessToken>,
    /// `[media]`.
    pub media: MediaConfig,
    /// `[federation]`.
    pub federation: FederationConfig,
    /// `[log]`.
    pub log: LogConfig,
    /// Where all of it was read.
    pub(crate) origin: Origin,
}

/// Where the signing key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKeySource {
    /// A key file, `ed25519 a_xxxx base64`.
    File(PathBuf),
    /// A key made at the start and forgotten at the end.
    ThrowAway,
}

/// An alias of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAlias {
    /// The part between `#` and the first colon.
    pub local_part: String,
    /// The room it points to.
    pub room_id: String,
    /// Servers that know the room.
    pub servers: Vec<String>,
}

/// An access token of the embedded homeserver.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// The secret.
    pub token: String,
    /// Whose it is.
    pub user_id: String,
}

/// `[federation]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FederationConfig {
    /// Shortens the deadlines, never lengthens them.
    pub remote_timeout: Option<RemoteTimeout>,
    /// Whether lookups at other servers need an access token.
    pub require_token_for_remote: bool,
    /// How often one client may have another server asked for a room list or an alias.
    pub lookup_rate: RateLimit,
    /// Certificates added to the usual roots.
    pub extra_ca_file: Option<PathBuf>,
    /// Whom to ask for names; empty means those of the system.
    pub nameservers: Vec<SocketAddr>,
    /// Never connected to, besides what is refused anyway.
    pub deny_networks: Vec<IpNet>,
    /// Connected to, whatever else is said.
    pub allow_networks: Vec<IpNet>,
}

/// `[log]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// How much is logged.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the levels")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The file could not be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file was read, and this is wrong in it. Never empty.
    #[error("{}", one_per_line(.0))]
    Mistakes(Vec<ConfigError>),
}

impl Config {
    /// Reads and checks a file. A relative path inside it is relative to the file's own directory. The files it names are
    /// not opened.
    ///
    /// *Errors:* all mistakes at once. *Panics:* never. *Blocking:* reads the file.
    pub fn read(path: &Path) -> Result<Self, ConfigProblem> {
        Self::read_as(path, NamedFiles::NotOpened)
    }

    /// As [`Self::read`], with the files it names: a signing key or a certificate that cannot be used is a mistake of the
    /// file among the others. This is what `serve` and `check-config` do.
    ///
    /// *Errors:* all mistakes at once. *Panics:* never. *Blocking:* reads the file and those it names.
    pub fn read_with_files(path: &Path) -> Result<Self, ConfigProblem> {
        Self::read_as(path, NamedFiles::Checked)
    }

    fn read_as(path: &Path, named: NamedFiles) -> Result<Self, ConfigProblem> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigProblem::Unreadable { path: path.to_owned(), error })?;
        let base = path.parent().unwrap_or_else(|| Path::new(""));
        walk::config(&path.display().to_string(), base, &text, named).map_err(ConfigProblem::Mistakes)
    }

    /// Checks the text of `file`, whose relative paths start from `base`.
    pub(crate) fn parse(file: &str, base: &Path, text: &str) -> Result<Self, Vec<ConfigError>> {
        walk::config(file, base, text, NamedFiles::NotOpened)
    }

    /// A problem of `key` that shows only once the configuration is used, told with its line like any other.
    #[must_use]
    pub fn problem(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        let (file, line) = (self.origin.file().to_owned(), self.origin.line(key));
        ConfigError { file, line, key: key.to_owned(), problem: problem.into() }
    }

    /// What `serve` runs with when it is given no file: an empty homeserver with a throw-away key on the usual ports.
    #[must_use]
    #[expect(clippy::missing_panics_doc, clippy::expect_used, reason = "a constant, and a test parses it")]
    pub fn without_file() -> Self {
        Self {
            server_name: NAME_WITHOUT_FILE.parse().expect("a valid server name"),
            signing_key: SigningKeySource::ThrowAway,
            listen: LISTEN,
            admin_listen: ADMIN_LISTEN,
            request_threads: DEFAULT_REQUEST_THREADS,
            trusted_proxies: Vec::new(),
            ipv6_client_prefix: Ipv6ClientPrefix::default(),
            upstream: None,
            rooms: Vec::new(),
            aliases: Vec::new(),
            tokens: Vec::new(),
            media: MediaConfig::default(),
            federation: FederationConfig::default(),
            log: LogConfig::default(),
            origin: Origin::default(),
        }
    }
}

impl Default for FederationConfig {
    fn default() -> Self {
        Self {
            remote_timeout: None,
            require_token_for_remote: false,
            lookup_rate: rate::usual_lookups(),
            extra_ca_file: None,
            nameservers: Vec::new(),
            deny_networks: Vec::new(),
            allow_networks: Vec::new(),
        }
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AccessToken").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

fn one_per_line(mistakes: &[ConfigError]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
