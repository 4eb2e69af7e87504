//! The homeserver of the rehearsal: the very one `portcullis serve` runs, from a configuration file.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use portcullis::homeserver::assemble::{Assembled, assemble_trusting};
use portcullis::homeserver::config::Config;
use portcullis::homeserver::listener::Listener;
use portcullis::outbound::{Ed25519Signer, TlsRoots};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::peers::{DeadResolver, PrivateCa};
use super::{DEADLINE, Failure, POOL, TOKEN};

/// A homeserver that is being served.
pub(crate) struct Homeserver {
    pub(crate) assembled: Assembled,
    pub(crate) address: SocketAddr,
    serving: JoinHandle<io::Result<()>>,
    stop: oneshot::Sender<()>,
    _files: tempfile::TempDir,
}

/// The switch of remote media.
#[derive(Clone, Copy)]
pub(crate) enum RemoteMedia {
    On,
    Off,
}

impl Homeserver {
    /// Starts it on the runtime this is called on.
    pub(crate) fn start(ca: &PrivateCa, resolver: &DeadResolver, media: RemoteMedia) -> Result<Self, Failure> {
        let files = tempfile::tempdir()?;
        let signer = Ed25519Signer::generate("rehearsal.example".parse()?);
        std::fs::write(files.path().join("signing.key"), signer.to_key_file_line())?;
        let config_file = files.path().join("portcullis.toml");
        std::fs::write(&config_file, configuration(resolver.address, media))?;
        let assembled = assemble_trusting(&Config::read(&config_file)?, TlsRoots::only(ca.pem.as_bytes())?)?;
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr();
        let (stop, stopped) = oneshot::channel();
        let until_stopped = async move { drop(stopped.await) };
        let serving = tokio::spawn(listener.serve(assembled.handler(), assembled.limits.clone(), until_stopped));
        Ok(Self { assembled, address, serving, stop, _files: files })
    }

    /// Media fetches in flight, running or queued.
    pub(crate) fn media_in_flight(&self) -> usize {
        self.assembled.runtime.outbound().status().budgets.media.in_flight
    }

    /// Media requests refused over a cap so far.
    pub(crate) fn media_refused(&self) -> usize {
        let refused = self.assembled.runtime.outbound().status().budgets.media.refused;
        usize::try_from(refused.global.saturating_add(refused.client)).unwrap_or(usize::MAX)
    }

    /// Media requests that the switch answered.
    pub(crate) fn refused_by_switch(&self) -> u64 {
        self.assembled.runtime.outbound().status().media.refused_by_switch
    }

    /// Ends the listener, with what it has in flight.
    pub(crate) async fn stop(self) {
        // A listener that ended by itself has nothing left to be told.
        let _ended = self.stop.send(());
        let _ended = self.serving.await;
    }
}

fn configuration(resolver: SocketAddr, media: RemoteMedia) -> String {
    let remote_media = matches!(media, RemoteMedia::On);
    format!(
        r#"
server_name = "rehearsal.example"
signing_key = "signing.key"
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
request_threads = {POOL}
trusted_proxies = ["127.2.0.1"]

[federation]
remote_timeout = "{} ms"
nameservers = ["{resolver}"]
allow_networks = ["127.0.0.0/8"]

[media]
remote_fetch_enabled = {remote_media}
legacy_endpoints = true
cache_dir = "media"

[[rooms]]
room_id = "!hall:rehearsal.example"
name = "The hall"
num_joined_members = 2

[[tokens]]
token = "{TOKEN}"
user_id = "@porter:rehearsal.example"
"#,
        DEADLINE.as_millis()
    )
}
