//! What the reference homeserver answers besides the directory routes.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::json;

use super::key_document::{KeyDocumentSigner, key_document};
use crate::admission::{ClientPath, MediaPath};
use crate::proxy::answer::{self, ResponseBody, homeserver};
use crate::server_name::ServerName;

/// Versions of the specification whose routes of ours are answered as they say.
const VERSIONS: [&str; 20] = [
    "r0.6.1", "v1.1", "v1.2", "v1.3", "v1.4", "v1.5", "v1.6", "v1.7", "v1.8", "v1.9", "v1.10", "v1.11", "v1.12",
    "v1.13", "v1.14", "v1.15", "v1.16", "v1.17", "v1.18", "v1.19",
];

/// The routes that need no lock and no other server.
pub struct Router {
    server_name: ServerName,
    signer: Arc<dyn KeyDocumentSigner>,
}

enum Known {
    Versions,
    ServerKeys,
    /// The room list, under a method it does not have.
    RoomList,
    /// An alias, under a method it does not have.
    Alias,
    /// A file, which is answered elsewhere under the methods it has.
    Media,
}

impl Router {
    /// The routes of the server `server_name`.
    pub fn new(server_name: ServerName, signer: Arc<dyn KeyDocumentSigner>) -> Self {
        Self { server_name, signer }
    }

    /// The answer to `OPTIONS`, whatever the path: nothing is looked at, nothing is done.
    pub(crate) fn preflight(request: &Request<Bytes>) -> Option<Response<ResponseBody>> {
        (*request.method() == Method::OPTIONS).then(answer::preflight)
    }

    /// Answers whatever the directory routes did not. *Panics:* never.
    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Response<ResponseBody> {
        let reads = *request.method() == Method::GET || *request.method() == Method::HEAD;
        match Known::path(request.uri().path()) {
            Some(Known::Versions) if reads => {
                homeserver::content(&json!({ "versions": VERSIONS, "unstable_features": {} }))
            }
            Some(Known::ServerKeys) if reads => {
                match key_document(&self.server_name, self.signer.as_ref(), SystemTime::now()) {
                    Some(document) => homeserver::content(&document),
                    None => homeserver::internal_fault(),
                }
            }
            // Only where nobody looked for it: there is no file here.
            Some(Known::Media) if reads => answer::media::not_found(),
            Some(known) => homeserver::unrecognised_method(known.allowed()),
            None => homeserver::unrecognised_path(),
        }
    }
}

impl Known {
    fn path(path: &str) -> Option<Self> {
        match path {
            "/_matrix/client/versions" => Some(Self::Versions),
            "/_matrix/key/v2/server" => Some(Self::ServerKeys),
            path => match ClientPath::of(path) {
                Some(ClientPath::PublicRooms) => Some(Self::RoomList),
                Some(ClientPath::RoomAlias(_)) => Some(Self::Alias),
                None => MediaPath::of(path).map(|_| Self::Media),
            },
        }
    }

    /// The methods it has, as `Allow` lists them.
    fn allowed(&self) -> &'static str {
        match self {
            Self::RoomList => "GET, HEAD, POST, OPTIONS",
            Self::Versions | Self::ServerKeys | Self::Alias | Self::Media => "GET, HEAD, OPTIONS",
        }
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Router").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::homeserver::key_document::tests::ShowingSigner;

    fn request(method: &str, uri: &str) -> Request<Bytes> {
        Request::builder().method(method).uri(uri).body(Bytes::new()).unwrap()
    }

    fn answer(method: &str, uri: &str) -> Response<ResponseBody> {
        Router::new("us.example".parse().unwrap(), Arc::new(ShowingSigner)).answer(&request(method, uri))
    }

    #[test]
    fn the_known_paths_are_answered() {
        for uri in ["/_matrix/client/versions", "/_matrix/key/v2/server"] {
            for method in ["GET", "HEAD"] {
                assert_eq!(answer(method, uri).status(), StatusCode::OK, "{method} {uri}");
            }
        }
    }

    #[test]
    fn a_known_path_under_another_method_is_405_and_the_rest_is_404() {
        for (method, uri, allowed) in [
            ("POST", "/_matrix/client/versions", "GET, HEAD, OPTIONS"),
            ("PUT", "/_matrix/key/v2/server", "GET, HEAD, OPTIONS"),
            ("PUT", "/_matrix/client/v3/directory/room/%23a:us.example", "GET, HEAD, OPTIONS"),
            ("DELETE", "/_matrix/client/v3/publicRooms", "GET, HEAD, POST, OPTIONS"),
            ("POST", "/_matrix/client/v1/media/download/them.example/a", "GET, HEAD, OPTIONS"),
            ("PUT", "/_matrix/client/v1/media/download/them.example/a/b.png", "GET, HEAD, OPTIONS"),
            ("POST", "/_matrix/client/v1/media/thumbnail/them.example/a", "GET, HEAD, OPTIONS"),
            ("PUT", "/_matrix/media/v3/download/them.example/a", "GET, HEAD, OPTIONS"),
            ("DELETE", "/_matrix/media/r0/thumbnail/them.example/a", "GET, HEAD, OPTIONS"),
        ] {
            let answer = answer(method, uri);
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {uri}");
            assert_eq!(answer.headers()["allow"], allowed, "{method} {uri}");
        }
        for (method, uri) in [
            ("GET", "/"),
            ("GET", "/_matrix/client/versions/"),
            ("GET", "/_matrix/client/v1/media/download/them.example/a"),
            ("POST", "/_matrix/media/v3/upload"),
            ("GET", "/_matrix/client/v1/media/config"),
            ("CONNECT", "them.example:443"),
            ("GET", "/metrics"),
            ("GET", "/v1/status"),
        ] {
            assert_eq!(answer(method, uri).status(), StatusCode::NOT_FOUND, "{method} {uri}");
        }
    }

    #[test]
    fn every_answer_is_json_that_a_browser_page_may_read() {
        for (method, uri) in [("GET", "/_matrix/client/versions"), ("POST", "/_matrix/client/versions"), ("GET", "/")] {
            let answer = answer(method, uri);
            for (name, value) in [
                ("content-type", "application/json"),
                ("access-control-allow-origin", "*"),
                ("access-control-expose-headers", "Retry-After"),
                ("x-content-type-options", "nosniff"),
            ] {
                assert_eq!(answer.headers()[name], value, "{method} {uri}");
            }
        }
    }

    #[test]
    fn options_is_answered_on_any_path_and_nothing_else_is_a_preflight() {
        let answer = Router::preflight(&request("OPTIONS", "/anything")).unwrap();
        assert!(answer.status().is_success());
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        assert!(Router::preflight(&request("GET", "/anything")).is_none());
    }
}
