//! `portcullis serve` as a process of its own, with a configuration of the test's.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use portcullis::ServerName;
use portcullis::outbound::Ed25519Signer;
use serde_json::Value;

use super::client::PROXY;
use super::{Client, Process, Synapse};

/// What the unit and the image in `contrib/` say to glibc, unless the environment says otherwise.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// The token that an embedded homeserver knows.
pub(crate) const OWN_TOKEN: &str = "interop-token";

/// What `serve` is to be.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    server_name: String,
    /// The line of a key file, or the file of a homeserver.
    key: Key,
    upstream: Option<String>,
    ca: PathBuf,
    log: &'static str,
    more: String,
}

#[derive(Clone, Debug)]
enum Key {
    Line(String),
    File(PathBuf),
}

impl Setup {
    /// A server of its own, with an embedded homeserver and a new key, that trusts this authority.
    pub(crate) fn embedded(server_name: &str, ca: &Path) -> Self {
        let name: ServerName = server_name.parse().unwrap();
        let key = Key::Line(Ed25519Signer::generate(name).to_key_file_line());
        Self {
            server_name: server_name.into(),
            key,
            upstream: None,
            ca: ca.to_owned(),
            log: "debug",
            more: String::new(),
        }
    }

    /// In front of this homeserver, under its name and with its key.
    pub(crate) fn in_front_of(home: &Synapse) -> Self {
        Self {
            server_name: home.server_name.clone(),
            key: Key::File(home.signing_key.clone()),
            upstream: Some(home.base_url.clone()),
            ca: home.ca.clone(),
            log: "debug",
            more: String::new(),
        }
    }

    /// With this line of a key file in place of its own.
    pub(crate) fn signing_with(mut self, line: &str) -> Self {
        self.key = Key::Line(line.into());
        self
    }

    /// With the log of a server in use: nothing per request.
    pub(crate) fn quiet(mut self) -> Self {
        self.log = "info";
        self
    }

    /// With lines more at the end of `[media]`.
    pub(crate) fn media(mut self, line: &str) -> Self {
        self.more.push_str(line);
        self.more.push('\n');
        self
    }

    fn configuration(&self, key: &Path) -> String {
        let Self { server_name, upstream, ca, log, more, .. } = self;
        let homeserver = upstream.as_ref().map_or_else(
            || {
                format!(
                    "[[tokens]]\ntoken = \"{OWN_TOKEN}\"\nuser_id = \"@porter:{server_name}\"\n\n{}",
                    rooms(server_name)
                )
            },
            |base_url| format!("[homeserver]\nupstream = \"{base_url}\"\n"),
        );
        format!(
            r#"
server_name = "{server_name}"
signing_key = "{key}"
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
trusted_proxies = ["{PROXY}"]

[federation]
extra_ca_file = "{ca}"
allow_networks = ["127.0.0.0/8"]

[log]
level = "{log}"

[media]
remote_fetch_enabled = true
cache_dir = "media"
{more}
{homeserver}"#,
            key = key.display(),
            ca = ca.display(),
        )
    }
}

/// A room list like that of a small homeserver.
fn rooms(server_name: &str) -> String {
    let room = |number| format!("[[rooms]]\nroom_id = \"!room{number}:{server_name}\"\nname = \"Room {number}\"\n");
    (0..20).map(room).collect()
}

/// A running `serve`. Dropping it ends it.
pub(crate) struct Serve {
    process: Child,
    clients: SocketAddr,
    admin: SocketAddr,
    files: tempfile::TempDir,
}

impl Serve {
    pub(crate) fn start(setup: &Setup) -> Self {
        let files = tempfile::tempdir().unwrap();
        let key = match &setup.key {
            Key::File(file) => file.clone(),
            Key::Line(line) => {
                let file = files.path().join("signing.key");
                fs::write(&file, line).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
                file
            }
        };
        let config = files.path().join("portcullis.toml");
        fs::write(&config, setup.configuration(&key)).unwrap();
        let log = files.path().join("log");
        let mut process = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["serve", "--config"])
            .arg(&config)
            .env(THRESHOLD.0, std::env::var_os(THRESHOLD.0).unwrap_or_else(|| THRESHOLD.1.into()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
        let addresses =
            first_line.trim_end().strip_prefix("listening on ").and_then(|rest| rest.split_once(", admin on "));
        let Some((clients, admin)) = addresses else {
            let _ended = process.wait();
            panic!("serve did not start: {}", fs::read_to_string(&log).unwrap());
        };
        let (clients, admin) = (clients.parse().unwrap(), admin.parse().unwrap());
        Self { process, clients, admin, files }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.clients
    }

    pub(crate) fn process(&self) -> Process {
        Process::of(self.process.id())
    }

    /// `/v1/status` of the admin socket.
    pub(crate) async fn status(&self) -> Value {
        let answer = Client::of(self.admin).get("/v1/status").await;
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.files.path().join("log")).unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}
