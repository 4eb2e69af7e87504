//! What all tests share: two Synapses, and a server of our own that asks one of them.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::rig::{Client, OWN_TOKEN, RunLock, Serve, Setup, Synapse, TlsFront};

/// Only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// With the main one, 121: three pages of fifty.
const PAGE_ROOMS: usize = 120;
/// The homeserver behind us needs fewer.
const HOME_ROOMS: usize = 20;

pub(crate) struct World {
    /// Ended before the peers, and they before the lock.
    us: Us,
    /// The server that is asked.
    pub(crate) away: Synapse,
    /// The homeserver behind us.
    pub(crate) home: Synapse,
    runtime: Runtime,
    _lock: RunLock,
}

/// `serve` with an embedded homeserver, reachable for other servers under its name.
pub(crate) struct Us {
    pub(crate) serve: Serve,
    pub(crate) tls: TlsFront,
}

impl World {
    pub(crate) fn start() -> Self {
        let lock = RunLock::take();
        let away = Synapse::up("interop-away", PAGE_ROOMS);
        let home = Synapse::up("interop-home", HOME_ROOMS);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let us = runtime.block_on(Us::start(&away, |setup| setup.media("legacy_endpoints = true")));
        Self { us, away, home, runtime, _lock: lock }
    }

    /// # Panics
    /// If the test does, or does not end.
    pub(crate) fn run(&self, test: impl Future<Output = ()>) {
        let ended = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await });
        assert!(ended.is_ok(), "the test did not end within {PATIENCE:?}");
    }

    /// Our own server.
    pub(crate) fn us(&self) -> &Us {
        &self.us
    }
}

impl Us {
    /// A new server with a new key that asks `peer`, changed by `with`.
    pub(crate) async fn start(peer: &Synapse, with: impl FnOnce(Setup) -> Setup) -> Self {
        let mut tls = TlsFront::bind(&peer.tls_cert, &peer.tls_key).await;
        let serve = Serve::start(&with(Setup::embedded(&tls.server_name(), &peer.ca)));
        tls.lead_to(serve.address());
        Self { serve, tls }
    }

    /// A client without a token.
    pub(crate) fn stranger(&self) -> Client {
        Client::of(self.serve.address())
    }

    /// A client with a token.
    pub(crate) fn user(&self) -> Client {
        self.stranger().with_token(OWN_TOKEN)
    }
}
