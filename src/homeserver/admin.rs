//! The operator's socket: health and status. Clients have no business here.
//!
//! It answers on a socket of its own, to reading alone, without CORS, and only under a Host that cannot be rebound: a page in
//! the operator's browser whose name was made to point here gets nothing.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr as _;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use super::listener::{BadRequest, Handler};
use crate::outbound::BoxFuture;
use crate::proxy::answer::ResponseBody;
use crate::status::Status;

/// Answers `/healthz` and `/v1/status`.
pub struct Admin {
    snapshot: Box<dyn Fn() -> Status + Send + Sync>,
}

impl Admin {
    /// Shows what `snapshot` counts.
    #[must_use]
    pub fn new(snapshot: impl Fn() -> Status + Send + Sync + 'static) -> Self {
        Self { snapshot: Box::new(snapshot) }
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<ResponseBody> {
        // Whoever writes the whole URI into the request line asks under that name, whatever `Host` says.
        let authority = request.uri().authority().map(Authority::as_str);
        if !host_cannot_be_rebound(request.headers()) || authority.is_some_and(|host| !cannot_be_rebound(host)) {
            return plain(StatusCode::FORBIDDEN, "ask by address or as localhost");
        }
        let path = request.uri().path();
        if !matches!(path, "/healthz" | "/v1/status") {
            return plain(StatusCode::NOT_FOUND, "here are /healthz and /v1/status");
        }
        // A HEAD is a GET whose body the HTTP library leaves out.
        if *request.method() != Method::GET && *request.method() != Method::HEAD {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if path == "/healthz" { plain(StatusCode::OK, "ok") } else { self.status() }
    }

    fn status(&self) -> Response<ResponseBody> {
        match serde_json::to_vec(&(self.snapshot)()) {
            Ok(body) => with_type(StatusCode::OK, "application/json", body),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "no status"),
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Handler for Admin {
    fn handle(&self, _peer: IpAddr, request: Request<Bytes>) -> BoxFuture<'static, Response<ResponseBody>> {
        let answer = self.answer(&request);
        Box::pin(std::future::ready(answer))
    }

    fn refuse(&self, _problem: BadRequest) -> Response<ResponseBody> {
        plain(StatusCode::BAD_REQUEST, "bad request")
    }
}

/// An address cannot be made to point elsewhere, and `localhost` is not looked up in the DNS.
fn host_cannot_be_rebound(headers: &HeaderMap) -> bool {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).is_some_and(cannot_be_rebound)
}

fn cannot_be_rebound(host: &str) -> bool {
    let host = match host.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    literal.map_or_else(
        || IpAddr::from_str(host).is_ok_and(|host| host.is_ipv4()),
        |host| Ipv6Addr::from_str(host).is_ok(),
    ) || host.eq_ignore_ascii_case("localhost")
}

fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    with_type(status, "text/plain; charset=utf-8", format!("{text}\n").into_bytes())
}

fn with_type(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::from(Bytes::from(body)));
    *answer.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
    use crate::gate::{GateKey, GateRegistry};
    use crate::proxy::media_store::StoreUsage;
    use crate::proxy::watch::CallCounts;
    use crate::status::{BudgetStatus, Budgets, Calls, MediaStatus, WorkerStatus};

    fn door() -> Admission {
        Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8))
    }

    fn admin_of(door: Admission, gates: GateRegistry) -> Admin {
        Admin::new(move || Status {
            budgets: Budgets { directory: BudgetStatus::of(&door), media: BudgetStatus::of(&door) },
            calls: Calls {
                directory: CallCounts { answered: 1, timed_out: 2, failed: 3 },
                media: CallCounts { answered: 4, timed_out: 5, failed: 6 },
            },
            media: MediaStatus { refused_by_switch: 7, running: 8, waiting: 9, store: Some(StoreUsage::default()) },
            federation_worker: WorkerStatus { overruns: 0 },
            homeservers: gates.status(),
        })
    }

    fn admin() -> Admin {
        admin_of(door(), GateRegistry::default())
    }

    fn ask(admin: &Admin, method: &str, path: &str, host: &str) -> Response<ResponseBody> {
        let request = Request::builder().method(method).uri(path).header("host", host).body(Bytes::new()).unwrap();
        let answer = admin.answer(&request);
        assert!(!answer.headers().keys().any(|name| name.as_str().starts_with("access-control-")));
        answer
    }

    fn status(admin: &Admin) -> Value {
        let answer = ask(admin, "GET", "/v1/status", "127.0.0.1:9009");
        let body = answer.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn status_shows_what_is_in_flight_and_what_was_refused() {
        let door = door();
        let gates = GateRegistry::default();
        let admin = admin_of(door.clone(), gates.clone());
        let uri = "/_matrix/client/v3/publicRooms?server=them.example".parse().unwrap();
        let route = OutboundRoute::classify(&Method::GET, &uri).unwrap().unwrap();
        let _pass = door.admit(&ClientKey::shared(), route.clone()).unwrap();
        assert!(door.admit(&ClientKey::shared(), route).is_err());
        let directory = json!({ "in_flight": 1, "cap": 4, "per_client": 1, "refused": { "global": 0, "client": 1 } });
        let store = json!({
            "files": 0, "bytes": 0, "unfinished": 0, "unfinished_bytes": 0, "pinned": 0, "pinned_bytes": 0,
            "max_bytes": 0, "evicted": 0, "expired": 0, "torn": 0, "cut": 0,
        });
        assert_eq!(
            status(&admin),
            json!({
                "budgets": { "directory": directory, "media": directory },
                "calls": {
                    "directory": { "answered": 1, "timed_out": 2, "failed": 3 },
                    "media": { "answered": 4, "timed_out": 5, "failed": 6 },
                },
                "media": { "refused_by_switch": 7, "running": 8, "waiting": 9, "store": store },
                "federation_worker": { "overruns": 0 },
                "homeservers": [],
            })
        );
        let _gate = gates.gate(&GateKey::from_base_url("https://them.example:8448").unwrap()).unwrap();
        let shown = &status(&admin)["homeservers"];
        let own = ["key", "limit", "active", "held", "waiting", "oldest_wait_ms"].map(|field| &shown[0][field]);
        assert_eq!(json!(own), json!(["https://them.example:8448", 2, 0, 0, 0, null]));
        let breaker =
            ["state", "opened_at_ms", "next_probe_at_ms", "reopened"].map(|field| &shown[0]["breaker"][field]);
        assert_eq!(json!(breaker), json!(["closed", null, null, 0]));
        let next = ["at_ms", "decided_by"].map(|field| shown[0]["next_admission"].get(field).is_some());
        assert_eq!((next, shown.as_array().unwrap().len()), ([true, true], 1));
    }

    #[test]
    fn health_is_told_and_the_rest_is_not_there() {
        for (method, path, status) in [
            ("GET", "/healthz", 200),
            ("POST", "/healthz", 405),
            ("OPTIONS", "/v1/status", 405),
            ("HEAD", "/v1/status", 200),
            ("HEAD", "/healthz", 200),
            ("GET", "/metrics", 404),
            ("GET", "/_matrix/client/versions", 404),
        ] {
            assert_eq!(ask(&admin(), method, path, "localhost").status().as_u16(), status, "{method} {path}");
        }
    }

    #[test]
    fn a_name_that_could_be_rebound_reads_nothing() {
        for host in ["localhost", "LOCALHOST:9009", "127.0.0.1", "127.0.0.1:9009", "[::1]", "[::1]:9009", "192.0.2.7:9"]
        {
            assert_eq!(ask(&admin(), "GET", "/v1/status", host).status(), StatusCode::OK, "{host}");
            let absolute = format!("http://{host}/v1/status");
            assert_eq!(ask(&admin(), "GET", &absolute, "localhost").status(), StatusCode::OK, "{absolute}");
        }
        for host in [
            "evil.example",
            "evil.example:9009",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "127.1",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "localhost:x",
        ] {
            assert_eq!(ask(&admin(), "GET", "/v1/status", host).status(), StatusCode::FORBIDDEN, "{host}");
        }
        for authority in ["evil.example", "evil.example:9009", "user@localhost", "localhost.evil.example"] {
            let absolute = format!("http://{authority}/v1/status");
            for host in ["localhost", "127.0.0.1:9009", authority] {
                let status = ask(&admin(), "GET", &absolute, host).status();
                assert_eq!(status, StatusCode::FORBIDDEN, "{absolute} {host}");
            }
        }
    }
}
