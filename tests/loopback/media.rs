//! A homeserver that fetches files of other servers, and what its clients get of them.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};
use portcullis::{Portcullis, PortcullisBuilder, RemoteTimeout};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use super::World;
use super::home::{Home, TOKEN};
use crate::support::patience::{PATIENCE, until};

/// A homeserver with the switch on, the legacy routes on, and a store of its own.
pub(crate) struct MediaHome {
    pub(crate) portcullis: Arc<Portcullis>,
    folder: TempDir,
}

/// What a client got of a file. A body that was cut is told from one that ended.
#[derive(Debug)]
pub(crate) struct MediaAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The bytes that came.
    pub(crate) bytes: Vec<u8>,
    /// Whether the body came to its end.
    pub(crate) whole: bool,
    /// From the request to the end of the body.
    pub(crate) took: Duration,
}

impl World {
    /// A homeserver of this world that fetches files.
    pub(crate) fn media(&self, remote_timeout: Option<Duration>) -> MediaHome {
        self.media_with(|builder| match remote_timeout {
            Some(limit) => builder.remote_timeout(RemoteTimeout::new(limit).unwrap()),
            None => builder,
        })
    }

    /// The same, with more said about it.
    pub(crate) fn media_with(&self, more: impl FnOnce(PortcullisBuilder) -> PortcullisBuilder) -> MediaHome {
        self.media_storing(more, |_| {})
    }

    /// The same, with more said about its store too.
    pub(crate) fn media_storing(
        &self,
        more: impl FnOnce(PortcullisBuilder) -> PortcullisBuilder,
        store: impl FnOnce(&mut MediaStoreConfig),
    ) -> MediaHome {
        self.media_asking(self.dns.address(), more, store)
    }

    /// The same, with another name server.
    pub(crate) fn media_asking(
        &self,
        dns: SocketAddr,
        more: impl FnOnce(PortcullisBuilder) -> PortcullisBuilder,
        store: impl FnOnce(&mut MediaStoreConfig),
    ) -> MediaHome {
        let folder = tempfile::tempdir().unwrap();
        let mut stored = MediaStoreConfig::in_dir(folder.path().join("store"));
        store(&mut stored);
        let builder = self
            .builder(dns)
            .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true })
            .media_store(stored)
            .legacy_media(true);
        MediaHome { portcullis: Arc::new(more(builder).build().unwrap()), folder }
    }
}

impl MediaHome {
    /// Asks as an asynchronous homeserver does, with a token, and reads the answer to its end.
    ///
    /// # Panics
    /// If there is no answer long after every deadline.
    pub(crate) async fn ask(&self, client: IpAddr, path: &str) -> MediaAnswer {
        ask(&self.portcullis, client, path).await
    }

    /// What is stored, by name; folders are looked into.
    pub(crate) fn stored_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(self.folder.path(), &mut files);
        files.retain(|path| path.extension().is_some_and(|extension| extension != "lock"));
        files
    }

    /// Everything below the folder that was given to the store, and nothing else there.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until nothing is held: slots of both budgets, running fetches, unfinished files.
    pub(crate) async fn at_rest(&self) {
        super::assert_at_rest(&self.portcullis);
        let status = || self.portcullis.status();
        until("media fetches in flight", 0, || status().budgets.media.in_flight).await;
        until("media fetches running or waiting", 0, || status().media.running + status().media.waiting).await;
        until("unfinished files", 0, || usize::try_from(status().media.store.unwrap().unfinished).unwrap()).await;
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// The request of a client with a token.
pub(crate) fn request(path: &str) -> Request<Bytes> {
    Request::get(path).header("authorization", format!("Bearer {TOKEN}")).body(Bytes::new()).unwrap()
}

/// As [`MediaHome::ask`], where a task owns what it asks.
pub(crate) async fn ask(portcullis: &Portcullis, client: IpAddr, path: &str) -> MediaAnswer {
    let asked_at = Instant::now();
    let asking = async {
        let answer = portcullis.handle(&Home, client, &request(path)).await.unwrap();
        let (head, mut body) = answer.into_parts();
        let (mut bytes, mut whole) = (Vec::new(), true);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
                Err(_) => whole = false,
            }
        }
        MediaAnswer { status: head.status.as_u16(), headers: head.headers, bytes, whole, took: asked_at.elapsed() }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("no answer came")
}

pub(crate) fn download(server: &str, media_id: &str) -> String {
    format!("/_matrix/client/v1/media/download/{server}/{media_id}")
}

pub(crate) fn thumbnail(server: &str, media_id: &str) -> String {
    format!("/_matrix/client/v1/media/thumbnail/{server}/{media_id}?width=96&height=96&method=crop")
}

impl MediaAnswer {
    /// The status and the errcode of an error, which is JSON, readable by a page of any origin.
    pub(crate) fn error(&self) -> (u16, String) {
        let content: Value = serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(self.headers["access-control-allow-origin"], "*");
        assert_eq!(self.headers["content-type"], "application/json");
        assert!(content["error"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert!(self.whole);
        (self.status, content["errcode"].as_str().unwrap().to_owned())
    }

    /// # Panics
    /// If it is not this file, whole.
    pub(crate) fn assert_file(&self, bytes: &[u8]) {
        assert!(self.status == 200 && self.whole, "{} {}: {:?}", self.status, self.whole, self.headers);
        assert!(self.bytes == bytes, "{} bytes came, not these {}", self.bytes.len(), bytes.len());
        for name in ["content-security-policy", "cross-origin-resource-policy", "content-disposition", "etag"] {
            assert!(self.headers.contains_key(name), "{name}: {:?}", self.headers);
        }
    }
}
