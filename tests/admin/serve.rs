//! The operator's socket of `portcullis serve`.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::exposition::Exposition;
use crate::rig::{Answer, get};
use crate::support::until;

/// `portcullis serve`, ended with the test.
pub(crate) struct Serving {
    pub(crate) clients: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Serving {
    /// On free ports; `more` is added to the configuration.
    pub(crate) async fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_portcullis"));
        let made = Command::new(binary).arg("keygen").arg(folder.path().join("key")).output().await.unwrap();
        assert!(made.status.success(), "{made:?}");
        let least = "server_name = \"us.example\"\nsigning_key = \"key\"\nlisten = \"127.0.0.1:0\"\n\
                     admin_listen = \"127.0.0.1:0\"\n";
        fs::write(folder.path().join("portcullis.toml"), format!("{least}{more}")).unwrap();
        let mut child = Command::new(binary)
            .args(["serve", "--config", "portcullis.toml"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).await.unwrap();
        let addresses = first.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}"));
        let (clients, admin) = addresses.split_once(", admin on ").unwrap();
        Self { clients: clients.parse().unwrap(), admin: admin.parse().unwrap(), child, _folder: folder }
    }

    pub(crate) async fn status(&self) -> Value {
        serde_json::from_str(&get(self.admin, "/v1/status").await.body).unwrap()
    }

    async fn until_draining(&self) -> Answer {
        loop {
            let health = get(self.admin, "/healthz").await;
            if health.status != 200 {
                return health;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn serve_counts_its_pool_its_process_and_its_calls() {
    let silent_dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let more = format!("[federation]\nnameservers = [\"{}\"]\n", silent_dns.local_addr().unwrap());
    let serving = Serving::start(&more).await;
    let clients = serving.clients;
    let hangs = tokio::spawn(get(clients, "/_matrix/client/v3/publicRooms?server=them.example"));
    loop {
        let seen = Exposition::read(&get(serving.admin, "/metrics").await.body);
        if seen.value("portcullis_in_flight", &[("class", "directory")]) > 0.0 {
            assert_eq!(format!("{}", seen.value("portcullis_request_threads", &[])), "16");
            assert_eq!(format!("{}", seen.value("portcullis_request_threads_idle", &[])), "15");
            assert!(seen.value("process_resident_memory_bytes", &[]) > 1_000_000.0);
            assert!(seen.value("process_open_fds", &[]) > 3.0 && seen.value("process_start_time_seconds", &[]) > 1e9);
            assert!(!seen.families.contains_key("portcullis_media_store_files"), "there is no store");
            break;
        }
        assert!(!hangs.is_finished(), "never in flight");
    }
    assert_eq!(get(clients, "/_matrix/client/v3/publicRooms?server=them.example").await.status, 429);
    assert_eq!(serving.status().await["budgets"]["directory"]["refused"]["client"], 1);
    // The slot is taken before the call begins.
    let asked = loop {
        let asked = serving.status().await["destinations"]["directory"][0].clone();
        if !asked.is_null() {
            break asked;
        }
        assert!(!hangs.is_finished(), "never asked");
    };
    assert_eq!((&asked["server"], &asked["in_flight"]), (&"them.example".into(), &1.into()));
    hangs.abort();
}

#[tokio::test]
async fn health_is_503_while_the_last_request_is_answered_and_the_operator_can_still_look() {
    let silent_dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let more = format!("[federation]\nnameservers = [\"{}\"]\n", silent_dns.local_addr().unwrap());
    let mut serving = Serving::start(&more).await;
    assert_eq!(get(serving.admin, "/healthz").await.status, 200);
    let hangs = tokio::spawn(get(serving.clients, "/_matrix/client/v3/publicRooms?server=them.example"));
    while serving.status().await["budgets"]["directory"]["in_flight"] != 1 {
        assert!(!hangs.is_finished(), "never in flight");
    }
    let id = serving.child.id().unwrap().to_string();
    assert!(Command::new("kill").arg("-TERM").arg(&id).status().await.unwrap().success());
    let health = serving.until_draining().await;
    assert_eq!((health.status, health.body.as_str()), (503, "stopping\n"));
    assert_eq!(serving.status().await["draining"], true);
    assert!(!hangs.is_finished(), "looked too late");
    assert_eq!(hangs.await.unwrap().status, 504);
    assert_eq!(serving.child.wait().await.unwrap().code(), Some(0));
    until("the operator's socket", 0, || usize::from(std::net::TcpStream::connect(serving.admin).is_ok())).await;
}
