//! What the operator's socket answers, and to whom it answers nothing.

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;
use crate::admission::{Admission, ClientKey, ClientOutboundProxyPolicy, OutboundRoute};
use crate::gate::{GateKey, GateRegistry};
use crate::homeserver::upstream::{UpstreamRequests, UpstreamState};
use crate::limits::CALL_TIME_STEPS;
use crate::proxy::media_store::StoreUsage;
use crate::proxy::watch::{CallCounts, CallTimes};
use crate::status::{BudgetStatus, Budgets, CallTimesByClass, Calls, Destinations, MediaStatus, WorkerStatus};

fn door() -> Admission {
    Admission::new("us.example".parse().unwrap(), ClientOutboundProxyPolicy::for_pool(8))
}

fn admin_of(door: Admission, gates: GateRegistry) -> Admin {
    let snapshot = move || Status {
        server_name: "us.example".to_owned(),
        version: "1.2.3",
        uptime_ms: 1,
        seen_at_ms: 2,
        budgets: Budgets { directory: BudgetStatus::of(&door), media: BudgetStatus::of(&door) },
        calls: Calls {
            directory: CallCounts { answered: 1, timed_out: 2, failed: 3 },
            media: CallCounts { answered: 4, timed_out: 5, failed: 6 },
        },
        call_times: CallTimesByClass { directory: CallTimes::default(), media: CallTimes::default() },
        destinations: Destinations { directory: Vec::new(), media: Vec::new() },
        media: MediaStatus { refused_by_switch: 7, running: 8, waiting: 9, store: Some(StoreUsage::default()) },
        federation_worker: WorkerStatus { overruns: 0 },
        homeservers: gates.status(),
        gate_counts: gates.counts(),
    };
    let pool = || RequestPoolStatus { threads: 8, idle: 7, panicked: 0 };
    let long_answers = || FairBudgetStatus { in_flight: 1, cap: 448, per_client: 72, refused: 2 };
    Admin::new("127.0.0.1:9009".parse().unwrap(), snapshot).with_request_pool(pool).with_long_answers(long_answers)
}

fn admin() -> Admin {
    admin_of(door(), GateRegistry::default())
}

fn ask(admin: &Admin, method: &str, path: &str, host: &str) -> Response<ResponseBody> {
    let request = Request::builder().method(method).uri(path).header("host", host).body(Bytes::new()).unwrap();
    admin.answer(&request)
}

fn text(admin: &Admin, path: &str) -> String {
    let answer = ask(admin, "GET", path, "127.0.0.1:9009");
    let body = answer.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

fn status(admin: &Admin) -> Value {
    serde_json::from_str(&text(admin, "/v1/status")).unwrap()
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
    let directory =
        json!({ "in_flight": 1, "cap": 4, "per_client": 1, "refused": { "global": 0, "client": 1, "rate": 0 } });
    let store = json!({
        "files": 0, "bytes": 0, "unfinished": 0, "unfinished_bytes": 0, "pinned": 0, "pinned_bytes": 0, "max_bytes": 0,
        "evicted": 0, "expired": 0, "torn": 0, "cut": 0,
    });
    let counts = json!({
        "admitted": 0, "polls": 0, "probes": 0, "interactive": 0, "counted": 0, "timed_out": 0, "overloaded": 0,
        "dropped": 0, "held": 0, "opened": 0, "reopened": 0, "closed": 0, "gave_up": 0,
    });
    let steps: Vec<_> = CALL_TIME_STEPS
        .iter()
        .map(|step| json!({ "ms": u64::try_from(step.as_millis()).unwrap(), "calls": 0 }))
        .collect();
    let none = json!({ "calls": 0, "total_ms": 0, "longest_ms": 0, "at_most": steps });
    let mut seen = status(&admin);
    let process = seen.as_object_mut().unwrap().remove("process").unwrap();
    for key in ["resident_bytes", "threads", "open_descriptors", "max_descriptors"] {
        assert!(process.get(key).is_some(), "{key}");
    }
    assert_eq!(
        seen,
        json!({
            "server_name": "us.example",
            "version": "1.2.3",
            "uptime_ms": 1,
            "seen_at_ms": 2,
            "draining": false,
            "budgets": { "directory": directory, "media": directory },
            "calls": {
                "directory": { "answered": 1, "timed_out": 2, "failed": 3 },
                "media": { "answered": 4, "timed_out": 5, "failed": 6 },
            },
            "call_times": { "directory": none, "media": none },
            "destinations": { "directory": [], "media": [] },
            "media": { "refused_by_switch": 7, "running": 8, "waiting": 9, "store": store },
            "federation_worker": { "overruns": 0 },
            "request_pool": { "threads": 8, "idle": 7, "panicked": 0 },
            "long_answers": { "in_flight": 1, "cap": 448, "per_client": 72, "refused": 2 },
            "upstream": null,
            "homeservers": [],
            "gate_counts": counts,
        })
    );
    let _gate = gates.gate(&GateKey::from_base_url("https://them.example:8448").unwrap()).unwrap();
    let shown = &status(&admin)["homeservers"];
    let own = ["key", "limit", "active", "held", "waiting", "oldest_wait_ms"].map(|field| &shown[0][field]);
    assert_eq!(json!(own), json!(["https://them.example:8448", 2, 0, 0, 0, null]));
    let breaker = ["state", "opened_at_ms", "next_probe_at_ms", "reopened"].map(|field| &shown[0]["breaker"][field]);
    assert_eq!(json!(breaker), json!(["closed", null, null, 0]));
    let next = ["at_ms", "decided_by"].map(|field| shown[0]["next_admission"].get(field).is_some());
    assert_eq!((next, shown.as_array().unwrap().len()), ([true, true], 1));
}

#[test]
fn status_metrics_and_page_show_the_homeserver_behind() {
    let behind = || {
        let mut behind = UpstreamStatus { origin: "http://127.0.0.1:8008".to_owned(), ..UpstreamStatus::default() };
        (behind.state, behind.last_answer_at_ms, behind.last_silence_at_ms) =
            (UpstreamState::Silent, Some(10), Some(20));
        behind.token_questions =
            UpstreamRequests { in_flight: 1, cap: 64, per_client: 4, answered: 2, refused: 3, silent: 5 };
        behind.token_waiters = FairBudgetStatus { in_flight: 10, cap: 128, per_client: 64, refused: 11 };
        behind.passed_on.small =
            UpstreamRequests { in_flight: 12, cap: 64, per_client: 16, answered: 13, refused: 14, silent: 15 };
        behind.passed_on.files =
            UpstreamRequests { in_flight: 6, cap: 128, per_client: 64, answered: 7, refused: 8, silent: 9 };
        Some(behind)
    };
    let admin = admin().with_upstream(behind);
    assert_eq!(
        status(&admin)["upstream"],
        json!({
            "origin": "http://127.0.0.1:8008",
            "state": "silent",
            "last_answer_at_ms": 10,
            "last_silence_at_ms": 20,
            "token_questions":
                { "in_flight": 1, "cap": 64, "per_client": 4, "answered": 2, "refused": 3, "silent": 5 },
            "token_waiters": { "in_flight": 10, "cap": 128, "per_client": 64, "refused": 11 },
            "passed_on": {
                "small": { "in_flight": 12, "cap": 64, "per_client": 16, "answered": 13, "refused": 14, "silent": 15 },
                "files": { "in_flight": 6, "cap": 128, "per_client": 64, "answered": 7, "refused": 8, "silent": 9 },
            },
        })
    );
    let metrics = text(&admin, "/metrics");
    let upstream: Vec<_> = metrics.lines().filter(|line| line.starts_with("portcullis_upstream_")).collect();
    assert_eq!(
        upstream,
        [
            "portcullis_upstream_in_flight{kind=\"token_question\"} 1",
            "portcullis_upstream_in_flight{kind=\"token_waiter\"} 10",
            "portcullis_upstream_in_flight{kind=\"small\"} 12",
            "portcullis_upstream_in_flight{kind=\"file\"} 6",
            "portcullis_upstream_in_flight_cap{kind=\"token_question\"} 64",
            "portcullis_upstream_in_flight_cap{kind=\"token_waiter\"} 128",
            "portcullis_upstream_in_flight_cap{kind=\"small\"} 64",
            "portcullis_upstream_in_flight_cap{kind=\"file\"} 128",
            "portcullis_upstream_answered_total{kind=\"token_question\"} 2",
            "portcullis_upstream_answered_total{kind=\"small\"} 13",
            "portcullis_upstream_answered_total{kind=\"file\"} 7",
            "portcullis_upstream_refused_total{kind=\"token_question\"} 3",
            "portcullis_upstream_refused_total{kind=\"token_waiter\"} 11",
            "portcullis_upstream_refused_total{kind=\"small\"} 14",
            "portcullis_upstream_refused_total{kind=\"file\"} 8",
            "portcullis_upstream_silent_total{kind=\"token_question\"} 5",
            "portcullis_upstream_silent_total{kind=\"small\"} 15",
            "portcullis_upstream_silent_total{kind=\"file\"} 9",
        ]
    );
    let page = text(&admin, "/");
    for line in [
        "behind    http://127.0.0.1:8008: silent\n",
        "behind    1 of 64 token questions, 4 for one client; 2 answered, 3 refused, 5 silent\n",
        "behind    12 of 64 lists and aliases, 16 for one client; 13 answered, 14 refused, 15 silent\n",
        "behind    6 of 128 files, 64 for one client; 7 answered, 8 refused, 9 silent\n",
        "behind    10 of 128 wait for an equal question, 64 for one client; 11 refused\n",
    ] {
        assert!(page.contains(line), "{page}");
    }
    assert!(!text(&self::admin(), "/metrics").contains("upstream"), "there is none");
}

#[test]
fn health_is_told_and_the_rest_is_not_there() {
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/v1/status", 200),
        ("GET", "/status.css", 200),
        ("GET", "/status.js", 200),
        ("POST", "/healthz", 405),
        ("POST", "/", 405),
        ("OPTIONS", "/v1/status", 405),
        ("HEAD", "/v1/status", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/status.html", 404),
        ("GET", "//", 404),
        ("GET", "/favicon.ico", 404),
        ("GET", "/_matrix/client/versions", 404),
    ] {
        assert_eq!(ask(&admin(), method, path, "localhost").status().as_u16(), status, "{method} {path}");
    }
}

#[test]
fn health_and_status_say_when_the_server_is_stopping() {
    let admin = admin();
    admin.drain();
    assert_eq!(ask(&admin, "GET", "/healthz", "localhost").status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&admin, "GET", "/metrics", "localhost").status(), StatusCode::OK);
    assert_eq!(status(&admin)["draining"], true);
}

#[test]
fn every_answer_shuts_a_browser_up() {
    let mut answers: Vec<_> = ["/", "/status.js", "/v1/status", "/metrics", "/healthz", "/elsewhere"]
        .into_iter()
        .map(|path| ask(&admin(), "GET", path, "localhost"))
        .collect();
    answers.push(ask(&admin(), "POST", "/", "localhost"));
    answers.push(ask(&admin(), "GET", "/", "evil.example"));
    answers.push(admin().refuse(BadRequest::Host));
    answers.push(admin().busy());
    for answer in answers {
        let headers = answer.headers();
        assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{headers:?}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(headers[name], value);
        }
        let policy = headers["content-security-policy"].to_str().unwrap();
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.split("; ").any(|part| part == rule), "{rule} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

#[test]
fn each_page_is_sent_as_what_it_is() {
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/status.css", "text/css; charset=utf-8"),
        ("/status.js", "text/javascript; charset=utf-8"),
        ("/v1/status", "application/json"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
    ] {
        assert_eq!(ask(&admin(), "GET", path, "localhost").headers()["content-type"], content_type, "{path}");
    }
}

#[test]
fn a_name_that_could_be_rebound_reads_nothing() {
    for path in ["/", "/v1/status", "/metrics", "/healthz", "/status.js"] {
        for host in ["evil.example", "evil.example:9009", "localhost.evil.example", "127.1", "192.0.2.7", ""] {
            assert_eq!(ask(&admin(), "GET", path, host).status(), StatusCode::FORBIDDEN, "{path} {host:?}");
        }
        let absolute = format!("http://evil.example{path}");
        assert_eq!(ask(&admin(), "GET", &absolute, "localhost").status(), StatusCode::FORBIDDEN, "{absolute}");
        let absolute = format!("http://127.0.0.1:9009{path}");
        assert_eq!(ask(&admin(), "GET", &absolute, "localhost").status(), StatusCode::OK, "{absolute}");
    }
    let hostless = Request::get("/v1/status").body(Bytes::new()).unwrap();
    assert_eq!(admin().answer(&hostless).status(), StatusCode::FORBIDDEN);
}
