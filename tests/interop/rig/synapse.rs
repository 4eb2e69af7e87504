//! A real Synapse on loopback, started by `peers/synapse/up` and ended by `peers/synapse/down`.

use std::collections::HashMap;
use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::{Process, peers};

/// A running Synapse, with what `up` says of it. Dropping it stops the process; its data stays for the next time.
#[derive(Deserialize)]
pub(crate) struct Synapse {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// `127.0.0.1:PORT`.
    pub(crate) server_name: String,
    /// Its plain HTTP listener.
    pub(crate) base_url: String,
    pub(crate) access_token: String,
    pub(crate) user_id: String,
    /// The alias of `room_id`.
    pub(crate) alias: String,
    pub(crate) room_id: String,
    /// Published rooms besides that one; the aliases are `#page-NNN`.
    pub(crate) page_room_ids: Vec<String>,
    /// `png`, `binary`, `text` and `html`.
    pub(crate) media: HashMap<String, Media>,
    pub(crate) signing_key: PathBuf,
    /// The authority that all peers' certificates are of.
    pub(crate) ca: PathBuf,
    pub(crate) tls_cert: PathBuf,
    pub(crate) tls_key: PathBuf,
    pub(crate) log: PathBuf,
    /// Whether dropping it removes its data too.
    #[serde(skip)]
    wiped: bool,
}

/// An uploaded file.
#[derive(Clone, Deserialize)]
pub(crate) struct Media {
    pub(crate) mxc: String,
    #[serde(rename = "type")]
    pub(crate) content_type: String,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Media {
    /// `SERVER/ID`, as the media routes have it.
    pub(crate) fn path(&self) -> &str {
        self.mxc.strip_prefix("mxc://").unwrap()
    }
}

/// Where the peers live.
fn folder() -> PathBuf {
    let chosen = env::var_os("PORTCULLIS_PEER_DIR").filter(|folder| !folder.is_empty());
    chosen.map_or_else(|| env::temp_dir().join("portcullis-synapse"), PathBuf::from)
}

/// Whether Synapse is there already, so that nothing has to be downloaded; if not, the folder it was looked for in.
pub(crate) fn installed() -> Result<(), PathBuf> {
    let folder = folder();
    if folder.join("venv/.portcullis-spec").exists() { Ok(()) } else { Err(folder) }
}

/// Held while a run uses the peers of a folder: two at once would stop each other's.
pub(crate) struct RunLock(#[expect(dead_code, reason = "held, not read")] File);

impl RunLock {
    /// Waits for other runs to end.
    pub(crate) fn take() -> Self {
        fs::create_dir_all(folder()).unwrap();
        let file = File::create(folder().join(".in-use")).unwrap();
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            eprintln!("another run uses the peers in {}; waiting for its end", folder().display());
            file.lock().unwrap();
        }
        Self(file)
    }
}

impl Synapse {
    /// Starts `name` with `rooms` published rooms besides the main one. Installs and seeds what is missing, so the first
    /// time takes minutes.
    pub(crate) fn up(name: &str, rooms: usize) -> Self {
        let up = Command::new(peers().join("synapse/up"))
            .arg(name)
            .env("PORTCULLIS_PEER_HOST", "127.0.0.1")
            .env("PORTCULLIS_PEER_ROOMS", rooms.to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("peers/synapse/up runs; it needs python3");
        assert!(up.status.success(), "Synapse did not start: {}", up.status);
        let synapse: Self = serde_json::from_slice(&up.stdout).unwrap();
        assert!(synapse.server_name.starts_with("127.0.0.1:"), "{} has an older name; wipe it", synapse.server_name);
        synapse
    }

    /// Removes its data at the end.
    pub(crate) fn wiped_at_the_end(mut self) -> Self {
        self.wiped = true;
        self
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.base_url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// The folder of the certificates of all peers.
    pub(crate) fn tls(&self) -> &Path {
        self.ca.parent().unwrap()
    }

    pub(crate) fn process(&self) -> Process {
        Process::of(self.pid)
    }

    /// Stops it as a debugger would, until what is returned is dropped: its sockets accept, and nobody answers.
    pub(crate) fn stopped(&self) -> Stopped {
        let pid = Pid::from_raw(self.pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Stopped(pid)
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }
}

impl Drop for Synapse {
    fn drop(&mut self) {
        let mut down = Command::new(peers().join("synapse/down"));
        down.arg(&self.name).args(self.wiped.then_some("--wipe"));
        match down.status() {
            Ok(status) if status.success() => {}
            other => eprintln!("{} may still run, pid {}: {other:?}", self.name, self.pid),
        }
    }
}

/// A process that was stopped. Dropping this lets it go on.
pub(crate) struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = kill_process(self.0, Signal::CONT);
    }
}
